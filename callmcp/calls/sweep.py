"""Calls that stopped reporting, and calls whose process is gone, are settled truthfully. Nothing is re-dialled.

Two loops, started by the composition root wherever calls are placed:
`beat` says that this process is alive and obeys what other processes asked of its calls; `settle` looks for the rest.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from callmcp.calls.events import Event, FellSilent, GivenUp, Leaving, OwnerLost, Unreported
from callmcp.calls.model import Call, CallStatus, EndReason
from callmcp.calls.operations import Calls
from callmcp.calls.ports import CallStore, Telephony
from callmcp.clock import Clock
from callmcp.errors import CarrierError, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is too long, in seconds.

    `silence`: from acceptance without a word from the carrier until it is asked, or until the call is `unknown`.
    `give_up`: from then to `failed`.
    `quiet`: without a sign of life from a call under way until the carrier is asked.
    `queue`: in the carrier's own queue until the call is canceled. Twilio holds one for up to 24 hours, and who is rung
    that late is rung by surprise.
    `look`: between two questions about one call.
    `overtime`: beyond a call's own limit until it is hung up from here.
    `owner`: how long a process may go without a heartbeat before its calls are settled by another.
    """

    silence: float = 15
    give_up: float = 120
    quiet: float = 60
    queue: float = 120
    look: float = 5
    overtime: float = 30
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
        self._asked_at: dict[str, float] = {}

    async def beat(self) -> None:
        """One heartbeat, and obedience to what others stored: requests to end this process's calls, and a person's yes
        to calls that waited for it."""
        try:
            await self._store.beat(self._owner)
        except Unavailable as trouble:
            self.trouble = trouble
            raise
        self.trouble = None
        for call in await self._store.to_end(self._owner):
            await self._calls.hang_up(call)
        await self._calls.dial_approved()

    async def settle(self) -> None:
        """One look at the calls of processes that are gone, and at those that were quiet for too long."""
        now = self._clock.now()
        for owner in await self._silent_owners():
            for call in await self._store.carried_by(owner):
                await self._calls.observe(call.id, OwnerLost(at=now))
            await self._store.forget_owner(owner)
        patience = self._patience
        for status, seconds in (
            (CallStatus.QUEUED, patience.silence),
            (CallStatus.INITIATED, patience.quiet),
            (CallStatus.RINGING, patience.quiet),
            (CallStatus.IN_PROGRESS, patience.quiet),
            (CallStatus.UNKNOWN, patience.look),
        ):
            quiet = await self._store.quiet(status, since=now - timedelta(seconds=seconds))
            await asyncio.gather(*(self._settle_quiet(call) for call in quiet))

    async def _settle_quiet(self, call: Call) -> None:
        if call.waits:
            return
        now = self._clock.now()
        told = await self._asked(call)
        if told is None:
            return
        if told:
            call = await self._calls.observe(call.id, *told)
            if (too_long := self._too_long(call, now)) is not None:
                call = await self._calls.observe(call.id, Leaving(at=now, reason=too_long))
            if not call.status.is_final and (call.end_reason is not None or call.end_requested_at is not None):
                await self._calls.hang_up(call)  # it should be over, and the carrier was not told or did not hear
            return
        silent_for = (now - call.heard_from_at).total_seconds()
        if call.status is CallStatus.UNKNOWN:
            if silent_for >= self._patience.silence + self._patience.give_up:
                await self._calls.observe(call.id, GivenUp(at=now))
        elif call.status is CallStatus.QUEUED or not self._telephony.carries:
            await self._calls.observe(call.id, FellSilent(at=now))

    async def _asked(self, call: Call) -> Sequence[Event] | None:
        """What the carrier says of a call. None: it cannot be asked now, or was a moment ago."""
        now = asyncio.get_running_loop().time()
        if not self._telephony.carries:
            last = self._asked_at.get(call.id)
            if last is not None and now - last < self._patience.look:
                return None
            self._asked_at[call.id] = now
            self._asked_at = {id_: at for id_, at in self._asked_at.items() if now - at < self._patience.look}

        async def is_another(carrier_id: str) -> bool:
            found = await self._store.call_by_carrier_id(self._telephony.name, carrier_id)
            return found.id != call.id if found is not None else await self._may_be_of_another(call)

        try:
            told = await self._telephony.look(call, is_another=is_another)
        except CarrierError:
            return [] if call.status is CallStatus.UNKNOWN else None
        first_silence = call.status is CallStatus.QUEUED and bool(told)
        return [Unreported(at=self._clock.now()), *told] if first_silence else told

    async def _may_be_of_another(self, call: Call) -> bool:
        """Whether a second call to the same number waits for its name too: a client that heard nothing of the first
        has placed another, and what the carrier has may be either."""
        now = self._clock.now()
        unnamed = [
            other
            for status in (CallStatus.QUEUED, CallStatus.UNKNOWN)
            for other in await self._store.quiet(status, since=now)
            if other.carrier_id is None and other.id != call.id
        ]
        return any((other.to, other.from_number) == (call.to, call.from_number) for other in unnamed)

    def _too_long(self, call: Call, now: datetime) -> EndReason | None:
        """Why a call that the carrier says is under way must end."""
        if call.status is CallStatus.QUEUED and now - call.created_at > timedelta(seconds=self._patience.queue):
            return EndReason.EXPIRED
        talk = timedelta(seconds=call.max_duration_seconds + self._patience.overtime)
        if call.status is CallStatus.IN_PROGRESS and call.answered_at is not None and now - call.answered_at > talk:
            return EndReason.MAX_DURATION
        return None

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
