"""Each scenario of the simulator, through the real `Calls` and a store, with the real talk and the scripted model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.events import Event, OwnerLost
from callmcp.calls.model import AnsweredBy, Call, CallStatus, EndReason, GoalMet, RecordingStatus, Speaker, Turn
from callmcp.calls.ports import Observe
from callmcp.clock import Clock, SystemClock
from callmcp.conversation.events import EndTheCall, Piece
from callmcp.conversation.phrases import ENGLISH, PHRASES
from callmcp.conversation.prompt import Brief
from callmcp.errors import Unavailable
from callmcp.llm.models import Models
from callmcp.llm.scripted import NOT_KNOWN, ScriptedModel
from callmcp.telephony.simulator.callee import SCENARIOS, scenario_of
from callmcp.telephony.simulator.client import Simulator
from callmcp.telephony.simulator.played import Played
from tests import world as worlds
from tests.world import CONTEXT, GREETING, World

pytestmark = pytest.mark.anyio

Q, D, R, P = CallStatus.QUEUED, CallStatus.INITIATED, CallStatus.RINGING, CallStatus.IN_PROGRESS


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


@dataclass(frozen=True, kw_only=True)
class Expected:
    digits: str
    statuses: Sequence[CallStatus]
    answered_by: AnsweredBy | None = None
    end_reason: EndReason
    goal_met: GoalMet
    turns: int = 0
    seconds: tuple[float, float]
    error: tuple[str, str] | None = None
    opt_out: bool = False


HUMAN, HUNG_UP, TALKED = AnsweredBy.HUMAN, EndReason.AGENT_HUNG_UP, (Q, D, R, P, CallStatus.COMPLETED)
# fmt: off
EXPECTED = [
    Expected(digits="00", statuses=TALKED, answered_by=HUMAN, end_reason=HUNG_UP, goal_met=GoalMet.YES, turns=7,
             seconds=(9, 11)),
    Expected(digits="01", statuses=(Q, D, CallStatus.BUSY), end_reason=EndReason.BUSY, goal_met=GoalMet.NO,
             seconds=(0.5, 1)),
    Expected(digits="02", statuses=(Q, D, R, CallStatus.NO_ANSWER), end_reason=EndReason.NO_ANSWER,
             goal_met=GoalMet.NO, seconds=(20, 22)),
    Expected(digits="03", statuses=(Q, D, R, CallStatus.FAILED), end_reason=EndReason.CARRIER_FAILED,
             goal_met=GoalMet.NO, seconds=(2, 4), error=("carrier_failed", "503")),
    Expected(digits="04", statuses=TALKED, answered_by=AnsweredBy.MACHINE, end_reason=EndReason.MACHINE,
             goal_met=GoalMet.NO, turns=2, seconds=(4, 10)),
    Expected(digits="05", statuses=TALKED, answered_by=HUMAN, end_reason=EndReason.CALLEE_HUNG_UP,
             goal_met=GoalMet.NO, turns=3, seconds=(4, 8)),
    Expected(digits="06", statuses=TALKED, answered_by=HUMAN, end_reason=HUNG_UP, goal_met=GoalMet.NO, turns=5,
             seconds=(7, 11), opt_out=True),
    Expected(digits="07", statuses=TALKED, answered_by=AnsweredBy.IVR, end_reason=HUNG_UP, goal_met=GoalMet.YES,
             turns=9, seconds=(9, 14)),
    Expected(digits="08", statuses=TALKED, answered_by=AnsweredBy.UNKNOWN, end_reason=HUNG_UP, goal_met=GoalMet.NO,
             turns=4, seconds=(20, 30)),
    Expected(digits="09", statuses=TALKED, answered_by=HUMAN, end_reason=HUNG_UP, goal_met=GoalMet.PARTLY, turns=9,
             seconds=(10, 16)),
    Expected(digits="10", statuses=TALKED, answered_by=HUMAN, end_reason=HUNG_UP, goal_met=GoalMet.YES, turns=7,
             seconds=(37, 40)),
    Expected(digits="12", statuses=(CallStatus.FAILED,), end_reason=EndReason.CARRIER_REFUSED, goal_met=GoalMet.NO,
             seconds=(0, 0), error=("invalid_number", "21217")),
    Expected(digits="13", statuses=(CallStatus.FAILED,), end_reason=EndReason.CARRIER_REFUSED, goal_met=GoalMet.NO,
             seconds=(0, 0), error=("country_not_allowed", "21215")),
    Expected(digits="14", statuses=TALKED, answered_by=AnsweredBy.MACHINE, end_reason=EndReason.MACHINE,
             goal_met=GoalMet.NO, turns=2, seconds=(4, 10)),
    Expected(digits="15", statuses=TALKED, answered_by=HUMAN, end_reason=HUNG_UP, goal_met=GoalMet.YES, turns=7,
             seconds=(9, 11)),
]
# fmt: on


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.digits)
async def test_each_number_goes_the_way_the_table_says(world: World, expected: Expected) -> None:
    call, turns, statuses = await world.until_over(await world.place(f"+141555501{expected.digits}"))

    assert tuple(statuses) == tuple(expected.statuses)
    assert (call.answered_by, call.end_reason, call.opt_out) == (
        expected.answered_by,
        expected.end_reason,
        expected.opt_out,
    )
    assert call.outcome is not None
    assert call.outcome.goal_met is expected.goal_met
    assert call.outcome.summary.count("\n") == 0
    assert len(turns) == call.turn_count == expected.turns
    assert (call.error and (call.error.code, call.error.carrier_code)) == expected.error
    assert call.ended_at is not None
    assert expected.seconds[0] <= (call.ended_at - call.created_at).total_seconds() <= expected.seconds[1]
    assert (call.answered_at is not None) is (expected.answered_by is not None)


def test_every_scenario_of_the_table_is_expected_here() -> None:
    assert {*SCENARIOS} == {expected.digits for expected in EXPECTED} | {"11"}
    assert all(scenario.description for scenario in SCENARIOS.values())


async def spoken(world: World, digits: str, **fields: Any) -> Sequence[Turn]:
    _, turns, _ = await world.until_over(await world.place(f"+141555501{digits}", **fields))
    assert [turn.index for turn in turns] == list(range(len(turns)))
    return turns


def texts(turns: Sequence[Turn], speaker: Speaker) -> Sequence[str]:
    return [turn.text for turn in turns if turn.speaker is speaker]


async def test_a_cooperative_person_hears_who_calls_that_it_is_an_ai_and_why(world: World) -> None:
    turns = await spoken(world, "00")

    assert [turn.speaker for turn in turns] == [Speaker.AGENT, Speaker.CALLEE] * 3 + [Speaker.AGENT]
    assert turns[0].text == f"{DISCLOSURE} {GREETING}"
    assert CONTEXT in turns[2].text
    assert "tomorrow at 9:30" in turns[3].text
    assert "Goodbye" in turns[-1].text
    assert [turn.at for turn in turns] == sorted(turn.at for turn in turns)


async def test_the_same_number_and_context_give_the_same_talk(world: World) -> None:
    assert texts(await spoken(world, "00"), Speaker.CALLEE) == texts(await spoken(world, "00"), Speaker.CALLEE)


async def test_a_voicemail_greeting_cuts_the_agent_and_no_message_is_left(world: World) -> None:
    turns = await spoken(world, "04")

    assert DISCLOSURE.startswith(turns[0].text)
    assert turns[0].text != DISCLOSURE
    assert "leave a message" in turns[1].text


DISCLOSURE = ENGLISH.disclosure.format(name="Ada")
MESSAGE = "This is an AI of Example Clinic. Please call us back on Monday."


async def test_a_message_is_left_on_a_machine_and_heard_to_its_end(world: World) -> None:
    call, turns, _ = await world.until_over(await world.place("+14155550104", voicemail_message=MESSAGE))

    assert (call.answered_by, call.end_reason, call.voicemail_left) == (
        AnsweredBy.MACHINE,
        EndReason.MACHINE,
        True,
    )
    assert turns[-1].text == f"{DISCLOSURE} {MESSAGE}"
    assert call.disclosure_spoken
    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.NO


async def test_a_message_that_was_cut_off_was_not_left(world: World) -> None:
    call, turns, _ = await world.until_over(await world.place("+14155550114", voicemail_message=MESSAGE))

    assert (call.end_reason, call.voicemail_left) == (EndReason.MACHINE, False)
    assert turns[-1].text == "This is an AI"
    assert not call.disclosure_spoken


DAY = Question(name="day", question="Which day suits you?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
GUESTS = Question(name="guests", question="How many are you?", type=AnswerType.NUMBER)


async def test_questions_are_put_and_answered_with_the_turn_that_says_so(world: World) -> None:
    call, turns, _ = await world.until_over(await world.place(questions=(DAY, GUESTS)))

    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.YES
    assert [(answer.name, answer.value, answer.error) for answer in call.outcome.answers] == [
        ("day", "Friday", None),
        ("guests", 4, None),
    ]
    said = [turns[answer.evidence].text for answer in call.outcome.answers if answer.evidence is not None]
    assert said == ["Friday, please.", "That would be 4."]


async def test_an_answer_of_no_use_has_an_error_and_spoils_no_other(world: World) -> None:
    call, _, _ = await world.until_over(await world.place("+14155550109", questions=(GUESTS, DAY)))

    assert call.outcome is not None
    guests, day = call.outcome.answers
    assert (guests.value, guests.error) == (None, "'I could not tell you.' is not a number")
    assert (day.value, day.error) == ("Friday", None)


class Sam(ScriptedModel):
    """Both sides of a talk: as the callee, briefed by who it is."""

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        if "You are Sam" not in brief.instructions:
            async for piece in super().answer(brief, turns):
                yield piece
        elif len(turns) < 4:
            yield "Sam here. "
            yield "Yes, that is fine."
        else:
            yield "Bye."
            yield EndTheCall()


async def test_a_model_can_play_the_callee(world: World) -> None:
    models = worlds.OneModel(Sam())
    simulator = Simulator(
        clock=world.clock,
        models=models,
        caller_id=worlds.CALLER_ID,
        played=Played(models, "scripted", "You are Sam."),
    )
    call = await world.place("+14155550111")
    await simulator.place(replace(call, to="+14155550115"), world.agent, world.calls.observe)

    ended, turns, _ = await world.until_over(call)

    assert [turn.text for turn in turns if turn.speaker is Speaker.CALLEE] == [
        "Sam here. Yes, that is fine.",
        "Sam here. Yes, that is fine.",
        "Bye.",
    ]
    assert ended.status is CallStatus.COMPLETED
    await simulator.close()


async def test_a_callee_whose_model_fails_hangs_up(world: World) -> None:
    class Broken(ScriptedModel):
        async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:  # noqa: ARG002
            if turns:
                raise RuntimeError("no key")
            yield ""

    models = worlds.OneModel(Broken())
    simulator = Simulator(
        clock=world.clock, models=models, caller_id=worlds.CALLER_ID, played=Played(models, "openai:x", "You are Sam.")
    )
    call = await world.place("+14155550111")
    await simulator.place(replace(call, to="+14155550115"), world.agent, world.calls.observe)

    ended, _, _ = await world.until_over(call)

    assert ended.end_reason is EndReason.CALLEE_HUNG_UP
    await simulator.close()


async def test_the_agents_own_phrases_are_in_the_language_of_the_call(world: World) -> None:
    _, turns, _ = await world.until_over(await world.place("+14155550108", language="de-DE"))

    german = PHRASES["de"]
    assert turns[0].text == f"{german.disclosure.format(name='Ada')} {GREETING}"
    assert [turn.text for turn in turns[1:]] == [*german.still_there, german.nobody]


async def test_the_simulator_records_nothing_and_says_so(world: World) -> None:
    agent = await world.agents.update(world.owner, world.agent.id, recording=True)

    call, _, _ = await world.until_over(await world.place(agent_id=agent.id))

    assert call.recording is not None
    assert call.recording.status is RecordingStatus.ABSENT


async def test_a_hang_up_in_mid_sentence_cuts_the_agents_words_at_a_word(world: World) -> None:
    turns = await spoken(world, "05")

    assert turns[-1].speaker is Speaker.AGENT
    assert turns[-1].text == "This is Ada. I am calling about this: Remind Ms Lee"


async def test_an_opt_out_is_honoured_with_the_very_next_words(world: World) -> None:
    turns = await spoken(world, "06")

    assert "never call me again" in turns[-2].text
    assert "do not want to be called again" in turns[-1].text


async def test_a_menu_gets_a_key_and_the_person_behind_it_the_opening(world: World) -> None:
    turns = await spoken(world, "07")

    pressed = next(turn.index for turn in turns if turn.text == "[pressed 2]")
    assert "press 2" in turns[pressed - 1].text
    assert turns[pressed + 2].text.startswith(f"{DISCLOSURE} {GREETING} I am calling about this: {CONTEXT}")


async def test_the_menus_other_option_is_pressed_when_the_context_is_about_it(world: World) -> None:
    turns = await spoken(world, "07", context="Ask for the opening hours on New Year's Day.")

    assert "[pressed 1]" in texts(turns, Speaker.AGENT)


async def test_silence_is_asked_about_twice_before_the_goodbye(world: World) -> None:
    turns = await spoken(world, "08")

    assert texts(turns, Speaker.CALLEE) == []
    assert [("?" in turn.text, "Goodbye" in turn.text) for turn in turns[1:]] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("context", [CONTEXT, "Ask the office on which floor it is. Reference number 4711.", ""])
async def test_what_the_agent_cannot_know_it_does_not_make_up(world: World, context: str) -> None:
    turns = await spoken(world, "09", context=context)

    question = next(turn for turn in turns if turn.text.startswith("One question first"))
    assert turns[question.index + 1].text.startswith(NOT_KNOWN)


async def test_a_call_that_is_never_heard_of_again_is_queued_until_it_is_ended(world: World) -> None:
    call = await world.place("+14155550111")
    await world.clock.advance(3600)
    assert (await world.record(call))[0].status is CallStatus.QUEUED

    ended = await world.calls.end(world.owner, call.id)

    assert (ended.status, ended.end_reason) == (CallStatus.CANCELED, EndReason.ENDED_BY_CALLER)


@pytest.mark.parametrize(
    ("number", "digits"),
    [
        ("+14155550101", "01"),
        ("+12125550112", "12"),
        ("+14155550116", "00"),  # in the range, and not in the table
        ("+15551234567", "00"),
        ("+14155551201", "00"),
        ("+441632960101", "00"),
        ("+141555501011", "00"),
    ],
)
def test_only_the_range_of_fictitious_numbers_is_magic(number: str, digits: str) -> None:
    assert scenario_of(number).digits == digits


async def test_a_call_can_be_ended_at_any_moment_and_twice(world: World) -> None:
    for tenths in range(0, 100, 5):
        call = await world.place()
        await world.clock.advance(tenths / 10)
        before, _ = await world.record(call)
        assert not before.status.is_final

        ended = await world.calls.end(world.owner, call.id)
        again = await world.calls.end(world.owner, call.id)

        answered = before.status is CallStatus.IN_PROGRESS
        assert ended.status is (CallStatus.COMPLETED if answered else CallStatus.CANCELED), tenths
        assert ended.end_reason is EndReason.ENDED_BY_CALLER
        assert ended.outcome is not None
        assert again == ended


async def test_a_call_that_is_over_can_be_ended_without_harm(world: World) -> None:
    call, _, _ = await world.until_over(await world.place("+14155550101"))

    await world.simulator.end(call)

    assert (await world.record(call))[0] == call


async def test_ending_in_mid_sentence_keeps_what_was_heard(world: World) -> None:
    call = await world.place()
    await world.clock.advance(3.2)

    await world.calls.end(world.owner, call.id)

    _, turns = await world.record(call)
    assert turns[-1].text
    assert DISCLOSURE.startswith(turns[-1].text)


async def test_ending_while_the_callee_speaks_keeps_what_it_said(world: World) -> None:
    call = await world.place()
    await world.clock.advance(4.3)

    await world.calls.end(world.owner, call.id)

    _, turns = await world.record(call)
    assert turns[-1].speaker is Speaker.CALLEE
    assert "Hello. Yes, go ahead.".startswith(turns[-1].text)


async def test_an_end_that_races_with_the_pick_up_ends_the_call(world: World) -> None:
    call = await world.place()
    await world.clock.advance(2.65)
    ending = asyncio.create_task(world.calls.end(world.owner, call.id))
    await world.clock.advance(0.1)

    assert (await ending).end_reason is EndReason.ENDED_BY_CALLER


async def test_a_call_lasts_no_longer_than_it_may(world: World) -> None:
    call, turns, _ = await world.until_over(await world.place(max_duration_seconds=5))

    assert call.end_reason is EndReason.MAX_DURATION
    assert call.answered_at is not None
    assert call.ended_at is not None
    assert (call.ended_at - call.answered_at).total_seconds() == pytest.approx(5, abs=0.01)
    assert turns[-1].speaker is Speaker.AGENT


async def test_fifty_calls_at_once_end_like_one(world: World) -> None:
    calls = await asyncio.gather(*(world.place() for _ in range(50)))
    await world.clock.advance(15)

    records = [await world.record(call) for call in calls]

    assert {call.status for call, _ in records} == {CallStatus.COMPLETED}
    assert len({tuple(turn.text for turn in turns) for _, turns in records}) == 1


async def test_a_server_that_stops_says_so_of_every_call_it_carried(world: World) -> None:
    ringing = await world.place()
    talking = await world.place("+14155550108")
    silent = await world.place("+14155550111")
    over = await world.place("+14155550101")
    await world.clock.advance(6)
    late = await world.place("+14155550102")

    async with asyncio.timeout(2):
        await world.simulator.close()
    await world.clock.advance(60)

    for call in (ringing, talking, silent, late):
        ended, _ = await world.record(call)
        assert (ended.status, ended.end_reason) == (CallStatus.FAILED, EndReason.SERVER_LOST)
    assert (await world.record(over))[0].status is CallStatus.BUSY
    refused = await world.place()
    assert refused.error is not None
    assert (refused.status, refused.error.code) == (CallStatus.FAILED, "server_stopping")


async def carried_apart(world: World, observe: Observe, *, clock: Clock | None = None) -> tuple[Simulator, Call]:
    """A call to a cooperative person, by a simulator of its own that tells `observe`."""
    simulator = Simulator(clock=clock or world.clock, models=Models(), caller_id=worlds.CALLER_ID)
    call = await world.place("+14155550111")
    await simulator.place(replace(call, to="+14155550100"), world.agent, observe)
    return simulator, call


async def test_a_server_stops_in_time_when_the_store_does_not_answer(world: World) -> None:
    async def observe(_: str, *__: Event) -> Call:
        await asyncio.Event().wait()
        raise AssertionError

    simulator, _ = await carried_apart(world, observe)

    async with asyncio.timeout(2):
        await simulator.close()


async def test_what_happened_is_told_again_until_the_store_takes_it(world: World) -> None:
    refusals = iter(range(3))

    async def observe(call_id: str, *events: Event) -> Call:
        if next(refusals, None) is not None:
            raise Unavailable("The database does not answer.")
        return await world.store.apply(call_id, *events)

    simulator, call = await carried_apart(world, observe)
    ended, turns, statuses = await world.until_over(call)

    assert (ended.status, len(turns)) == (CallStatus.COMPLETED, 7)
    assert statuses == [Q, D, R, P, CallStatus.COMPLETED]
    await simulator.close()


async def test_a_call_that_another_process_settled_is_hung_up(world: World) -> None:
    call = await world.place("+14155550108")
    await world.clock.advance(5)
    await world.calls.observe(call.id, OwnerLost(at=world.clock.now()))
    _, turns = await world.record(call)

    await world.clock.advance(6)

    settled, later = await world.record(call)
    assert (settled.end_reason, later) == (EndReason.SERVER_LOST, turns)
    assert not [task for task in asyncio.all_tasks() if call.id in task.get_name()]


async def test_a_simulator_that_breaks_ends_the_call_as_failed(world: World) -> None:
    bugs = iter(range(1))

    async def observe(call_id: str, *events: Event) -> Call:
        if next(bugs, None) is not None:
            raise RuntimeError("a bug")
        return await world.store.apply(call_id, *events)

    simulator, call = await carried_apart(world, observe)
    ended, _, _ = await world.until_over(call)

    assert (ended.status, ended.end_reason) == (CallStatus.FAILED, EndReason.CARRIER_FAILED)
    assert ended.error is not None
    assert ended.error.code == "simulator_failed"
    await simulator.close()


class DeafModel(ScriptedModel):
    """Never presses a key and never says goodbye."""

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:  # noqa: ARG002
        yield "Could you say that again?"


@pytest.mark.parametrize("digits", ["00", "05", "06", "07", "09"])
async def test_every_callee_comes_to_an_end_whatever_the_agent_says(digits: str) -> None:
    world = await worlds.build(model=DeafModel())

    call, _, _ = await world.until_over(await world.place(f"+141555501{digits}"))

    assert call.status is CallStatus.COMPLETED
    assert call.outcome is not None
    assert call.outcome.goal_met is not GoalMet.YES
    await world.simulator.close()


async def test_speed_makes_a_call_quick(world: World) -> None:
    simulator, call = await carried_apart(world, world.calls.observe, clock=SystemClock(speed=1000))

    async with asyncio.timeout(5):
        await world.calls.wait(world.owner, call.id, seconds=5)

    assert (await world.record(call))[0].status is CallStatus.COMPLETED
    await simulator.close()


async def test_an_agents_own_number_is_the_caller_id(world: World) -> None:
    own = await world.agents.update(world.owner, world.agent.id, from_number="+15550100099")

    assert world.simulator.caller_id(world.agent) == worlds.CALLER_ID
    assert world.simulator.caller_id(own) == "+15550100099"
