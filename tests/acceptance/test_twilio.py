"""A call over Twilio from end to end: dialled at most once, and a record that says what happened."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.mcp_client import Failed, Mcp
from tests.acceptance.server import Server
from tests.acceptance.twilio import Twilio, ended, free_port, on_twilio, twilio

_numbers = itertools.count(100)


def a_number() -> str:
    """A number that no other test calls. Its last digits mean nothing to the emulator: plans say what happens."""
    return f"+1415555{next(_numbers)}99"


@pytest.fixture(scope="module")
def carrier() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def server(carrier: Twilio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with on_twilio(tmp_path_factory.mktemp("data"), carrier) as server:
        yield server
    log = server.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.fixture(scope="module")
def mcp(server: Server) -> Iterator[Mcp]:
    with Mcp(server.base, server.first_key) as mcp:
        yield mcp


@pytest.fixture(autouse=True)
def _nothing_that_twilio_would_object_to(carrier: Twilio) -> Iterator[None]:
    yield
    state = carrier.state()
    assert state["violations"] == []
    assert state["faults"] == []


def heard(call: dict[str, Any]) -> list[tuple[str, str]]:
    """What the emulator's callee heard and said, as our transcript would have it."""
    return [(turn["by"], turn["text"]) for turn in call["transcript"]]


TALKS = [
    {"do": "listen"},
    {"do": "say", "text": "Hello, who is this?"},
    {"do": "listen"},
    {"do": "say", "text": "Yes, that is fine with me."},
    {"do": "listen"},
    {"do": "say", "text": "No, that is all. Goodbye."},
    {"do": "listen"},
    {"do": "stay"},
]


def test_an_official_client_holds_a_whole_conversation_with_an_interruption(carrier: Twilio, server: Server) -> None:
    to = a_number()
    steps = [{"do": "listen", "words": 4}, {"do": "say", "text": "Sorry, who is this?"}, *TALKS[2:]]
    carrier.plan(to=to, callee={"rings": 2, "amd": "human", "steps": steps})

    async def talk() -> dict[str, Any]:
        import httpx2  # noqa: PLC0415 - what this client is built on

        headers = {"Authorization": f"Bearer {server.first_key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(server.endpoint, http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            arguments = {"agent_id": "agt_9f2a1c", "to": to, "context": "Ask whether Friday at seven is fine."}
            placed = (await session.call_tool("make_call", arguments)).structured_content
            assert placed is not None
            record: dict[str, Any] = placed
            for _ in range(10):
                waiting = {"call_id": placed["call_id"], "wait_seconds": 10}
                record = (await session.call_tool("get_call", waiting)).structured_content or {}
                if record["status"] == "completed":
                    break
            return record

    record = asyncio.run(talk())
    call = carrier.call_to(to)
    assert (record["status"], record["answered_by"], record["end_reason"]) == ("completed", "human", "agent-hung-up")
    assert record["outcome"]["goal_met"] == "yes"
    said = [(turn["speaker"], turn["text"]) for turn in record["transcript"]]
    assert said == heard(call)
    assert said[0][0] == "agent"
    assert len(said[0][1].split()) <= 6  # cut where the callee cut it
    assert carrier.dials(to) == 1


@pytest.mark.parametrize(
    ("outcome", "status", "end_reason"),
    [("busy", "busy", "busy"), ("no-answer", "no-answer", "no-answer"), ("failed", "failed", "carrier-failed")],
)
def test_a_call_that_is_not_answered_says_why(
    carrier: Twilio, mcp: Mcp, outcome: str, status: str, end_reason: str
) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"outcome": outcome, "rings": 1})
    record = ended(mcp, mcp.place(to)["call_id"])
    assert (record["status"], record["end_reason"]) == (status, end_reason)
    assert record["outcome"]["goal_met"] == "no"
    assert "answered_at" not in record


@pytest.mark.parametrize(
    ("to", "code", "carrier_code"),
    [
        ("+15005550001", "invalid_number", "21217"),
        ("+15005550002", "number_unreachable", "21214"),
        ("+15005550003", "country_not_allowed", "21215"),
        ("+15005550004", "number_blocked", "21216"),
    ],
)
def test_what_twilio_refuses_is_told_in_our_words_with_its_code(
    carrier: Twilio, mcp: Mcp, to: str, code: str, carrier_code: str
) -> None:
    with pytest.raises(Failed, match=code):
        mcp.place(to)
    record = next(call for call in mcp.all_calls() if call["to"] == to)
    assert (record["status"], record["end_reason"]) == ("failed", "carrier-refused")
    assert (record["error"]["code"], record["error"]["carrier_code"]) == (code, carrier_code)
    assert carrier.dials(to) == 0


def test_a_voicemail_is_hung_up_on_and_is_no_success(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee="voicemail")
    record = ended(mcp, mcp.place(to)["call_id"])
    assert (record["status"], record["answered_by"], record["end_reason"]) == ("completed", "machine", "machine")
    assert record["outcome"]["goal_met"] == "no"


