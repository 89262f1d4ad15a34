"""The official Python SDK as a client that has no key, 1.x or 2.x, whichever the interpreter has.

oauth.py ENDPOINT MODE

Prints `AUTHORIZE <address>` each time a person's browser is needed, and at the end one JSON document of what it saw.
"""
# ruff: noqa: PLC0415 -- each line of the SDK has imports that the other lacks

import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

ENDPOINT, MODE = sys.argv[1:3]
OLD = version("mcp").startswith("1.")
COOPERATES = "+12025550100"
CAME_BACK: Queue[dict[str, list[str]]] = Queue()


class Callback(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"Done. You can close this page.")
        if self.path.startswith("/callback?"):  # a browser asks for an icon too
            CAME_BACK.put(parse_qs(urlsplit(self.path).query))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Memory:
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


async def to_browser(address: str) -> None:
    sys.stdout.write(f"AUTHORIZE {address}\n")
    sys.stdout.flush()


async def came_back() -> Any:
    said = await anyio.to_thread.run_sync(CAME_BACK.get)
    code, state = said["code"][0], said.get("state", [None])[0]
    if OLD:
        return code, state
    from mcp.shared.auth import AuthorizationCodeResult

    return AuthorizationCodeResult(code=code, state=state, iss=said.get("iss", [None])[0])


@asynccontextmanager
async def connected(provider: Any) -> AsyncIterator[Any]:
    if OLD:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # 1.x alone has it

        async with (
            streamablehttp_client(ENDPOINT, auth=provider) as (read, write, _),
            ClientSession(read, write) as one,
        ):
            await one.initialize()
            yield one
        return
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(ENDPOINT, http_client=http), mode=MODE) as two,
    ):
        yield two


async def call(client: Any, tool: str, **arguments: object) -> dict[str, Any]:
    result = (await client.call_tool(tool, arguments)).model_dump(by_alias=True)
    return {"error": bool(result["isError"]), "structured": result["structuredContent"]}


async def journey() -> dict[str, Any]:
    server = HTTPServer(("127.0.0.1", 0), Callback)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    memory = Memory()
    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "Acceptance", "redirect_uris": [f"http://127.0.0.1:{server.server_port}/callback"]}
    )
    provider = OAuthClientProvider(
        server_url=ENDPOINT,
        client_metadata=metadata,
        storage=memory,
        redirect_handler=to_browser,
        callback_handler=came_back,
    )
    seen: dict[str, Any] = {}
    async with connected(provider) as client:
        seen["tools"] = [tool["name"] for tool in (await client.list_tools()).model_dump(by_alias=True)["tools"]]
        seen["agents"] = await call(client, "list_agents")
        agent = seen["agents"]["structured"]["agents"][0]["agent_id"]
        seen["first_scope"] = memory.tokens and memory.tokens.scope
        seen["placed"] = await call(client, "make_call", agent_id=agent, to=COOPERATES)
        seen["last_scope"] = memory.tokens and memory.tokens.scope
        seen["record"] = await call(client, "get_call", call_id=seen["placed"]["structured"]["call_id"])
    return seen


json.dump(anyio.run(journey), sys.stdout)
