"""Whether a database has this program's schema, and giving it that.

Migrations are alembic's, in `migrations/`. Opening a current database compares one row with a constant, because
importing alembic takes longer than all the rest of a start.

A change of the schema is a change in `tables.py`, a file in `migrations/versions/` that brings a database there, and
its revision as HEAD. A test compares what the two make on both databases.
"""

import time
from pathlib import Path

from sqlalchemy import Connection, Engine, event, inspect, text
from sqlalchemy.exc import DBAPIError

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store.connection import BUSY_SECONDS, sqlite_file, told_as_ours

HEAD = "0005"
"""The newest migration."""

_LOCK = 0x63616C6C6D6370  # "callmcp": the advisory lock that one migrating process holds in PostgreSQL


def revision(engine: Engine) -> str | None:
    """The newest migration that the database has had, None for none. Raises Unavailable when it cannot be reached."""
    file = sqlite_file(engine)
    if file is not None and not file.exists():  # looking must not make one
        return None
    with told_as_ours(engine.dialect), engine.connect() as connection:
        return _revision(connection)


def ready(engine: Engine) -> None:
    """Raises Unavailable when the database cannot be reached or its schema is not of this version."""
    found = revision(engine)
    if found != HEAD:
        raise Unavailable(f"The database's schema is {found or 'not there'}, not {HEAD}: run `callmcp db upgrade`.")


def upgrade(engine: Engine) -> None:
    """Brings the schema to HEAD, one process at a time: others wait, and find it done.

    A new SQLite file and its directory are private to the user. Raises Unavailable, and BadConfiguration for a
    database of a later version or a place where nothing can be written.
    """
    if (file := sqlite_file(engine)) is not None:
        _make_private(file)
    with told_as_ours(engine.dialect):
        if file is not None:
            _set_write_ahead_log(engine)
        with engine.connect() as connection:
            found = _revision(connection)
        if found != HEAD:
            _migrate(engine)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _migrate(engine: Engine) -> None:
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    event.listen(engine, "begin", _lock)
    try:
        with engine.begin() as connection:
            found = _revision(connection)
            if found is not None and found not in known:
                raise BadConfiguration(
                    f"The database has the schema {found} of a later callmcp; this one knows schemas up to {HEAD}. "
                    "Run the later version, or name another database."
                )
            if found != HEAD:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
    finally:
        event.remove(engine, "begin", _lock)


def _lock(connection: Connection) -> None:
    """The first statement of the migrating transaction: it lets no second process in until it commits."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def _make_private(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=True)  # SQLite gives its -wal and -shm the same mode
    except OSError as exc:
        raise BadConfiguration(f"The database cannot be made at {file}: {exc.strerror or exc}.") from exc


def _set_write_ahead_log(engine: Engine) -> None:
    """The mode is a property of the file. Changing it needs the file alone and does not wait for that by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    with engine.connect() as connection:
        while True:
            try:
                if connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
                    return
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except DBAPIError:  # to look at the mode needs the file too while another changes it
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
