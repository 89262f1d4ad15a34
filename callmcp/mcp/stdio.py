"""The same tools over standard input and output, for hosts that start their servers themselves.

One JSON-RPC message a line each way (basic/transports, "stdio"); nothing else is ever written to standard output.
There are no headers here: the revision is what `initialize` agreed on, or what a request's own `_meta` names.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from callmcp.identity.model import Principal
from callmcp.mcp import jsonrpc
from callmcp.mcp.errors import Denied, ProtocolError
from callmcp.mcp.jsonrpc import Malformed, Notification, Request
from callmcp.mcp.negotiation import negotiated, revision_without_headers
from callmcp.mcp.revisions import NEWEST_HANDSHAKE, Code, Revision
from callmcp.mcp.server import McpServer

log = structlog.get_logger()

ReadLine = Callable[[], Awaitable[bytes]]
"""The next line with its line break; empty at the end of the input."""

Write = Callable[[bytes], Awaitable[None]]

LAST_ANSWERS_SECONDS = 5  # for what is under way when the input ends


class StdioServer:
    """Serves one client until its input ends. Requests run side by side; answers come as they are ready."""

    def __init__(self, server: McpServer, principal: Principal, *, line_limit: int) -> None:
        self._server = server
        self._principal = principal
        self._line_limit = line_limit
        self._revision: Revision = NEWEST_HANDSHAKE
        self._running: dict[jsonrpc.Id, asyncio.Task[None]] = {}

    async def serve(self, read_line: ReadLine, write: Write) -> None:
        async with asyncio.TaskGroup() as tasks:
            while line := await read_line():
                if line.strip():
                    await self._take(line, write, tasks)
            self._server.stop_waiting()
            await self._last_answers()

    async def _last_answers(self) -> None:
        """The input has ended, so the host wants this process to end. It may not read any more either."""
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=LAST_ANSWERS_SECONDS)
            for task in late:
                task.cancel()

    async def _take(self, line: bytes, write: Write, tasks: asyncio.TaskGroup) -> None:
        if len(line.rstrip(b"\r\n")) > self._line_limit:
            words = f"A message may have at most {self._line_limit} bytes."
            await write(jsonrpc.error(None, Code.INVALID_REQUEST, words))
            return
        try:
            value = jsonrpc.parse(line)
        except ValueError as error:
            await write(jsonrpc.error(None, Code.PARSE_ERROR, f"Parse error: {error}."))
            return
        message = jsonrpc.read(value)
        match message:
            case Malformed(code, words, id_):
                await write(jsonrpc.error(id_, code, words))
            case Notification("notifications/cancelled"):
                self._cancel(value)
            case Request() if message.id in self._running:
                words = "A request with this id is under way; an id names one request."
                await write(jsonrpc.error(message.id, Code.INVALID_REQUEST, words))
            case Request():
                if message.method == "initialize":
                    self._revision = negotiated(message.params)
                task = tasks.create_task(self._answer(message, write))
                self._running[message.id] = task
                task.add_done_callback(lambda _: self._running.pop(message.id, None))
            case _:
                pass

    def _cancel(self, value: dict[str, Any]) -> None:
        params = value.get("params")
        id_ = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(id_, str | int) and (task := self._running.get(id_)) is not None:
            task.cancel()

    async def _answer(self, request: Request, write: Write) -> None:
        try:
            revision = revision_without_headers(request, self._revision)
            encoded = await self._server.answer(request, revision, self._authenticate)
        except ProtocolError as error:
            answer = jsonrpc.error(request.id, error.code, error.message, error.data)
        except Denied as denied:
            answer = jsonrpc.error(request.id, Code.INVALID_REQUEST, str(denied), {"code": denied.cause.code})
        except Exception:
            log.exception("request failed", method=request.method)
            answer = jsonrpc.error(request.id, Code.INTERNAL_ERROR, "The server failed; its log has the details.")
        else:
            answer = jsonrpc.result(request.id, encoded)
        await write(answer)

    async def _authenticate(self) -> Principal:
        return self._principal
