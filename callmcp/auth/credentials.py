"""From a request's headers to the principal that sent it, or to why there is none.

Asked only where a principal is needed: a credential that is wrong must not break discovery, which is for everybody.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from callmcp.errors import Forbidden, Unauthenticated
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys

WHERE_KEYS_COME_FROM = (
    "Calling a tool needs an API key. Whoever runs this server makes one with 'callmcp keys create NAME --scope "
    "calls:write --scope agents:read'; send it as the header 'Authorization: Bearer cmcp_...' or 'X-API-Key: cmcp_...'."
)
OR_LOG_IN = " Or log in by OAuth, if your client can: the challenge says where."
USUAL_SCOPES = (Scope.AGENTS_READ, Scope.CALLS_READ, Scope.CALLS_WRITE)
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")  # no key has a dot
_SECRET = re.compile(rb"[\x21-\x7e]+")  # visible ASCII: what a header value can carry unharmed


Verify = Callable[[str], Awaitable[Principal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Access tokens beside keys, or as it is by default, none: the routes that lead to them, what checks one, and where
    the document is that says so (RFC 9728)."""

    routes: Sequence[BaseRoute] = ()
    verify: Verify | None = None
    resource_metadata: str | None = None


class Credentials:
    """API keys, and access tokens where there are some (`tokens`), in `Authorization: Bearer` (RFC 6750 section 2.1,
    the scheme in any case), keys in `X-API-Key` too."""

    def __init__(self, keys: Keys, tokens: Verify | None = None) -> None:
        self._keys = keys
        self._tokens = tokens
        self._words = WHERE_KEYS_COME_FROM + (OR_LOG_IN if tokens else "")

    async def __call__(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """Raises Unauthenticated. Of two credentials none is picked: a proxy before us may have picked the other."""
        secrets = [_secret(name, value) for name, value in headers if name in (b"authorization", b"x-api-key")]
        if not secrets:
            raise Unauthenticated(self._words, presented=False)
        if len(set(secrets)) > 1:
            raise Unauthenticated("More than one credential was sent; send one.", presented=True)
        if self._tokens is not None and _JWT.fullmatch(secrets[0]):
            return await self._tokens(secrets[0])
        try:
            return await self._keys.verify(secrets[0])
        except Unauthenticated as error:
            raise Unauthenticated(f"{error.message} {self._words}", presented=True) from None


def _secret(name: bytes, value: bytes) -> str:
    text = value.strip()
    if name == b"authorization":
        scheme, _, text = text.partition(b" ")
        if scheme.lower() != b"bearer":
            raise Unauthenticated(f"Authorization must be a Bearer key. {WHERE_KEYS_COME_FROM}", presented=True)
    text = text.strip()
    if not _SECRET.fullmatch(text):
        raise Unauthenticated(f"The credential is not an API key. {WHERE_KEYS_COME_FROM}", presented=True)
    return text.decode("ascii")


Challenge = Callable[[Unauthenticated | Forbidden], str]


def challenges(resource_metadata: str | None = None) -> Challenge:
    """Makes the WWW-Authenticate of a refusal (RFC 6750 section 3, RFC 9728 section 5.1). A server without OAuth names
    no resource metadata: a client that found some would start OAuth and lose our words."""
    where = "" if resource_metadata is None else f', resource_metadata="{resource_metadata}"'

    def challenge(cause: Unauthenticated | Forbidden) -> str:
        if isinstance(cause, Forbidden):
            scope = " ".join(cause.scopes)
            return f'Bearer realm="callmcp", error="insufficient_scope", scope="{scope}"{where}'
        usual = f'Bearer realm="callmcp", scope="{" ".join(USUAL_SCOPES)}"{where}'
        return f'{usual}, error="invalid_token"' if cause.presented else usual

    return challenge
