"""The line of a Twilio call, over a socket that the test holds, on a clock turned by hand."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from callmcp.calls.events import Answered
from callmcp.calls.model import CallStatus, EndReason, GoalMet
from callmcp.clock import TestClock
from callmcp.conversation.events import (
    Digit,
    Heard,
    Interrupted,
    LineClosed,
    LineEvent,
    LineLost,
    LineOpened,
    SpeechBegan,
    Spoken,
)
from callmcp.conversation.run import talk
from callmcp.llm.models import Models
from callmcp.telephony.twilio import line as lines
from callmcp.telephony.twilio.line import RelayLine
from callmcp.telephony.twilio.relay import FRAMES_A_SECOND, TOKEN_BYTES
from tests import world as worlds
from tests.telephony.twilio.phone import Ear, Phone

pytestmark = pytest.mark.anyio
A_FRAME = 1 / FRAMES_A_SECOND


@dataclass
class Setting:
    clock: TestClock
    phone: Phone
    line: RelayLine
    ear: Ear

    async def say(self, text: str = "Hello, this is Ada. How are you?") -> None:
        """A whole line, sent, of which nothing has been played."""
        await self.line.say(text, last=True)
        assert await self.ear.after(0.1) == []


@pytest.fixture
async def on() -> AsyncIterator[Setting]:
    """A line that has opened."""
    clock = TestClock()
    phone = Phone(clock)
    line = RelayLine(phone, clock)
    ear = Ear(line, clock)
    listening = asyncio.create_task(ear.listen())
    assert await ear.after() == [LineOpened()]
    yield Setting(clock, phone, line, ear)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


def text(token: str, *, last: bool = False) -> dict[str, Any]:
    return {"type": "text", "token": token, "last": last}


# What is sent.


async def test_the_first_words_go_out_at_once_and_those_that_follow_on_their_heels_together(on: Setting) -> None:
    await on.line.say("Hel", last=False)
    await on.clock.advance(0)
    assert on.phone.sent == [text("Hel")]

    for piece in ("lo,", " this", " is", " Ada."):
        await on.line.say(piece, last=False)
    await on.clock.advance(A_FRAME)
    assert on.phone.sent[1:] == [text("lo, this is Ada.")]

    await on.line.say("", last=False)
    await on.line.say("", last=True)
    await on.clock.advance(A_FRAME)
    assert on.phone.sent[2:] == [text("", last=True)]


async def test_a_line_that_is_said_at_once_is_one_frame(on: Setting) -> None:
    await on.line.say("Hello.", last=False)
    await on.line.say("", last=True)
    await on.clock.advance(1)

    assert on.phone.sent == [text("Hello.", last=True)]


async def test_no_second_has_more_frames_than_are_promised(on: Setting) -> None:
    sent = []
    for _ in range(200):
        await on.line.say(" word", last=False)
        await on.clock.advance(0.005)
        sent.append(len(on.phone.sent))

    assert max(sent) <= FRAMES_A_SECOND + 1
    assert "".join(frame["token"] for frame in on.phone.sent).startswith(" word" * 190)


async def test_a_long_text_goes_in_frames_of_a_size_that_is_promised(on: Setting) -> None:
    said = "Größe " * 2000
    await on.line.say("Now: ", last=False)
    await on.line.say(said, last=True)
    await on.clock.advance(1)

    assert "".join(frame["token"] for frame in on.phone.sent) == f"Now: {said}"
    assert max(len(frame["token"].encode()) for frame in on.phone.sent) <= TOKEN_BYTES
    assert [frame["last"] for frame in on.phone.sent] == [False] * (len(on.phone.sent) - 1) + [True]


async def test_markup_of_a_model_is_sent_as_words_and_heard_as_it_was_said(on: Setting) -> None:
    await on.say("Fish & Chips <b>now</b>")
    assert on.phone.sent == [text("Fish  and  Chips  b>now /b>", last=True)]

    on.phone.tell("interrupt", utteranceUntilInterrupt="Fish and Chips", durationUntilInterruptMs=900)
    assert await on.ear.after() == [Interrupted("Fish & Chips")]


async def test_a_line_of_no_words_is_not_sent_and_is_heard_at_once(on: Setting) -> None:
    await on.line.say("", last=True)

    assert await on.ear.after(1) == [Spoken()]
    assert on.phone.sent == []


async def test_keys_go_behind_what_is_said_and_only_those_that_there_are(on: Setting) -> None:
    await on.line.say("One moment.", last=True)
    await on.line.send_digits("1w2 Abc#")
    await on.line.send_digits("none")
    await on.clock.advance(1)

    assert on.phone.sent == [text("One moment.", last=True), {"type": "sendDigits", "digits": "1w2#"}]


# What is heard of the agent.


async def test_a_line_is_spoken_once_when_its_last_clause_was_played_and_the_agent_fell_silent(on: Setting) -> None:
    await on.say()
    on.phone.info("agentSpeaking", "on")
    on.phone.info("tokensPlayed", "Hello, this is Ada.")
    on.phone.info("tokensPlayed", " How are you?")
    assert await on.ear.after(0.5) == []

    on.phone.info("agentSpeaking", "off")
    assert await on.ear.after() == [Spoken()]
    assert await on.ear.after(60) == []


async def test_a_line_that_was_played_is_spoken_though_nobody_says_that_the_agent_fell_silent(on: Setting) -> None:
    await on.say()
    on.phone.info("agentSpeaking", "on")
    on.phone.info("tokensPlayed", "Hello, this is Ada. How are you?")

    assert await on.ear.after(lines.TO_FALL_SILENT) == [Spoken()]


async def test_a_line_is_not_spoken_before_its_last_piece(on: Setting) -> None:
    await on.line.say("Hello. ", last=False)
    await on.clock.advance(0)
    on.phone.plays("Hello.")
    assert await on.ear.after(60) == []

    await on.line.say("", last=True)
    assert await on.ear.after() == [Spoken()]


async def test_a_pause_between_two_clauses_is_not_the_end(on: Setting) -> None:
    await on.line.say("Hello. ", last=False)
    await on.clock.advance(0)
    on.phone.plays("Hello.")
    await on.clock.advance(0)
    await on.line.say("How are you?", last=True)
    on.phone.info("agentSpeaking", "off")
    assert await on.ear.after(lines.SILENT - 0.1) == []

    on.phone.plays("How are you?")
    assert await on.ear.after() == [Spoken()]


async def test_an_agent_that_fell_silent_has_spoken_though_its_words_were_not_reported_as_ours(on: Setting) -> None:
    await on.say("It is $5.")
    on.phone.plays("It is five dollars.")

    assert await on.ear.after(lines.SILENT) == [Spoken()]


async def test_a_line_of_which_nothing_is_reported_is_spoken_after_the_time_it_takes(on: Setting) -> None:
    said = "Hello, this is Ada."
    await on.line.say(said, last=True)
    assert await on.ear.after(lines.A_CHARACTER * len(said)) == []

    assert await on.ear.after(lines.TO_BEGIN) == [Spoken()]


@pytest.mark.parametrize(
    ("kind", "members", "event"),
    [
        ("prompt", {"voicePrompt": "Fine.", "last": True}, Heard("Fine.")),
        ("prompt", {"voicePrompt": "Fi", "last": False}, SpeechBegan()),
        ("info", {"name": "clientSpeaking", "value": "on"}, SpeechBegan()),
        ("dtmf", {"digit": "1"}, Digit("1")),
    ],
)
async def test_who_answers_has_heard_the_line(
    on: Setting, kind: str, members: dict[str, Any], event: LineEvent
) -> None:
    await on.say()
    on.phone.info("agentSpeaking", "on")
    on.phone.info("tokensPlayed", "Hello, this is Ada. How are you?")
    on.phone.tell(kind, **members)

    assert await on.ear.after(60) == [Spoken(), event]


async def test_the_silence_before_a_line_is_not_its_end(on: Setting) -> None:
    await on.say("Hello.")
    on.phone.plays("Hello.")
    assert await on.ear.after(60) == [Spoken()]
    await on.say()

    assert await on.ear.after(lines.TO_BEGIN) == []


async def test_an_interruption_says_what_was_heard_and_is_the_end_of_the_line(on: Setting) -> None:
    await on.say()
    on.phone.info("agentSpeaking", "on")
    on.phone.info("tokensPlayed", "Hello, this is Ada.")
    on.phone.tell("interrupt", utteranceUntilInterrupt="How are", durationUntilInterruptMs=400)
    on.phone.info("agentSpeaking", "off")
    on.phone.info("tokensPlayed", " How are")

    assert await on.ear.after(60) == [Interrupted("Hello, this is Ada. How are")]
    assert on.phone.sent == [text("Hello, this is Ada. How are you?", last=True)]


async def test_an_interruption_after_the_last_word_is_none(on: Setting) -> None:
    await on.say()
    on.phone.tell("interrupt", utteranceUntilInterrupt="Hello, this is Ada. How are you?", durationUntilInterruptMs=9)

    assert await on.ear.after(60) == [Spoken()]


async def test_an_interruption_of_nothing_is_none(on: Setting) -> None:
    on.phone.tell("interrupt", utteranceUntilInterrupt="", durationUntilInterruptMs=0)

    assert await on.ear.after(60) == []


async def test_what_is_added_to_a_line_that_was_cut_is_never_sent(on: Setting) -> None:
    await on.line.say("One ", last=False)
    await on.clock.advance(0)
    await on.line.say("two ", last=False)
    on.phone.tell("interrupt", utteranceUntilInterrupt="One", durationUntilInterruptMs=100)
    await asyncio.sleep(0)  # the line hears of it before it may send again
    assert await on.ear.after(0.01) == [Interrupted("One")]
    await on.line.say("three ", last=False)
    await on.line.say("four.", last=True)
    await on.line.say("Sorry?", last=True)
    await on.clock.advance(1)

    assert on.phone.sent == [text("One "), text("", last=True), text("Sorry?", last=True)]


async def test_a_line_whose_end_was_not_sent_before_it_was_cut_is_ended_all_the_same(on: Setting) -> None:
    await on.line.say("One ", last=False)
    await on.clock.advance(0)
    await on.line.say("two.", last=True)
    on.phone.tell("interrupt", utteranceUntilInterrupt="One", durationUntilInterruptMs=100)
    await on.clock.advance(1)

    assert on.phone.sent == [text("One "), text("", last=True)]


@pytest.mark.parametrize("closed", [True, False])
async def test_what_was_heard_of_a_line_under_way_is_in_its_close(on: Setting, closed: bool) -> None:  # noqa: FBT001
    await on.say()
    on.phone.info("tokensPlayed", "Hello, this is Ada.")
    on.phone.close() if closed else on.phone.breaks()

    heard = "Hello, this is Ada."
    assert await on.ear.after() == [LineClosed(heard=heard) if closed else LineLost(heard=heard)]


# What is heard of the callee.


async def test_an_utterance_begins_once_and_is_heard_when_it_is_known(on: Setting) -> None:
    on.phone.info("clientSpeaking", "on")
    on.phone.tell("prompt", voicePrompt="Yes", last=False)
    on.phone.tell("prompt", voicePrompt="Yes, go", last=False)
    on.phone.info("clientSpeaking", "off")
    on.phone.tell("prompt", voicePrompt="Yes, go ahead.", last=False)
    on.phone.tell("prompt", voicePrompt="Yes, go ahead.", last=True)

    assert await on.ear.after() == [SpeechBegan(), Heard("Yes, go ahead.")]


async def test_an_utterance_that_comes_in_pieces_is_heard_in_pieces(on: Setting) -> None:
    on.phone.info("clientSpeaking", "on")
    on.phone.tell("prompt", voicePrompt="Well.", last=True)
    on.phone.tell("prompt", voicePrompt="I", last=False)
    on.phone.tell("prompt", voicePrompt="I see.", last=True)
    on.phone.info("clientSpeaking", "off")

    assert await on.ear.after() == [SpeechBegan(), Heard("Well."), SpeechBegan(), Heard("I see.")]


async def test_a_noise_does_not_hide_the_utterance_that_follows(on: Setting) -> None:
    for _ in range(2):
        on.phone.info("clientSpeaking", "on")
        on.phone.info("clientSpeaking", "on")
        on.phone.info("clientSpeaking", "off")

    assert await on.ear.after() == [SpeechBegan(), SpeechBegan()]


async def test_each_key_is_heard(on: Setting) -> None:
    on.phone.tell("dtmf", digit="1")
    on.phone.tell("dtmf", digit="#")

    assert await on.ear.after() == [Digit("1"), Digit("#")]


async def test_frames_that_say_nothing_to_us_are_passed_over(on: Setting) -> None:
    on.phone.tell("setup", callSid="CA1", sessionId="VX1")
    on.phone.tell("configUpdated")
    on.phone.tell("prompt")
    on.phone.info("roundTripDelayMs", "81")
    on.phone.info("tokensPlayed", "a greeting that is not ours")

    assert await on.ear.after() == []


async def test_an_error_is_logged_by_its_code_and_without_the_words_it_quotes(on: Setting) -> None:
    with capture_logs() as logs:
        on.phone.tell("error", description='Invalid message received, code: 64107, {"token":"a secret"}')
        await on.clock.advance(0)

    assert logs == [{"event": "relay_error", "log_level": "warning", "carrier_code": "64107"}]


# The end.


async def test_a_socket_that_twilio_closed_is_a_call_that_is_over(on: Setting) -> None:
    on.phone.close()

    assert await on.ear.after() == [LineClosed(reason=None)]


async def test_a_socket_that_broke_is_a_line_that_is_lost(on: Setting) -> None:
    with capture_logs() as logs:
        on.phone.breaks()

        assert await on.ear.after() == [LineLost()]
    assert [entry["event"] for entry in logs] == ["relay_lost"]


async def test_hanging_up_sends_one_end_before_anything_that_waits(on: Setting) -> None:
    await on.line.say("One ", last=False)
    await on.clock.advance(0)
    await on.line.say("two.", last=True)
    await on.line.end(EndReason.AGENT_HUNG_UP)
    await on.line.end(EndReason.AGENT_HUNG_UP)
    await on.line.say("three.", last=True)
    await on.line.send_digits("1")

    assert await on.ear.after(1) == [LineClosed()]
    assert on.phone.sent == [text("One "), {"type": "end", "handoffData": "agent-hung-up"}]


async def test_what_is_heard_while_hanging_up_is_heard(on: Setting) -> None:
    await on.say()
    await on.line.end(EndReason.AGENT_HUNG_UP)
    on.phone.tell("interrupt", utteranceUntilInterrupt="Hello", durationUntilInterruptMs=400)
    on.phone.tell("prompt", voicePrompt="Wait!", last=True)

    assert await on.ear.after(1) == [Heard("Wait!"), LineClosed(heard="Hello")]


async def test_a_socket_that_does_not_close_is_given_up(on: Setting) -> None:
    on.phone.close = lambda: None  # type: ignore[method-assign] # this Twilio does not
    await on.line.end(EndReason.AGENT_HUNG_UP)
    assert await on.ear.after(lines.CLOSING - 0.1) == []

    assert await on.ear.after(0.1) == [LineClosed()]


async def test_keys_are_pressed_before_the_line_is_hung_up(on: Setting) -> None:
    await on.line.send_digits("1")
    await on.line.send_digits("2")
    await on.line.end(EndReason.AGENT_HUNG_UP)
    await on.clock.advance(1)
    on.phone.info("tokensPlayed", "1")
    await on.clock.advance(0)
    assert [frame["type"] for frame in on.phone.sent] == ["sendDigits", "sendDigits"]

    on.phone.info("tokensPlayed", "2")
    assert await on.ear.after(1) == [LineClosed()]
    assert on.phone.sent[-1] == {"type": "end", "handoffData": "agent-hung-up"}


async def test_keys_of_which_nothing_is_reported_do_not_keep_the_line(on: Setting) -> None:
    await on.line.send_digits("0123456789")
    await on.line.end(EndReason.AGENT_HUNG_UP)

    assert await on.ear.after(lines.PRESSING - 0.1) == []
    assert await on.ear.after(0.1) == [LineClosed()]


@pytest.mark.parametrize("pressed", [True, False])
async def test_keys_that_were_pressed_or_purged_do_not_delay_a_later_hang_up(on: Setting, pressed: bool) -> None:  # noqa: FBT001
    on.phone.close = lambda: None  # type: ignore[method-assign] # so that a second end would be seen
    await on.line.send_digits("1")
    if pressed:
        on.phone.info("tokensPlayed", "1")
    else:
        on.phone.tell("interrupt", utteranceUntilInterrupt="", durationUntilInterruptMs=0)
    assert await on.ear.after(1) == []
    await on.line.end(EndReason.AGENT_HUNG_UP)
    await on.clock.advance(0)
    assert on.phone.sent[-1] == {"type": "end", "handoffData": "agent-hung-up"}

    assert await on.ear.after(60) == [LineClosed()]
    assert [frame["type"] for frame in on.phone.sent].count("end") == 1


async def test_what_is_done_to_a_closed_line_has_no_effect(on: Setting) -> None:
    on.phone.close()
    await on.clock.advance(0)
    await on.line.say("Hello?", last=True)
    await on.line.send_digits("1")
    await on.line.end(EndReason.AGENT_HUNG_UP)
    await on.clock.advance(60)

    assert on.phone.sent == []


async def test_words_for_a_socket_that_has_just_closed_are_no_error(on: Setting) -> None:
    on.phone.closed = True
    await on.say("Hello?")
    on.phone.close()

    assert await on.ear.after() == [LineClosed()]


# In a talk.


async def held(on: Setting, callee: Any) -> tuple[Any, list[str]]:
    """The record of a talk with this callee, and its turns."""
    world = await worlds.build()
    call = await world.place("+14155550111")
    call = await world.calls.observe(call.id, Answered(at=world.clock.now()))
    acting = asyncio.create_task(callee(on.phone))
    line = RelayLine(on.phone, on.clock)
    talking = asyncio.create_task(
        talk(call, world.agent, line=line, models=Models(), observe=world.calls.observe, clock=on.clock)
    )
    await on.clock.advance(120)
    assert talking.done()
    await talking
    acting.cancel()
    record, turns = await world.record(call)
    await world.simulator.close()
    return record, [turn.text for turn in turns]


@pytest.fixture
async def off() -> Setting:
    """A line that nobody listens to yet."""
    clock = TestClock()
    phone = Phone(clock)
    line = RelayLine(phone, clock)
    return Setting(clock, phone, line, Ear(line, clock))


async def test_the_transcript_of_a_talk_is_what_the_callee_heard(off: Setting) -> None:
    async def callee(phone: Phone) -> None:
        await phone.listen()
        await phone.speak("Yes?")
        await phone.listen(words=9)
        await phone.speak("Sorry, what is it about?")
        await phone.listen()
        await phone.speak("Yes, that is fine.")
        await phone.listen()
        await phone.speak("No, thank you. Goodbye.")
        await phone.listen()

    record, turns = await held(off, callee)

    assert turns == off.phone.heard
    assert len(turns) == 9
    assert (record.status, record.end_reason) == (CallStatus.COMPLETED, EndReason.AGENT_HUNG_UP)
    assert record.outcome.goal_met is GoalMet.YES
    assert off.phone.sent[-1] == {"type": "end", "handoffData": "agent-hung-up"}


async def test_a_callee_that_hangs_up_has_heard_the_clauses_that_were_reported(off: Setting) -> None:
    async def callee(phone: Phone) -> None:
        await phone.clock.sleep(3)
        phone.info("agentSpeaking", "on")
        phone.info("tokensPlayed", "This is an AI assistant calling for Ada.")
        await phone.clock.sleep(3)
        phone.close()

    record, turns = await held(off, callee)

    assert turns == ["This is an AI assistant calling for Ada."]
    assert (record.status, record.end_reason) == (CallStatus.COMPLETED, EndReason.CALLEE_HUNG_UP)


async def test_a_talk_whose_socket_breaks_is_not_over_and_keeps_what_was_heard(off: Setting) -> None:
    async def callee(phone: Phone) -> None:
        await phone.listen(words=4)
        await phone.speak("Yes?")
        await phone.listen(words=4)
        phone.breaks()

    record, turns = await held(off, callee)

    assert (record.status, record.end_reason) == (CallStatus.IN_PROGRESS, None)
    assert turns == off.phone.heard


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 30), max_size=4))
def test_interruptions_at_any_point_leave_a_true_transcript(cuts: list[int]) -> None:
    async def callee(phone: Phone) -> None:
        for words in cuts:
            await phone.listen(words)
            await phone.speak("Pardon?")
        while True:
            await phone.listen()
            await phone.speak("Yes, of course. Goodbye.")

    async def body() -> None:
        clock = TestClock()
        phone = Phone(clock)
        line = RelayLine(phone, clock)
        _, turns = await held(Setting(clock, phone, line, Ear(line, clock)), callee)
        assert turns == [heard for heard in phone.heard if heard][: len(turns)]

    asyncio.run(body())
