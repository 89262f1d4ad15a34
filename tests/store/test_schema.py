"""Migrations: the schema they make, who makes it, and what is refused."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text
from sqlmodel import SQLModel

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store import schema
from callmcp.store.connection import engine_for
from callmcp.store.sql import SqlStore
from tests import postgres

DESCRIPTIONS = {
    "sqlite": """
        SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
        UNION ALL
        SELECT name, CASE WHEN sql LIKE '%WITHOUT ROWID%' THEN 'no rowid' ELSE 'rowid' END
          FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'alembic%'
        UNION ALL
        SELECT t.name || '.' || c.name, c.type || ' ' || c."notnull" || ' ' || c.pk
          FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'alembic%'
        UNION ALL
        SELECT t.name || '.' || k."from", k."table" || '.' || k."to" || ' ' || k.on_delete
          FROM sqlite_master t JOIN pragma_foreign_key_list(t.name) k WHERE t.type = 'table'
        UNION ALL
        SELECT t.name || '.' || i.name, i."unique" || ' ' || group_concat(c.name)
          FROM sqlite_master t JOIN pragma_index_list(t.name) i JOIN pragma_index_info(i.name) c
         WHERE t.type = 'table' AND t.name NOT LIKE 'alembic%' GROUP BY t.name, i.name, i."unique"
    """,
    "postgresql": """
        SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE 'alembic%'
        UNION ALL
        SELECT table_name || '.' || column_name, concat_ws(' ', data_type, is_nullable, character_maximum_length,
               numeric_precision)
          FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'alembic%'
        UNION ALL
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
          FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text NOT LIKE 'alembic%'
    """,
}


def described(engine: Engine) -> set[tuple[str, str]]:
    """What the database itself says of its tables, columns, constraints and indexes. Not in which order columns stand,
    nor what rows from before a column was added have in it: every row is written whole, by the names of its columns."""
    with engine.connect() as connection:
        return {(row[0], row[1]) for row in connection.execute(text(DESCRIPTIONS[engine.dialect.name]))}


def test_migrating_gives_the_schema_that_the_rows_declare(empty_url: str, tmp_path: Path) -> None:
    migrated = engine_for(empty_url)
    schema.upgrade(migrated)
    if migrated.dialect.name == "sqlite":
        (tmp_path / "declared.db").touch()
        declared = engine_for(f"sqlite:///{tmp_path}/declared.db")
        SQLModel.metadata.create_all(declared)
        assert described(migrated) == described(declared)
    else:
        with postgres.database() as url:
            declared = engine_for(url)
            SQLModel.metadata.create_all(declared)
            assert described(migrated) == described(declared)
    assert len(described(migrated)) > 10


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_a_database_is_ready_after_its_upgrade_and_not_before(empty_url: str, tmp_path: Path) -> None:
    engine = engine_for(empty_url)
    with pytest.raises(Unavailable, match="callmcp db upgrade"):
        schema.ready(engine)
    assert list(tmp_path.iterdir()) == []
    schema.upgrade(engine)
    schema.ready(engine)
    schema.upgrade(engine)


OLD_AGENT = {
    "id": "agt_000001",
    "account_id": "acct_1",
    "name": "Ada",
    "description": "",
    "instructions": "",
    "greeting": "Hello.",
    "model": "scripted",
    "from_number": None,
    "max_duration_seconds": 600,
    "version": 3,
    "created_at": 1,
    "updated_at": 2,
    "deleted_at": None,
}
OLD_CALL = {
    "id": "call_1",
    "account_id": "acct_1",
    "key_id": "key_1",
    "agent_id": "agt_000001",
    "agent_version": 3,
    "to": "+14155550100",
    "from_number": "+15550100000",
    "context": "",
    "metadata": "{}",
    "max_duration_seconds": 600,
    "idempotency_key": None,
    "fingerprint": "",
    "carrier": "simulator",
    "token": "t",
    "carrier_id": None,
    "owner": None,
    "status": "completed",
    "created_at": 1,
    "heard_from_at": 1,
    "end_requested_at": None,
    "answered_at": 1,
    "ended_at": 2,
    "answered_by": None,
    "end_reason": "machine",
    "outcome": '{"goal_met": "no", "summary": "A machine."}',
    "opt_out": False,
    "turn_count": 0,
    "error": None,
}


def test_what_the_first_schema_held_is_there_after_an_upgrade(empty_url: str) -> None:
    engine = engine_for(empty_url)
    _upgrade_to(engine, "0001")
    with engine.begin() as connection:
        for table, row in (("agents", OLD_AGENT), ("calls", OLD_CALL)):
            names = ", ".join(f'"{name}"' for name in row)
            values = ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)  # noqa: S608

    schema.upgrade(engine)

    async def read() -> None:
        store = SqlStore(empty_url)
        await store.open()
        agent, call = await store.agent("agt_000001"), await store.call("call_1")
        assert agent is not None
        assert call is not None
        assert (agent.name, agent.language, agent.hints, agent.recording) == ("Ada", "en-US", (), False)
        assert await store.agent_versions(agent.id) == [agent]
        assert (call.language, call.questions, call.recording, call.breaks) == ("en-US", (), None, 0)
        assert call.outcome is not None
        assert call.outcome.answers == ()
        await store.close()

    asyncio.run(read())


def _upgrade_to(engine: Engine, revision: str) -> None:
    """As an earlier version of the program would have done."""
    if engine.dialect.name == "sqlite":
        file = Path(str(engine.url.database))
        file.parent.mkdir(exist_ok=True)
        file.touch()
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


UPGRADE = """
import sys
from callmcp.store import schema
from callmcp.store.connection import engine_for
engine = engine_for(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
schema.upgrade(engine)
schema.ready(engine)
print("alembic" if "alembic" in sys.modules else "no alembic")
"""


def test_a_file_that_another_process_has_for_itself_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "callmcp.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        upgrading = threading.Thread(target=schema.upgrade, args=(engine_for(f"sqlite:///{file}"),))
        upgrading.start()
        upgrading.join(0.2)
        assert upgrading.is_alive()
        other.execute("ROLLBACK")
    upgrading.join(10)
    schema.ready(engine_for(f"sqlite:///{file}"))


def test_processes_that_start_at_once_on_nothing_all_find_it_migrated_once(empty_url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADE, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")
    with engine_for(empty_url).connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [schema.HEAD]


def test_opening_a_current_database_does_not_import_alembic(file: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", UPGRADE, f"sqlite:///{file}"], input="\n", capture_output=True, text=True, check=True
    )
    assert process.stdout == "ready\nno alembic\n"


def test_a_database_of_a_later_version_is_refused_and_left_alone(empty_url: str) -> None:
    engine = engine_for(empty_url)
    schema.upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(BadConfiguration, match="9999 of a later callmcp"):
        schema.upgrade(engine)
    with pytest.raises(Unavailable, match="9999"):
        schema.ready(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"


def test_a_new_database_and_its_directory_are_private(tmp_path: Path) -> None:
    file = tmp_path / "data" / "callmcp.db"

    async def used() -> set[str]:
        store = SqlStore(f"sqlite:///{file}")
        await store.open()
        await store.upgrade()
        await store.beat("host:1")
        modes = {f"{part.suffix}:{part.stat().st_mode & 0o777:o}" for part in file.parent.iterdir()}
        await store.close()
        return modes

    assert asyncio.run(used()) == {".db:600", ".db-wal:600", ".db-shm:600"}
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadConfiguration, match="cannot be made"):
        schema.upgrade(engine_for(f"sqlite:///{tmp_path}/file/callmcp.db"))
