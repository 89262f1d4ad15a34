"""Access tokens of an identity provider outside: found by discovery, checked with its keys, mapped to an account and to
scopes by settings. While the provider is down, keys that are known go on working."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from callmcp.auth.oauth.addresses import OFFERED
from callmcp.auth.oauth.tokens import LOOK_AGAIN, Verified, header
from callmcp.clock import Clock
from callmcp.errors import NotFound, Unauthenticated
from callmcp.identity.model import DEFAULT_ACCOUNT, Principal, Scope
from callmcp.identity.operations import Keys

log = structlog.get_logger()

ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""With public keys only: a shared secret would be one more thing to leak, and is what key confusion lives on."""
KEPT = timedelta(minutes=15)
"""How long the provider's keys are taken for current. One that it withdraws is good for as long at the most."""
TIMEOUT_SECONDS = 5.0
LEEWAY_SECONDS = 30
_OTHER_TOKENS = frozenset({"id", "refresh", "offline", "logout"})


class Unreachable(Exception):
    """The provider does not say what its keys are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    subject: str
    account: str
    scopes: frozenset[Scope]
    expires_at: int


class ProviderKeys:
    """The provider's keys (RFC 7517), by discovery (RFC 8414, OpenID Connect Discovery 1.0), kept, and asked for again
    when a token names one that is not known."""

    def __init__(self, issuer: str, clock: Clock) -> None:
        self._issuer = issuer
        self._clock = clock
        self._keys: KeySet | None = None
        self._current_until: datetime | None = None
        self._asked_at: datetime | None = None
        self._asking = asyncio.Lock()

    async def with_id(self, kid: object) -> KeySet:
        """Raises Unreachable when the key is not known and the provider cannot be asked."""
        async with self._asking:
            now = self._clock.now()
            known = self._knows(kid)
            waited = self._asked_at is None or now - self._asked_at > LOOK_AGAIN
            if waited and not (known and self._current_until is not None and now < self._current_until):
                await self._ask(now, known=known)
        if self._keys is None:
            raise Unreachable
        return self._keys

    def _knows(self, kid: object) -> bool:
        return self._keys is not None and (kid is None or any(key.kid == kid for key in self._keys.keys))

    async def _ask(self, now: datetime, *, known: bool) -> None:
        self._asked_at = now
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
                found = await self._described(http)
                self._keys = KeySet.import_key_set(await _json(http, found))
        except (TimeoutError, httpx.HTTPError, ValueError, TypeError, KeyError, RecursionError, JoseError) as error:
            log.warning("oauth_provider_unreachable", issuer=self._issuer, error=f"{type(error).__name__}: {error}")
            if not known:
                raise Unreachable from error
            return
        self._current_until = now + KEPT

    async def _described(self, http: httpx.AsyncClient) -> str:
        """Where its keys are. Raises ValueError unless the document is this issuer's."""
        issuer = urlsplit(self._issuer)
        path = issuer.path.rstrip("/")
        root = f"{issuer.scheme}://{issuer.netloc}"
        fault: Exception = ValueError("no document")
        for address in (
            f"{root}{path}/.well-known/openid-configuration",
            f"{root}/.well-known/oauth-authorization-server{path}",
            f"{root}/.well-known/openid-configuration{path}",
        ):
            try:
                document = await _json(http, address)
            except (httpx.HTTPError, ValueError) as error:
                fault = error
                continue
            if document.get("issuer") != self._issuer:
                raise ValueError(f"{address} is of the issuer {document.get('issuer')!r}")
            return str(document["jwks_uri"])
        raise fault


class ExternalTokens:
    """From a token of the provider's to its principal. `audience`: what it must be for (RFC 8707)."""

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        account_claim: str | None,
        scope_claim: str,
        accounts: Keys,
        clock: Clock,
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._account_claim = account_claim
        self._scope_claim = scope_claim
        self._accounts = accounts
        self._clock = clock
        self._keys = ProviderKeys(issuer, clock)
        self._verified: Verified[Claims] = Verified()

    async def verify(self, token: str) -> Principal:
        """Raises Unauthenticated, saying what is wrong."""
        claims = self._verified.get(token)
        if claims is None:
            claims = self._verified.put(token, await self._checked(token))
        if claims.expires_at + LEEWAY_SECONDS <= self._clock.now().timestamp():
            raise Unauthenticated("The access token has expired; refresh it.", presented=True)
        try:
            account = await self._accounts.account(claims.account)
        except NotFound:
            raise Unauthenticated(
                f"The access token is for the account {claims.account!r}, which this server does not have.",
                presented=True,
            ) from None
        # Not the subject itself: it may be a mail address, and this is logged and stored with each call.
        name = hashlib.sha256(f"{self._issuer}\n{claims.subject}".encode()).hexdigest()[:24]
        return Principal(account_id=account.id, key_id=f"sub_{name}", scopes=claims.scopes)

    async def _checked(self, token: str) -> Claims:
        try:
            kid = header(token).get("kid")
            keys = await self._keys.with_id(kid)
            decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            jwt.JWTClaimsRegistry(
                now=int(self._clock.now().timestamp()),
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self._issuer},
                aud={"essential": True, "value": self._audience},
                exp={"essential": True},
                sub={"essential": True},
            ).validate(decoded.claims)
        except Unreachable:
            words = (
                f"The identity provider {self._issuer} cannot be reached to check this access token; try again soon."
            )
            raise Unauthenticated(words, presented=True) from None
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            words = f"The access token is not one of {self._issuer}, not for {self._audience}, or has expired."
            raise Unauthenticated(words, presented=True) from None
        said = decoded.claims
        # RFC 9068 has at+jwt; Keycloak, Auth0 and Entra write JWT, and Keycloak says in a claim what it is.
        kind = str(decoded.header.get("typ") or "JWT").lower().removeprefix("application/")
        if kind not in {"at+jwt", "jwt"} or str(said.get("typ", "")).lower() in _OTHER_TOKENS:
            raise Unauthenticated("This is a token, but not an access token.", presented=True)
        return Claims(
            subject=str(said["sub"]),
            account=self._account(said),
            scopes=_scopes(said.get(self._scope_claim)),
            expires_at=int(said["exp"]),
        )

    def _account(self, said: Mapping[str, Any]) -> str:
        if self._account_claim is None:
            return DEFAULT_ACCOUNT
        named = said.get(self._account_claim)
        if not isinstance(named, str) or not named:
            raise Unauthenticated(
                f"The access token does not say in {self._account_claim!r} which account it is for.", presented=True
            )
        return named


def _scopes(said: object) -> frozenset[Scope]:
    """Words in a text (RFC 8693 section 4.2) or in a list; those that we do not know are let be, and admin too."""
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
    return frozenset(scope for scope in OFFERED if scope.value in words)


async def _json(http: httpx.AsyncClient, address: str) -> Any:  # noqa: ANN401 - whatever the provider says
    """Raises httpx.HTTPError or ValueError."""
    response = await http.get(address, headers={"Accept": "application/json"})
    response.raise_for_status()
    document = response.json()
    if not isinstance(document, dict):
        raise ValueError(f"{address} is not a JSON object")  # noqa: TRY004 - one kind for whoever asks
    return document
