"""A client as small as can be, for tests that look at the wire itself."""

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from callmcp.app import Services

STATELESS = "2026-07-28"
ALL = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS)
HANDSHAKE = ALL[:-1]


def meta(version: str = STATELESS) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }


@dataclass
class Rpc:
    """Speaks one revision with one key (None: none)."""

    http: httpx.AsyncClient
    key: str | None = None
    revision: str = "2025-11-25"
    _ids: "itertools.count[int]" = field(default_factory=itertools.count)

    async def send(self, method: str, params: dict[str, Any] | None = None, **headers: Any) -> httpx.Response:
        params = dict(params or {})
        sent = {"content-type": "application/json", "mcp-protocol-version": self.revision}
        if self.key is not None:
            sent["authorization"] = f"Bearer {self.key}"
        if self.revision == STATELESS:
            params["_meta"] = meta()
            sent["mcp-method"] = method
            if "name" in params:
                sent["mcp-name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return await self.http.post("/mcp", content=json.dumps(body), headers={**sent, **headers})

    async def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        response = await self.send(method, params)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def record(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), result
        record: dict[str, Any] = result["structuredContent"]
        return record


@dataclass
class World:
    """A server in this process with two accounts. Alice owns the agent, Bob is her colleague, Carol a stranger."""

    services: Services
    http: httpx.AsyncClient
    agent_id: str
    strangers_agent_id: str
    alice: Rpc
    bob: Rpc
    carol: Rpc
    nobody: Rpc
