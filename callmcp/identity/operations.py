"""Issue, check, change and revoke API keys; make accounts."""

import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from callmcp.clock import Clock
from callmcp.errors import Conflict, InvalidArguments, NotFound, Unauthenticated, Unavailable
from callmcp.identity.audit import Change, Trail
from callmcp.identity.model import DEFAULT_ACCOUNT, NAME, Account, ApiKey, Principal, Scope
from callmcp.identity.ports import KeyStore

KEY_PREFIX = "cmcp_"
OPERATOR = "operator"
TOUCH_EVERY = timedelta(minutes=1)


def digest(secret: str) -> str:
    """SHA-256 in hex. A plain hash is enough: a key has 256 random bits, there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class Keys:
    """The verbs on accounts and keys that every edge uses."""

    def __init__(self, store: KeyStore, trail: Trail, clock: Clock) -> None:
        self._store = store
        self._trail = trail
        self._clock = clock
        self._touched: dict[str, datetime] = {}

    async def create_account(self, name: str) -> Account:
        """Raises Conflict when the name is taken, InvalidArguments when it is not a name."""
        account = Account(id=f"acct_{secrets.token_hex(6)}", name=_name(name), created_at=self._clock.now())
        await self._store.add_account(account)
        await self._trail.note(
            account.id, actor=OPERATOR, action="accounts.create", subject=account.id, after={"name": account.name}
        )
        return account

    async def accounts(self) -> Sequence[Account]:
        return await self._store.accounts()

    async def account(self, name: str = DEFAULT_ACCOUNT) -> Account:
        """Raises NotFound."""
        account = await self._store.account_named(name)
        if account is None:
            raise NotFound(f"There is no account named {name!r}.", code="account_not_found")
        return account

    async def default_account(self) -> Account:
        """The account named `default`, made when it is not there yet."""
        found = await self._store.account_named(DEFAULT_ACCOUNT)
        if found is not None:
            return found
        try:
            return await self.create_account(DEFAULT_ACCOUNT)
        except Conflict:  # another process made it in this moment
            return await self.account()

    async def create(
        self,
        name: str,
        *,
        account: Account,
        scopes: Collection[Scope],
        agent_ids: Collection[str] = (),
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which is nowhere stored and so can be shown only now."""
        self._must_be_to_come(expires_at)
        secret = KEY_PREFIX + secrets.token_urlsafe(32)
        key = ApiKey(
            id=f"key_{secrets.token_hex(6)}",
            account_id=account.id,
            name=_name(name),
            prefix=secret[:11],
            digest=digest(secret),
            scopes=frozenset(scopes),
            agent_ids=frozenset(agent_ids),
            created_at=self._clock.now(),
            expires_at=expires_at,
        )
        await self._store.add_key(key)
        await self._note("keys.create", key, after=_shown(key))
        return key, secret

    async def verify(self, secret: str) -> Principal:
        """The principal that `secret` stands for. Read from the store each time, so a revocation counts at once.

        Raises Unauthenticated, saying whether the key is unknown, expired or revoked.
        """
        wanted = digest(secret)
        key = await self._store.key_by_digest(wanted)
        if key is None or not hmac.compare_digest(key.digest, wanted):
            raise Unauthenticated("The API key is not one of this server's keys.", presented=True)
        return await self._principal(key)

    async def principal(self, key_id: str) -> Principal:
        """Of a key that was verified a moment ago. Raises Unauthenticated when it is not good any more."""
        key = await self._store.key(key_id)
        if key is None:
            raise Unauthenticated("The API key is gone.", presented=True)
        return await self._principal(key)

    async def _principal(self, key: ApiKey) -> Principal:
        now = self._clock.now()
        if key.revoked_at is not None:
            raise Unauthenticated(f"The API key {key.prefix}… was revoked.", presented=True)
        if key.expires_at is not None and key.expires_at <= now:
            raise Unauthenticated(f"The API key {key.prefix}… has expired.", presented=True)
        await self._touch(key, now)
        return Principal(account_id=key.account_id, key_id=key.id, scopes=key.scopes, agent_ids=key.agent_ids)

    async def list(self, account: Account | None = None) -> Sequence[ApiKey]:
        return await self._store.keys(account.id if account else None)

    async def get(self, key_id: str) -> ApiKey:
        """Raises NotFound."""
        key = await self._store.key(key_id)
        if key is None:
            raise NotFound(f"There is no key {key_id!r}.", code="key_not_found")
        return key

    async def update(
        self,
        key_id: str,
        *,
        name: str | None = None,
        scopes: Collection[Scope] | None = None,
        agent_ids: Collection[str] | None = None,
        expires_at: datetime | None = None,
        never_expires: bool = False,
    ) -> ApiKey:
        """Changes what is given and leaves the rest. Raises NotFound, InvalidArguments for an expiry in the past."""
        self._must_be_to_come(expires_at)
        before = key = await self.get(key_id)
        key = replace(
            key,
            name=key.name if name is None else _name(name),
            scopes=key.scopes if scopes is None else frozenset(scopes),
            agent_ids=key.agent_ids if agent_ids is None else frozenset(agent_ids),
            expires_at=None if never_expires else expires_at or key.expires_at,
        )
        await self._store.save_key(key)
        await self._note("keys.update", key, before=_shown(before), after=_shown(key))
        return key

    async def revoke(self, key_id: str) -> ApiKey:
        """Ends a key at once and for good. Revoking a revoked key keeps its first date. Raises NotFound."""
        key = await self.get(key_id)
        if key.revoked_at is None:
            key = replace(key, revoked_at=self._clock.now())
            await self._store.save_key(key)
            await self._note("keys.revoke", key)
        return key

    def _must_be_to_come(self, expires_at: datetime | None) -> None:
        if expires_at is not None and expires_at <= self._clock.now():
            raise InvalidArguments.of("expires", "that is in the past; to end a key at once, revoke it")

    async def _note(
        self, action: str, key: ApiKey, *, before: Change | None = None, after: Change | None = None
    ) -> None:
        """Of a change only what is not as it was."""
        if before is not None and after is not None:
            names = [name for name in after if before[name] != after[name]]
            before, after = ({name: one[name] for name in names} for one in (before, after))
        await self._trail.note(
            key.account_id, actor=OPERATOR, action=action, subject=key.id, before=before, after=after
        )

    async def _touch(self, key: ApiKey, now: datetime) -> None:
        # At most once a minute and key: a write a request would halve the rate of reads.
        last = max(filter(None, (key.last_used_at, self._touched.get(key.id))), default=None)
        if last is None or now - last >= TOUCH_EVERY:
            self._touched[key.id] = now
            with contextlib.suppress(Unavailable):  # a disk that is full must not keep a good key from reading
                await self._store.touch_key(key.id, now)


def _shown(key: ApiKey) -> Change:
    """What of a key may stand in the trail."""
    return {
        "name": key.name,
        "scopes": sorted(key.scopes),
        "agent_ids": sorted(key.agent_ids),
        "expires_at": key.expires_at and key.expires_at.isoformat(),
    }


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise InvalidArguments.of("name", "1 to 100 characters, none of them a control character")
    return text
