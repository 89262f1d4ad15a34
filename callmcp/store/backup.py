"""A copy of an SQLite database while it serves."""

import contextlib
import os
import sqlite3
from pathlib import Path

from sqlalchemy import Engine

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store.connection import sqlite_file, told_as_ours


def backup(engine: Engine, path: Path) -> None:
    """Copies the database as of one moment to the new file `path`, private to the user, and checks the copy.

    Writers go on meanwhile. Raises BadConfiguration for PostgreSQL, which has its own ways, and for a path that
    exists or cannot be written; Unavailable when the copying fails, in which case no file is left.
    """
    source = sqlite_file(engine)
    if source is None:
        raise BadConfiguration("A PostgreSQL database is backed up with its own tools: use pg_dump.")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as exc:
        raise BadConfiguration(f"{path} exists already, and a backup overwrites nothing.") from exc
    except OSError as exc:
        raise BadConfiguration(f"{path} cannot be written: {exc.strerror or exc}.") from exc
    try:
        with told_as_ours(engine.dialect):
            _copy(source, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _copy(source: Path, path: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original,
        contextlib.closing(sqlite3.connect(path)) as copy,
    ):
        original.backup(copy)  # all pages in one step: a read transaction, which holds up nobody in WAL mode
        # One self-contained file: without this, whoever opens the copy read-only finds a log that is not there.
        copy.execute("PRAGMA journal_mode=DELETE")
        (verdict,) = copy.execute("PRAGMA integrity_check").fetchone()
    if verdict != "ok":
        raise Unavailable(f"The copy is damaged: {verdict}.")
