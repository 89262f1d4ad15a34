"""The frames a ConversationRelay server may send (twilio.com/docs/voice/conversationrelay/websocket-messages)."""

import json
import re
from dataclasses import dataclass
from typing import Any

TOKEN_BYTES = 4096  # our own cap: no limit is documented


class Malformed(Exception):
    """Not a frame of the protocol. Twilio answers with error 64107, and closes after ten in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    token: str
    last: bool = False
    lang: str | None = None
    interruptible: bool | None = None
    preemptible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    source: str
    loop: int = 1
    interruptible: bool | None = None
    preemptible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendDigits:
    digits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    ttsLanguage: str | None = None  # noqa: N815 -- the wire's name
    transcriptionLanguage: str | None = None  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    handoffData: str | None = None  # noqa: N815


Frame = Text | Play | SendDigits | Language | End

# type: class, and of each field its type and whether it must be there.
KINDS: dict[str, tuple[type[Any], dict[str, tuple[type, bool]]]] = {
    "text": (
        Text,
        {
            "token": (str, True),
            "last": (bool, False),
            "lang": (str, False),
            "interruptible": (bool, False),
            "preemptible": (bool, False),
        },
    ),
    "play": (
        Play,
        {
            "source": (str, True),
            "loop": (int, False),
            "interruptible": (bool, False),
            "preemptible": (bool, False),
        },
    ),
    "sendDigits": (SendDigits, {"digits": (str, True)}),
    "language": (Language, {"ttsLanguage": (str, False), "transcriptionLanguage": (str, False)}),
    "end": (End, {"handoffData": (str, False)}),
}


def read(raw: str | bytes) -> tuple[Frame, list[str]]:
    """The frame, and what is odd about it though Twilio lets it pass. Raises Malformed."""
    if isinstance(raw, bytes):
        raise Malformed("a binary frame")
    try:
        given = json.loads(raw)
    except ValueError as error:
        raise Malformed("not JSON") from error
    if not isinstance(given, dict):
        raise Malformed("not an object")
    kind = given.pop("type", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise Malformed(f"unknown type {kind!r}")
    of, fields = KINDS[kind]
    for name, (wanted, required) in fields.items():
        if name not in given and required:
            raise Malformed(f"{kind} without {name}")
        if name in given and type(given[name]) is not wanted:
            raise Malformed(f"{kind}.{name} is {json.dumps(given[name])[:60]}, not a {wanted.__name__}")
    odd = [f"{kind}.{name} is no field of the protocol" for name in given if name not in fields]
    frame: Frame = of(**{name: value for name, value in given.items() if name in fields})
    match frame:
        case SendDigits(digits=digits) if not re.fullmatch(r"[0-9w#*]+", digits):
            raise Malformed(f"sendDigits.digits is {digits!r}")
        case Language(ttsLanguage=None, transcriptionLanguage=None):
            raise Malformed("language without a language")
        case Text(token=token) if len(token.encode()) > TOKEN_BYTES:
            odd.append(f"a token of {len(token.encode())} bytes")
        case Text(token="", last=False):
            odd.append("an empty token that is not the last")
        case _:
            pass
    return frame, odd
