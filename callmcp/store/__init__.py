"""Where accounts, keys, agents and calls are kept: SQLite or PostgreSQL, or memory for tests."""

from typing import Protocol

from callmcp.agents.ports import AgentStore
from callmcp.calls.ports import CallStore
from callmcp.identity.audit import AuditStore
from callmcp.identity.ports import GrantStore, KeyStore


class Store(KeyStore, GrantStore, AuditStore, AgentStore, CallStore, Protocol):
    """All that is kept, and the life of what keeps it."""

    async def open(self) -> None:
        """Raises Unavailable when it cannot be reached."""

    async def close(self) -> None: ...

    async def ready(self) -> None:
        """Raises Unavailable when it cannot be reached now, or its schema is not this version's."""

    async def upgrade(self) -> None:
        """Brings the schema up to this version's. Raises BadConfiguration when it is newer than that."""
