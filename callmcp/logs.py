"""What the process says of itself: structlog on stderr, one JSON object a line, or readable lines on a terminal.

Nothing personal and no secret leaves through here. Every event passes `redact`, also those of the libraries that log
by the standard library: phone numbers and credentials are masked wherever they stand, fields that hold what people
said are dropped, and a value of a type that is not plainly harmless is named by its type only.

Who handles a request or a call binds `request_id` or `call_id` once with `structlog.contextvars`; each event has it.
"""

import functools
import logging
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import PurePath
from typing import Any, TextIO
from uuid import UUID

import structlog

from callmcp.settings import LogFormat, Settings

MASK = "…"
SPEECH = frozenset({"text", "transcript", "context", "speech", "metadata", "greeting", "heard", "summary", "body"})
SECRET = frozenset({"authorization", "x-api-key", "api_key", "cookie", "password", "secret", "token"})
MAX_DEPTH = 6

_NUMBER = re.compile(
    r"(?P<plus>\+|%2B)[ ().-]{0,2}(?P<first>\d)(?:[ ().-]{0,2}\d)*[ ().-]{0,2}(?P<last>\d\d)", re.IGNORECASE
)
_KEY = re.compile(r"cmcp_[A-Za-z0-9_\-]+")
_CREDENTIAL = re.compile(r"\b(?P<scheme>bearer|basic)(?P<space>[ :=]+)[^\s,;\"']+", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?P<user>://[^\s:/@]*):[^\s@]*@")
_SUSPECT = re.compile(r"[+%@\x00-\x1f\x7f-\x9f\u2028\u2029]|cmcp_|bearer|basic", re.IGNORECASE)
"""In everything that one of the others finds. Almost no text has it, and one search costs less than five."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# Text that none of these can match, as most is; it is not worth looking through five times.
_HARMLESS = re.compile(r"[A-Za-z0-9_ .,/\-]*")
_MARKS = re.compile(r"cmcp_|bearer|basic", re.IGNORECASE)

EventDict = MutableMapping[str, Any]


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process; `stream` is stderr unless given."""
    stream = stream or sys.stderr
    console = settings.log_format is LogFormat.CONSOLE or (settings.log_format is LogFormat.AUTO and stream.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
        _on_a_terminal() if console else structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Lines(stream),
    )
    _configure_standard_library(processors, level, stream)


def redact(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A structlog processor: the event without numbers in full, credentials and speech; an exception as its trace."""
    exception = _exception(event.pop("exc_info", None))
    cleaned = _clean_mapping(event, 0)
    if exception is not None:
        cleaned["exception"] = "\n".join(map(_clean_text, _trace(exception).splitlines()))
    return cleaned


def _clean(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _clean_text(str(value))
    if depth > MAX_DEPTH:
        return MASK
    if isinstance(value, Mapping):
        return _clean_mapping(value, depth)
    if isinstance(value, bytes):
        return _clean_text(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Sequence | set | frozenset):
        items = list(value)
        if len(items) == 2 and _name(items[0]) in SECRET:  # noqa: PLR2004 - a header, as ASGI has them
            return [_clean(items[0], depth + 1), MASK]
        return [_clean(item, depth + 1) for item in items]
    if isinstance(value, BaseException):
        return _clean_text(_said(value))
    if isinstance(value, datetime | date | time | timedelta | PurePath | UUID):
        return _clean_text(str(value))
    return f"<{type(value).__name__}>"


def _clean_mapping(mapping: Mapping[Any, object], depth: int) -> dict[str, object]:
    cleaned: dict[str, object] = {}
    for key, value in mapping.items():
        shown, is_speech, is_secret = _field(key if isinstance(key, str | bytes) else str(key))
        if not is_speech:
            cleaned[shown] = MASK if is_secret else _clean(value, depth + 1)
    return cleaned


@functools.lru_cache(maxsize=512)
def _field(key: str | bytes) -> tuple[str, bool, bool]:
    """A field's name as it may be shown, and whether what it holds is speech or a secret. There are few names."""
    return _clean_text(str(key)), _name(key) in SPEECH, _name(key) in SECRET


def _name(key: object) -> str:
    return (
        (key.decode("latin-1") if isinstance(key, bytes) else str(key)).lower() if isinstance(key, str | bytes) else ""
    )


def _clean_text(text: str) -> str:
    if _HARMLESS.fullmatch(text) and not _MARKS.search(text):
        return text
    text = _KEY.sub(f"cmcp_{MASK}", text)
    text = _CREDENTIAL.sub(rf"\g<scheme>\g<space>{MASK}", text)
    text = _URL_PASSWORD.sub(rf"\g<user>:{MASK}@", text)
    text = _NUMBER.sub(_masked, text)
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)  # one event is one line, on a terminal too


def _masked(found: re.Match[str]) -> str:
    """`+15551234567` is `+1…67`: the first digit of the country code and the last two."""
    digits = sum(character.isdigit() for character in found[0].removeprefix("%2B").removeprefix("%2b"))
    return f"{found['plus']}{found['first']}{MASK}{found['last']}" if digits >= 7 else found[0]  # noqa: PLR2004


def _exception(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if isinstance(exc_info[1], BaseException) else None
    return sys.exception() if exc_info else None


def _trace(exception: BaseException) -> str:
    """The frames and errors, the first cause first. No local variables: they hold what people said."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        members = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        parts.append(
            "\n".join(["".join(traceback.format_tb(current.__traceback__)) + _said(current), *map(_trace, members)])
        )
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\nwhich led to\n".join(reversed(parts))


def _said(exception: BaseException) -> str:
    # Only the first line: databases and pydantic put the offending values on the lines below it.
    first = next(iter(str(exception).splitlines()), "")
    return f"{type(exception).__name__}: {first}"


def _on_a_terminal() -> structlog.typing.Processor:
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class _Lines:
    """The last step: a line to a stream. A log nobody reads any more (a closed pipe) must not fail a call."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass

    debug = info = warning = error = critical = exception = fatal = log = warn = msg


def _configure_standard_library(processors: Sequence[structlog.typing.Processor], level: int, stream: TextIO) -> None:
    """Sends what libraries log through the same processors, from warnings up: what they say below that is of no use to
    an operator, and uvicorn's debug level shows the frames of web sockets, which is speech."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),  # how plain Python, our domain above all, says which call it speaks of
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *processors,
            ]
        )
    )
    logging.raiseExceptions = False  # as in _Lines
    logging.captureWarnings(capture=True)
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