def test_a_callee_who_hangs_up_is_the_reason(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"amd": "human", "steps": [*TALKS[:2], {"do": "listen"}, {"do": "hang-up"}]})
    record = ended(mcp, mcp.place(to)["call_id"])
    assert (record["status"], record["end_reason"]) == ("completed", "callee-hung-up")
    assert [(turn["speaker"], turn["text"]) for turn in record["transcript"]] == heard(carrier.call_to(to))


def test_a_ringing_call_is_canceled(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"outcome": "no-answer", "rings": 40})
    call_id = mcp.place(to)["call_id"]
    mcp.until(call_id, lambda record: record["status"] == "ringing", seconds=10)
    mcp.call("end_call", call_id=call_id)
    record = ended(mcp, call_id)
    assert record["end_reason"] == "ended-by-caller"
    assert "answered_at" not in record
    assert mcp.call("end_call", call_id=call_id)["status"] == record["status"]


def test_a_talk_is_cut_off_in_the_middle(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"amd": "human", "steps": [*TALKS[:2], {"do": "stay"}]})
    call_id = mcp.place(to)["call_id"]
    mcp.until(call_id, lambda record: len(record["transcript"]) >= 2, seconds=10)
    mcp.call("end_call", call_id=call_id)
    record = ended(mcp, call_id)
    assert (record["status"], record["end_reason"]) == ("completed", "ended-by-caller")
    assert carrier.call_to(to)["status"] == "completed"


# Every switch: no second dial, no answer of 5xx, and an end that is true.
PLACED = ("completed", "agent-hung-up")
NEVER_PLACED = ("failed", "carrier-silent")
SWITCHES: list[tuple[Any, tuple[str, str], int]] = [
    ("rate-limited", PLACED, 1),
    ("close", NEVER_PLACED, 0),
    ("error-500", NEVER_PLACED, 0),
    ("error-503", NEVER_PLACED, 0),
    ("html-502", NEVER_PLACED, 0),
    ("error-500-processed", PLACED, 1),
    ("html-502-processed", PLACED, 1),
    ("reset-processed", PLACED, 1),
    ("callback-first", PLACED, 1),
    ("reorder", PLACED, 1),
    ({"switch": "duplicate", "event": "*"}, PLACED, 1),
    ({"switch": "drop", "event": "initiated"}, PLACED, 1),
    ({"switch": "drop", "event": "ringing"}, PLACED, 1),
    ({"switch": "drop", "event": "answered"}, PLACED, 1),
    ({"switch": "drop", "event": "completed"}, PLACED, 1),
    ({"switch": "forge", "event": "*"}, PLACED, 1),
    ({"switch": "bad-signature", "event": "ringing"}, PLACED, 1),
    ("no-ringing", PLACED, 1),
    ("amd-after-hangup", PLACED, 1),
    ("silent", ("canceled", "expired"), 1),
    ("action-unreachable", PLACED, 1),
    ("relay-refused", ("completed", "carrier-failed"), 1),
    ({"switch": "relay-cut", "words": 3}, ("completed", "server-lost"), 1),
]


@pytest.mark.parametrize(("chaos", "end", "dials"), SWITCHES, ids=[str(switch[0]) for switch in SWITCHES])
def test_whatever_twilio_does_the_call_is_dialled_once_at_most_and_ends_truthfully(
    carrier: Twilio, mcp: Mcp, chaos: Any, end: tuple[str, str], dials: int
) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": TALKS}, chaos=[chaos])
    placed = mcp.place(to, context="Ask whether Friday at seven is fine.", idempotency_key=to)
    assert mcp.place(to, context="Ask whether Friday at seven is fine.", idempotency_key=to)["replayed"]
    record = ended(mcp, placed["call_id"])
    assert (record["status"], record["end_reason"]) == end
    assert carrier.dials(to) == dials
    if end == PLACED:
        assert [(turn["speaker"], turn["text"]) for turn in record["transcript"]] == heard(carrier.call_to(to))


def test_a_request_that_twilio_never_answers_is_unknown_and_then_found(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": TALKS}, chaos=["hang-processed"])
    placed = mcp.place(to)
    assert "Do not place this call again" in placed["next_step"] or placed["status"] != "unknown"
    assert ended(mcp, placed["call_id"])["status"] == "completed"
    assert carrier.dials(to) == 1


def test_a_server_that_was_killed_in_mid_call_dials_nothing_again(
    carrier: Twilio, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data: Path = tmp_path_factory.mktemp("killed")
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": [*TALKS[:2], {"do": "stay"}]})
    port = free_port()
    with on_twilio(data, carrier, port=port) as server, Mcp(server.base, server.first_key) as mcp:
        call_id = mcp.place(to)["call_id"]
        key = server.first_key
        mcp.until(call_id, lambda record: len(record["transcript"]) >= 1, seconds=10)
        server.kill()
    with on_twilio(data, carrier, port=port) as server, Mcp(server.base, key) as mcp:
        record = ended(mcp, call_id)
        assert record["status"] == "completed"
        assert record["end_reason"] in {"server-lost", "carrier-failed"}
        assert record["transcript"]
        assert record["outcome"]["goal_met"] != "yes"
    assert carrier.dials(to) == 1
