"""What identity needs of a store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

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
