import io
import json
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from callmcp import logs
from callmcp.calls.model import Turn
from callmcp.conversation.events import Piece
from callmcp.conversation.prompt import Brief
from callmcp.llm.scripted import ScriptedModel
from callmcp.settings import LogFormat, LogLevel, Settings
from tests.world import build

NUMBER = "+15551234567"
KEY = "cmcp_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.raiseExceptions)
    root.handlers[:] = []  # pytest's own, which configure would close
    yield io.StringIO()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(capture=False)
    root.handlers[:], level, logging.raiseExceptions = before
    root.setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_event_is_one_json_object_on_a_line_when_not_on_a_terminal(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    structlog.contextvars.bind_contextvars(request_id="req_1", call_id="call_1")

    structlog.get_logger().info("dialled", agent_id="agt_9f2a1c", note="two\nlines")

    (event,) = lines(out)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "dialled",
        "level": "info",
        "request_id": "req_1",
        "call_id": "call_1",
        "agent_id": "agt_9f2a1c",
        "note": "two\\nlines",
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_event_is_readable_on_a_terminal(out: io.StringIO) -> None:  # noqa: ARG001 - for what it restores
    terminal = Terminal()
    logs.configure(Settings(), terminal)

    structlog.get_logger().info("dialled", to=NUMBER)

    assert "dialled" in terminal.getvalue()
    assert "+1…67" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")


@pytest.mark.parametrize("log_format", [LogFormat.JSON, LogFormat.CONSOLE])
def test_what_somebody_sends_cannot_forge_a_line_of_its_own(out: io.StringIO, log_format: LogFormat) -> None:
    logs.configure(Settings(log_format=log_format), out)

    structlog.get_logger().info("read", value="x\r\n2026-01-01 [info] all is well\x1b[2J")

    assert out.getvalue().count("\n") == 1
    assert "\x1b[2J" not in out.getvalue()


def test_events_below_the_level_are_left_out(out: io.StringIO) -> None:
    logs.configure(Settings(log_level=LogLevel.WARNING), out)

    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")

    assert [event["event"] for event in lines(out)] == ["loud"]


def test_numbers_keys_and_credentials_are_masked_wherever_they_stand(out: io.StringIO) -> None:
    logs.configure(Settings(), out)

    structlog.get_logger().info(
        f"calling {NUMBER}",
        to=NUMBER,
        url="/calls?to=%2B15551234567",
        written="+1 (555) 123-4567",
        nested={"deep": [{NUMBER: (KEY,)}]},
        raw=NUMBER.encode(),
        headers=[(b"authorization", b"Digest abc"), (b"x-api-key", b"other"), (b"accept", b"*/*")],
        said="Authorization: Bearer eyJhbGciOi",
        authorization="anything",
        database="postgresql://callmcp:s3cret@db/calls",
    )

    (event,) = lines(out)
    assert event["event"] == "calling +1…67"
    assert (event["to"], event["url"], event["written"]) == ("+1…67", "/calls?to=%2B1…67", "+1…67")
    assert event["nested"] == {"deep": [{"+1…67": ["cmcp_…"]}]}
    assert event["raw"] == "+1…67"
    assert event["headers"] == [["authorization", "…"], ["x-api-key", "…"], ["accept", "*/*"]]
    assert (event["said"], event["authorization"]) == ("Authorization: Bearer …", "…")
    assert event["database"] == "postgresql://callmcp:…@db/calls"


def test_times_ids_and_counts_are_left_alone(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    harmless = {"at": "2026-01-01T12:00:00+00:00", "call": "call_0123456789abcdef", "count": 15551234567, "eta": "+300"}

    structlog.get_logger().info("ok", **harmless)

    assert harmless.items() <= lines(out)[0].items()


@pytest.mark.parametrize("field", sorted(logs.SPEECH))
def test_what_people_said_is_dropped_at_any_depth(out: io.StringIO, field: str) -> None:
    logs.configure(Settings(), out)

    structlog.get_logger().info("turn", **{field: "my card is"}, inner=[{field.upper(): "my card is", "index": 3}])

    assert "my card is" not in out.getvalue()
    assert lines(out)[0]["inner"] == [{"index": 3}]


@dataclass
class Record:
    spoken: str


def test_a_value_of_a_type_that_may_hold_anything_is_named_by_its_type_only(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    endless: list[object] = []
    endless.append(endless)

    structlog.get_logger().info("saved", record=Record("my card is"), settings=Settings(), endless=endless)

    assert (lines(out)[0]["record"], lines(out)[0]["settings"]) == ("<Record>", "<Settings>")


def test_an_exception_is_told_with_its_cause_but_not_with_the_values_that_caused_it(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    parameters = "my card is"
    try:
        try:
            raise OSError(f"disk full while calling {NUMBER}\n[parameters: {parameters}]")
        except OSError as error:
            raise ExceptionGroup("two things", [ValueError("one"), KeyError("two")]) from error
    except ExceptionGroup as error:
        structlog.get_logger().exception("broke")
        structlog.get_logger().error("broke", error=error, exc_info=error)

    for event in lines(out):
        assert "OSError: disk full while calling +1…67\n" in event["exception"]
        assert "test_logs.py" in event["exception"]
        assert "ValueError: one" in event["exception"]
    assert "my card is" not in out.getvalue()


def test_the_libraries_log_through_the_same_door(out: io.StringIO) -> None:
    logs.configure(Settings(log_level=LogLevel.DEBUG), out)

    logging.getLogger("uvicorn.error").error("cannot listen for %s", NUMBER)
    logging.getLogger("uvicorn.error").debug("< TEXT my card is")
    logging.getLogger("somelib").warning("retrying %s", KEY)
    logging.getLogger("somelib").info("GET /?q=my+card+is")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"odd {NUMBER}", stacklevel=1)

    events = lines(out)
    assert [event["logger"] for event in events] == ["uvicorn.error", "somelib", "py.warnings"]
    assert events[0]["event"] == "cannot listen for +1…67"
    assert events[1]["event"] == "retrying cmcp_…"
    assert "odd +1…67" in events[2]["event"]


def test_what_plain_python_logs_keeps_its_fields_and_no_more_than_may_be_said(out: io.StringIO) -> None:
    logs.configure(Settings(), out)

    fields = {"call_id": "call_1", "code": "carrier_busy", "to": NUMBER, "context": "My card is", "api_key": KEY}
    logging.getLogger("callmcp.calls.operations").warning("hang_up_failed", extra=fields)

    (event,) = lines(out)
    assert (event["call_id"], event["code"], event["to"]) == ("call_1", "carrier_busy", "+1…67")
    assert "context" not in event
    assert KEY not in out.getvalue()


class BrokenModel(ScriptedModel):
    def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:  # noqa: ARG002
        raise ConnectionError(KEY)


@pytest.mark.anyio
async def test_what_goes_wrong_in_a_call_is_logged_with_the_calls_id(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    world = await build(model=BrokenModel())

    call = await world.place()
    await world.until_over(call)

    failures = [event for event in lines(out) if event["level"] == "error"]
    assert failures
    assert {event["call_id"] for event in failures} == {call.id}
    assert KEY not in out.getvalue()


def test_a_log_that_nobody_reads_any_more_fails_nothing(out: io.StringIO) -> None:
    logs.configure(Settings(), out)
    out.close()

    structlog.get_logger().error("unheard")
    logging.getLogger("uvicorn").error("unheard")


numbers = st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True)
keys = st.from_regex(r"cmcp_[A-Za-z0-9_-]{8,43}", fullmatch=True)
separated = st.text(st.characters(exclude_categories=["Nd", "Nl", "No", "Lu", "Ll", "Cs"]), max_size=20)


@st.composite
def values_around(draw: st.DrawFn, secret: str) -> object:
    text = draw(separated) + secret + draw(separated)
    wraps: st.SearchStrategy[Callable[[object], object]] = st.sampled_from(
        [
            lambda inner: [inner],
            lambda inner: (1, inner),
            lambda inner: {"x": inner},
            lambda inner: {str(inner): 1},
            ValueError,
            lambda inner: str(inner).encode(),
        ]
    )
    value: object = text
    for wrap in draw(st.lists(wraps, max_size=4)):
        value = wrap(value)
    return value


@given(data=st.data(), secret=st.one_of(numbers, keys))
def test_no_number_and_no_key_ever_gets_through(data: st.DataObject, secret: str) -> None:
    value = data.draw(values_around(secret))

    event = logs.redact(None, "info", {"event": f"saw {secret}", "value": value, "exc_info": ValueError(secret)})

    assert secret.removeprefix("+").removeprefix("cmcp_") not in json.dumps(event)
