"""Threads that hold connections, so that the event loop never waits for a disk or a network.

A lane is a queue of jobs and the threads that take from it. A thread takes the jobs that wait, up to a number, and
wakes their callers together: crossing from a thread to the loop costs more than a small query. For SQLite's one
writer the same taking together is the group commit: one flush of the disk for all.
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Engine

from callmcp.errors import Unavailable
from callmcp.store.connection import Connection, ours

T = TypeVar("T")

_TRUSTED_SECONDS = 1.0
"""A connection that rested longer is asked whether its server is still there, so that a restart of the database costs
nobody an error but who was in the middle."""

_CLOSE_WITHIN_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class Ask:
    """One job, who waits for it, and what became of it."""

    job: Callable[[Connection], Any]
    waiter: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


Way = Callable[[Connection, Sequence[Ask]], None]
"""How a thread does what it took. When it raises, all of it failed."""


def read(connection: Connection, asks: Sequence[Ask]) -> None:
    """Each by itself, outside a transaction."""
    for ask in asks:
        try:
            ask.result = ask.job(connection)
        except Exception as error:
            ask.error = error


def write(connection: Connection, asks: Sequence[Ask]) -> None:
    """All in one transaction. A job that fails fails alone; when the commit fails, none of it happened."""
    connection.begin()
    try:
        for ask in asks:
            try:
                with connection.savepoint():
                    ask.result = ask.job(connection)
            except Exception as error:
                if not connection.in_transaction:
                    raise
                ask.error = error
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


class Lane:
    """Runs jobs on `threads` threads, each taking up to `most` jobs at a time and doing them in this `way`.

    It serves the event loop that made it. `close` lets what was asked end first, but waits no longer than a stop may
    take: a database that does not answer leaves its threads, which are daemons, to the end of the process.
    """

    def __init__(self, engine: Engine, way: Way, *, threads: int, most: int) -> None:
        self._engine = engine
        self._way = way
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._asked: SimpleQueue[Ask | None] = SimpleQueue()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name="store", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, job: Callable[[Connection], T]) -> T:
        """What `job` returns or raises; Unavailable when the database does not do its part.

        A job whose caller goes away is done nevertheless.
        """
        if self._closed:
            raise Unavailable("The store is closed.")
        ask = Ask(job=job, waiter=self._loop.create_future())
        self._asked.put(ask)
        result: T = await ask.waiter
        return result

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._asked.put(None)
            await asyncio.to_thread(self._join)

    def _join(self) -> None:
        until = time.monotonic() + _CLOSE_WITHIN_SECONDS
        for thread in self._threads:
            thread.join(max(0, until - time.monotonic()))

    def _work(self) -> None:
        connection: Connection | None = None
        rested_since = 0.0
        while asks := self._take():
            try:
                rested = time.monotonic() - rested_since > _TRUSTED_SECONDS
                if connection is None or connection.is_lost or (rested and not connection.answers()):
                    connection = None
                    connection = Connection(self._engine)
                self._way(connection, asks)
            except Exception as error:  # the askers' to judge, and the thread serves the next
                if connection is None:
                    # Nobody else here would fare better, and each in turn would wait as long for a silent server.
                    asks += self._take_more(sys.maxsize)
                for ask in asks:
                    ask.error = error
            rested_since = time.monotonic()
            self._tell(asks)
        if connection is not None:
            connection.close()

    def _take(self) -> list[Ask]:
        """Waits for the first job and takes along what else is there; empty when the lane closes."""
        first = self._asked.get()
        return [] if first is None else [first, *self._take_more(self._most - 1)]

    def _take_more(self, most: int) -> list[Ask]:
        taken: list[Ask] = []
        with contextlib.suppress(Empty):
            while len(taken) < most:
                ask = self._asked.get_nowait()
                if ask is None:
                    self._asked.put(None)  # the next round's, or another thread's
                    break
                taken.append(ask)
        return taken

    def _tell(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            if ask.error is not None:
                ask.error = ours(ask.error, self._engine.dialect)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(_wake, asks)


def _wake(asks: Sequence[Ask]) -> None:
    for ask in asks:
        if ask.waiter.done():  # canceled
            continue
        if ask.error is not None:
            ask.waiter.set_exception(ask.error)
        else:
            ask.waiter.set_result(ask.result)
