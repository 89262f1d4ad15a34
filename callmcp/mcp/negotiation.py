"""Which revision's rules hold for a request. Pure: a request and its headers in, a Revision out.

The era is decided by the body's `_meta` (or a header that names a stateless revision), never by the method's name.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

from callmcp.mcp.errors import ProtocolError
from callmcp.mcp.jsonrpc import Request
from callmcp.mcp.revisions import ASSUMED, HANDSHAKE, NEWEST_HANDSHAKE, REVISIONS, STATELESS, Code, Revision

Headers = Sequence[tuple[bytes, bytes]]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_INFO_KEY = "io.modelcontextprotocol/clientInfo"
_MIRRORED_PARAM = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")


def header(headers: Headers, name: bytes) -> str | None:
    """The first value of a header, None when it is absent. `name` in lower case."""
    # Stripped: uvicorn with httptools leaves white space at the end of a value.
    for given, value in headers:
        if given == name:
            return value.decode("latin-1").strip()
    return None


def negotiated(params: Mapping[str, Any]) -> Revision:
    """What `initialize` asks for if we speak it, else our newest (2025-11-25, basic/lifecycle, "Negotiation")."""
    asked = params.get("protocolVersion")
    return HANDSHAKE.get(asked, NEWEST_HANDSHAKE) if isinstance(asked, str) else NEWEST_HANDSHAKE


def is_stateless(request: Request, headers: Headers) -> bool:
    meta = request.params.get("_meta")
    marked = isinstance(meta, dict) and (_VERSION_KEY in meta or _CAPABILITIES_KEY in meta or _INFO_KEY in meta)
    return marked or header(headers, b"mcp-protocol-version") in STATELESS


def revision_of(request: Request, headers: Headers) -> Revision:
    """For a request over HTTP.

    Raises ProtocolError when it contradicts itself or asks for what we do not speak (2026-07-28,
    basic/transports/streamable-http, "Server Validation").
    """
    version = header(headers, b"mcp-protocol-version")
    if not is_stateless(request, headers):
        if version is None or request.method == "initialize":
            return ASSUMED
        if version not in HANDSHAKE:
            raise _unsupported(version, REVISIONS)
        return HANDSHAKE[version]
    asked = _asked_in_meta(request)
    for name in _ROUTING:
        if sum(1 for given, _ in headers if given == name) > 1:
            raise ProtocolError(Code.HEADER_MISMATCH, f"The header {name.decode()} is there more than once.")
    _must_mirror("MCP-Protocol-Version", version, asked)
    _must_mirror("Mcp-Method", header(headers, b"mcp-method"), request.method)
    if (param := _MIRRORED_PARAM.get(request.method)) is not None and param in request.params:
        _must_mirror("Mcp-Name", _decoded(header(headers, b"mcp-name")), request.params[param])
    return _stateless(asked)


def revision_without_headers(request: Request, agreed: Revision) -> Revision:
    """For a request over stdio, where `agreed` came of `initialize`. Raises ProtocolError."""
    return _stateless(_asked_in_meta(request)) if is_stateless(request, ()) else agreed


def _asked_in_meta(request: Request) -> str:
    meta = request.params.get("_meta")
    asked = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(asked, str) or not isinstance(meta, dict) or not isinstance(meta.get(_CAPABILITIES_KEY), dict):
        raise ProtocolError(
            Code.INVALID_PARAMS, f'params._meta needs "{_VERSION_KEY}", a string, and "{_CAPABILITIES_KEY}", an object.'
        )
    return asked


def _stateless(asked: str) -> Revision:
    if asked not in STATELESS:
        raise _unsupported(asked, STATELESS)
    return STATELESS[asked]


def _must_mirror(name: str, value: str | None, body: object) -> None:
    if value is None:
        raise ProtocolError(Code.HEADER_MISMATCH, f"The header {name} is missing; this revision needs it.")
    if value != body:
        raise ProtocolError(Code.HEADER_MISMATCH, f"The header {name} does not say what the body says.")


def _decoded(value: str | None) -> str | None:
    """A header value, out of its base64 form when it has one (2026-07-28, "Value Encoding")."""
    wrapped = _BASE64.fullmatch(value or "")
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise ProtocolError(Code.HEADER_MISMATCH, "The header Mcp-Name is not the base64 of UTF-8 text.") from None


def _unsupported(requested: str, supported: Mapping[str, Revision]) -> ProtocolError:
    return ProtocolError(
        Code.UNSUPPORTED_VERSION,
        f"This server does not speak the protocol version {requested[:40]!r}.",
        {"supported": list(supported), "requested": requested},
    )
