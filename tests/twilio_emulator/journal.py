"""Everything that happened, in order: what came in, what went out, what was wrong with it."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.twilio_emulator.pace import Pace, wall

Entry = dict[str, Any]


class Journal:
    """An entry is {n, at (ISO 8601), t (emulated seconds), kind, call (SID or ""), ...}."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._grown = asyncio.Event()
        self.entries: list[Entry] = []

    def note(self, kind: str, call: str = "", **facts: Any) -> None:
        entry = {"n": len(self.entries) + 1, "at": wall().isoformat(), "t": round(self._pace.now(), 3)}
        self.entries.append(entry | {"kind": kind, "call": call} | facts)
        self.changed()

    def alert(self, code: int, text: str, call: str = "") -> None:
        """What Twilio's Monitor would show."""
        self.note("alert", call, code=code, text=text)

    def violation(self, text: str, call: str = "", **facts: Any) -> None:
        """The program under test did what Twilio would choke on, or would let pass without doing what was meant."""
        self.note("violation", call, text=text, **facts)

    def of(self, kind: str = "", call: str = "", after: int = 0) -> list[Entry]:
        return [e for e in self.entries[after:] if kind in ("", e["kind"]) and call in ("", e["call"])]

    def changed(self) -> None:
        """Wakes whoever waits in `until`."""
        self._grown.set()
        self._grown = asyncio.Event()

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Waits for something to hold, at most so many real seconds: does it?"""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._grown.wait()
        except TimeoutError:
            return holds()
        return True
