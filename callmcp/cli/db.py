"""callmcp db: the database itself."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callmcp.cli.command import Group, must_exist, settings
from callmcp.cli.printing import say

if TYPE_CHECKING:
    from callmcp.store.sql import SqlStore


@click.group(cls=Group)
def db() -> None:
    """Bring the database up to date, or copy it."""


@db.command()
async def upgrade() -> None:
    """Bring the tables up to date. Serving does so by itself."""
    async with _store(new=True) as store:
        await store.upgrade()
    say("The database is up to date.")


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
async def backup(file: Path) -> None:
    """Copy the database to FILE, consistent also while it is served. FILE must not exist."""
    async with _store() as store:
        await store.backup(file)
    say(f"Copied to {file}.")


@db.command(short_help="Say whether the tables are up to date.")
async def current() -> None:
    """Say whether the tables are up to date; exit status 1 when they are not."""
    async with _store() as store:
        await store.ready()
    say("The database is up to date.")


@contextlib.asynccontextmanager
async def _store(*, new: bool = False) -> AsyncIterator["SqlStore"]:
    from callmcp.store.sql import SqlStore  # noqa: PLC0415 - see command.opened

    chosen = settings()
    if not new:
        must_exist(chosen)
    store = SqlStore(chosen.database_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
