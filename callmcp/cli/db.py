"""callmcp db: the database itself."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callmcp.cli.command import Group, must_exist, settings
from callmcp.cli.printing import say

if TYPE_CHECKING:
    from callmcp.store import Store


@click.group(cls=Group)
def db() -> None:
    """Bring the database up to date, or copy it."""


@db.command()
async def upgrade() -> None:
    """Bring the tables up to date. Serving does so by itself."""
    async with _store(new=True) as store:
        await store.upgrade()
        click.echo(await store.revision())


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
async def backup(file: Path) -> None:
    """Copy the database to FILE, consistent also while it is served. FILE must not exist."""
    async with _store() as store:
        await store.backup(file)
    say(f"Copied to {file}.")


@db.command()
async def current() -> None:
    """Print the revision of the tables."""
    async with _store() as store:
        click.echo(await store.revision() or "none")


@contextlib.asynccontextmanager
async def _store(*, new: bool = False) -> AsyncIterator["Store"]:
    from callmcp.store import open_store  # noqa: PLC0415 - see command.opened

    chosen = settings()
    if not new:
        must_exist(chosen)
    store = open_store(chosen.database_url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
