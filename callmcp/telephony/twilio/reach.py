"""Whether the public URL leads to this server and back: a request and a WebSocket upgrade as Twilio sends them, signed
with the auth token, to the address that `echo.py` answers at.

Seen from this machine. A network that lets nobody in from outside, or not out and in again, can make a difference.
"""

import asyncio
import hashlib
import json
import secrets
import socket
import ssl
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from callmcp import __version__
from callmcp.telephony.finding import Finding, failed, passed
from callmcp.telephony.twilio import echo
from callmcp.telephony.twilio.signature import sign

PUBLIC_URL = "public url"
WEBSOCKET = "websocket"
CONNECT_SECONDS = 5.0
FORM = "application/x-www-form-urlencoded"
# What proxies and firewalls have changed in a form: an empty field, spaces and signs, letters beyond ASCII.
FIELDS = {"Empty": "", "Signs": "a b+c%20&=", "Letters": "café ☕"}

_FORBIDDEN = frozenset({401, 403, 407})
_GATEWAY = frozenset({502, 503, 504, *range(520, 531)})
_OK, _NOT_FOUND, _REDIRECTS = 200, 404, range(300, 400)


def unreachable_from_outside(public_url: str, api_url: str) -> Finding | None:
    """What can be told of the URL without trying it."""
    host = urlsplit(public_url).hostname or ""
    if _is_local(host) and not _is_local(urlsplit(api_url).hostname or ""):
        return failed(
            PUBLIC_URL,
            f"{shown(public_url)} is this machine's own address, which Twilio cannot reach",
            "Set CALLMCP_PUBLIC_URL to the https:// address that the internet reaches this server by.",
        )
    if "_" in host:
        return failed(
            PUBLIC_URL,
            f"{host} has a _ in it, and Twilio calls back no such host",
            "Give the server a host name without _ and set CALLMCP_PUBLIC_URL to it.",
        )
    return None


