import asyncio
from datetime import UTC, timedelta

import pytest

from callmcp.clock import SystemClock, TestClock, within

pytestmark = pytest.mark.anyio


async def test_the_test_clock_wakes_sleepers_at_their_moment_and_in_their_order() -> None:
    clock = TestClock()
    start = clock.now()
    woken = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now() - start))

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 3), ("first", 1), ("second", 1)):
            tasks.create_task(sleep(name, seconds))
        await clock.advance(2)
        assert [name for name, _ in woken] == ["first", "second"]
        await clock.advance(1)

    assert woken[-1] == ("late", timedelta(seconds=3))


async def test_a_cancelled_sleeper_of_the_test_clock_is_forgotten() -> None:
    clock = TestClock()
    sleeping = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    sleeping.cancel()

    await clock.advance(2)

    assert sleeping.cancelled()


async def test_the_system_clock_can_run_faster_and_tells_the_time_in_utc() -> None:
    clock = SystemClock(speed=100_000)

    async with asyncio.timeout(5):
        await clock.sleep(3600)
    assert clock.now().tzinfo is UTC


async def test_what_is_done_in_time_is_given_back() -> None:
    async def work() -> int:
        return 42

    assert await within(1, work(), clock=TestClock()) == 42


async def test_what_is_not_done_in_time_is_cancelled() -> None:
    clock = TestClock()
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(within(1, work(), clock=clock))
    await clock.advance(1)

    with pytest.raises(TimeoutError):
        await waiting
    await clock.advance(0)
    assert cancelled.is_set()


async def test_what_fails_in_time_fails() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await within(1, work(), clock=TestClock())
