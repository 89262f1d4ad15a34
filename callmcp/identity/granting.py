"""What operators do with OAuth: make clients, see what was granted, take it back; and forget what has expired."""

import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta

from callmcp.clock import Clock
from callmcp.errors import InvalidArguments, NotFound
from callmcp.identity.audit import Trail
from callmcp.identity.grants import ClientKind, Grant, OAuthClient
from callmcp.identity.model import NAME, Account, Scope
from callmcp.identity.operations import OPERATOR, digest
from callmcp.identity.ports import GrantStore
from callmcp.identity.redirects import redirect_uri

ACCESS_LIVES = timedelta(hours=1)
"""How long an access token is good; a grant that nothing else is left of is forgotten after it."""
UNUSED = timedelta(days=1)
IDLE = timedelta(days=90)
"""After how long a client that registered itself is forgotten: never used, or not used any more."""


class Grants:
    """The verbs on OAuth's clients and grants that are not OAuth's own."""

    def __init__(self, store: GrantStore, trail: Trail, clock: Clock) -> None:
        self._store = store
        self._trail = trail
        self._clock = clock

    async def add_client(
        self,
        name: str,
        *,
        account: Account,
        scopes: Collection[Scope] = (),
        redirect_uris: Collection[str] = (),
        public: bool = False,
    ) -> tuple[OAuthClient, str | None]:
        """A client that need not register itself, and its secret, which is nowhere stored; a public one has none.

        With `scopes` it may act for the account by itself (client credentials, RFC 6749 section 4.4), with
        `redirect_uris` it may ask people. Raises InvalidArguments.
        """
        if not NAME.fullmatch(name):
            raise InvalidArguments.of("name", "1 to 100 characters, none of them a control character")
        if not scopes and not redirect_uris:
            raise InvalidArguments.of("client", "a scope to act by itself, or a redirect URI to ask people, is needed")
        if public and scopes:
            raise InvalidArguments.of("scope", "a client that acts by itself proves who it is by a secret")
        if Scope.ADMIN in scopes:
            raise InvalidArguments.of("scope", "a token never has admin; use a key")
        for given in redirect_uris:
            try:
                redirect_uri(given)
            except ValueError as error:
                raise InvalidArguments.of("redirect-uri", f"{given}: {error}") from None
        secret = None if public else secrets.token_urlsafe(32)
        client = OAuthClient(
            id=f"client_{secrets.token_hex(12)}",
            kind=ClientKind.REGISTERED,
            name=name,
            redirect_uris=tuple(redirect_uris),
            created_at=self._clock.now(),
            secret_digest=None if secret is None else digest(secret),
            account_id=account.id,
            scopes=frozenset(scopes),
        )
        await self._store.add_client(client)
        after = {"name": name, "scopes": sorted(scopes), "redirect_uris": list(redirect_uris)}
        await self._trail.note(account.id, actor=OPERATOR, action="clients.add", subject=client.id, after=after)
        return client, secret

    async def clients(self, account: Account) -> Sequence[OAuthClient]:
        """Those that operators made, oldest first."""
        return await self._store.clients(account.id)

    async def remove_client(self, account: Account, client_id: str) -> None:
        """And every grant that it has, at once. Raises NotFound."""
        if not any(client.id == client_id for client in await self.clients(account)):
            raise NotFound(f"There is no client {client_id!r}.", code="client_not_found")
        await self._store.remove_client(client_id, self._clock.now())
        await self._trail.note(account.id, actor=OPERATOR, action="clients.remove", subject=client_id)

    async def grants(self, account: Account) -> Sequence[Grant]:
        """What holds now, oldest first."""
        return await self._store.grants(account.id)

    async def noted(self, grant: Grant) -> None:
        """In the trail: that the person with this key allowed it."""
        after = {"client": grant.client_id, "scopes": sorted(grant.scopes), "agent_ids": sorted(grant.agent_ids)}
        await self._trail.note(
            grant.account_id, actor=grant.key_id, action="grants.allow", subject=grant.id, after=after
        )

    async def revoke(self, account: Account, grant_id: str) -> None:
        """Ends every token of it at once. Raises NotFound."""
        found = await self._store.grant(grant_id)
        if found is None or found[0].account_id != account.id:
            raise NotFound(f"There is no grant {grant_id!r}.", code="grant_not_found")
        if found[0].revoked_at is None:
            await self._store.revoke_grant(grant_id, self._clock.now())
            await self._trail.note(account.id, actor=OPERATOR, action="grants.revoke", subject=grant_id)

    async def rotated(self, account: Account, key_id: str) -> None:
        """In the trail: that another key signs."""
        await self._trail.note(account.id, actor=OPERATOR, action="oauth.rotate", subject=key_id)

    async def forget_expired(self) -> None:
        """Codes, refresh tokens and grants that nothing unexpired is left of, clients that registered themselves and
        are not used, keys that signed nothing that is still good."""
        now = self._clock.now()
        await self._store.forget_grants(expired=now, made_before=now - ACCESS_LIVES)
        await self._store.forget_clients(unused_since=now - UNUSED, idle_since=now - IDLE)
        await self._store.forget_signing_keys(succeeded_before=now - 2 * ACCESS_LIVES)