async def by_http(public_url: str, token: str, *, seconds: float) -> Finding:
    """Whether a signed POST comes back as it was sent."""
    nonce = secrets.token_hex(16)
    url = echo.address(public_url, nonce)
    body = urlencode(FIELDS).encode()
    headers = {"X-Twilio-Signature": sign(token, url), "Content-Type": FORM}
    timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
    try:
        async with asyncio.timeout(seconds), httpx.AsyncClient(timeout=timeout, trust_env=False) as http:
            answer = await http.post(url, content=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return failed(PUBLIC_URL, *_not_reached(public_url, error))
    told = _json(answer.text)
    if answer.status_code != _OK or told.get("nonce") != nonce:
        return failed(PUBLIC_URL, *_not_ours(public_url, answer, told))
    if told.get("path") != f"{echo.PATH}/{nonce}":
        return failed(
            PUBLIC_URL,
            "the request arrived at another path than it was sent to",
            "Let the proxy pass the path and the query below /twilio/ on as they are; Twilio's signature covers them.",
        )
    if told.get("body_sha256") != hashlib.sha256(body).hexdigest():
        return failed(
            PUBLIC_URL,
            "the body of the request was changed on its way",
            "Let the proxy or firewall pass bodies below /twilio/ on as they are; Twilio's signature covers them.",
        )
    return passed(PUBLIC_URL, f"{shown(public_url)} leads to this server and back{_version(told)}")


async def by_websocket(public_url: str, token: str, *, seconds: float) -> Finding:
    """Whether a signed upgrade is let through, and what is sent over it."""
    nonce = secrets.token_hex(16)
    url = echo.socket_address(public_url, nonce)
    opening = connect(
        url,
        additional_headers={"X-Twilio-Signature": sign(token, url)},
        open_timeout=seconds,
        close_timeout=1,
        compression=None,
        max_size=echo.BODY_LIMIT,
        proxy=None,  # Twilio has no use for ours
    )
    try:
        async with asyncio.timeout(seconds), opening as upgraded:
            told = _json(await upgraded.recv())
    except InvalidStatus as error:
        return failed(WEBSOCKET, *_not_upgraded(error.response.status_code))
    except (InvalidHandshake, ConnectionClosed) as error:
        return failed(WEBSOCKET, f"the upgrade broke off ({type(error).__name__})", _LET_UPGRADES)
    except (OSError, TimeoutError, UnicodeError) as error:
        return failed(WEBSOCKET, *_not_reached(public_url, error))
    if told.get("nonce") != nonce:
        return failed(WEBSOCKET, "something else than this server took the upgrade", _POINT_HERE)
    return passed(WEBSOCKET, f"an upgrade goes through to this server{_version(told)}")


def shown(url: str) -> str:
    """A URL without the user and password that it may hold."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


_POINT_HERE = "Let the proxy pass everything below /twilio/ on to this server, and nothing else answer there."
_LET_UPGRADES = (
    "Let the proxy pass WebSocket upgrades below /twilio/ on (nginx: proxy_http_version 1.1, and the headers Upgrade "
    "and Connection)."
)
_NO_LOGIN = "Let POST requests and WebSocket upgrades below /twilio/ in without a login, a bot check or a client list."
_SAME_SETTINGS = (
    "Start callmcp serve with the same CALLMCP_PUBLIC_URL and CALLMCP_TWILIO_AUTH_TOKEN as this command, and let the "
    "proxy pass the header X-Twilio-Signature on."
)


_SAME_PATH = (
    "Start callmcp serve with CALLMCP_CARRIER=twilio, and let the proxy pass the path on, without the part that "
    "CALLMCP_PUBLIC_URL has after its host."
)


def _not_reached(public_url: str, error: Exception) -> tuple[str, str]:
    host = urlsplit(public_url).hostname
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", "") or cause.reason or "the handshake failed"
            return (
                f"the TLS of {host} does not hold: {why}",
                f"Give the proxy a certificate for {host} from a public authority such as Let's Encrypt.",
            )
        if isinstance(cause, (socket.gaierror, UnicodeError)):  # UnicodeError: no name has such labels
            return f"{host} has no address", f"Make a DNS record for {host}, or correct CALLMCP_PUBLIC_URL."
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return (
            f"{shown(public_url)} did not answer in time",
            f"Open the firewall for {host}, and see that callmcp serve and the proxy before it are well.",
        )
    return (
        f"nothing answers at {shown(public_url)}",
        "Start callmcp serve and the proxy or tunnel before it, or correct CALLMCP_PUBLIC_URL.",
    )


def _not_ours(public_url: str, answer: httpx.Response, told: dict[str, Any]) -> tuple[str, str]:
    status = answer.status_code
    if told.get("error") == echo.NOT_SIGNED:
        return "a CallMCP server is there, but takes no signature of ours", _SAME_SETTINGS
    if status in _FORBIDDEN:
        return f"something before the server does not let us in (HTTP {status})", _NO_LOGIN
    if status in _REDIRECTS:
        return (
            f"{shown(public_url)} redirects (HTTP {status}), and Twilio would lose what it posts",
            "Set CALLMCP_PUBLIC_URL to the address that is redirected to, scheme and host as they are there.",
        )
    if status in _GATEWAY:
        return (
            f"a proxy is there, but gets nothing from the server behind it (HTTP {status})",
            "Start callmcp serve, and point the proxy at its host and port.",
        )
    if status == _NOT_FOUND:
        return (
            "a server is there, but does not know the path (HTTP 404)",
            _SAME_PATH,
        )
    return f"something else than this server answers (HTTP {status})", _POINT_HERE


def _not_upgraded(status: int) -> tuple[str, str]:
    if status in _FORBIDDEN:
        return f"the upgrade is refused (HTTP {status})", _SAME_SETTINGS
    if status in _GATEWAY:
        return f"a proxy answers in place of the server (HTTP {status})", _LET_UPGRADES
    # 405 is what our own server says to a request whose Upgrade a proxy dropped.
    return f"HTTP {status} came in place of an upgrade", _LET_UPGRADES


def _version(told: dict[str, Any]) -> str:
    version = str(told.get("version"))[:40]
    return f" (callmcp {version})" if version == __version__ else f" (callmcp {version}; this command is {__version__})"


def _json(text: str | bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
