"""Talks over Twilio that meet what talks meet: machines, breaks, a server that dies, one that is replaced."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.front import front
from tests.acceptance.mcp_client import Mcp
from tests.acceptance.server import Server
from tests.acceptance.test_twilio import TALKS, a_number, heard
from tests.acceptance.twilio import Twilio, ended, free_port, free_ports, on_twilio, twilio

# A callee who is there again when the agent is.
GOES_ON = [*TALKS[:2], {"do": "listen"}, {"do": "listen", "for": "cut off"}, {"do": "listen"}, *TALKS[3:]]
RESUMED = "I am sorry, we were cut off for a moment. I am here again."


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


def said(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(turn["speaker"], turn["text"]) for turn in record["transcript"]]


def test_a_message_is_left_after_the_greeting_and_is_in_the_transcript(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee="voicemail")
    message = "Please call Example Clinic back, I am an AI."

    record = ended(mcp, mcp.place(to, voicemail_message=message)["call_id"])

    assert (record["status"], record["answered_by"], record["end_reason"]) == ("completed", "machine", "machine")
    assert record["voicemail_left"] is True
    assert record["outcome"]["goal_met"] == "no"
    assert "left" in record["next_step"]
    assert said(record)[-1] == ("agent", f"This is an AI assistant calling for somebody who tries CallMCP. {message}")
    assert said(record) == heard(carrier.call_to(to))


def test_a_talk_whose_connection_broke_goes_on_where_it_was(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    cut = {"switch": "relay-cut", "words": 25, "times": 1}
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": GOES_ON}, chaos=[cut])

    record = ended(mcp, mcp.place(to, context="Ask whether Friday at seven is fine.")["call_id"])

    assert (record["status"], record["end_reason"], record["outcome"]["goal_met"]) == (
        "completed",
        "agent-hung-up",
        "yes",
    )
    words = [text for _, text in said(record)]
    assert sum("CallMCP demo assistant" in text for text in words) == 1  # nobody is greeted twice
    assert any(RESUMED in text for text in words)
    assert carrier.dials(to) == 1


def test_a_call_goes_on_in_another_process_when_its_own_is_killed(
    carrier: Twilio, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data: Path = tmp_path_factory.mktemp("killed")
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": GOES_ON})
    ports = free_ports(2)
    with (
        front(ports) as port,
        on_twilio(data, carrier, port=ports[0], public_url=f"http://127.0.0.1:{port}") as first,
        on_twilio(
            data, carrier, port=ports[1], public_url=f"http://127.0.0.1:{port}", key=first.first_key, name="other"
        ),
        # Past the front, whose address both print: a connection through it to the one that is killed is broken too.
        Mcp(f"http://127.0.0.1:{ports[0]}", first.first_key) as on_first,
        Mcp(f"http://127.0.0.1:{ports[1]}", first.first_key) as mcp,
    ):
        call_id = on_first.place(to, context="Ask whether Friday at seven is fine.")["call_id"]
        mcp.until(call_id, lambda record: len(record["transcript"]) >= 2, seconds=10)
        first.kill()

        record = ended(mcp, call_id)

    assert (record["status"], record["end_reason"]) == ("completed", "agent-hung-up")
    assert record["outcome"]["goal_met"] == "yes"
    texts = [text for _, text in said(record)]
    assert sum("CallMCP demo assistant" in text for text in texts) == 1
    assert RESUMED in texts
    assert texts[-1].endswith("Goodbye!")
    told = heard(carrier.call_to(to))
    assert [turn for turn in said(record) if turn in told] == said(record)  # what is recorded was heard
    assert carrier.dials(to) == 1


def test_a_restart_for_a_new_version_drops_no_call(tmp_path: Path) -> None:
    to = a_number()
    port = free_port()
    with twilio("--speed", "5") as carrier:
        carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": GOES_ON})
        with on_twilio(tmp_path, carrier, port=port, restart_seconds=30) as old, Mcp(old.base, old.first_key) as mcp:
            call_id = mcp.place(to, context="Ask whether Friday at seven is fine.")["call_id"]
            mcp.until(call_id, lambda record: len(record["transcript"]) >= 2, seconds=20)
            old.stop()
        with on_twilio(tmp_path, carrier, port=port, key=old.first_key) as new, Mcp(new.base, old.first_key) as mcp:
            record = ended(mcp, call_id, seconds=60)

        told = heard(carrier.call_to(to, wait=20))
        assert carrier.dials(to) == 1
    assert (record["status"], record["end_reason"], record["outcome"]["goal_met"]) == (
        "completed",
        "agent-hung-up",
        "yes",
    )
    assert [turn for turn in said(record) if turn in told] == said(record)
