"""The fake carrier: places calls in this process, with a simulated callee at the other end. No key, no network."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from callmcp.agents.model import Agent
from callmcp.calls.events import (
    Answered,
    Canceled,
    DialFailed,
    Dialled,
    Event,
    FoundBusy,
    NotAnswered,
    OwnerLost,
    Recorded,
    Ringing,
)
from callmcp.calls.model import Call, CallError, EndReason, Recording, RecordingStatus
from callmcp.calls.ports import Media, Observe
from callmcp.clock import Clock, within
from callmcp.conversation.ports import Models
from callmcp.conversation.run import talk
from callmcp.errors import CarrierRefused, NotFound, Unavailable
from callmcp.telephony.simulator.callee import (
    PLAYED,
    SCENARIOS,
    Refusal,
    Script,
    Unanswered,
    cooperates,
    scenario_of,
)
from callmcp.telephony.simulator.line import SimulatedLine
from callmcp.telephony.simulator.played import Played

log = structlog.get_logger()

DIALLING_SECONDS = 0.2
CONNECTING_SECONDS = 0.5
RETRY_SECONDS = 1
CLOSING_SECONDS = 1.5

FAILED_AFTER_RINGING = CallError(
    code="carrier_failed",
    message="The carrier rang the number and then could not complete the call. Nobody was reached.",
    carrier_code="503",
)
NOTHING_RECORDED = Recording(status=RecordingStatus.ABSENT)
BROKE = CallError(code="simulator_failed", message="The simulator failed in the middle of this call.")


class Simulator:
    """Implements Telephony. `close` when the server stops: the calls it carries end with it. `played` is who picks up
    where a language model does; without it that is a person who cooperates."""

    name = "simulator"
    carries = True

    def __init__(self, *, clock: Clock, models: Models, caller_id: str, played: Played | None = None) -> None:
        self._clock = clock
        self._played = played
        self._models = models
        self._caller_id = caller_id
        self._live: dict[str, _SimulatedCall] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def caller_id(self, agent: Agent) -> str:
        return agent.from_number or self._caller_id

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:
        if self._closed:
            raise CarrierRefused("The server is stopping and places no more calls.", code="server_stopping")
        scenario = scenario_of(call.to)
        then = scenario.then
        if isinstance(then, Refusal):
            raise CarrierRefused(then.message, code=then.code, carrier_code=then.carrier_code)
        log.debug("simulated_call_placed", call_id=call.id)
        if then is SCENARIOS[PLAYED].then and self._played is None:
            then = cooperates
        live = _SimulatedCall(
            call, agent, scenario.ringing, then, self._played, observe=observe, models=self._models, clock=self._clock
        )
        self._live[call.id] = live
        self._tasks[call.id] = asyncio.create_task(self._carry(live), name=f"simulated {call.id}")
        return f"sim_{call.id.removeprefix('call_')}"

    async def end(self, call: Call) -> None:
        live = self._live.get(call.id)
        if live is not None:
            live.end()

    async def look(self, _: Call, *, is_another: Callable[[str], Awaitable[bool]]) -> Sequence[Event]:  # noqa: ARG002
        """Nothing: what it knows of a call it has told."""
        return ()

    def recording(self, carrier_id: str) -> AbstractAsyncContextManager[Media]:
        raise NotFound(f"The simulator records nothing; there is no {carrier_id!r}.", code="recording_not_found")

    async def close(self) -> None:
        """Ends every live call as lost with this process. Returns within 2 s."""
        self._closed = True
        lost = list(self._live.values())
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.gather(*(live.lose() for live in lost), return_exceptions=True)
        except TimeoutError:
            log.warning("simulator_closed_late", calls=len(lost))  # the sweep of another process settles them

    async def _carry(self, live: "_SimulatedCall") -> None:
        structlog.contextvars.bind_contextvars(call_id=live.call.id)  # in this task's own context, and its tasks'
        try:
            await live.run()
        except Exception:  # a call whose carrier died has an end like any other
            log.exception("simulated_call_failed", call_id=live.call.id)
            await live.fail()
        finally:
            if not self._closed:
                del self._live[live.call.id]
                del self._tasks[live.call.id]


class _SimulatedCall:
    """One call from the dial to its end."""

    def __init__(
        self,
        call: Call,
        agent: Agent,
        ringing: float,
        then: Script | Unanswered,
        played: Played | None,
        *,
        observe: Observe,
        models: Models,
        clock: Clock,
    ) -> None:
        self.call = call
        self._agent = agent
        self._ringing = ringing
        self._then = then
        self._played = played
        self._observe_once = observe
        self._models = models
        self._clock = clock
        self._line: SimulatedLine | None = None
        self._to_end = asyncio.Event()

    def end(self) -> None:
        self._to_end.set()
        if self._line is not None:
            self._line.hang_up(EndReason.ENDED_BY_CALLER)

    async def run(self) -> None:
        if self._then is Unanswered.NEVER_HEARD_OF:
            await self._to_end.wait()
        if not await self._rings():
            await self._observe(self.call.id, Canceled(at=self._clock.now()))
        elif isinstance(self._then, Unanswered):
            await self._observe(self.call.id, self._unanswered(self._then))
        else:
            await self._is_answered(self._then)

    async def lose(self) -> None:
        await self._observe_once(self.call.id, OwnerLost(at=self._clock.now()))

    async def fail(self) -> None:
        await self._observe(
            self.call.id, DialFailed(at=self._clock.now(), reason=EndReason.CARRIER_FAILED, error=BROKE)
        )

    async def _rings(self) -> bool:
        """False when the call was to end before anybody could answer."""
        if not await self._passes(DIALLING_SECONDS):
            return False
        await self._observe(self.call.id, Dialled(at=self._clock.now()))
        if not await self._passes(CONNECTING_SECONDS):
            return False
        if self._ringing:
            await self._observe(self.call.id, Ringing(at=self._clock.now()))
        return await self._passes(self._ringing)

    async def _is_answered(self, script: Script) -> None:
        self._line = line = SimulatedLine(script(self.call), self._clock, self._played)
        now = self._clock.now()
        await self._observe(self.call.id, Answered(at=now), Recorded(at=now, recording=NOTHING_RECORDED))
        callee = asyncio.create_task(line.act())
        try:
            whole = await talk(
                self.call, self._agent, line=line, models=self._models, observe=self._observe, clock=self._clock
            )
            if not whole:
                await self.fail()
        finally:
            callee.cancel()

    async def _passes(self, seconds: float) -> bool:
        """Lets time pass; False as soon as the call is to end."""
        try:
            await within(seconds, self._to_end.wait(), clock=self._clock)
        except TimeoutError:
            return True
        return False

    def _unanswered(self, how: Unanswered) -> Event:
        now = self._clock.now()
        match how:
            case Unanswered.BUSY:
                return FoundBusy(at=now)
            case Unanswered.NO_ANSWER:
                return NotAnswered(at=now)
            case _:
                return DialFailed(at=now, reason=EndReason.CARRIER_FAILED, error=FAILED_AFTER_RINGING)

    async def _observe(self, call_id: str, *events: Event) -> Call:
        """Like a carrier that repeats its callback until it is answered: what happened is told when the store is
        back. A call that was settled meanwhile, by a process that took this one for dead, is hung up."""
        while True:
            try:
                call = await self._observe_once(call_id, *events)
            except Unavailable:
                log.warning("observe_retried", call_id=call_id)
                await self._clock.sleep(RETRY_SECONDS)
            else:
                if call.status.is_final:
                    self.end()
                return call
