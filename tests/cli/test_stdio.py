import json
import signal
from typing import IO, Any

import pytest

from tests.cli.conftest import PATIENCE, Start

CALL = {"name": "make_call", "arguments": {"agent_id": "agt_9f2a1c", "to": "+12025550101"}}


def said(pipe: IO[str] | None, message: dict[str, Any]) -> None:
    assert pipe is not None
    pipe.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    pipe.flush()


def heard(pipe: IO[str] | None) -> dict[str, Any]:
    assert pipe is not None
    answer: dict[str, Any] = json.loads(pipe.readline())
    return answer


def test_a_host_without_a_database_lists_and_calls_at_once(start: Start) -> None:
    process = start("stdio")

    said(process.stdin, {"id": 1, "method": "tools/list"})
    tools = heard(process.stdout)["result"]["tools"]
    said(process.stdin, {"id": 2, "method": "tools/call", "params": CALL})
    call = heard(process.stdout)["result"]["structuredContent"]

    assert "make_call" in {tool["name"] for tool in tools}
    assert call["to"] == "+12025550101"
    out, err = process.communicate(timeout=PATIENCE)  # closes its standard input, which ends it
    assert (process.returncode, out) == (0, "")
    assert "+12025550101" not in err


def test_a_host_may_do_no_more_than_it_was_given(start: Start) -> None:
    process = start("stdio", "--scope", "agents:read")

    said(process.stdin, {"id": 1, "method": "tools/call", "params": CALL})

    assert "calls:write" in json.dumps(heard(process.stdout))


def test_a_line_that_is_too_long_is_refused_and_the_next_one_read(start: Start) -> None:
    process = start("stdio", CALLMCP_BODY_LIMIT="1024")

    said(process.stdin, {"id": 1, "method": "ping", "params": {"x": "y" * 5000}})
    said(process.stdin, {"id": 2, "method": "ping"})

    refused, answered = heard(process.stdout), heard(process.stdout)
    assert "1024 bytes" in refused["error"]["message"]
    assert answered["id"] == 2
    assert "result" in answered


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_fault(start: Start, number: signal.Signals) -> None:
    process = start("stdio")
    said(process.stdin, {"id": 1, "method": "ping"})
    heard(process.stdout)

    process.send_signal(number)

    assert process.wait(timeout=PATIENCE) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("option", "words"), [("--account", "There is no account"), ("--agent", "There is no voice agent")]
)
def test_nothing_to_serve_with_is_one_line(start: Start, option: str, words: str) -> None:
    process = start("stdio", option, "nobody's")

    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert err.startswith(f"callmcp: {words}")
