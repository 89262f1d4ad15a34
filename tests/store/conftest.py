import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from callmcp.store import schema
from callmcp.store.connection import engine_for
from callmcp.store.sql import SqlStore
from tests import postgres


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "callmcp.db"
    schema.upgrade(engine_for(f"sqlite:///{file}"))
    return file


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
