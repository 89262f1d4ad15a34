"""The frames of ConversationRelay: every recorded one is read, none is too odd to read, and no bad one is sent."""

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.telephony.twilio import relay
from callmcp.telephony.twilio.relay import Dtmf, Frame, Info, Interrupt, Prompt, RelayError, Setup, Unknown

SETUP = {
    "type": "setup",
    "sessionId": "VX00000000000000000000000000000001",
    "callSid": "CA00000000000000000000000000000001",
    "parentCallSid": "",
    "from": "+15005550006",
    "to": "+15551230001",
    "forwardedFrom": "",
    "callerName": "",
    "direction": "outbound-api",
    "callType": "PSTN",
    "callStatus": "IN_PROGRESS",
    "accountSid": "AC00000000000000000000000000000000",
    "customParameters": {"call": "call_1", "odd": 1},
}
BAD = "Invalid message received, code: 64107, {}"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# fmt: off
MEMBERS = st.sampled_from([
    "callSid", "sessionId", "accountSid", "customParameters", "voicePrompt", "last", "lang", "utteranceUntilInterrupt",
    "durationUntilInterruptMs", "digit", "description", "name", "value",
])
# fmt: on
KINDS = st.sampled_from(["setup", "prompt", "interrupt", "dtmf", "error", "info", "configUpdated"])


@pytest.mark.parametrize(
    ("given", "frame"),
    [
        (
            SETUP,
            Setup(
                call_sid="CA00000000000000000000000000000001",
                session_id="VX00000000000000000000000000000001",
                account_sid="AC00000000000000000000000000000000",
                parameters={"call": "call_1"},
            ),
        ),
        ({"type": "setup", "callSid": "CA1", "sessionId": "VX1"}, Setup(call_sid="CA1", session_id="VX1")),
        (
            {"type": "prompt", "voicePrompt": "Yes.", "lang": "en", "last": True},
            Prompt(text="Yes.", last=True, lang="en"),
        ),
        (
            {"type": "prompt", "voicePrompt": "Ye", "lang": "en", "last": False},
            Prompt(text="Ye", last=False, lang="en"),
        ),
        ({"type": "prompt", "voicePrompt": "Yes."}, Prompt(text="Yes.", last=True)),
        (
            {"type": "interrupt", "utteranceUntilInterrupt": "Hello, this", "durationUntilInterruptMs": 460},
            Interrupt(heard="Hello, this", milliseconds=460),
        ),
        (
            {"type": "interrupt", "utteranceUntilInterrupt": "Hello", "durationUntilInterruptMs": "460"},
            Interrupt(heard="Hello", milliseconds=460),
        ),
        (
            {"type": "interrupt", "utteranceUntilInterrupt": "Hello", "durationUntilInterruptMs": 460.25},
            Interrupt(heard="Hello", milliseconds=460.25),
        ),
        ({"type": "dtmf", "digit": "#"}, Dtmf(digit="#")),
        ({"type": "error", "description": BAD.format("{}")}, RelayError(description=BAD.format("{}"), code="64107")),
        ({"type": "error", "description": "no voice"}, RelayError(description="no voice", code=None)),
        ({"type": "error"}, RelayError(description="", code=None)),
        ({"type": "info", "name": "agentSpeaking", "value": "on"}, Info(name="agentSpeaking", value="on")),
        ({"type": "info", "name": "tokensPlayed", "value": " Hi."}, Info(name="tokensPlayed", value=" Hi.")),
        ({"type": "dtmf", "digit": "1", "track": "inbound"}, Dtmf(digit="1")),
    ],
)
def test_every_recorded_frame_is_read(given: dict[str, Any], frame: Frame) -> None:
    assert relay.parse(json.dumps(given)) == frame


@pytest.mark.parametrize("duration", [None, True, [], "soon", "", "NaN", float("inf"), -1, 10**400])
def test_an_interruption_counts_whatever_else_it_says(duration: object) -> None:
    raw = json.dumps({"type": "interrupt", "utteranceUntilInterrupt": 7, "durationUntilInterruptMs": duration})

    assert relay.parse(raw) == Interrupt(heard="", milliseconds=None)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5000,
        "{}",
        '{"type":7}',
        '{"type":["setup"]}',
        '{"type":"configUpdated"}',
        '{"type":"setup"}',
        '{"type":"setup","callSid":"","sessionId":"VX1"}',
        '{"type":"setup","callSid":"CA1","sessionId":7}',
        '{"type":"prompt","voicePrompt":null,"last":true}',
        '{"type":"dtmf","digit":"12"}',
        '{"type":"dtmf","digit":"A"}',
        '{"type":"dtmf","digit":1}',
        '{"type":"info","name":"agentSpeaking"}',
        '{"type":"info","name":"roundTripDelayMs","value":81}',
    ],
)
def test_a_frame_that_says_nothing_to_us_is_unknown(raw: str) -> None:
    assert isinstance(relay.parse(raw), Unknown)


