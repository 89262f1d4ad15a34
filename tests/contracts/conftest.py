"""Every store there is, for one body of tests."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from callmcp.agents.ports import AgentStore
from callmcp.calls.ports import CallStore
from callmcp.identity.audit import AuditStore
from callmcp.identity.ports import GrantStore, KeyStore
from callmcp.store import schema
from callmcp.store.connection import engine_for
from callmcp.store.memory import MemoryStore
from callmcp.store.sql import SqlStore
from tests import postgres


class Store(KeyStore, GrantStore, AuditStore, AgentStore, CallStore, Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ready(self) -> None: ...

    async def upgrade(self) -> None: ...


TABLES = (
    *("turns", "calls", "agent_versions", "agents", "api_keys", "accounts", "owners"),
    *("opt_outs", "limits", "refusals", "prices", "spend"),
    *(f"oauth_{name}" for name in ("clients", "grants", "codes", "refresh_tokens", "signing_keys")),
)  # and not the audit trail, which lets nobody


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database to copy: migrating one for each test would take most of the run."""
    file = tmp_path_factory.mktemp("migrated") / "callmcp.db"
    schema.upgrade(engine_for(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def migrated_postgres() -> Iterator[str]:
    with postgres.database() as url:
        schema.upgrade(engine_for(url))
        yield url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty, open store of each kind in turn."""
    made: Store
    match request.param:
        case "memory":
            made = MemoryStore()
        case "sqlite":
            file = shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "callmcp.db")
            made = SqlStore(f"sqlite:///{file}")
        case _:
            url = request.getfixturevalue("migrated_postgres")
            postgres.empty(url, *TABLES)
            made = SqlStore(url)
    await made.open()
    await made.upgrade()
    yield made
    await made.close()
