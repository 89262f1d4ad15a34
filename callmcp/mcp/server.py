"""One request in, one answer out: what HTTP and stdio have in common. Knows no transport."""

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from callmcp.errors import CallMcpError
from callmcp.identity.model import Principal
from callmcp.mcp import catalog as about
from callmcp.mcp import jsonrpc, tools
from callmcp.mcp.errors import META_KEY, ProtocolError, error_result
from callmcp.mcp.jsonrpc import Request
from callmcp.mcp.negotiation import negotiated
from callmcp.mcp.revisions import Code, Revision
from callmcp.wire import text_of

log = structlog.get_logger()

Authenticate = Callable[[], Awaitable[Principal]]
"""Who sent this request. Raises Unauthenticated. Asked only for `tools/call`: discovery is for everybody."""


class McpServer:
    """The methods of the protocol over the tools."""

    def __init__(self, world: tools.World, *, catalog: about.Catalog | None = None) -> None:
        self._world = world
        self._catalog = catalog or about.Catalog()

    async def answer(self, request: Request, revision: Revision, authenticate: Authenticate) -> bytes:
        """The encoded result of a request.

        Raises ProtocolError for a JSON-RPC error, Denied when the credential does not do.
        """
        method = request.method
        if method not in revision.methods:
            raise ProtocolError(Code.METHOD_NOT_FOUND, f"There is no method {method[:100]!r} in {revision.version}.")
        if method in self._catalog.lists:
            return self._list(request, revision)
        match method:
            case "tools/call":
                return await self._call(request, revision, authenticate)
            case "initialize":
                return self._catalog.initialize(negotiated(request.params))
            case "server/discover":
                return self._catalog.discover(revision)
            case "resources/read":
                uri = request.params.get("uri")
                raise ProtocolError(revision.unknown_resource, "There are no resources here.", {"uri": uri})
            case "prompts/get":
                raise ProtocolError(Code.INVALID_PARAMS, "There are no prompts here.")
            case _:  # ping, logging/setLevel
                return b"{}"

    def stop_waiting(self) -> None:
        """Lets requests that wait for a call have it as it stands: nobody will be here for longer."""
        self._world.calls.stop_waiting()

    def _list(self, request: Request, revision: Revision) -> bytes:
        cursor = request.params.get("cursor")
        page = self._catalog.page(request.method, revision, cursor) if isinstance(cursor, str | None) else None
        if page is None:
            raise ProtocolError(Code.INVALID_PARAMS, "cursor: it is not one that this list returned; leave it out.")
        return page

    async def _call(self, request: Request, revision: Revision, authenticate: Authenticate) -> bytes:
        started = time.perf_counter()
        outcome = "failed"
        name = request.params.get("name")
        with structlog.contextvars.bound_contextvars(request_id=secrets.token_hex(6)):
            try:
                principal = await authenticate()
                tool, arguments = _tool_and_arguments(request.params)
                encoded, outcome = await self._run(tool, arguments, principal, revision)
            except ProtocolError as error:
                outcome = str(int(error.code))
                raise
            except CallMcpError as error:
                outcome = error.code
                encoded = jsonrpc.encode(about.stamped(error_result(error, revision), revision))
            finally:
                known = tools.BY_NAME.get(name) if isinstance(name, str) else None
                # Who waits for a call reads it again and again: at info that would drown what happened to it.
                tell = log.debug if outcome == "ok" and known is not None and known.read_only else log.info
                tell(
                    "tool called",
                    tool=known and known.name,
                    outcome=outcome,
                    revision=revision.version,
                    ms=round((time.perf_counter() - started) * 1000, 1),
                )
        return encoded

    async def _run(
        self, tool: tools.Tool, arguments: dict[str, Any], principal: Principal, revision: Revision
    ) -> tuple[bytes, str]:
        result = await tools.call(tool, self._world, principal, arguments)
        dumped = result.view.dumped()
        answer: dict[str, Any] = {"content": [{"type": "text", "text": text_of(dumped)}], "structuredContent": dumped}
        if result.error_code is not None:
            words = dumped["error"]["message"]
            answer["content"][0]["text"] = f"Error {result.error_code}: {words}\n\n{answer['content'][0]['text']}"
            answer |= {"isError": True, "_meta": {META_KEY: {"code": result.error_code}}}
        return jsonrpc.encode(about.stamped(answer, revision)), result.error_code or "ok"


def _tool_and_arguments(params: dict[str, Any]) -> tuple[tools.Tool, dict[str, Any]]:
    name = params.get("name")
    if not isinstance(name, str):
        raise ProtocolError(Code.INVALID_PARAMS, 'tools/call needs "name", the name of a tool, as a string.')
    tool = tools.BY_NAME.get(name)
    if tool is None:
        known = ", ".join(tools.BY_NAME)
        raise ProtocolError(Code.INVALID_PARAMS, f"Unknown tool: {name[:100]!r}. The tools are {known}.")
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ProtocolError(Code.INVALID_PARAMS, '"arguments" must be a JSON object.')
    return tool, arguments
