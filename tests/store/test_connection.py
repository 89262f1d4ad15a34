"""URLs, and what a database's troubles look like from outside."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store.connection import Connection, engine_for
from callmcp.store.sql import SqlStore
from tests import postgres
from tests.contracts.values import a_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_form_of_a_postgresql_url_means_the_same(scheme: str) -> None:
    engine = engine_for(f"{scheme}://user:secret@host/name")
    assert (engine.dialect.name, engine.driver, engine.url.host) == ("postgresql", "psycopg", "host")


@pytest.mark.parametrize(
    "url", ["", "callmcp.db", "mysql://user:secret@host/name", "sqlite://", "sqlite:///:memory:", "postgres:secret"]
)
def test_any_other_url_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        engine_for(url)
    assert "secret" not in str(caught.value)


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    store = SqlStore(f"postgresql://user@/name?host={tmp_path}")
    await store.open()
    for attempt in (store.upgrade(), store.ready(), store.add(a_call()), store.call("call_1")):
        with pytest.raises(Unavailable, match="The database cannot be used now"):
            await attempt
    await store.close()


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "callmcp.db"
    file.write_text("These are not the pages of a database. " * 100)
    store = SqlStore(f"sqlite:///{file}")
    await store.open()
    for attempt in (store.upgrade(), store.ready(), store.beat("host:1"), store.beats()):
        with pytest.raises(Unavailable):
            await attempt
    await store.close()


async def test_a_store_that_is_not_open_is_unavailable(file: Path) -> None:
    store = SqlStore(f"sqlite:///{file}")
    with pytest.raises(Unavailable):
        await store.beats()
    await store.open()
    await store.beat("host:1")
    await store.close()
    with pytest.raises(Unavailable):
        await store.beats()
    await store.close()


async def test_closing_lets_what_was_asked_end(file: Path) -> None:
    store = SqlStore(f"sqlite:///{file}")
    await store.open()
    calls = [a_call() for _ in range(300)]
    adding = [asyncio.ensure_future(store.add(call)) for call in calls]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*adding) == calls


async def test_a_caller_that_goes_away_disturbs_nobody(store: SqlStore) -> None:
    gone = asyncio.ensure_future(store.beat("host:1"))
    await asyncio.sleep(0)
    gone.cancel()
    await store.beat("host:2")
    assert "host:2" in await store.beats()


async def test_a_commit_on_sqlite_is_on_the_disk_before_it_is_told(file: Path) -> None:
    connection = Connection(engine_for(f"sqlite:///{file}"))
    told = {
        name: connection.one(text(f"PRAGMA {name}"), {}) for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    connection.close()
    assert told == {"journal_mode": ("wal",), "synchronous": (2,), "foreign_keys": (1,)}  # 2 is FULL


async def test_reading_goes_on_while_another_process_writes(store: SqlStore, file: Path) -> None:
    await store.beat("host:1")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.beat("host:1"))
    async with asyncio.timeout(5):
        assert await store.beats() == {"host:1": 1}
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    await writing
    assert await store.beats() == {"host:1": 2}


async def test_a_restarted_postgresql_is_found_again() -> None:
    with postgres.database() as url:
        store = SqlStore(url)
        await store.open()
        await store.upgrade()
        await store.beat("host:1")
        postgres.run(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()",
        )

        async def until_it_works() -> None:
            while True:
                try:
                    await asyncio.gather(*(store.beat("host:1") for _ in range(4)))
                except Unavailable:
                    continue
                return

        async with asyncio.timeout(10):
            await until_it_works()
            assert set(await store.beats()) == {"host:1"}
        await store.close()
