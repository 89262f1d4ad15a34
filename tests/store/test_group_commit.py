"""Writes that share a commit: who fails with whom."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from callmcp.calls.events import Ringing
from callmcp.errors import CallMcpError, Conflict, NotFound, Unavailable
from callmcp.store import lane
from callmcp.store.calls import add
from callmcp.store.connection import Connection, engine_for
from callmcp.store.lane import Lane
from callmcp.store.sql import SqlStore
from callmcp.store.tables import CALLS, TURNS, turn_columns
from tests.contracts.values import NOON, a_call, an_account
from tests.store.test_tables import TURN

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def writers(file: Path) -> AsyncIterator[Lane]:
    one = Lane(engine_for(f"sqlite:///{file}"), lane.write, threads=1, most=256)
    yield one
    await one.close()


@contextlib.contextmanager
def held_up(file: Path) -> Iterator[None]:
    """Keeps the writer waiting, so that all that is asked meanwhile shares the next commit."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


async def test_a_write_that_fails_fails_alone(store: SqlStore, file: Path) -> None:
    account, calls = an_account(name="taken"), [a_call() for _ in range(20)]
    await store.add_account(account)
    with held_up(file):
        asked = [
            asyncio.ensure_future(write)
            for call in calls
            for write in (
                store.add(call),
                store.add_account(an_account(name="taken")),
                store.apply("call_unknown", Ringing(at=NOON)),
                store.add(replace(call, context="again")),
            )
        ]
        await asyncio.sleep(0)
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert done[0::4] == calls
    assert {type(result) for result in done[1::4]} == {Conflict}
    assert {type(result) for result in done[2::4]} == {NotFound}
    assert {type(result) for result in done[3::4]} == {Conflict}
    assert [await store.call(call.id) for call in calls] == calls
    assert await store.accounts() == [account]


async def test_what_a_failing_write_had_done_is_taken_back_and_the_rest_is_kept(file: Path) -> None:
    call, other = a_call(), a_call()

    def half_done(connection: Connection) -> None:
        add(connection, call)
        raise CallMcpError("changed its mind")

    async with writers(file) as writing:
        with held_up(file):
            asked = [writing.run(half_done), writing.run(partial(add, call=other))]
            waiting = asyncio.gather(*asked, return_exceptions=True)
            await asyncio.sleep(0)
        failed, kept = await waiting
    assert isinstance(failed, CallMcpError)
    assert kept == other
    assert ids(file) == [other.id]


async def test_an_error_of_ours_in_a_write_reaches_its_caller_and_the_writer_goes_on(file: Path) -> None:
    def broken(_: Connection) -> None:
        raise ZeroDivisionError

    call = a_call()
    async with writers(file) as writing:
        with pytest.raises(ZeroDivisionError):
            await writing.run(broken)
        assert await writing.run(partial(add, call=call)) == call


async def test_when_the_commit_fails_nobody_is_told_of_success_and_nothing_is_kept(file: Path) -> None:
    def orphan(connection: Connection) -> None:
        # A turn without a call, which SQLite is told to complain of only at the commit.
        connection.run(text("PRAGMA defer_foreign_keys = ON"), {})
        connection.run(insert(TURNS), turn_columns("call_nobodys", TURN))

    async with writers(file) as writing:
        with held_up(file):
            asked = [writing.run(orphan), writing.run(partial(add, call=a_call()))]
            waiting = asyncio.gather(*asked, return_exceptions=True)
            await asyncio.sleep(0)
        assert [type(result) for result in await waiting] == [Unavailable, Unavailable]
        assert ids(file) == []
        later = a_call()
        assert await writing.run(partial(add, call=later)) == later
    assert ids(file) == [later.id]


async def test_a_disk_that_is_full_is_unavailable_and_the_store_works_again_when_there_is_room(
    store: SqlStore, file: Path
) -> None:
    small = await store.add(a_call())

    big = replace(a_call(), context="x" * 8000)

    def allow(connection: Connection, *, pages: int) -> None:
        connection.run(text(f"PRAGMA max_page_count = {pages}"), {})

    async with writers(file) as writing:
        await writing.run(partial(allow, pages=1))
        asked = [writing.run(partial(add, call=replace(big, id=f"call_{number}"))) for number in range(50)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(result) for result in results} == {Unavailable}
        assert ids(file) == [small.id]
        await writing.run(partial(allow, pages=2**30))
        assert await writing.run(partial(add, call=big)) == big
    assert await store.call(big.id) == big


def ids(file: Path) -> list[str]:
    reader = sqlite3.connect(file)
    found = [row[0] for row in reader.execute(f"SELECT id FROM {CALLS.name} ORDER BY id")]  # noqa: S608
    reader.close()
    return found
