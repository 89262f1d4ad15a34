"""All that the emulator holds: settings, calls, plans, the journal and the tasks that carry the calls."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from tests.twilio_emulator.callee import Callee, by_number
from tests.twilio_emulator.chaos import Chaos
from tests.twilio_emulator.journal import Journal
from tests.twilio_emulator.line import Line
from tests.twilio_emulator.model import Call, Order, Recording
from tests.twilio_emulator.pace import Pace

if TYPE_CHECKING:
    from tests.twilio_emulator.reports import Reports

ACCOUNT = "AC" + "0" * 31 + "1"
API_KEY = "SK" + "0" * 31 + "1"


@dataclass(slots=True, kw_only=True)
class Settings:
    """`cps` is calls a second, `speed` how many seconds pass in one.

    `routes` sends what is meant for a public host elsewhere ("phone.example.net": "127.0.0.1:8080"), signed and
    addressed as if it had gone there. `interrupt` says what utteranceUntilInterrupt holds: what was heard of the
    `clause` at hand, as recorded, or of the whole `turn`, as Twilio's documentation may be read.
    """

    account_sid: str = ACCOUNT
    auth_token: str = "12345"
    api_key: str = API_KEY
    api_secret: str = "secret"
    speed: float = 1.0
    cps: float = 1.0
    numbers: list[str] = field(default_factory=lambda: ["+15005550006"])  # what the account may call from
    verified: list[str] = field(default_factory=list)  # what a trial account may call
    voiceless: list[str] = field(default_factory=list)  # those of its numbers that cannot make voice calls
    account_status: str = "active"
    trial: bool = False
    test_credentials: bool = False
    forbidden_prefixes: list[str] = field(default_factory=list)  # no geographic permission
    loopback_ws: bool = False
    interrupt: str = "clause"
    routes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Plan:
    """What the next `calls` calls to a number (to any, without `to`) come to; None is all of them."""

    to: str | None = None
    callee: Callee | None = None
    chaos: list[Chaos] = field(default_factory=list)
    calls: int | None = 1


class World:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pace = Pace(settings.speed)
        self.journal = Journal(self.pace)
        # A connection each: a kept one may be dead when the program under test was killed, which would count as sent.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self.http = httpx.AsyncClient(trust_env=False, follow_redirects=False, limits=limits)
        self.reset()

    def reset(self) -> None:
        """Forgets every call, plan and entry. Settings stay."""
        for task in list(getattr(self, "_tasks", ())):
            task.cancel()
        self._tasks: set[asyncio.Task[None]] = set()
        self.calls: dict[str, Call] = {}
        self.recordings: dict[str, Recording] = {}
        self.reports: dict[str, Reports] = {}
        self.plans: list[Plan] = []
        self.next_slot = 0.0
        self.journal.entries.clear()
        self.journal.changed()

    async def close(self) -> None:
        tasks = list(self._tasks)
        self.reset()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.http.aclose()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that this world owns. If it breaks, that is the emulator's own fault, and the journal says so."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.journal.note("fault", error=repr(error))

    def plan_for(self, to: str) -> Plan | None:
        return next((plan for plan in self.plans if plan.to in (None, to)), None)

    def place(self, order: Order) -> Call:
        """The call is accepted. Its plan, if there is one for it, is used up by one call."""
        plan = self.plan_for(order.to)
        chaos = [] if plan is None else plan.chaos
        if plan is not None and plan.calls is not None:
            plan.calls -= 1
            if not plan.calls:
                self.plans.remove(plan)
        call = Call(
            account_sid=self.settings.account_sid,
            order=order,
            callee=(plan and plan.callee) or by_number(order.to),
            chaos=chaos,
            pace=self.pace,
            line=Line(self.journal.changed),
        )
        now = self.pace.now()
        slot = max(now, self.next_slot)
        self.next_slot = slot + 1 / self.settings.cps
        call.queue_ms = round((slot - now) * 1000)
        self.calls[call.sid] = call
        self.journal.note("placed", call.sid, to=order.to, **{"from": order.from_})
        return call

    def dials(self) -> dict[str, int]:
        """How often a call to each number was accepted, deleted ones too: each of them rings a person."""
        counts: dict[str, int] = {}
        for entry in self.journal.of("placed"):
            counts[entry["to"]] = counts.get(entry["to"], 0) + 1
        return counts

    def busy(self) -> bool:
        return any(not call.settled for call in self.calls.values())
