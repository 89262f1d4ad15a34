"""Which browsers may speak to the endpoint, and under which names it may be spoken to.

A page anywhere can make its visitor's browser send requests to localhost; an Origin it cannot forge and a Host that it
can rebind (DNS) are what gives it away (2025-11-25, basic/transports, "Security Warning").
"""

import functools
from collections.abc import Collection, Mapping
from urllib.parse import SplitResult, urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ALLOWED_HEADERS = (
    "Authorization, Content-Type, Accept, X-API-Key, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, "
    "Last-Event-ID"
)
PREFLIGHT: Mapping[str, str] = {
    "Access-Control-Allow-Methods": "POST, GET, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
    "Access-Control-Max-Age": "86400",
}


class Origins:
    """`allowed` lists origins such as `https://app.example.com`. Loopback origins are always allowed: a program that
    can open a page there can reach us without a browser."""

    def __init__(self, allowed: Collection[str], public_url: str) -> None:
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in (*allowed, _origin_of(public_url)))

    def allows(self, origin: str) -> bool:
        parts = _split(origin)
        if parts is None:
            return False
        return parts.hostname in LOOPBACK or origin.lower() in self._allowed

    @staticmethod
    def headers(origin: str | None) -> list[tuple[bytes, bytes]]:
        """What a response to a browser needs so that the page may read it (Fetch, "CORS protocol")."""
        if origin is None:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", b"WWW-Authenticate, Mcp-Session-Id"),
            (b"vary", b"Origin"),
        ]


class Hosts:
    """Names that a request's Host may have. A server that is bound elsewhere than to loopback checks only when names
    were listed: a proxy stands before it, and names it as it likes."""

    def __init__(self, bound_to: str, public_url: str, allowed: Collection[str]) -> None:
        self._checked = bool(allowed) or bound_to in LOOPBACK or bound_to.startswith("127.")
        named = {_hostname(name) for name in allowed} | {urlsplit(public_url).hostname}
        self._allowed = LOOPBACK | (named - {None})

    def allows(self, host: str) -> bool:
        return not self._checked or _hostname(host) in self._allowed


@functools.lru_cache(maxsize=128)
def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _split(origin: str) -> SplitResult | None:
    try:
        parts = urlsplit(origin)
        _ = parts.port
    except ValueError:
        return None
    well_formed = parts.scheme and parts.hostname and not (parts.path or parts.query or parts.fragment or "@" in origin)
    return parts if well_formed else None
