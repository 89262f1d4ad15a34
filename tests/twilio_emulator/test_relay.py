"""ConversationRelay, against a relay server of the tests."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosedError

from tests.twilio_emulator.harness import HANGUP, Emulator, Program, say, spoken, xml
from tests.twilio_emulator.signature import signature
from tests.twilio_emulator.world import ACCOUNT

pytestmark = pytest.mark.anyio
TO = "+12025550100"
FROM = "+15005550006"
STAY: list[dict[str, Any]] = [{"do": "stay"}]
LONG = "One two three four five six seven. Eight nine ten eleven twelve."
EVENTS = 'events="speaker-events tokens-played"'


def script(*frames: dict[str, Any] | str, then: Callable[[ServerConnection], Awaitable[None]] | None = None) -> Any:
    """A relay server that sends these after the setup, and then listens or does `then`."""

    async def talk(relay: ServerConnection) -> None:
        await relay.recv()
        for frame in frames:
            await relay.send(frame if isinstance(frame, str) else json.dumps(frame))
        if then is not None:
            await then(relay)
        async for _ in relay:
            pass

    return talk


def text(token: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "token": token, "last": True} | fields


async def talked(
    emulator: Emulator, program: Program, steps: list[dict[str, Any]], attributes: str = "", inside: str = ""
) -> dict[str, Any]:
    """A call whose callee does this, with that TwiML, to its end."""
    program.answers.setdefault("/action", [xml(HANGUP)])
    await emulator.plan(callee={"steps": steps})
    return await emulator.call(await emulator.place(TO, program, Twiml=program.connect(attributes, inside)))


def action(program: Program) -> dict[str, str]:
    return next(told.form for told in program.told if told.path == "/action")


async def test_the_setup_is_the_recorded_one(emulator: Emulator, program: Program) -> None:
    program.talk = script({"type": "end"})
    call = await talked(emulator, program, STAY, inside='<Parameter name="a" value="1"/><Language code="de-DE"/>')
    (setup,) = await emulator.frames()
    session = setup.pop("sessionId")
    assert session == call["relays"][0]
    assert setup == {
        "type": "setup",
        "callSid": call["sid"],
        "parentCallSid": "",
        "from": FROM,
        "to": TO,
        "forwardedFrom": "",
        "callerName": "",
        "direction": "outbound-api",
        "callType": "PSTN",
        "callStatus": "IN_PROGRESS",
        "accountSid": ACCOUNT,
        "customParameters": {"a": "1"},
    }


async def test_the_handshake_is_signed_over_the_url_as_written(emulator: Emulator, program: Program) -> None:
    program.talk = script({"type": "end"})
    await talked(emulator, program, STAY)
    (handshake,) = program.handshakes
    assert handshake["user-agent"] == "Jetty/11.0.24"
    assert handshake["x-twilio-signature"] == signature("12345", f"{program.relay}/relay/t0k")
    assert "sec-websocket-extensions" not in handshake


async def test_a_routed_relay_is_signed_and_addressed_as_the_public_one(emulator: Emulator, program: Program) -> None:
    await emulator.settings(routes={"phone.example.net": program.relay.removeprefix("ws://")})
    program.talk = script({"type": "end"})
    public = program.connect().replace(program.relay, "wss://phone.example.net")
    await emulator.call(await emulator.place(TO, program, Twiml=public))
    (handshake,) = program.handshakes
    assert (handshake["host"], handshake["path"]) == ("phone.example.net", "/relay/t0k")
    assert handshake["x-twilio-signature"] == signature("12345", "wss://phone.example.net/relay/t0k")


async def test_end_closes_the_socket_and_asks_the_action(emulator: Emulator, program: Program) -> None:
    closed: list[int | None] = []

    async def closing(relay: ServerConnection) -> None:
        await relay.wait_closed()
        closed.append(relay.close_code)

    program.talk = script({"type": "end", "handoffData": '{"why":"done"}'}, then=closing)
    call = await talked(emulator, program, STAY)
    form = action(program)
    assert (form["SessionStatus"], form["CallStatus"]) == ("ended", "in-progress")
    assert (form["SessionId"], form["HandoffData"]) == (call["relays"][0], '{"why":"done"}')
    assert form["SessionDuration"].isdecimal()
    assert "ErrorCode" not in form
    assert closed == [1000]


async def test_a_hang_up_closes_the_socket_and_tells_the_action(emulator: Emulator, program: Program) -> None:
    await talked(emulator, program, [{"do": "listen"}, {"do": "hang-up"}])
    form = action(program)
    assert (form["SessionStatus"], form["CallStatus"]) == ("completed", "completed")
    assert [told.path for told in program.told][-2:] == ["/action", "/status"]


async def test_a_dropped_socket_does_not_end_the_call(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml("<Response><Say>We are back.</Say></Response>")]
    program.talk = script(then=lambda relay: relay.close(1011))
    call = await talked(emulator, program, STAY)
    form = action(program)
    assert (form["SessionStatus"], form["ErrorCode"], form["ErrorMessage"]) == ("failed", "64105", "Websocket ended")
    assert form["CallStatus"] == "in-progress"
    assert spoken(call) == [("carrier", "We are back.")]


async def test_a_new_connect_opens_a_new_session_of_the_same_call(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(program.connect()), xml(HANGUP)]
    program.talk = script({"type": "end"})
    call = await talked(emulator, program, STAY)
    setups = await emulator.frames("setup")
    assert [setup["callSid"] for setup in setups] == [call["sid"]] * 2
    assert setups[0]["sessionId"] != setups[1]["sessionId"]


async def test_nobody_at_the_relay_is_told_to_the_action(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(HANGUP)]
    twiml = program.connect().replace(program.relay, "ws://127.0.0.1:1")
    await emulator.call(await emulator.place(TO, program, Twiml=twiml))
    assert (action(program)["SessionStatus"], action(program)["ErrorCode"]) == ("failed", "64102")


async def test_without_an_action_a_failure_ends_the_call(emulator: Emulator, program: Program) -> None:
    program.talk = script(then=lambda relay: relay.close(1011))
    twiml = program.connect().replace(f' action="{program.base}/action"', "")
    assert (await emulator.call(await emulator.place(TO, program, Twiml=twiml)))["status"] == "completed"
    assert len(await emulator.events("violation")) == 1


@pytest.mark.parametrize("attributes", ['interruptible="maybe"', 'speechTimeout="50"', 'ttsProvider="Other"'])
async def test_a_wrong_attribute_fails_the_session(emulator: Emulator, program: Program, attributes: str) -> None:
    await talked(emulator, program, STAY, attributes)
    assert action(program)["ErrorCode"] == "64101"
    assert program.handshakes == []


async def test_a_plain_socket_to_elsewhere_is_refused(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(HANGUP)]
    twiml = program.connect().replace(program.relay, "ws://phone.example.net")
    await emulator.call(await emulator.place(TO, program, Twiml=twiml))
    assert action(program)["ErrorCode"] == "64101"


async def test_a_query_in_the_relay_url_and_an_unknown_attribute_are_violations(
    emulator: Emulator, program: Program
) -> None:
    program.talk = script({"type": "end"})
    program.answers["/action"] = [xml(HANGUP)]
    twiml = program.connect('colour="red"').replace("/relay/t0k", "/relay?token=t0k")
    await emulator.call(await emulator.place(TO, program, Twiml=twiml))
    texts = [violation["text"] for violation in await emulator.events("violation")]
    assert len(texts) == 2
    assert "query" in texts[1]
    assert "colour" in texts[0]


# Speech.


async def test_an_interruption_cuts_what_was_heard_to_the_word(emulator: Emulator, program: Program) -> None:
    program.talk = script(text(LONG))
    steps: list[dict[str, Any]] = [{"do": "listen", "words": 9}, {"do": "say", "text": "Stop."}, {"do": "hang-up"}]
    call = await talked(emulator, program, steps, EVENTS)
    assert spoken(call) == [("agent", "One two three four five six seven. Eight nine"), ("callee", "Stop.")]
    assert call["transcript"][0]["interrupted"] is True
    (interrupt,) = await emulator.frames("interrupt")
    assert interrupt["utteranceUntilInterrupt"] == "Eight nine"
    assert interrupt["durationUntilInterruptMs"] >= 11 * 55
    played = [frame["value"] for frame in await emulator.frames("info") if frame["name"] == "tokensPlayed"]
    assert played == ["One two three four five six seven.", " Eight nine"]
    kinds = [frame["type"] for frame in await emulator.frames() if frame["type"] != "info"]
    assert kinds == ["setup", "interrupt", "prompt"]


async def test_an_interruption_can_tell_of_the_whole_turn(emulator: Emulator, program: Program) -> None:
    await emulator.settings(interrupt="turn")
    program.talk = script(text(LONG))
    steps: list[dict[str, Any]] = [{"do": "listen", "words": 9}, {"do": "say", "text": "Stop."}, {"do": "hang-up"}]
    await talked(emulator, program, steps)
    (interrupt,) = await emulator.frames("interrupt")
    assert interrupt["utteranceUntilInterrupt"] == "One two three four five six seven. Eight nine"
    assert interrupt["durationUntilInterruptMs"] >= 45 * 55


async def test_what_is_queued_is_purged_by_an_interruption(emulator: Emulator, program: Program) -> None:
    await emulator.settings(speed=20)  # so that all three are there before two words were played
    program.talk = script(text("First of all."), text("Second."), text("Third."))
    steps: list[dict[str, Any]] = [
        {"do": "listen", "words": 2},
        {"do": "say", "text": "No."},
        {"do": "wait", "seconds": 9},
        {"do": "hang-up"},
    ]
    call = await talked(emulator, program, steps)
    assert spoken(call) == [("agent", "First of"), ("callee", "No.")]


async def test_nothing_is_heard_after_a_hang_up(emulator: Emulator, program: Program) -> None:
    program.talk = script(text(LONG))
    call = await talked(emulator, program, [{"do": "listen", "words": 3}, {"do": "hang-up"}])
    assert spoken(call) == [("agent", "One two three")]
    assert call["transcript"][0]["interrupted"] is True


async def test_events_come_only_when_subscribed(emulator: Emulator, program: Program) -> None:
    await talked(emulator, program, [{"do": "listen"}, {"do": "hang-up"}])
    assert await emulator.frames("info") == []


async def test_speaker_events_frame_the_talk(emulator: Emulator, program: Program) -> None:
    steps = [{"do": "listen"}, {"do": "say", "text": "Yes."}, {"do": "listen"}, {"do": "hang-up"}]
    await talked(emulator, program, steps, EVENTS)
    shown = [(frame["name"], frame["value"]) for frame in await emulator.frames("info")]
    assert shown == [
        ("agentSpeaking", "on"),
        ("tokensPlayed", "Hello, this is an automated assistant."),
        ("agentSpeaking", "off"),
        ("clientSpeaking", "on"),
        ("clientSpeaking", "off"),
        ("agentSpeaking", "on"),
        ("tokensPlayed", "Thank you."),
        ("agentSpeaking", "off"),
    ]


async def test_speech_that_may_not_be_interrupted_is_not(emulator: Emulator, program: Program) -> None:
    program.talk = script(text(LONG, interruptible=False))
    steps: list[dict[str, Any]] = [
        {"do": "listen", "words": 3},
        {"do": "say", "text": "Stop."},
        {"do": "wait", "seconds": 20},
        {"do": "hang-up"},
    ]
    call = await talked(emulator, program, steps)
    assert ("agent", LONG) in spoken(call)
    assert await emulator.frames("interrupt") == []
    assert await emulator.frames("prompt") == []


async def test_input_during_such_speech_is_reported_when_asked_for(emulator: Emulator, program: Program) -> None:
    program.talk = script(text(LONG))
    steps: list[dict[str, Any]] = [
        {"do": "listen", "words": 3},
        {"do": "say", "text": "Stop."},
        {"do": "wait", "seconds": 20},
        {"do": "hang-up"},
    ]
    await talked(emulator, program, steps, 'interruptible="none" reportInputDuringAgentSpeech="speech"')
    assert [frame["voicePrompt"] for frame in await emulator.frames("prompt")] == ["Stop."]
    assert await emulator.frames("interrupt") == []


async def test_partial_prompts_grow(emulator: Emulator, program: Program) -> None:
    steps = [{"do": "listen"}, {"do": "say", "text": "Yes, go ahead."}, {"do": "hang-up"}]
    await talked(emulator, program, steps, 'partialPrompts="true"')
    prompts = [(frame["voicePrompt"], frame["last"]) for frame in await emulator.frames("prompt")]
    assert prompts == [("Yes,", False), ("Yes, go", False), ("Yes, go ahead.", True)]


async def test_keys_are_reported_one_by_one_if_asked_for(emulator: Emulator, program: Program) -> None:
    steps = [{"do": "listen"}, {"do": "press", "digits": "1#"}, {"do": "hang-up"}]
    call = await talked(emulator, program, steps, 'dtmfDetection="true"')
    assert [frame["digit"] for frame in await emulator.frames("dtmf")] == ["1", "#"]
    assert spoken(call)[1:] == [("callee", "1"), ("callee", "#")]


async def test_keys_are_not_reported_otherwise(emulator: Emulator, program: Program) -> None:
    await talked(emulator, program, [{"do": "listen"}, {"do": "press", "digits": "1"}, {"do": "hang-up"}])
    assert await emulator.frames("dtmf") == []


async def test_the_greeting_is_heard_first(emulator: Emulator, program: Program) -> None:
    program.talk = script()
    steps = [{"do": "listen"}, {"do": "hang-up"}]
    call = await talked(emulator, program, steps, f'welcomeGreeting="Hi. How are you?" {EVENTS}')
    assert spoken(call) == [("agent", "Hi. How are you?")]
    assert {"type": "info", "name": "tokensPlayed", "value": "Hi. How are you?"} in await emulator.frames()


async def test_keys_and_clips_of_the_agent_are_heard(emulator: Emulator, program: Program) -> None:
    program.talk = script(
        text("Wait."),
        {"type": "sendDigits", "digits": "1w2"},
        {"type": "play", "source": "https://a.example/b.mp3", "loop": 1},
        {"type": "language", "ttsLanguage": "de-DE"},
    )
    call = await talked(emulator, program, [{"do": "listen", "for": "b.mp3"}, {"do": "hang-up"}])
    assert spoken(call) == [("agent", "Wait."), ("agent", "1w2"), ("agent", "[https://a.example/b.mp3]")]
    assert await emulator.events("violation") == []


async def test_a_preemptible_line_gives_way_to_the_next(emulator: Emulator, program: Program) -> None:
    async def later(relay: ServerConnection) -> None:
        async for raw in relay:
            if json.loads(raw).get("value", "").startswith("One"):
                await say(relay, "Something else.")

    await emulator.settings(speed=20)  # so that the next is there before the first was played
    program.talk = script(text(LONG, preemptible=True), then=later)
    call = await talked(emulator, program, [{"do": "listen", "for": "else"}, {"do": "hang-up"}], EVENTS)
    (first, second) = spoken(call)
    assert LONG.startswith(first[1])
    assert first[1] != LONG
    assert second[1].startswith("Something")


async def test_words_are_whole_however_the_tokens_were_cut(emulator: Emulator, program: Program) -> None:
    frames = [{"type": "text", "token": token, "last": False} for token in ("Hel", "lo th", "ere, you", ".")]
    program.talk = script(*frames, {"type": "text", "token": "", "last": True})
    call = await talked(emulator, program, [{"do": "listen"}, {"do": "hang-up"}])
    assert spoken(call) == [("agent", "Hello there, you.")]


async def test_a_farewell_that_was_not_played_is_not_heard(emulator: Emulator, program: Program) -> None:
    program.talk = script(text("Goodbye and thank you."), {"type": "end"})
    assert spoken(await talked(emulator, program, STAY)) == []


async def test_a_callee_who_speaks_first_is_heard(emulator: Emulator, program: Program) -> None:
    program.talk = script()
    steps: list[dict[str, Any]] = [{"do": "connect"}, {"do": "say", "text": "Hello?"}, {"do": "hang-up"}]
    await talked(emulator, program, steps)
    assert [frame["voicePrompt"] for frame in await emulator.frames("prompt")] == ["Hello?"]


# Frames that are none.

BAD = [
    "this is not json",
    "[]",
    '{"token":"a"}',
    '{"type":"shout","token":"a"}',
    '{"type":"text"}',
    '{"type":"text","token":null,"last":true}',
    '{"type":"text","token":"a","last":"true"}',
    '{"type":"play"}',
    '{"type":"sendDigits","digits":"12a"}',
    '{"type":"language"}',
    '{"type":"end","handoffData":{"a":1}}',
]


@pytest.mark.parametrize("frame", BAD)
async def test_a_bad_frame_is_answered_with_an_error_and_the_session_goes_on(
    emulator: Emulator, program: Program, frame: str
) -> None:
    program.talk = script(frame, {"type": "end"})
    await talked(emulator, program, STAY)
    (error,) = await emulator.frames("error")
    assert error["description"] == f"Invalid message received, code: 64107, {frame}"
    assert action(program)["SessionStatus"] == "ended"
    assert len(await emulator.events("violation")) == 1


async def test_ten_bad_frames_in_a_row_close_the_socket(emulator: Emulator, program: Program) -> None:
    closed: list[tuple[int | None, str | None]] = []

    async def closing(relay: ServerConnection) -> None:
        with suppress(ConnectionClosedError):  # 1007 is no closing to be pleased with
            async for _ in relay:
                pass
        closed.append((relay.close_code, relay.close_reason))

    program.talk = script(*["nonsense"] * 9, text("Well."), *["nonsense"] * 10, then=closing)
    await talked(emulator, program, STAY)
    assert closed == [(1007, "Too many consecutive malformed messages.")]
    assert action(program)["ErrorCode"] == "64105"
    assert len(await emulator.frames("error")) == 19


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "text", "token": "x" * 5000, "last": True},
        {"type": "text", "token": "", "last": False},
        {"type": "text", "token": "Hi.", "last": True, "voice": "loud"},
    ],
)
async def test_an_odd_frame_is_a_violation_though_twilio_takes_it(
    emulator: Emulator, program: Program, frame: dict[str, Any]
) -> None:
    program.talk = script(frame, {"type": "end"})
    await talked(emulator, program, STAY)
    assert await emulator.frames("error") == []
    assert len(await emulator.events("violation")) == 1


async def test_a_flood_of_frames_is_a_violation(emulator: Emulator, program: Program) -> None:
    await emulator.settings(speed=1)
    program.talk = script(*[text(" a", last=False)] * 60)
    await emulator.plan(callee={"rings": 0, "steps": STAY})
    sid = await emulator.place(TO, Twiml=program.connect())
    await emulator.http.get("/_control/events", params={"kind": "violation", "wait": 5})
    assert "50 frames" in (await emulator.events("violation"))[0]["text"]
    await emulator.settings(speed=200)
    await emulator.update(sid, Status="completed")
    await emulator.call(sid)


async def test_a_callee_can_be_driven_step_by_step(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    sid = await emulator.place(TO, program, Twiml=program.connect())
    await emulator.http.get("/_control/events", params={"kind": "relay-connect", "wait": 5})
    steps = [{"do": "say", "text": "Hello?"}, {"do": "hang-up"}]
    acted = await emulator.http.post(f"/_control/calls/{sid}", json={"steps": steps})
    assert acted.status_code == 200
    assert ("callee", "Hello?") in spoken(await emulator.call(sid))
