"""The official Python SDK as a client, 1.x or 2.x, whichever the interpreter has: python.py ENDPOINT KEY MODE.

MODE is for 2.x: `legacy` (the initialize handshake) or a revision of the stateless era. Prints what test_clients.py
reads: one JSON document of all that the client got to see.
"""
# ruff: noqa: PLC0415 -- each line of the SDK has imports that the other lacks

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol

import anyio
from pydantic import BaseModel

COOPERATES = "+12025550100"
RINGS_FOR_30_SECONDS = "+12025550110"
CONTEXT = "Ask for a table for two."


class Client(Protocol):
    """What 1.x calls ClientSession and 2.x calls Client: results are models with the same names on the wire."""

    async def list_tools(self) -> BaseModel: ...

    async def call_tool(self, name: str, arguments: dict[str, object]) -> BaseModel: ...


@asynccontextmanager
async def connected(endpoint: str, key: str | None, mode: str) -> AsyncIterator[tuple[Client, str]]:
    """A connected client and the revision it speaks."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if version("mcp").startswith("1."):
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # 1.x alone has it

        async with (
            streamablehttp_client(endpoint, headers=headers) as (read, write, _),
            ClientSession(read, write) as one,
        ):
            greeting = (await one.initialize()).model_dump(by_alias=True)
            yield one, greeting["protocolVersion"]
    else:
        import httpx2
        from mcp import Client as Two
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Two(streamable_http_client(endpoint, http_client=http), mode=mode) as two,
        ):
            yield two, two.protocol_version


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = (await client.call_tool(tool, arguments)).model_dump(by_alias=True)
    text = "\n".join(block["text"] for block in result["content"])
    return {"error": bool(result["isError"]), "text": text, "structured": result["structuredContent"]}


def words(failure: BaseException) -> str:
    """What went wrong, out of the groups that task groups wrap around it."""
    if isinstance(failure, BaseExceptionGroup):
        return "; ".join(words(inner) for inner in failure.exceptions)
    return str(failure)


async def refusal(endpoint: str, mode: str) -> str:
    """What a caller without a key is told."""
    try:
        async with connected(endpoint, None, mode) as (client, _):
            return f"not refused: {await call(client, 'list_agents')}"
    except Exception as failure:  # whatever the SDK makes of a 401 is what its user sees
        return words(failure)


async def journey(endpoint: str, key: str, mode: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with connected(endpoint, None, mode) as (client, seen["revision"]):
        seen["tools"] = [tool["name"] for tool in (await client.list_tools()).model_dump(by_alias=True)["tools"]]
    seen["refusal"] = await refusal(endpoint, mode)
    async with connected(endpoint, key, mode) as (client, _):
        seen["agents"] = await call(client, "list_agents")
        agent = seen["agents"]["structured"]["agents"][0]["agent_id"]
        seen["placed"] = await call(client, "make_call", agent_id=agent, to=COOPERATES, context=CONTEXT)
        placed = seen["placed"]["structured"]["call_id"]
        for _ in range(6):
            seen["record"] = await call(client, "get_call", call_id=placed, wait_seconds=20)
            if "ended_at" in seen["record"]["structured"]:
                break
        ringing = await call(client, "make_call", agent_id=agent, to=RINGS_FOR_30_SECONDS)
        seen["ended"] = await call(client, "end_call", call_id=ringing["structured"]["call_id"])
        seen["ended_again"] = await call(client, "end_call", call_id=placed)
    return seen


json.dump(anyio.run(journey, sys.argv[1], sys.argv[2], sys.argv[3]), sys.stdout)
