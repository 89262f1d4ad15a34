"""Fetches documents from addresses that strangers name, without being a way into this network.

The host is resolved here, every address it has must be a public one, and the connection goes to the address that was
checked: a name that resolves elsewhere a moment later (DNS rebinding) changes nothing. No redirect is followed, and no
encoding accepted: 300 bytes of it can be a hundred million. Names are resolved in threads of our own: a DNS server that
says nothing keeps one for half a minute, and nobody else's names must wait for that.
"""

import asyncio
import functools
import ipaddress
import json
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx

from callmcp.clock import Clock

MAX_BYTES = 64 * 1024
TIMEOUT_SECONDS = 5.0
KEPT = timedelta(minutes=10)
KEPT_DOCUMENTS = 1000
NOT_AGAIN = timedelta(seconds=30)
"""How long an address whose document could not be had is not asked again."""
AT_ONCE = 64
RESOLVERS = 4
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that is given out; the rest is for use inside
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # global, and a way to any IPv4 address (RFC 6052)


class NoDocument(Exception):
    """It cannot be had."""


class Documents:
    """JSON objects at https addresses, kept for a while. `inside`: hosts that may be at private addresses, and by http.
    `seconds`: how long one may take, all in all."""

    def __init__(self, clock: Clock, inside: Sequence[str] = (), *, seconds: float = TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._inside = frozenset(inside)
        self._seconds = seconds
        self._kept: dict[str, tuple[datetime, dict[str, Any]]] = {}
        self._failed: dict[str, tuple[datetime, str]] = {}
        self._under_way = 0
        self._resolvers = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="oauth-names")

    def is_address(self, text: str) -> bool:
        """Whether this can name a document: https on its own port, with a path, without a fragment or a user."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            return False
        public = parts.scheme == "https" and port in {None, 443}
        allowed = public or (parts.scheme in {"http", "https"} and parts.hostname in self._inside)
        plain = "@" not in parts.netloc and not parts.fragment and ".." not in parts.path and text.isprintable()
        return allowed and bool(parts.hostname) and len(parts.path) > 1 and plain and port != 0

    async def get(self, address: str) -> dict[str, Any]:
        """Raises NoDocument."""
        now = self._clock.now()
        kept = self._kept.get(address)
        if kept is not None and now - kept[0] < KEPT:
            return kept[1]
        failed = self._failed.get(address)
        if failed is not None and now - failed[0] < NOT_AGAIN:
            raise NoDocument(f"a moment ago: {failed[1]}")
        if self._under_way >= AT_ONCE:
            raise NoDocument(f"{AT_ONCE} others are being fetched at this moment")
        self._under_way += 1
        try:
            async with asyncio.timeout(self._seconds):
                document = await self._fetch(address)
        except (
            NoDocument,
            TimeoutError,
            httpx.HTTPError,
            httpx.InvalidURL,
            OSError,
            ValueError,
            RecursionError,
        ) as error:
            why = f"{type(error).__name__}: {error}"
            if len(self._failed) >= KEPT_DOCUMENTS:
                self._failed.clear()
            self._failed[address] = (now, why)
            raise NoDocument(why) from error
        finally:
            self._under_way -= 1
        if len(self._kept) >= KEPT_DOCUMENTS:
            self._kept.clear()
        self._kept[address] = (now, document)
        return document

    async def _fetch(self, address: str) -> dict[str, Any]:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        checked = await self._checked(host, port)
        literal = f"[{checked}]" if ":" in checked else checked
        url = parts._replace(netloc=f"{literal}:{port}").geturl()
        headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx.AsyncClient(timeout=self._seconds, follow_redirects=False, trust_env=False) as http,
            http.stream("GET", url, headers=headers, extensions={"sni_hostname": host}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise NoDocument(f"it answers {response.status_code}")
            if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise NoDocument("it is encoded")
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise NoDocument(f"it is larger than {MAX_BYTES} bytes")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise NoDocument("it is not a JSON object")
        return document

    async def _checked(self, host: str, port: int) -> str:
        """An address of the host that may be connected to. Raises NoDocument."""
        loop = asyncio.get_running_loop()
        resolve = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(self._resolvers, resolve)
        addresses = [str(entry[4][0]) for entry in found]
        if host not in self._inside and not all(_is_public(address) for address in addresses):
            raise NoDocument("its host is not on the public internet")
        if not addresses:
            raise NoDocument("its host has no address")
        return addresses[0]


def _is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed in _NAT64:
            parsed = ipaddress.IPv4Address(parsed.packed[-4:])
        elif (inner := parsed.ipv4_mapped or parsed.sixtofour) is not None:
            parsed = inner
        elif parsed not in _PUBLIC_IPV6:
            return False
    return parsed.is_global and not parsed.is_multicast
