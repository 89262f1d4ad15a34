"""Whether Twilio signed a request: X-Twilio-Signature (twilio.com/docs/usage/webhooks/webhooks-security).

Our own, since the library's validator knows only ports 80 and 443, splits IPv6 hosts in two, drops duplicate names
when it is given a dict, and raises for a missing signature (TWILIO.md section 4, executed with 9.13).
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit, urlunsplit

Parameters = Sequence[tuple[str, str]]
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def sign(token: str, url: str, parameters: Parameters = ()) -> str:
    """What Twilio puts into the header: Base64 of HMAC-SHA1 over the URL and every distinct name and value, sorted."""
    signed = url + "".join(name + value for name, value in sorted(set(parameters)))
    return base64.b64encode(hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()).decode()


def is_signed(signature: str | None, *, tokens: Iterable[str], url: str, parameters: Parameters = ()) -> bool:
    """True when `signature` was made with one of the tokens (two are live while one is rotated) for this URL.

    `url` as Twilio was given it, scheme, path and query unchanged. Reports differ about whether an odd port is part of
    what is signed, so the URL with and without its port, and with the scheme's own, are all taken.
    """
    if not signature:
        return False
    given = signature.encode("utf-8", "replace")
    spellings = _spellings(url)
    # No shortcut: which token and spelling fits must not show in the time this takes.
    found = [
        hmac.compare_digest(given, sign(token, spelling, parameters).encode())
        for token in tokens
        for spelling in spellings
    ]
    return any(found)


def _spellings(url: str) -> Sequence[str]:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    explicit = f"{bare}:{_DEFAULT_PORTS.get(parts.scheme, 443)}"
    hosts = dict.fromkeys((host, bare, explicit))
    return [urlunsplit((parts.scheme, spelling, parts.path, parts.query, "")) for spelling in hosts]
