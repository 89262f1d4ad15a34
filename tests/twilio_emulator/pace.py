"""Twilio's time, which runs `speed` times as fast as ours. Network limits are not of this time: the network is real."""

import asyncio
import time
from datetime import UTC, datetime


class Pace:
    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._from = time.monotonic()
        self._then = 0.0

    def now(self) -> float:
        """Emulated seconds since the start."""
        return self._then + (time.monotonic() - self._from) * self._speed

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._then, self._from, self._speed = self.now(), time.monotonic(), speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)

    async def until(self, moment: float) -> None:
        """Yields once at least, so that whoever reacts to the last moment acts before the next one."""
        await self.sleep(moment - self.now())

    async def unless(self, event: asyncio.Event, seconds: float) -> bool:
        """Sleeps, unless the event happens first: was it a whole sleep?"""
        try:
            await asyncio.wait_for(event.wait(), max(0.0, seconds) / self._speed)
        except TimeoutError:
            return True
        return False


def wall() -> datetime:
    """Dates are of the real calendar, so that a search by date finds today's calls at any speed."""
    return datetime.now(UTC)


def rfc2822(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%a, %d %b %Y %H:%M:%S +0000")
