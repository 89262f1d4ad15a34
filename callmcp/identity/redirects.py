"""Where a browser may be sent back to (RFC 6749 section 3.1.2, RFC 8252, RFC 9700 section 4.1)."""

from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_SCRIPTED = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "ftp", "ws", "wss", "intent"})
_UNSPEAKABLE = frozenset({" ", "#", "\\", "\x7f", *map(chr, range(32))})


def redirect_uri(text: str) -> str:
    """https, or http to this machine itself (RFC 8252 section 7.3), or a scheme of an app's own (section 7.1).

    Raises ValueError, saying what is wrong.
    """
    parts = urlsplit(text)
    scheme = parts.scheme.lower()
    if not scheme or scheme in _SCRIPTED or scheme.startswith("ms-") or set(text) & _UNSPEAKABLE or not text.isascii():
        raise ValueError("not an address that a browser may be sent back to")
    _ = parts.port  # which raises ValueError for one that is none
    if scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("http only to this machine itself (127.0.0.1, [::1], localhost); anything else by https")
    if scheme in {"http", "https"} and not parts.hostname:
        raise ValueError("it has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it has a user name")
    return text


def matches(registered: str, given: str) -> bool:
    """Exactly, but for the port of this machine itself, which an app is given when it starts (RFC 8252 section 7.3)."""
    if registered == given:
        return True
    ours, theirs = urlsplit(registered), urlsplit(given)
    try:
        _ = theirs.port
    except ValueError:
        return False
    if "@" in theirs.netloc or theirs.fragment or not given.isascii():
        return False
    loopback = ours.scheme == theirs.scheme == "http" and ours.hostname in LOOPBACK and ours.hostname == theirs.hostname
    return loopback and (ours.path, ours.query) == (theirs.path, theirs.query)
