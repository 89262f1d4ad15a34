"""The way to a database: its engine, a connection that runs Core statements, and what its driver's errors mean.

A statement is compiled once for each dialect and then goes straight to the driver with named parameters. SQLAlchemy's
own execution costs about 60 microseconds a statement, SQLite's answer to one about 20.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Dialect, Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert

from callmcp.errors import BadConfiguration, Unavailable
from callmcp.store.tables import Columns, Row

BUSY_SECONDS: Final = 10.0
"""How long a write waits for another process's transaction: on the same SQLite file, on the same call in PostgreSQL."""

_FORMS = "sqlite:///path/to/file or postgresql://user:password@host/name"


class InsertNew(Insert):
    """An INSERT that stores nothing when the row clashes with a stored one. Its row count tells."""

    inherit_cache = True


@compiles(InsertNew)
def _insert_new(insert: InsertNew, compiler: SQLCompiler, **kwargs: Any) -> str:
    return f"{compiler.visit_insert(insert, **kwargs)} ON CONFLICT DO NOTHING"  # type: ignore[no-untyped-call]


def engine_for(url: str) -> Engine:
    """An engine that keeps no connections of its own. Raises BadConfiguration for a URL of no known form."""
    try:
        parsed = make_url(url)
    except ArgumentError:  # its text may show the password
        raise BadConfiguration(f"The database URL is not one: it must be {_FORMS}.") from None
    if parsed.drivername == "sqlite":
        return _sqlite(parsed)
    if parsed.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        return _postgresql(parsed)
    raise BadConfiguration(f"There is no database for {parsed.drivername!r} URLs: it must be {_FORMS}.")


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise BadConfiguration("An SQLite database needs a file: each thread of the store has its own connection.")
    existing = f"{Path(url.database).absolute().as_uri()}?mode=rw"  # schema.py makes new ones, and makes them private

    def connect() -> sqlite3.Connection:
        # isolation_level None: the driver begins nothing by itself, so a transaction is what this package says it is.
        return sqlite3.connect(existing, uri=True, isolation_level=None, timeout=BUSY_SECONDS, cached_statements=256)

    return create_engine(url, creator=connect, paramstyle="named", poolclass=NullPool, pool_reset_on_return=None)


def _postgresql(url: URL) -> Engine:
    # Without these, a server that vanishes without a word is noticed by TCP's own clocks: after minutes or hours.
    patience = {"connect_timeout": 5, "tcp_user_timeout": 15_000, "keepalives_idle": 15, "keepalives_interval": 5}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={"application_name": "callmcp"} | patience,
        poolclass=NullPool,
        pool_reset_on_return=None,
    )


def sqlite_file(engine: Engine) -> Path | None:
    """The file of an SQLite database, None for another."""
    return Path(engine.url.database) if engine.dialect.name == "sqlite" and engine.url.database else None


def ours(error: Exception, dialect: Dialect) -> Exception:
    """Unavailable in place of a driver's error: locked, unreachable, read-only, disk full. Any other as it is."""
    if not isinstance(error, (dialect.loaded_dbapi.Error, DBAPIError)):
        return error
    why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    unavailable = Unavailable(f"The database cannot be used now: {why or type(error).__name__}.")
    unavailable.__cause__ = error
    return unavailable


@contextlib.contextmanager
def told_as_ours(dialect: Dialect) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (told := ours(error, dialect)) is error:
            raise
        raise told from error


class Connection:
    """One driver connection outside any transaction until `begin`. For the thread that made it.

    Without `waits`, what another connection to the same SQLite file stands in the way of fails at once.
    """

    def __init__(self, engine: Engine, *, waits: bool = True) -> None:
        self._dialect = engine.dialect
        self._texts: dict[Executable, tuple[str, Mapping[str, Any]]] = {}
        self._pooled = engine.raw_connection()
        self._driver = cast("Any", self._pooled.driver_connection)
        if self.is_sqlite:
            # FULL: a commit that was told is on the disk, also after a power failure; WAL alone does not promise it.
            for pragma in (
                "synchronous=FULL",
                "foreign_keys=ON",
                "temp_store=MEMORY",
                *(() if waits else ("busy_timeout=0",)),
            ):
                self._driver.execute(f"PRAGMA {pragma}")
            self._begin = "BEGIN IMMEDIATE"
        else:
            self._driver.autocommit = True
            self._begin = f"BEGIN; SET LOCAL lock_timeout = '{BUSY_SECONDS}s'"

    @property
    def is_sqlite(self) -> bool:
        return self._dialect.name == "sqlite"

    @property
    def is_lost(self) -> bool:
        """True when the server has gone away and another connection is needed."""
        return not self.is_sqlite and bool(self._driver.closed)

    def answers(self) -> bool:
        """Whether the server is still there. A file always is."""
        try:
            return self.is_sqlite or bool(self._driver.execute("SELECT 1"))
        except self._dialect.loaded_dbapi.Error:
            return False

    def close(self) -> None:
        self._pooled.close()

    def all(self, statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Row]:
        return self._run(statement, parameters).fetchall()  # type: ignore[no-any-return]

    def one(self, statement: Executable, parameters: Mapping[str, Any]) -> Row | None:
        """The first row, when there is one."""
        return self._run(statement, parameters).fetchone()  # type: ignore[no-any-return]

    def run(self, statement: Executable, parameters: Mapping[str, Any]) -> int:
        """How many rows it changed."""
        return self._run(statement, parameters).rowcount  # type: ignore[no-any-return]

    def run_many(self, statement: Executable, parameters: Sequence[Columns]) -> None:
        self._driver.cursor().executemany(self._compiled(statement)[0], parameters)

    def begin(self) -> None:
        """Begins a transaction for writing; on SQLite no other writer can begin one from now on."""
        self._driver.execute(self._begin)

    def commit(self) -> None:
        self._driver.execute("COMMIT")

    def rollback(self) -> None:
        """Ends a transaction if there is one, and keeps nothing of it."""
        if not self.is_lost and self.in_transaction:
            self._driver.execute("ROLLBACK")

    @property
    def in_transaction(self) -> bool:
        """False also when the database gave up the transaction by itself, as SQLite does when the disk is full."""
        if self.is_sqlite:
            return bool(self._driver.in_transaction)
        return bool(self._driver.info.transaction_status)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Takes back what was done inside when it raises, and only that."""
        self._driver.execute("SAVEPOINT job")
        try:
            yield
        except BaseException:
            if not self.is_lost and self.in_transaction:
                self._driver.execute("ROLLBACK TO job")
                self._driver.execute("RELEASE job")
            raise
        self._driver.execute("RELEASE job")

    def _run(self, statement: Executable, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a driver's cursor
        text, constants = self._compiled(statement)
        return self._driver.execute(text, {**constants, **parameters} if constants else parameters)

    def _compiled(self, statement: Executable) -> tuple[str, Mapping[str, Any]]:
        """The text for this dialect, and the parameters that the statement brings along."""
        known = self._texts.get(statement)
        if known is None:
            compiled = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
            constants = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
            known = self._texts[statement] = (str(compiled), constants)
        return known
