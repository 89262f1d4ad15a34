"""Access tokens of our own: JWTs (RFC 9068) signed with ES256, which every library knows and whose keys and signatures
are short."""

import base64
import hashlib
import json
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet

from callmcp.auth.oauth.addresses import OFFERED, Addresses
from callmcp.clock import Clock
from callmcp.errors import Unauthenticated
from callmcp.identity.granting import ACCESS_LIVES
from callmcp.identity.grants import SigningKey
from callmcp.identity.model import ApiKey, Principal, Scope
from callmcp.identity.ports import GrantStore

ALGORITHM = "ES256"
LIVES = ACCESS_LIVES
REMEMBERED = 10_000
"""Tokens whose signature need not be checked again. A revocation is looked up each time all the same."""
LOOK_AGAIN = timedelta(seconds=10)
"""How soon the store is asked again for a key that is not known."""
CURRENT = timedelta(seconds=60)
"""How long the keys are taken for those that the store has: one thrown away is good for as long at the most."""


T = TypeVar("T")


class Verified(Generic[T]):
    """What tokens say that were verified, by their digests: the newest few, so that none need be verified twice."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, T] = OrderedDict()

    def get(self, token: str) -> T | None:
        return self._said.get(_name(token))

    def put(self, token: str, said: T) -> T:
        self._said[_name(token)] = said
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        return said


def _name(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class SigningKeys:
    """The keys, as the store has them; the newest signs. Another process's new key is found when it is needed."""

    def __init__(self, store: GrantStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._keys: list[ECKey] = []
        self._looked_at: datetime | None = None

    async def load(self) -> None:
        """Makes the first one when there is none."""
        self._looked_at = self._clock.now()
        stored = await self._store.signing_keys()
        if not stored:
            await self._store.add_signing_key(new_signing_key(self._looked_at), first=True)
            stored = await self._store.signing_keys()
        self._keys = [ECKey.import_key(json.loads(key.jwk)) for key in stored]

    async def rotate(self) -> str:
        """A new key signs from now on. Its id."""
        now = self._clock.now()
        key = new_signing_key(now)
        await self._store.add_signing_key(key)
        await self.load()
        return key.id

    async def signing(self) -> KeySet:
        """The key that signs: looked up, since another process may have rotated because this one leaked."""
        await self.load()
        return KeySet([self._keys[0]])

    async def verifying(self, kid: object) -> KeySet:
        """Those that verify. An unknown id has the store asked again, now and then."""
        current = CURRENT if self.has(kid) else LOOK_AGAIN
        if self._looked_at is None or self._clock.now() - self._looked_at > current:
            await self.load()
        return KeySet([*self._keys])

    def has(self, kid: object) -> bool:
        return any(key.kid == kid for key in self._keys)

    async def public(self) -> dict[str, object]:
        """As a JWK set (RFC 7517), without what signs."""
        await self.load()
        return {"keys": [{**key.as_dict(private=False), "use": "sig", "alg": ALGORITHM} for key in self._keys]}


def new_signing_key(now: datetime) -> SigningKey:
    name = secrets.token_hex(8)
    key = ECKey.generate_key("P-256", {"kid": name})
    return SigningKey(id=name, jwk=json.dumps(key.as_dict(private=True)), created_at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says that has been verified."""

    signed_with: str
    grant_id: str
    client_id: str
    scopes: frozenset[Scope]
    expires_at: int


class AccessTokens:
    """From a token to its principal. What a token was signed for is remembered; whether its grant still holds, and the
    key behind it, is asked of the store each time."""

    def __init__(self, *, store: GrantStore, keys: SigningKeys, addresses: Addresses, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._addresses = addresses
        self._clock = clock
        self._verified: Verified[Claims] = Verified()

    async def verify(self, token: str) -> Principal:
        """Raises Unauthenticated, saying what is wrong."""
        claims = await self.claims(token)
        found = await self._store.grant(claims.grant_id)
        if found is None or found[0].revoked_at is not None:
            raise Unauthenticated("The access token was revoked; authorize again.", presented=True)
        grant, key = found
        held = claims.scopes & grant.scopes
        if key is None:
            # A client by itself; removed in the moment in which it got this, its grant may have been stored after that.
            if grant.key_id != grant.client_id or await self._store.client(grant.client_id) is None:
                raise Unauthenticated("The client of this access token was removed.", presented=True)
        else:
            if not key.is_good(self._clock.now()):
                raise Unauthenticated("The API key behind this access token is not good any more.", presented=True)
            held = frozenset(scope for scope in held if any(has.implies(scope) for has in key.scopes))
        return Principal(
            account_id=grant.account_id, key_id=grant.key_id, scopes=held, agent_ids=_both(grant.agent_ids, key)
        )

    async def claims(self, token: str) -> Claims:
        """What a token of ours says, unexpired, for this resource. Raises Unauthenticated."""
        claims = self._verified.get(token)
        if claims is not None:
            await self._keys.verifying(claims.signed_with)
        if claims is None or not self._keys.has(claims.signed_with):
            claims = self._verified.put(token, await self._checked(token))
        if claims.expires_at <= self._clock.now().timestamp():
            raise Unauthenticated("The access token has expired; refresh it.", presented=True)
        return claims

    async def _checked(self, token: str) -> Claims:
        try:
            kid = header(token).get("kid")
            decoded = jwt.decode(token, await self._keys.verifying(kid), algorithms=[ALGORITHM])
            now = int(self._clock.now().timestamp())
            jwt.JWTClaimsRegistry(
                now=now,
                iss={"essential": True, "value": self._addresses.issuer},
                aud={"essential": True, "value": self._addresses.resource},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
                client_id={"essential": True},
            ).validate(decoded.claims)
            if int(decoded.claims["exp"]) - int(decoded.claims["iat"]) > LIVES.total_seconds():
                raise ValueError("no token of ours lives as long")
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise Unauthenticated(
                "The access token is not one of this server's, or not for it.", presented=True
            ) from None
        if decoded.header.get("typ") not in {"at+jwt", "application/at+jwt"}:
            raise Unauthenticated("This is a token, but not an access token.", presented=True)
        said = decoded.claims
        offered = {scope.value: scope for scope in OFFERED}
        return Claims(
            signed_with=str(kid),
            grant_id=str(said.get("grant")),
            client_id=str(said["client_id"]),
            scopes=frozenset(offered[word] for word in str(said.get("scope", "")).split() if word in offered),
            expires_at=int(said["exp"]),
        )


def header(token: str) -> dict[str, object]:
    """Unverified. Raises ValueError for what is no JWT at all."""
    first, found, _ = token.partition(".")
    if not found:
        raise ValueError("no JWT")
    header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    if not isinstance(header, dict):
        raise ValueError("no JWT")  # noqa: TRY004 - whoever asks catches one kind
    return header


def _both(granted: frozenset[str], key: ApiKey | None) -> frozenset[str]:
    """The agents of the grant that the key, which may have been narrowed since, still has."""
    held = frozenset() if key is None else key.agent_ids
    if not granted or not held:
        return granted or held
    return granted & held or frozenset({"none"})
