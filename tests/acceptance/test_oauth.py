"""Clients that other people wrote get from a 401 to a placed call, by OAuth, on a real socket.

The person's part is done by hand, as a browser would, or in headless Chromium where CALLMCP_TEST_BROWSER is set
(scripts/check-long); so are mcp-remote and the Inspector, which take a minute.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import mcp
import pytest
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.acceptance import peers
from tests.acceptance.person import Person, by_hand, with_chromium
from tests.acceptance.server import Server, callmcp, running
from tests.acceptance.test_clients import node

BROWSER = bool(os.environ.get("CALLMCP_TEST_BROWSER"))
PERSON: Person = with_chromium if BROWSER else by_hand
in_a_browser = pytest.mark.skipif(not BROWSER, reason="a minute, and a browser: scripts/check-long")
READ = ("agents:read", "calls:read")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?\S+")


@dataclass(frozen=True)
class Client:
    name: str
    program: str
    mode: str


CLIENTS = [
    Client("Python SDK 2.x, initialize", "oauth.py", "legacy"),
    Client("Python SDK 2.x, stateless", "oauth.py", "2026-07-28"),
    Client("Python SDK 1.x", "oauth.py", "1.x"),
    Client("TypeScript SDK 1.x", "oauth.mjs", "sdk-1"),
    Client("TypeScript client 2.x, initialize", "oauth.mjs", "legacy"),
    Client("TypeScript client 2.x, stateless", "oauth.mjs", "2026-07-28"),
]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("data"), simulator_speed=50) as server:
        yield server


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.key("calls:write", "agents:read")


@each_client
def test_a_client_without_a_key_gets_from_a_401_to_a_placed_call(client: Client, server: Server, key: str) -> None:
    seen, asked = journey(client, server.endpoint, key, [()])

    assert "make_call" in seen["tools"]
    assert asked == 1
    assert {"calls:write", "agents:read"} <= set(seen["first_scope"].split())
    assert not seen["placed"]["error"]
    assert seen["record"]["structured"]["call_id"] == seen["placed"]["structured"]["call_id"]


# The TypeScript SDK 1.x answers a 403 by refreshing, which gives no scope that was not granted, and then gives up.
@pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.mode != "sdk-1"], ids=lambda client: client.name
)
def test_a_client_with_less_comes_back_for_more(client: Client, server: Server, key: str) -> None:
    seen, asked = journey(client, server.endpoint, key, [READ, ()])

    assert asked == 2
    assert "calls:write" not in seen["first_scope"].split()
    assert "calls:write" in seen["last_scope"].split()
    assert not seen["placed"]["error"]


def journey(client: Client, endpoint: str, key: str, answers: list[tuple[str, ...]]) -> tuple[dict[str, Any], int]:
    """What the client saw, and how often a person was asked, who answers in turn with these scopes (all: none)."""
    asked = 0

    def person(address: str) -> None:
        nonlocal asked
        asked += 1
        assert asked < 5, "the client asks again and again"
        PERSON(address, key, answers[min(asked, len(answers)) - 1])

    with started(command(client, endpoint)) as process:
        return said(process, person), asked


def said(process: subprocess.Popen[str], person: Callable[[str], object]) -> dict[str, Any]:
    """The next JSON document that a client prints; the person goes where it says before."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("{") and line.rstrip().endswith("}"):
            document: dict[str, Any] = json.loads(line)
            return document
        if address := ADDRESS.search(line):
            person(address[0])
    pytest.fail("".join(lines)[-4000:])


def command(client: Client, endpoint: str) -> list[str]:
    words = [str(peers.CLIENTS / client.program), endpoint, client.mode]
    match client.program, client.mode:
        case "oauth.mjs", _:
            return [str(node()), *words]
        case _, "1.x":
            return [str(peers.python_1()), *words]
        case _:
            return [sys.executable, *words]


@contextmanager
def started(command: list[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """In a home of its own, so that nothing that it keeps is found by the next; killed at the end."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "BROWSER": "true", **variables}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


class Memory:
    """Where the SDK keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_without_a_person_places_a_call_by_its_secret(
    server: Server, method: Literal["client_secret_basic", "client_secret_post"]
) -> None:
    scopes = ["--scope", "calls:write", "--scope", "agents:read"]
    made = json.loads(callmcp("clients", "add", "nightly", *scopes, "--json", data=server.data))
    provider = ClientCredentialsOAuthProvider(
        server_url=server.endpoint,
        storage=Memory(),
        client_id=made["client_id"],
        client_secret=made["client_secret"],
        token_endpoint_auth_method=method,
        issuer=server.base,
    )
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        mcp.Client(streamable_http_client(server.endpoint, http_client=http)) as client,
    ):
        placed = await client.call_tool("make_call", {"agent_id": "agt_9f2a1c", "to": "+12025550100"})

    assert placed.structured_content is not None
    assert placed.structured_content["call_id"].startswith("call_")


@in_a_browser
def test_mcp_remote_gets_from_a_401_to_a_placed_call(server: Server, key: str) -> None:
    remote = peers.CLIENTS / "node_modules/mcp-remote/dist/proxy.js"
    with started([str(node()), str(remote), server.endpoint]) as process:

        def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
            assert process.stdin is not None
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            print(json.dumps(message), file=process.stdin, flush=True)
            answer = said(process, lambda address: PERSON(address, key, ()))
            assert answer["id"] == number
            result: dict[str, Any] = answer["result"]
            return result

        ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "a", "version": "1"})
        agents = ask(2, "tools/call", name="list_agents", arguments={})["structuredContent"]["agents"]
        to = {"agent_id": agents[0]["agent_id"], "to": "+12025550100"}
        placed = ask(3, "tools/call", name="make_call", arguments=to)
        assert placed["structuredContent"]["call_id"].startswith("call_")


@in_a_browser
def test_the_inspector_gets_from_a_401_to_a_placed_call(server: Server, key: str) -> None:
    inspector = peers.CLIENTS / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    options = ["--cli", server.endpoint, "--transport", "http", "--format", "json", "--method", "tools/call"]
    options += ["--tool-name", "make_call"]
    options += ["--tool-args-json", json.dumps({"agent_id": "agt_9f2a1c", "to": "+12025550100"})]
    with started([str(node()), str(inspector), *options], MCP_AUTO_OPEN_ENABLED="true") as process:
        result = said(process, lambda address: PERSON(address, key, ()))["result"]
        assert result["structuredContent"]["call_id"].startswith("call_")
