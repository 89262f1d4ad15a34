"""What identity needs of a store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from callmcp.identity.grants import Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import Account, ApiKey


class KeyStore(Protocol):
    async def add_account(self, account: Account) -> None:
        """Raises Conflict when an account of that name exists."""

    async def account_named(self, name: str) -> Account | None: ...

    async def accounts(self) -> Sequence[Account]:
        """All accounts, oldest first."""

    async def add_key(self, key: ApiKey) -> None: ...

    async def key_by_digest(self, digest: str) -> ApiKey | None: ...

    async def key(self, key_id: str) -> ApiKey | None: ...

    async def keys(self, account_id: str | None = None) -> Sequence[ApiKey]:
        """The keys of one account, or of all, oldest first."""

    async def save_key(self, key: ApiKey) -> None:
        """Replaces what is stored under `key.id`, but for `last_used_at`, and never takes back a `revoked_at`: whoever
        read the key before it was revoked does not revive it. Raises NotFound."""

    async def touch_key(self, key_id: str, at: datetime) -> None:
        """Sets `last_used_at`."""


class GrantStore(Protocol):
    """What an authorization server keeps. Codes and refresh tokens are used by one who comes first, whoever else comes:
    whoever comes with a used one has it from somewhere, and the grant behind it is revoked."""

    async def add_client(self, client: OAuthClient) -> None:
        """Raises Conflict when there is one of that id."""

    async def client(self, client_id: str) -> OAuthClient | None: ...

    async def clients(self, account_id: str) -> Sequence[OAuthClient]:
        """Those that operators of this account made, oldest first."""

    async def remove_client(self, client_id: str, at: datetime) -> None:
        """And revokes its grants."""

    async def use_client(self, client_id: str, at: datetime) -> None:
        """Sets `last_used_at`."""

    async def register_client(self, client: OAuthClient, *, most: int, since: datetime) -> bool:
        """False, and not added, when so many have registered themselves since then: exact, whoever else does now."""

    async def forget_clients(self, *, unused_since: datetime, idle_since: datetime) -> None:
        """Those that registered themselves: never used and older than the one, last used before the other."""

    async def add_grant(self, grant: Grant, code: Code | None = None) -> None: ...

    async def grant(self, grant_id: str) -> tuple[Grant, ApiKey | None] | None:
        """The grant, and the key behind it when it was allowed with one."""

    async def grants(self, account_id: str) -> Sequence[Grant]:
        """Those that are not revoked, oldest first."""

    async def forget_grants(self, *, expired: datetime, made_before: datetime) -> None:
        """Codes and refresh tokens that expired before the one, and grants without any that were made before the
        other."""

    async def revoke_grant(self, grant_id: str, at: datetime) -> None: ...

    async def use_code(self, digest: str, at: datetime) -> Code | None:
        """The code, now used. None when there is none, or it was used: then its grant is revoked."""

    async def add_refresh_token(self, token: RefreshToken) -> None: ...

    async def refresh_token(self, digest: str) -> RefreshToken | None: ...

    async def use_refresh_token(self, digest: str, at: datetime) -> RefreshToken | None:
        """As `use_code`."""

    async def signing_keys(self) -> Sequence[SigningKey]:
        """The newest first."""

    async def add_signing_key(self, key: SigningKey, *, first: bool = False) -> None:
        """`first`: only when there is none yet."""

    async def forget_signing_keys(self, *, succeeded_before: datetime) -> None:
        """Those whose successor was made before."""
