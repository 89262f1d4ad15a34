"""What differs between the revisions of the protocol, as data. Code asks a Revision; it never compares version texts.

Sources: the specification's pages of each revision (modelcontextprotocol.io/specification/<version>), its schemas, and
for what clients make of them docs/architecture.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class Code(IntEnum):
    """JSON-RPC error codes, those of the protocol among them."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002
    HEADER_MISMATCH = -32020
    UNSUPPORTED_VERSION = -32022


_LISTS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read", "prompts/get"}
)
_HANDSHAKE_METHODS = _LISTS | {"initialize", "ping", "logging/setLevel", "tools/call"}
_STATELESS_METHODS = _LISTS | {"server/discover", "tools/call"}

# With a session, HTTP 404 means "your session is gone" and clients start over, so a handshake revision answers every
# error of a well-formed request with 200.
_HANDSHAKE_STATUSES = {Code.PARSE_ERROR: 400, Code.INVALID_REQUEST: 400, Code.UNSUPPORTED_VERSION: 400}
_STATELESS_STATUSES = {
    Code.PARSE_ERROR: 400,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_PARAMS: 400,
    Code.HEADER_MISMATCH: 400,
    Code.UNSUPPORTED_VERSION: 400,
    Code.METHOD_NOT_FOUND: 404,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision.

    `stateless`: there is no handshake; each request names its revision in `_meta` and mirrors it in headers, and each
    result says its type, who served it and how long a list may be cached.
    `argument_errors_are_results`: bad tool arguments are told to the model (an error result), not to the client.
    """

    version: str
    stateless: bool = False
    batches: bool = False
    argument_errors_are_results: bool = True
    unknown_resource: Code = Code.RESOURCE_NOT_FOUND
    methods: frozenset[str] = _HANDSHAKE_METHODS
    statuses: Mapping[Code, int] = field(default_factory=lambda: _HANDSHAKE_STATUSES)

    def status(self, code: Code) -> int:
        """The HTTP status that goes with a JSON-RPC error code."""
        return self.statuses.get(code, 200)


_ALL = (
    Revision(version="2024-11-05", batches=True, argument_errors_are_results=False),
    Revision(version="2025-03-26", batches=True, argument_errors_are_results=False),
    Revision(version="2025-06-18", argument_errors_are_results=False),
    Revision(version="2025-11-25"),
    Revision(
        version="2026-07-28",
        stateless=True,
        unknown_resource=Code.INVALID_PARAMS,
        methods=_STATELESS_METHODS,
        statuses=_STATELESS_STATUSES,
    ),
)
REVISIONS: Mapping[str, Revision] = {revision.version: revision for revision in _ALL}
HANDSHAKE: Mapping[str, Revision] = {r.version: r for r in _ALL if not r.stateless}
STATELESS: Mapping[str, Revision] = {r.version: r for r in _ALL if r.stateless}

ASSUMED = REVISIONS["2025-03-26"]
"""For a request without a version header (2025-06-18, basic/transports, "Protocol Version Header")."""

NEWEST_HANDSHAKE = REVISIONS["2025-11-25"]
"""What an `initialize` that asks for an unknown version gets."""

NEWEST_STATELESS = REVISIONS["2026-07-28"]
"""Whose rules a refusal follows when a stateless request names no revision that we serve."""
