"""The driver, over the simulated line, on a clock turned by hand."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from callmcp.calls.events import Answered, Event, HungUp
from callmcp.calls.model import AnsweredBy, Call, CallStatus, EndReason, GoalMet, Outcome, Speaker, Turn
from callmcp.conversation.events import EndTheCall, LineEvent, LineOpened, Piece, PressKeys
from callmcp.conversation.manners import Manners
from callmcp.conversation.outcome import Judgement
from callmcp.conversation.phrases import ENGLISH
from callmcp.conversation.ports import LanguageModel, Line
from callmcp.conversation.prompt import Brief, opening
from callmcp.conversation.run import JUDGING_SECONDS, talk
from callmcp.errors import Unavailable
from callmcp.telephony.simulator.callee import (
    HangsUp,
    IsTakenFor,
    Listens,
    OffersMenu,
    Presses,
    Says,
    StaysSilent,
    Step,
)
from callmcp.telephony.simulator.line import SimulatedLine
from tests import world as worlds
from tests.world import OneModel, World

pytestmark = pytest.mark.anyio
MET = Outcome(goal_met=GoalMet.YES, summary="It was agreed.")
AGREED = Judgement(goal_met=MET.goal_met, summary=MET.summary)


@dataclass
class Model:
    """Says `words`, one every `seconds`, and then hangs up; each is a failure when it is an exception."""

    world: World
    words: Sequence[Piece | Exception] = ("Good. ", "Goodbye.", EndTheCall())
    seconds: float = 0
    judgement: Judgement | Exception | None = AGREED
    asked_with: Sequence[Turn] = ()
    judged_with: EndReason | None = None

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:  # noqa: ARG002
        self.asked_with = turns
        for word in self.words:
            if self.seconds:
                await self.world.clock.sleep(self.seconds)
            if isinstance(word, Exception):
                raise word
            yield word

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:  # noqa: ARG002
        self.judged_with = ended
        if self.judgement is None:
            await self.world.clock.sleep(3600)
            raise AssertionError
        if isinstance(self.judgement, Exception):
            raise self.judgement
        return self.judgement


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


async def answered(world: World) -> Call:
    call = await world.place("+14155550111")
    return await world.calls.observe(call.id, Answered(at=world.clock.now()))


async def hold(
    world: World, *script: Step, model: Model | None = None, line: Line | None = None, seconds: int = 600
) -> tuple[Call, Sequence[Turn]]:
    """The record after a talk with a callee who does these things."""
    call = replace(await answered(world), max_duration_seconds=seconds)
    callee = SimulatedLine(script, world.clock)
    acting = asyncio.create_task(callee.act())
    talking = asyncio.create_task(
        talk(
            call,
            world.agent,
            line=line or callee,
            models=OneModel(model or Model(world)),
            observe=world.calls.observe,
            clock=world.clock,
        )
    )
    await world.clock.advance(120)
    assert talking.done()
    await talking
    acting.cancel()
    return await world.record(call)


def words(turns: Sequence[Turn]) -> Sequence[str]:
    return [turn.text for turn in turns]


async def test_the_record_of_an_ended_talk_has_its_turns_and_its_outcome_at_once(world: World) -> None:
    seen = []

    async def observe(call_id: str, *events: Event) -> Call:
        seen.append(await world.store.apply(call_id, *events))
        return seen[-1]

    call = await answered(world)
    line = SimulatedLine([Listens(), Says("Yes?"), StaysSilent()], world.clock)
    acting = asyncio.create_task(line.act())
    talking = asyncio.create_task(
        talk(call, world.agent, line=line, models=OneModel(Model(world)), observe=observe, clock=world.clock)
    )
    await world.clock.advance(60)
    await talking
    acting.cancel()

    assert [call.outcome for call in seen if call.status.is_final] == [MET]
    assert seen[-1].end_reason is EndReason.AGENT_HUNG_UP
    assert words((await world.record(call))[1]) == [opening(world.agent, "en-US"), "Yes?", "Good. Goodbye."]


async def test_a_carrier_that_says_it_is_over_while_the_talk_is_being_judged_does_not_make_it_lost(
    world: World,
) -> None:
    call = await answered(world)

    class Judge(Model):
        async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:  # noqa: ARG002
            await world.calls.observe(call.id, HungUp(at=world.clock.now()))
            return AGREED

    line = SimulatedLine([Listens(), Says("Yes?"), StaysSilent()], world.clock)
    acting = asyncio.create_task(line.act())
    talking = asyncio.create_task(
        talk(
            call, world.agent, line=line, models=OneModel(Judge(world)), observe=world.calls.observe, clock=world.clock
        )
    )
    await world.clock.advance(60)
    await talking
    acting.cancel()

    record, _ = await world.record(call)
    assert (record.status, record.end_reason, record.error) == (CallStatus.COMPLETED, EndReason.AGENT_HUNG_UP, None)
    assert record.outcome == MET


async def test_the_model_is_asked_with_what_was_heard_and_judges_with_how_it_ended(world: World) -> None:
    model = Model(world)

    await hold(world, Listens(words=2), Says("Who is there?"), StaysSilent(), model=model)

    assert words(model.asked_with) == ["This is", "Who is there?"]
    assert model.judged_with is EndReason.AGENT_HUNG_UP


async def test_words_that_a_model_says_after_it_was_interrupted_are_never_heard(world: World) -> None:
    model = Model(world, words=["One ", "two ", "three ", "four. ", EndTheCall()], seconds=1)

    _, turns = await hold(
        world, Listens(), Says("Count."), Listens(words=2), Says("Stop!"), Listens(words=1), HangsUp(), model=model
    )

    assert words(turns) == [opening(world.agent, "en-US"), "Count.", "One two", "Stop!", "One"]


async def test_a_key_pressed_over_the_agent_is_heard(world: World) -> None:
    _, turns = await hold(world, Listens(words=1), Presses("9"), StaysSilent())

    assert words(turns)[:2] == ["This", "[pressed 9]"]


async def test_a_callee_that_is_cut_off_by_its_own_hang_up_is_heard_so_far(world: World) -> None:
    _, turns = await hold(world, Listens(), Says("I am sorry, I have no time for this", words=4))

    assert words(turns)[-1] == "I am sorry, I"


async def test_a_model_that_fails_is_in_the_record_and_the_callee_hears_a_goodbye(world: World) -> None:
    call, turns = await hold(
        world, Listens(), Says("Yes?"), StaysSilent(), model=Model(world, words=[RuntimeError("no such model")])
    )

    assert (call.status, call.end_reason) == (CallStatus.COMPLETED, EndReason.AGENT_HUNG_UP)
    assert call.error is not None
    assert call.error.code == "model_failed"
    assert turns[-1].text == ENGLISH.failed


async def test_a_model_that_is_too_slow_is_in_the_record(world: World) -> None:
    call, turns = await hold(
        world, Listens(), Says("Yes?"), StaysSilent(), model=Model(world, words=["Late."], seconds=60)
    )

    assert call.error is not None
    assert call.error.code == "model_failed"
    assert turns[-1].text == f"{ENGLISH.filler} {ENGLISH.failed}"


@pytest.mark.parametrize("judgement", [RuntimeError("no such model"), None])
async def test_an_outcome_that_cannot_be_judged_is_unknown(world: World, judgement: Exception | None) -> None:
    call, _ = await hold(world, Listens(), Says("Yes?"), StaysSilent(), model=Model(world, judgement=judgement))

    assert call.status is CallStatus.COMPLETED
    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.UNKNOWN
    assert call.answered_at is not None
    assert call.ended_at is not None
    assert (call.ended_at - call.answered_at).total_seconds() < JUDGING_SECONDS  # when the line closed, not when judged


async def test_a_machine_is_not_asked_what_came_of_the_call(world: World) -> None:
    model = Model(world)

    call, _ = await hold(world, Says("Leave a message."), IsTakenFor(AnsweredBy.MACHINE), StaysSilent(), model=model)

    assert (call.end_reason, model.judged_with) == (EndReason.MACHINE, None)
    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.NO


async def test_a_talk_in_which_nobody_spoke_met_no_goal_whatever_the_model_thinks(world: World) -> None:
    call, turns = await hold(world, StaysSilent())

    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.NO
    assert {turn.speaker for turn in turns} == {Speaker.AGENT}


async def test_the_talk_ends_when_it_has_lasted_as_long_as_it_may(world: World) -> None:
    call, _ = await hold(world, StaysSilent(), seconds=10)

    assert call.end_reason is EndReason.MAX_DURATION
    assert call.answered_at is not None
    assert call.ended_at is not None
    assert (call.ended_at - call.answered_at).total_seconds() == 10


@dataclass
class BrokenLine:
    """Opens, and then breaks."""

    error: Exception | None

    async def events(self) -> AsyncIterator[LineEvent]:
        yield LineOpened()
        if self.error is not None:
            raise self.error

    async def say(self, text: str, *, last: bool, interruptible: bool = True) -> None: ...

    async def send_digits(self, digits: str) -> None: ...

    async def end(self, reason: EndReason) -> None: ...


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
async def test_a_line_that_breaks_is_not_the_end_of_the_call(world: World, error: Exception | None) -> None:
    call, _ = await hold(world, line=BrokenLine(error))

    assert (call.status, call.end_reason, call.outcome) == (CallStatus.IN_PROGRESS, None, None)


async def test_a_talk_goes_on_while_the_store_is_away_and_is_recorded_when_it_is_back(world: World) -> None:
    call = await answered(world)
    line = SimulatedLine([Listens(), Says("Yes?"), StaysSilent()], world.clock)
    away_until = world.clock.now() + timedelta(seconds=8)

    async def observe(call_id: str, *events: Event) -> Call:
        if world.clock.now() < away_until:
            raise Unavailable("The database is away.")
        return await world.calls.observe(call_id, *events)

    acting = asyncio.create_task(line.act())
    model = Model(world)
    talking = asyncio.create_task(
        talk(call, world.agent, line=line, models=OneModel(model), observe=observe, clock=world.clock)
    )
    await world.clock.advance(4)
    assert words(model.asked_with)[-1] == "Yes?"
    assert not (await world.record(call))[1]
    await world.clock.advance(30)
    await talking
    acting.cancel()

    record, turns = await world.record(call)
    assert words(turns) == [opening(world.agent, "en-US"), "Yes?", "Good. Goodbye."]
    assert record.outcome == MET


async def test_a_talk_that_goes_on_has_only_the_time_that_is_left(world: World) -> None:
    call = replace(await answered(world), max_duration_seconds=60)
    began = world.clock.now()
    await world.clock.advance(50)
    line = SimulatedLine([StaysSilent()], world.clock)
    acting = asyncio.create_task(line.act())
    talking = asyncio.create_task(
        talk(
            call,
            world.agent,
            line=line,
            models=OneModel(Model(world)),
            observe=world.calls.observe,
            clock=world.clock,
            turns=[Turn(index=0, at=began, speaker=Speaker.AGENT, text="Hello.")],
        )
    )
    await world.clock.advance(60)
    await talking
    acting.cancel()

    record, _ = await world.record(call)
    assert record.end_reason is EndReason.MAX_DURATION
    assert record.ended_at is not None
    assert (record.ended_at - began).total_seconds() < 62


async def test_a_model_that_fails_is_replaced_by_the_next_for_the_talk_and_for_the_judgement(world: World) -> None:
    dead, alive = Model(world, words=[RuntimeError("no key")]), Model(world)

    class Two:
        async def named(self, reference: str) -> LanguageModel:
            return {"openai:dead": dead, "openai:alive": alive}[reference]

    call = await answered(world)
    line = SimulatedLine([Listens(), Says("Yes?"), StaysSilent()], world.clock)
    acting = asyncio.create_task(line.act())
    agent = replace(world.agent, model="openai:dead", fallbacks=("openai:alive",))
    talking = asyncio.create_task(
        talk(call, agent, line=line, models=Two(), observe=world.calls.observe, clock=world.clock)
    )
    await world.clock.advance(60)
    await talking
    acting.cancel()

    record, turns = await world.record(call)
    assert words(turns)[-1] == "Good. Goodbye."
    assert (record.error, record.outcome) == (None, MET)
    assert dead.judged_with is None


async def test_a_talk_that_is_cancelled_leaves_nothing_running(world: World) -> None:
    call = await answered(world)
    line = SimulatedLine([Listens(), Says("Yes?"), StaysSilent()], world.clock)
    before = asyncio.all_tasks()
    acting = asyncio.create_task(line.act())
    talking = asyncio.create_task(
        talk(
            call,
            world.agent,
            line=line,
            models=OneModel(Model(world, seconds=30)),
            observe=world.calls.observe,
            clock=world.clock,
        )
    )
    await world.clock.advance(5)
    acting.cancel()
    talking.cancel()
    await asyncio.gather(acting, talking, return_exceptions=True)

    assert asyncio.all_tasks() == before


async def test_a_menu_that_gets_its_key_goes_on(world: World) -> None:
    model = Model(world, words=["One moment.", PressKeys("w7")])

    _, turns = await hold(world, OffersMenu("Press 7.", keys="7"), Says("Seven here."), HangsUp(), model=model)

    assert words(turns)[1:] == ["Press 7.", "One moment.", "[pressed w7]", "Seven here."]


async def test_a_menu_gives_up_after_three_times(world: World) -> None:
    call, turns = await hold(world, OffersMenu("Press 7.", keys="7"), model=Model(world, words=["What?"]))

    assert call.end_reason is EndReason.CALLEE_HUNG_UP
    assert words(turns).count("Press 7.") == 3


async def test_a_callee_hangs_up_on_an_agent_that_says_nothing(world: World) -> None:
    silent = Manners(silence=1000, thinking=1000)
    call = await answered(world)
    line = SimulatedLine([Listens(), Says("Yes?"), Listens(), Says("Never said.")], world.clock)
    acting = asyncio.create_task(line.act())
    model = Model(world, words=["Late."], seconds=500)
    talking = asyncio.create_task(
        talk(
            call,
            world.agent,
            line=line,
            models=OneModel(model),
            observe=world.calls.observe,
            clock=world.clock,
            manners=silent,
        )
    )
    await world.clock.advance(60)
    await asyncio.gather(talking, acting)

    ended, turns = await world.record(call)
    assert ended.end_reason is EndReason.CALLEE_HUNG_UP
    assert words(turns)[-1] == "Yes?"
