"""What the server says of itself, as bytes made once: `initialize`, `server/discover` and the lists.

Nothing here depends on who asks, so a stateless revision may cache it as public.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from callmcp import __version__
from callmcp.mcp import jsonrpc
from callmcp.mcp.revisions import HANDSHAKE, REVISIONS, STATELESS, Revision
from callmcp.mcp.schema import schema_of
from callmcp.mcp.tools import TOOLS, Tool

TTL_MS = 300_000
PAGE_SIZE = 50
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
INSTRUCTIONS = (
    "This server places real outbound phone calls through voice agents. list_agents says which agents there are; "
    "make_call(agent_id, to, context) dials and returns a call_id at once; get_call(call_id, wait_seconds=50) waits "
    "for the call and returns what was said, who answered and whether the goal was met; end_call stops a call; "
    "list_calls finds calls. Every result has next_step, which says what to do. Give make_call an idempotency_key "
    "and, after a time-out, repeat the same request with the same key: it never dials twice. Calling a tool needs an "
    "API key from whoever runs this server, sent as 'Authorization: Bearer cmcp_...', or a login by OAuth where the "
    "server offers one."
)


def server_info() -> dict[str, str]:
    return {"name": "callmcp", "title": "CallMCP", "version": __version__}


def tool_definition(tool: Tool) -> dict[str, Any]:
    """A tool as tools/list shows it (2025-11-25, server/tools, "Data Types")."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": schema_of(tool.arguments),
        "outputSchema": schema_of(tool.result, output=True),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
    }


def stamped(result: Mapping[str, Any], revision: Revision, *, cacheable: bool = False) -> dict[str, Any]:
    """The result with what its revision wants on every result."""
    if not revision.stateless:
        return dict(result)
    meta = {**result.get("_meta", {}), SERVER_INFO_KEY: server_info()}
    caching = {"ttlMs": TTL_MS, "cacheScope": "public"} if cacheable else {}
    return {**result, "resultType": "complete", **caching, "_meta": meta}


class Catalog:
    """Answers to everything that is public, encoded. `pages` of a list are found by method, revision and cursor."""

    def __init__(self, *, page_size: int = PAGE_SIZE) -> None:
        capabilities: dict[str, dict[str, Any]] = {"logging": {}, "prompts": {}, "resources": {}, "tools": {}}
        lists: dict[str, tuple[str, Sequence[Any]]] = {
            "tools/list": ("tools", [tool_definition(tool) for tool in TOOLS]),
            "prompts/list": ("prompts", []),
            "resources/list": ("resources", []),
            "resources/templates/list": ("resourceTemplates", []),
        }
        self._pages: dict[tuple[str, str, str | None], bytes] = {}
        for revision in REVISIONS.values():
            for method, (member, entries) in lists.items():
                for cursor, page in _paged(member, entries, page_size):
                    encoded = jsonrpc.encode(stamped(page, revision, cacheable=True))
                    self._pages[method, revision.version, cursor] = encoded
        self.lists = frozenset(lists)
        about = {"capabilities": capabilities, "instructions": INSTRUCTIONS}
        self._initialize = {
            version: jsonrpc.encode({"protocolVersion": version, "serverInfo": server_info(), **about})
            for version in HANDSHAKE
        }
        stateless_capabilities = {name: value for name, value in capabilities.items() if name != "logging"}
        discovery = {**about, "capabilities": stateless_capabilities, "supportedVersions": list(STATELESS)}
        self._discover = {
            revision.version: jsonrpc.encode(stamped(discovery, revision, cacheable=True))
            for revision in STATELESS.values()
        }

    def page(self, method: str, revision: Revision, cursor: str | None) -> bytes | None:
        """One page of a list, None when there is no such cursor."""
        return self._pages.get((method, revision.version, cursor))

    def initialize(self, revision: Revision) -> bytes:
        return self._initialize[revision.version]

    def discover(self, revision: Revision) -> bytes:
        return self._discover[revision.version]


def _paged(member: str, entries: Sequence[Any], size: int) -> list[tuple[str | None, dict[str, Any]]]:
    pages: list[tuple[str | None, dict[str, Any]]] = []
    for start in range(0, max(len(entries), 1), size):
        page: dict[str, Any] = {member: list(entries[start : start + size])}
        if start + size < len(entries):
            page["nextCursor"] = _cursor(member, start + size)
        pages.append((_cursor(member, start) if start else None, page))
    return pages


def _cursor(member: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{member}:{start}".encode()).decode().rstrip("=")
