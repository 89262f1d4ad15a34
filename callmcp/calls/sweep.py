"""Calls that stopped reporting, and calls whose process is gone, are settled truthfully. Nothing is re-dialled.

Two loops, started by the composition root wherever calls are placed:
`beat` says that this process is alive and obeys what other processes asked of its calls; `settle` looks for the rest.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from callmcp.calls.events import FellSilent, GivenUp, OwnerLost
from callmcp.calls.model import CallStatus
from callmcp.calls.operations import Calls
from callmcp.calls.ports import CallStore, Telephony
from callmcp.clock import Clock
from callmcp.errors import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is too long, in seconds.

    `silence`: from acceptance without a word from the carrier to `unknown`. `give_up`: from then to `failed`.
    `owner`: how long a process may go without a heartbeat before its calls are settled by another.
    """

    silence: float = 15
    give_up: float = 120
    owner: float = 5


LOOKS = 4  # at the least, at an owner that is silent, before its calls are settled


class Sweep:
    def __init__(
        self,
        *,
        store: CallStore,
        calls: Calls,
        telephony: Telephony,
        clock: Clock,
        owner: str,
        patience: Patience,
    ) -> None:
        self._store = store
        self._calls = calls
        self._telephony = telephony
        self._clock = clock
        self._owner = owner
        self._patience = patience
        self.trouble: Unavailable | None = None
        """Why the last heartbeat could not be stored; None while it can, and with it anything else."""
        self._silences: dict[str, tuple[int, float]] = {}
        self._last_look = 0.0

    async def beat(self) -> None:
        """One heartbeat, and obedience to stored requests to end this process's calls."""
        try:
            await self._store.beat(self._owner)
        except Unavailable as trouble:
            self.trouble = trouble
            raise
        self.trouble = None
        for call in await self._store.to_end(self._owner):
            await self._telephony.end(call)

    async def settle(self) -> None:
        """One look at the calls of processes that are gone, and at those that were quiet for too long."""
        now = self._clock.now()
        for owner in await self._silent_owners():
            for call in await self._store.carried_by(owner):
                await self._calls.observe(call.id, OwnerLost(at=now))
            await self._store.forget_owner(owner)
        for status, seconds, event in (
            (CallStatus.QUEUED, self._patience.silence, FellSilent(at=now)),
            (CallStatus.UNKNOWN, self._patience.silence + self._patience.give_up, GivenUp(at=now)),
        ):
            for call in await self._store.quiet(status, since=now - timedelta(seconds=seconds)):
                await self._calls.observe(call.id, event)

    async def _silent_owners(self) -> Collection[str]:
        """Owners whose count of beats has not moved for too long on this process's own clock: others' may be wrong.

        One look adds at most a quarter of that time. When the database was away, or this machine slept, the first look
        comes after a long gap in which nobody could beat, and everybody needs the time to do it again.
        """
        beats = await self._store.beats()
        now = asyncio.get_running_loop().time()
        passed = min(now - self._last_look, self._patience.owner / LOOKS)
        self._last_look = now
        silences = {}
        silent = []
        for owner, count in beats.items():
            seen, silence = self._silences.get(owner, (None, 0.0))
            still = seen == count
            silences[owner] = (count, silence + passed if still else 0.0)
            if still and owner != self._owner and silence + passed >= self._patience.owner:
                silent.append(owner)
        self._silences = silences
        return silent
