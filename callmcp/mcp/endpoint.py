"""Streamable HTTP: `POST /mcp`, one JSON-RPC message in, one JSON answer out; both eras, no sessions, no streams.

A bare ASGI application rather than Starlette's Request and Response: discovery is crawled, and half of a request's time
would go into making objects that nobody looks at.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import structlog
from starlette.types import Receive, Scope, Send

from callmcp.errors import Forbidden, Unauthenticated
from callmcp.identity.model import Principal
from callmcp.mcp import jsonrpc
from callmcp.mcp.errors import Denied, ProtocolError
from callmcp.mcp.jsonrpc import Malformed, Message, Request
from callmcp.mcp.negotiation import Headers, header, is_stateless, revision_of
from callmcp.mcp.origins import PREFLIGHT, Hosts, Origins
from callmcp.mcp.revisions import ASSUMED, NEWEST_HANDSHAKE, NEWEST_STATELESS, REVISIONS, Code
from callmcp.mcp.server import McpServer

log = structlog.get_logger()

Authenticate = Callable[[Headers], Awaitable[Principal]]
Challenge = Callable[[Unauthenticated | Forbidden], str]

_JSON = (b"content-type", b"application/json")


class _Answer(Exception):
    """Ends the handling of a request with this response."""

    def __init__(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}


class McpEndpoint:
    """The ASGI application at `/mcp`. `challenge` words the WWW-Authenticate of a refusal."""

    def __init__(
        self,
        server: McpServer,
        *,
        authenticate: Authenticate,
        challenge: Challenge,
        origins: Origins,
        hosts: Hosts,
        body_limit: int,
    ) -> None:
        self._server = server
        self._authenticate = authenticate
        self._challenge = challenge
        self._origins = origins
        self._hosts = hosts
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        origin = header(headers, b"origin")
        try:
            self._admit(headers, origin)
            if scope["method"] != "POST":
                _other_method(scope["method"])
            body = await self._read(headers, receive)
            status, answer = await self._handle(body, headers)
            await _send(send, status, answer, [], origin)
        except _Answer as answered:
            extra = [(name.lower().encode(), value.encode("latin-1")) for name, value in answered.headers.items()]
            allowed = origin if origin is not None and self._origins.allows(origin) else None
            await _send(send, answered.status, b"" if scope["method"] == "HEAD" else answered.body, extra, allowed)

    def _admit(self, headers: Headers, origin: str | None) -> None:
        host = header(headers, b"host") or ""
        if not self._hosts.allows(host):
            _refuse(
                403, f"This server is not known as {host[:100]!r}; its settings allowed_hosts and public_url say how."
            )
        if origin is not None and not self._origins.allows(origin):
            _refuse(
                403, f"Pages of the origin {origin[:100]!r} may not use this server; set allowed_origins to let them."
            )

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        declared = header(headers, b"content-length")
        if declared is not None and declared.isdecimal() and int(declared[:20]) > self._body_limit:
            self._too_large()
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Answer(400)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._body_limit:
                self._too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> NoReturn:
        words = f"The body may have at most {self._body_limit} bytes."
        raise _Answer(413, jsonrpc.error(None, Code.INVALID_REQUEST, words), {"Connection": "close"})

    async def _handle(self, body: bytes, headers: Headers) -> tuple[int, bytes]:
        try:
            value = jsonrpc.parse(body)
        except ValueError as error:
            raise _Answer(400, jsonrpc.error(None, Code.PARSE_ERROR, f"Parse error: {error}.")) from None
        if isinstance(value, list):
            return await self._batch(value, headers)
        return await self._one(jsonrpc.read(value), headers)

    async def _one(self, message: Message, headers: Headers) -> tuple[int, bytes]:
        if isinstance(message, Malformed):
            status = 400 if message.code is Code.INVALID_REQUEST else 200
            return status, jsonrpc.error(message.id, message.code, message.message)
        if not isinstance(message, Request):
            return 202, b""
        revision = NEWEST_HANDSHAKE
        try:
            revision = revision_of(message, headers)
            encoded = await self._server.answer(message, revision, lambda: self._authenticate(headers))
        except ProtocolError as error:
            if revision is NEWEST_HANDSHAKE and is_stateless(message, headers):
                revision = NEWEST_STATELESS
            return revision.status(error.code), jsonrpc.error(message.id, error.code, error.message, error.data)
        except Denied as denied:
            self._deny(denied.cause, message)
        except Exception:
            log.exception("request failed", method=message.method)
            words = jsonrpc.error(message.id, Code.INTERNAL_ERROR, "The server failed; its log has the details.")
            raise _Answer(500, words) from None
        return 200, jsonrpc.result(message.id, encoded)

    def _deny(self, cause: Unauthenticated | Forbidden, request: Request) -> NoReturn:
        status = 401 if isinstance(cause, Unauthenticated) else 403
        body = jsonrpc.error(request.id, Code.INVALID_REQUEST, cause.message, {"code": cause.code})
        raise _Answer(status, body, {"WWW-Authenticate": self._challenge(cause)})

    async def _batch(self, values: list[Any], headers: Headers) -> tuple[int, bytes]:
        version = header(headers, b"mcp-protocol-version")
        revision = ASSUMED if version is None else REVISIONS.get(version)
        if revision is None or not revision.batches:
            _refuse(400, "This revision of the protocol has no batches: send one message a request.")
        if not 1 <= len(values) <= jsonrpc.MAX_BATCH:
            _refuse(400, f"A batch has 1 to {jsonrpc.MAX_BATCH} messages.")
        answers = []
        for value in values:
            message = jsonrpc.read(value)
            if isinstance(message, Request) and message.method == "tools/call":
                message = Malformed(Code.INVALID_REQUEST, "tools/call cannot stand in a batch.", message.id)
            _, answer = await self._one(message, headers)
            if answer:
                answers.append(answer)
        return (200, jsonrpc.batch(answers)) if answers else (202, b"")


def _other_method(method: str) -> NoReturn:
    if method == "OPTIONS":
        raise _Answer(204, headers={"Allow": "POST, OPTIONS", **PREFLIGHT})
    words = "Send JSON-RPC messages with POST; this server opens no streams and keeps no sessions."
    raise _Answer(405, jsonrpc.error(None, Code.INVALID_REQUEST, words), {"Allow": "POST, OPTIONS"})


def _refuse(status: int, words: str) -> NoReturn:
    raise _Answer(status, jsonrpc.error(None, Code.INVALID_REQUEST, words))


async def _send(send: Send, status: int, body: bytes, extra: list[tuple[bytes, bytes]], origin: str | None) -> None:
    headers = [(b"content-length", b"%d" % len(body)), *extra, *Origins.headers(origin)]
    if body:
        headers.append(_JSON)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
