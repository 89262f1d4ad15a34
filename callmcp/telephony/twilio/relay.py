"""The frames of ConversationRelay, as values. Pure: text in, a value out, and the other way round; no I/O.

Source: twilio.com/docs/voice/conversationrelay/websocket-messages, and recorded calls where those differ from it
(TWILIO.md section 5). Twilio answers a frame that it cannot read with error 64107 and closes after ten in a row, so
none is built here that it could not; what it sends is read with tolerance, since it adds kinds and members.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOKEN_BYTES = 4096  # our own cap: Twilio documents none
FRAMES_A_SECOND = 40  # likewise; 50 is what we promise, and a network bunches frames up
DIGITS = "0123456789w#*"
_KEYS = frozenset("0123456789*#")
_CODE = re.compile(r"\bcode: ?(\d{4,6})\b")

# From Twilio.


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first frame of a session. `parameters` are the <Parameter>s of the TwiML."""

    call_sid: str
    session_id: str
    account_sid: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the callee says: all of the utterance so far. `last`: it will not grow any more."""

    text: str
    last: bool
    lang: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """The callee cut the agent short. `milliseconds` is None when Twilio did not say it as a number."""

    heard: str
    milliseconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtmf:
    """The callee pressed a key: 0-9, * or #."""

    digit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayError:
    """`description` quotes the frame that was wrong, words of the talk included; `code` can be logged."""

    description: str
    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """agentSpeaking and clientSpeaking (on, off), tokensPlayed (what was played), and whatever Twilio adds."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A frame that says nothing to us, and why. `why` holds nothing of what was said."""

    why: str


Frame = Setup | Prompt | Interrupt | Dtmf | RelayError | Info | Unknown


def parse(raw: str) -> Frame:
    """Any text is some frame; it never raises."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return Unknown(why="not JSON")
    if not isinstance(given, dict):
        return Unknown(why="not an object")
    match given:
        case {"type": "setup", "callSid": str(call_sid), "sessionId": str(session_id)} if call_sid and session_id:
            return Setup(
                call_sid=call_sid,
                session_id=session_id,
                account_sid=_text(given.get("accountSid")),
                parameters=_texts(given.get("customParameters")),
            )
        case {"type": "prompt", "voicePrompt": str(text)}:
            # Without partial prompts every one is the last, so one that does not say is.
            return Prompt(text=text, last=given.get("last") is not False, lang=_text(given.get("lang")))
        case {"type": "interrupt"}:
            # Whatever else it says, what was queued is gone.
            heard = _text(given.get("utteranceUntilInterrupt"))
            return Interrupt(heard=heard, milliseconds=_number(given.get("durationUntilInterruptMs")))
        case {"type": "dtmf", "digit": str(digit)} if digit in _KEYS:
            return Dtmf(digit=digit)
        case {"type": "error"}:
            description = _text(given.get("description"))
            found = _CODE.search(description)
            return RelayError(description=description, code=found[1] if found else None)
        case {"type": "info", "name": str(name), "value": str(value)}:
            return Info(name=name, value=value)
        case {"type": "setup" | "prompt" | "dtmf" | "info" as kind}:
            return Unknown(why=f"a {kind} without what belongs in one")
        case _:
            return Unknown(why="of a type we do not know")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _number(value: object) -> float | None:
    """Twilio's pages show it as a string and as a number, and it has been seen with decimals."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


# To Twilio.

# Google and Amazon read a text as SSML, where `<` and `&` begin markup and a bare one spoils the whole text;
# ElevenLabs reads all but <phoneme> as it stands, where `&amp;` would be spelled out. No page says who undoes an
# entity. So neither is ever sent: `&` goes as the word it stands for, and `<`, which a language model writes only
# in markup, as a space. What XML cannot hold at all goes as a space too.
SPOKEN = {"&": " and ", "<": " "}
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def speakable(text: str) -> str:
    """The text as every one of Twilio's voices says it."""
    for character, spoken in SPOKEN.items():
        text = text.replace(character, spoken)
    return _NO_XML.sub(" ", text)


def tokens(text: str) -> Sequence[str]:
    """The text in pieces that a frame can carry, cut between words where there are any; none of no text.

    Joined they are the text again: the spaces between words stay, at the beginning of a piece.
    """
    pieces = []
    while text:
        piece = text.encode()[:TOKEN_BYTES].decode(errors="ignore")
        if len(piece) < len(text):
            piece = piece[: piece.rfind(" ")] if piece.rfind(" ") > 0 else piece
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces


def text(token: str, *, last: bool, interruptible: bool | None = None) -> str:
    """A piece of the agent's line, spoken as it comes; `last` ends the line, also with no words.

    Raises ValueError for a token that is longer than TOKEN_BYTES in UTF-8.
    """
    if len(token.encode()) > TOKEN_BYTES:
        raise ValueError(f"a token has at most {TOKEN_BYTES} bytes")
    return _frame("text", token=token, last=last, interruptible=interruptible)


def play(source: str, *, loop: int = 1, interruptible: bool | None = None) -> str:
    """Plays the sound at this URL so many times."""
    if loop < 1:
        raise ValueError("a sound is played once or more")
    return _frame("play", source=source, loop=loop, interruptible=interruptible)


def send_digits(digits: str) -> str:
    """Presses keys, behind what is being said. Raises ValueError for other characters than 0-9, *, # and w."""
    if not digits or not set(digits) <= set(DIGITS):
        raise ValueError("digits are one or more of 0-9, *, # and w")
    return _frame("sendDigits", digits=digits)


def language(*, tts: str | None = None, transcription: str | None = None) -> str:
    """Changes the language spoken, understood, or both (BCP 47)."""
    if not tts and not transcription:
        raise ValueError("a language to speak or to understand, or both")
    return _frame("language", ttsLanguage=tts or None, transcriptionLanguage=transcription or None)


def end(handoff: str | None = None) -> str:
    """Ends the session; Twilio then asks <Connect action> what to do with the call, `handoff` being HandoffData."""
    return _frame("end", handoffData=handoff)


def _frame(kind: str, **members: Any) -> str:
    given = {name: value for name, value in members.items() if value is not None}
    return json.dumps({"type": kind, **given}, separators=(",", ":"))