def test_what_is_wrong_with_a_frame_is_said_without_what_was_said_in_it() -> None:
    frame = relay.parse('{"type":"prompt","voice_prompt":"my secret"}')

    assert frame == Unknown(why="a prompt without what belongs in one")


@given(st.text() | JSON.map(json.dumps))
def test_no_text_is_too_odd_to_read(raw: str) -> None:
    relay.parse(raw)


@given(KINDS, st.dictionaries(MEMBERS, JSON))
def test_no_member_is_too_odd_to_read(kind: str, members: dict[str, object]) -> None:
    relay.parse(json.dumps({**members, "type": kind}))


# What is sent.


@pytest.mark.parametrize(
    ("frame", "sent"),
    [
        (relay.text(" Hi", last=False), {"type": "text", "token": " Hi", "last": False}),
        (relay.text("", last=True), {"type": "text", "token": "", "last": True}),
        (
            relay.text("Hi", last=True, interruptible=False),
            {"type": "text", "token": "Hi", "last": True, "interruptible": False},
        ),
        (relay.play("https://a.example/b.mp3"), {"type": "play", "source": "https://a.example/b.mp3", "loop": 1}),
        (relay.send_digits("1w#*"), {"type": "sendDigits", "digits": "1w#*"}),
        (relay.language(tts="de-DE"), {"type": "language", "ttsLanguage": "de-DE"}),
        (relay.language(transcription="de-DE"), {"type": "language", "transcriptionLanguage": "de-DE"}),
        (relay.end(), {"type": "end"}),
        (relay.end('{"why":"done"}'), {"type": "end", "handoffData": '{"why":"done"}'}),
    ],
)
def test_a_frame_has_what_the_protocol_names_and_no_more(frame: str, sent: dict[str, Any]) -> None:
    assert json.loads(frame) == sent


def test_a_bad_frame_is_not_built() -> None:
    for digits in ("", "12a", "1 2", "W", "\uff11"):
        with pytest.raises(ValueError, match="digits"):
            relay.send_digits(digits)
    with pytest.raises(ValueError, match="language"):
        relay.language()
    with pytest.raises(ValueError, match="once"):
        relay.play("https://a.example/b.mp3", loop=0)
    with pytest.raises(ValueError, match="4096 bytes"):
        relay.text("é" * 2049, last=False)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("AT&T, Fish & Chips", "AT and T, Fish  and  Chips"),
        ("<b>Hi</b> &amp; <break time='1s'/>", " b>Hi /b>  and amp;  break time='1s'/>"),
        ("a\x00b\ud800c\uffff", "a b c "),
        (" Hi ☕\n", " Hi ☕\n"),
    ],
)
def test_markup_is_made_harmless(text: str, spoken: str) -> None:
    assert relay.speakable(text) == spoken


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_a_model_says_is_well_formed_for_a_voice_that_reads_ssml(text: str) -> None:
    spoken = relay.speakable(text)

    # A parser reads \r as \n, and refuses ]]> outside of CDATA, which no voice's grammar has a use for.
    written = spoken.replace(">", "")
    assert (ET.fromstring(f"<s>{written}</s>").text or "") == re.sub("\r\n?", "\n", written)  # noqa: S314 - our own
    assert json.loads(relay.text(spoken[:1000], last=True))["token"] == spoken[:1000]


@given(st.text(st.characters(codec="utf-8") | st.just(" "), max_size=40), st.integers(0, 600))
def test_a_text_that_is_split_over_frames_is_the_same_text(text: str, times: int) -> None:
    text *= times
    pieces = relay.tokens(text)

    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= relay.TOKEN_BYTES for piece in pieces)


@given(st.lists(st.text("aé", min_size=1, max_size=100), max_size=300))
def test_a_text_is_split_between_words(words: list[str]) -> None:
    text = " ".join(words)

    assert [word for piece in relay.tokens(text) for word in piece.split()] == words
    assert not any(re.search(r" $", piece) for piece in relay.tokens(text))
