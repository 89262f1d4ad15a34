"""Clients that other people wrote, on a real socket, do the whole job: list, place, wait, read, end.

Each program in clients/ makes the same journey and prints all that its SDK let it see; one test reads it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callmcp.mcp.tools import TOOLS
from tests.acceptance import peers
from tests.acceptance.server import Server, running


@dataclass(frozen=True)
class Client:
    """A program of clients/, the mode it is run in, and the revision it must end up speaking (None: does not say)."""

    name: str
    program: str
    mode: str
    revision: str | None


CLIENTS = [
    Client("Python SDK 2.x, initialize", "python.py", "legacy", "2025-11-25"),
    Client("Python SDK 2.x, probing", "python.py", "auto", "2026-07-28"),
    Client("Python SDK 2.x, stateless", "python.py", "2026-07-28", "2026-07-28"),
    Client("Python SDK 1.x", "python.py", "1.x", "2025-11-25"),
    Client("TypeScript SDK 1.x", "typescript.mjs", "sdk-1", "2025-11-25"),
    Client("TypeScript client 2.x, initialize", "typescript.mjs", "legacy", "2025-11-25"),
    Client("TypeScript client 2.x, stateless", "typescript.mjs", "2026-07-28", "2026-07-28"),
    Client("Inspector, initialize", "inspector.py", "legacy", None),
    Client("Inspector, stateless", "inspector.py", "modern", None),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("data"), simulator_speed=4) as server:
        yield server


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.key("calls:write", "agents:read")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_lists_without_a_key_and_with_one_places_a_call_waits_reads_and_ends(
    client: Client, server: Server, key: str
) -> None:
    seen = journey(client, server.endpoint, key)

    assert seen.get("revision") == client.revision
    assert sorted(seen["tools"]) == sorted(tool.name for tool in TOOLS)
    assert "key" in seen["refusal"] or "401" in seen["refusal"], seen["refusal"]
    assert "not refused" not in seen["refusal"]

    assert [agent["agent_id"] for agent in seen["agents"]["structured"]["agents"]] == ["agt_9f2a1c"]
    assert not seen["placed"]["error"]
    call_id = seen["placed"]["structured"]["call_id"]
    assert call_id in seen["placed"]["text"]

    record = seen["record"]["structured"]
    assert (record["call_id"], record["status"], record["answered_by"]) == (call_id, "completed", "human")
    assert record["outcome"]["goal_met"] == "yes"
    assert record["context"] == "Ask for a table for two."
    assert {turn["speaker"] for turn in record["transcript"]} == {"agent", "callee"}
    for turn in record["transcript"]:
        assert turn["text"] in seen["record"]["text"]  # some clients show their model only the text

    assert seen["ended"]["structured"]["status"] == "canceled"
    assert seen["ended"]["structured"]["end_reason"] == "ended-by-caller"
    assert not seen["ended_again"]["error"]
    assert seen["ended_again"]["structured"]["status"] == "completed"  # ending an ended call changes nothing


def journey(client: Client, endpoint: str, key: str) -> dict[str, Any]:
    """What the client saw, out of a process of its own."""
    done = subprocess.run(command(client, endpoint, key), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def command(client: Client, endpoint: str, key: str) -> list[str]:
    words = [str(peers.CLIENTS / client.program), endpoint, key, client.mode]
    match client.program, client.mode:
        case "typescript.mjs", _:
            return [str(node()), *words]
        case "inspector.py", _:
            return [sys.executable, *words, str(node())]
        case _, "1.x":
            return [str(peers.python_1()), *words]
        case _:
            return [sys.executable, *words]


def node() -> Path:
    try:
        return peers.node()
    except peers.Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have it: {missing}")
        pytest.skip(str(missing))
