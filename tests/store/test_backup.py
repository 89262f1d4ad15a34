"""A copy of the database while it serves."""

import asyncio
from pathlib import Path

import pytest

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store.sql import SqlStore
from tests.contracts.values import a_call

pytestmark = pytest.mark.anyio


async def test_a_backup_taken_while_serving_is_a_database_with_all_that_was_stored_before_it(
    store: SqlStore, tmp_path: Path
) -> None:
    before = [await store.add(a_call(context="x" * 4000)) for _ in range(50)]
    during = [a_call() for _ in range(200)]
    copy = tmp_path / "copy.db"
    await asyncio.gather(store.backup(copy), *map(store.add, during))
    assert {part.name: part.stat().st_mode & 0o777 for part in copies(tmp_path)} == {"copy.db": 0o600}
    restored = SqlStore(f"sqlite:///{copy}")
    await restored.open()
    await restored.upgrade()
    await restored.ready()
    assert [await restored.call(call.id) for call in before] == before
    await restored.close()
    assert [await store.call(call.id) for call in during] == during


async def test_a_backup_overwrites_nothing(store: SqlStore, tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_text("precious")
    with pytest.raises(BadConfiguration, match="exists already"):
        await store.backup(there)
    assert there.read_text() == "precious"


async def test_a_place_where_no_backup_can_be_written_is_told(store: SqlStore, tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="cannot be written"):
        await store.backup(tmp_path / "nowhere" / "copy.db")


async def test_a_copy_that_fails_leaves_no_file(store: SqlStore, file: Path, tmp_path: Path) -> None:
    await asyncio.to_thread(file.write_text, "These are not the pages of a database. " * 100)
    with pytest.raises(Unavailable):
        await store.backup(tmp_path / "copy.db")
    assert copies(tmp_path) == []


async def test_a_postgresql_is_backed_up_with_its_own_tools(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="pg_dump"):
        await SqlStore("postgresql://user@host/name").backup(tmp_path / "copy.db")
    assert copies(tmp_path) == []


def copies(folder: Path) -> list[Path]:
    return list(folder.glob("copy*"))
