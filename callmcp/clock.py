"""The clocks: the port, the system's, the same one run faster, and one that tests turn by hand."""

import asyncio
import heapq
import itertools
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, aware, in UTC."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Real time. With `speed` 10, `sleep(5)` takes half a second; `now()` is the wall clock at any speed."""

    def __init__(self, *, speed: float = 1) -> None:
        self._speed = speed

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


class TestClock:
    """A clock that stands still until `advance` is called. Sleepers wake in the order of their time."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self._order = itertools.count()
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Moves time forward, waking each sleeper at its moment and letting it run before time goes on."""
        until = self._now + timedelta(seconds=seconds)
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
        self._now = until

    @staticmethod
    async def _settle() -> None:
        # The memory store and the scripted model never leave the loop, so this many turns of it let any chain of
        # awaits between two sleeps run to its end.
        for _ in range(50):
            await asyncio.sleep(0)


async def within(seconds: float, work: Coroutine[Any, Any, T], *, clock: Clock) -> T:
    """What `work` returns. Raises TimeoutError, and cancels it, when it is not done in so many seconds of `clock`."""
    working = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({working, limit}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise TimeoutError
    finally:
        working.cancel()
        limit.cancel()
