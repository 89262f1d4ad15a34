import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from callmcp.store.sql import SqlStore
from tests import postgres
from tests.contracts.conftest import anyio_backend, migrated_file

__all__ = ["anyio_backend", "migrated_file"]


@pytest.fixture
def file(migrated_file: Path, tmp_path: Path) -> Path:
    """An SQLite database with the present schema and nothing in it."""
    return Path(shutil.copy(migrated_file, tmp_path / "callmcp.db"))


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind in turn, without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/new/callmcp.db"
    else:
        with postgres.database() as url:
            yield url


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqlStore]:
    made = SqlStore(f"sqlite:///{file}")
    await made.open()
    yield made
    await made.close()
