"""`callmcp stdio` as a host on the same machine starts it: by the official SDK, and by hand at the pipes."""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tests.acceptance.mcp_client import AGENT, structured
from tests.acceptance.server import callmcp, environment

COMMAND = [sys.executable, "-m", "callmcp", "stdio"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SDK_STOPS_WITHIN_SECONDS = 2  # then it terminates the server


@dataclass
class Host:
    """Both ends of the pipes. Every line read must be one JSON-RPC message."""

    process: subprocess.Popen[bytes]
    ids: "itertools.count[int]" = field(default_factory=itertools.count)
    _rest: bytes = b""

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        id_ = next(self.ids)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
        self.write(json.dumps(message).encode())
        return id_

    def read(self, *, seconds: float = 30) -> dict[str, Any]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"nothing came within {seconds} s"
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, "standard output was closed"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, id_: int | None, *, seconds: float = 30) -> dict[str, Any]:
        message = self.read(seconds=seconds)
        assert message["id"] == id_, message
        return message

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return structured(self.answer(self.ask("tools/call", {"name": tool, "arguments": arguments})))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextlib.contextmanager
def host(data: Path, *options: str) -> Iterator[Host]:
    with (data / "stdio.log").open("ab") as log:
        process = subprocess.Popen(
            [*COMMAND, "--data", str(data), *options],
            cwd=data,
            env=environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield Host(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One session for the tests that leave it as it was."""
    with host(tmp_path_factory.mktemp("stdio")) as shared:
        yield shared
        shared.close()
        assert shared.process.wait(10) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_sdk_lists_places_waits_and_ends(tmp_path: Path, mode: Any) -> None:
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--data", str(tmp_path)], env=environment({"simulator_speed": 20})
    )
    with (tmp_path / "stderr").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
            tools = await client.list_tools()
            assert "make_call" in {tool.name for tool in tools.tools}
            arguments = {"agent_id": AGENT, "to": "+12025550100", "context": "Ask for a table."}
            placed = (await client.call_tool("make_call", arguments)).structured_content
            assert placed is not None
            waiting = {"call_id": placed["call_id"], "wait_seconds": 50}
            record = (await client.call_tool("get_call", waiting)).structured_content
            assert record is not None
            assert (record["status"], record["outcome"]["goal_met"]) == ("completed", "yes")
            ended = (await client.call_tool("end_call", {"call_id": placed["call_id"]})).structured_content
            assert ended is not None
            assert ended["status"] == "completed"


def test_both_eras_are_answered_in_one_session(shared: Host) -> None:
    discovered = shared.answer(shared.ask("server/discover", {"_meta": META}))
    assert "2026-07-28" in discovered["result"]["supportedVersions"]
    listed = shared.answer(shared.ask("tools/list", {"_meta": META}))
    assert listed["result"]["resultType"] == "complete"
    greeted = shared.answer(shared.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}))
    assert greeted["result"]["protocolVersion"] == "2025-06-18"
    shared.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert "resultType" not in shared.answer(shared.ask("tools/list"))["result"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
        (b"[" * 100_000, -32700),
        (b'{"a":1,"a":2}', -32700),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'"' + b"x" * 1_100_000 + b'"', -32600),
        (b"x" * 5_000_000, -32600),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else None,
)
def test_a_line_that_is_no_message_is_answered_and_the_session_goes_on(shared: Host, line: bytes, code: int) -> None:
    shared.write(line)
    assert shared.answer(None)["error"]["code"] == code
    shared.answer(shared.ask("ping"))


def test_empty_lines_and_crlf_are_no_errors(shared: Host) -> None:
    shared.write(b"\r")
    shared.write(b"")
    shared.write(b'{"jsonrpc":"2.0","id":"x","method":"ping"}\r')
    assert shared.read()["id"] == "x"


def test_the_host_may_call_and_list_agents_unless_told_otherwise(shared: Host, tmp_path: Path) -> None:
    assert shared.call("list_agents")["agents"]
    assert shared.call("list_calls")["calls"] is not None
    with host(tmp_path, "--scope", "agents:read") as narrow:
        refused = narrow.answer(narrow.ask("tools/call", {"name": "make_call", "arguments": {}}))
        assert refused["error"]["data"]["code"] == "insufficient_scope"
        assert narrow.call("list_agents")["agents"]


def test_a_cancelled_request_is_not_answered_and_a_cancelled_make_call_is_still_placed(shared: Host) -> None:
    call_id = shared.call("make_call", agent_id=AGENT, to="+12025550110")["call_id"]
    waiting = shared.ask("tools/call", {"name": "get_call", "arguments": {"call_id": call_id, "wait_seconds": 50}})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}
    shared.write(json.dumps(cancel).encode())
    shared.answer(shared.ask("ping"))  # the next answer is this one's, not the cancelled one's

    arguments = {"agent_id": AGENT, "to": "+12025550101", "idempotency_key": "cancelled"}
    placing = shared.ask("tools/call", {"name": "make_call", "arguments": arguments})
    shared.write(json.dumps({**cancel, "params": {"requestId": placing}}).encode())
    placed = shared.ask("tools/call", {"name": "make_call", "arguments": arguments})
    while (answer := shared.read())["id"] != placed:
        assert answer["id"] == placing  # it was done before the cancellation came
    ended = shared.call("get_call", call_id=structured(answer)["call_id"], wait_seconds=10)
    assert ended["status"] == "busy"
    assert [call["idempotency_key"] for call in shared.call("list_calls")["calls"][:1]] == ["cancelled"]
    shared.call("end_call", call_id=call_id)


def test_closing_the_input_in_mid_call_answers_who_waits_and_settles_the_call(tmp_path: Path) -> None:
    with host(tmp_path) as session:
        call_id = session.call("make_call", agent_id=AGENT, to="+12025550110")["call_id"]
        waiting = session.ask("tools/call", {"name": "get_call", "arguments": {"call_id": call_id, "wait_seconds": 50}})
        session.answer(session.ask("ping"))
        session.close()
        began = time.monotonic()
        assert structured(session.answer(waiting, seconds=5))["call_id"] == call_id
        assert session.process.wait(5) == 0
        assert time.monotonic() - began < SDK_STOPS_WITHIN_SECONDS
    record = json.loads(callmcp("calls", "show", call_id, "--json", data=tmp_path))
    assert (record["status"], record["end_reason"]) == ("failed", "server-lost")
    assert "Traceback" not in (tmp_path / "stdio.log").read_text()


@pytest.mark.parametrize("end", ["SIGTERM", "end of input"])
def test_a_host_that_does_not_read_cannot_keep_the_process_alive(tmp_path: Path, end: str) -> None:
    with host(tmp_path) as session:
        session.answer(session.ask("ping"))
        for _ in range(30):  # far more than a pipe holds
            session.ask("tools/list")
        time.sleep(0.5)
        if end == "SIGTERM":
            session.process.send_signal(signal.SIGTERM)
        else:
            session.close()
        assert session.process.wait(10) == 0


def test_a_host_that_is_gone_ends_the_process_quietly(tmp_path: Path) -> None:
    with host(tmp_path) as session:
        session.answer(session.ask("ping"))
        assert session.process.stdout is not None
        session.process.stdout.close()
        session.ask("ping")
        session.close()
        assert session.process.wait(10) == 0
    assert "Traceback" not in (tmp_path / "stdio.log").read_text()
