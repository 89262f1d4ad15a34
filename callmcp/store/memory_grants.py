"""OAuth in dictionaries: the part of MemoryStore that is a GrantStore."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from callmcp.errors import Conflict
from callmcp.identity.grants import ClientKind, Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import ApiKey
from callmcp.store.text import storable


class MemoryGrants:
    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._clients: dict[str, OAuthClient] = {}
        self._grants: dict[str, Grant] = {}
        self._codes: dict[str, Code] = {}
        self._refresh_tokens: dict[str, RefreshToken] = {}
        self._signing_keys: list[SigningKey] = []

    async def add_client(self, client: OAuthClient) -> None:
        client = storable(client)
        if client.id in self._clients:
            raise Conflict(f"There is a client {client.id!r} already.", code="client_exists")
        self._clients[client.id] = client

    async def client(self, client_id: str) -> OAuthClient | None:
        return self._clients.get(storable(client_id))

    async def clients(self, account_id: str) -> Sequence[OAuthClient]:
        found = (client for client in self._clients.values() if client.account_id == account_id)
        return sorted(found, key=lambda client: (client.created_at, client.id))

    async def remove_client(self, client_id: str, at: datetime) -> None:
        self._clients.pop(client_id, None)
        for grant in list(self._grants.values()):
            if grant.client_id == client_id:
                await self.revoke_grant(grant.id, at)

    async def use_client(self, client_id: str, at: datetime) -> None:
        if client_id in self._clients:
            self._clients[client_id] = replace(self._clients[client_id], last_used_at=at)

    async def register_client(self, client: OAuthClient, *, most: int, since: datetime) -> bool:
        if sum(one.kind is ClientKind.DYNAMIC and one.created_at > since for one in self._clients.values()) >= most:
            return False
        await self.add_client(client)
        return True

    async def forget_clients(self, *, unused_since: datetime, idle_since: datetime) -> None:
        for client in list(self._clients.values()):
            unused = client.last_used_at is None and client.created_at < unused_since
            idle = client.last_used_at is not None and client.last_used_at < idle_since
            if client.kind is ClientKind.DYNAMIC and (unused or idle):
                del self._clients[client.id]

    async def add_grant(self, grant: Grant, code: Code | None = None) -> None:
        self._grants[grant.id] = storable(grant)
        if code is not None:
            self._codes[code.digest] = storable(code)

    async def grant(self, grant_id: str) -> tuple[Grant, ApiKey | None] | None:
        grant = self._grants.get(storable(grant_id))
        return None if grant is None else (grant, self._keys.get(grant.key_id))

    async def grants(self, account_id: str) -> Sequence[Grant]:
        held = (one for one in self._grants.values() if one.account_id == account_id and one.revoked_at is None)
        return sorted(held, key=lambda grant: (grant.created_at, grant.id))

    async def forget_grants(self, *, expired: datetime, made_before: datetime) -> None:
        self._codes = {name: code for name, code in self._codes.items() if code.expires_at >= expired}
        self._refresh_tokens = {name: one for name, one in self._refresh_tokens.items() if one.expires_at >= expired}
        alive = {code.grant_id for code in self._codes.values()}
        alive |= {token.grant_id for token in self._refresh_tokens.values()}
        self._grants = {
            name: grant for name, grant in self._grants.items() if name in alive or grant.created_at >= made_before
        }

    async def revoke_grant(self, grant_id: str, at: datetime) -> None:
        grant = self._grants.get(grant_id)
        if grant is not None and grant.revoked_at is None:
            self._grants[grant_id] = replace(grant, revoked_at=at)

    async def use_code(self, digest: str, at: datetime) -> Code | None:
        found = self._codes.get(storable(digest))
        if found is None:
            return None
        if found.used_at is not None:
            await self.revoke_grant(found.grant_id, at)
            return None
        self._codes[digest] = replace(found, used_at=at)
        return self._codes[digest]

    async def add_refresh_token(self, token: RefreshToken) -> None:
        self._refresh_tokens[token.digest] = storable(token)

    async def refresh_token(self, digest: str) -> RefreshToken | None:
        return self._refresh_tokens.get(storable(digest))

    async def use_refresh_token(self, digest: str, at: datetime) -> RefreshToken | None:
        found = self._refresh_tokens.get(storable(digest))
        if found is None:
            return None
        if found.used_at is not None:
            await self.revoke_grant(found.grant_id, at)
            return None
        self._refresh_tokens[digest] = replace(found, used_at=at)
        return self._refresh_tokens[digest]

    async def signing_keys(self) -> Sequence[SigningKey]:
        return sorted(self._signing_keys, key=lambda key: key.created_at, reverse=True)

    async def add_signing_key(self, key: SigningKey, *, first: bool = False) -> None:
        if not (first and self._signing_keys):
            self._signing_keys.append(key)

    async def forget_signing_keys(self, *, succeeded_before: datetime) -> None:
        successor = max(
            (key.created_at for key in self._signing_keys if key.created_at < succeeded_before), default=None
        )
        if successor is not None:
            self._signing_keys = [key for key in self._signing_keys if key.created_at >= successor]
