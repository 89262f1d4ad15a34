"""Place, end, observe, get, wait for and list calls: the verbs that every edge uses."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from callmcp.agents.model import Agent
from callmcp.agents.operations import Agents
from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.cost import Cost
from callmcp.calls.events import (
    Accepted,
    Answered,
    Claimed,
    DialFailed,
    Dialled,
    Disapproved,
    EndRequested,
    Event,
    FellSilent,
    Leaving,
    Ringing,
    TalkBroke,
)
from callmcp.calls.intent import fingerprint, intent
from callmcp.calls.model import (
    AnsweredBy,
    Call,
    CallError,
    CallFilter,
    CallRequest,
    CallStatus,
    EndReason,
    Position,
    Turn,
)
from callmcp.calls.policy import money, rates
from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.money import Budget, budgets
from callmcp.calls.policy.operations import Policy
from callmcp.calls.policy.rates import Quota, quotas
from callmcp.calls.policy.rules import verdicts
from callmcp.calls.ports import CallStore, NotAdded, Telephony
from callmcp.clock import Clock
from callmcp.errors import CarrierError, CarrierRefused, CarrierUncertain, Conflict, NotFound, Unavailable
from callmcp.identity.model import Principal, Scope

logger = logging.getLogger(__name__)
T = TypeVar("T")

DIAL_WITHIN = timedelta(minutes=1)  # of a yes: one that no process was there to hear is not acted upon hours later
CLOSING_SECONDS = 1.5  # for what the carrier was asked and has not answered, when the process stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What `place` did. `replayed`: the idempotency key had placed this call before, and nothing was dialled."""

    call: Call
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What would become of a call if it were placed now: what each rule says, the most that it may cost (None:
    nothing), and the approval that it would wait for."""

    facts: Facts
    verdicts: Sequence[Verdict]
    cost: Cost | None
    approval: Approval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    calls: Sequence[Call]
    next: Position | None


class Calls:
    """The life of calls, for every edge. A call of another account, or of an agent a key does not see, is not found.

    `poll` is how many seconds a waiter goes without looking into the store; what this process itself observes wakes
    its waiters at once, the poll is for what other processes did.
    """

    def __init__(
        self,
        *,
        store: CallStore,
        agents: Agents,
        telephony: Telephony,
        policy: Policy,
        clock: Clock,
        owner: str,
        poll: float = 0.5,
    ) -> None:
        self._store = store
        self._agents = agents
        self._telephony = telephony
        self._policy = policy
        self._clock = clock
        self._owner = owner
        self._poll = poll
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._waiting = True
        self._asking: set[asyncio.Task[Any]] = set()

    async def place(self, principal: Principal, request: CallRequest) -> Placed:
        """Dials at most once. The intent is committed before the carrier hears of it, and an ambiguous answer makes
        the call `unknown`: it is never dialled again.

        Raises NotFound for the agent, Refused when a rule says no, Conflict when the idempotency key was used with
        other arguments. A carrier's refusal is not an error here: it is the call, failed.
        """
        principal.require(Scope.CALLS_WRITE)
        if (first := await self._placed_before(principal, request)) is not None:
            return first
        agent = await self._agents.get(principal, request.agent_id)
        facts = await self._policy.facts(principal, request)
        wanted = self._intent(principal, facts, agent)
        for verdict in verdicts(facts):
            if not verdict.allowed:
                raise await self._policy.refused(principal, agent.id, request.to.e164, verdict)
        # A client that goes away must not leave an intent undialled, or the carrier's answer unheard.
        try:
            stored = await asyncio.shield(self._owned(self._add_and_dial(wanted, facts, agent)))
        except NotAdded as found:
            raise await self._policy.refused(principal, agent.id, request.to.e164, found.verdict) from None
        if stored.id != wanted.id:  # the same key, from another request in this very moment
            return _replay(principal, stored, request)
        return Placed(call=stored, replayed=False)

    async def check(self, principal: Principal, request: CallRequest) -> Checked:
        """What every rule would say of this call now. Dials, stores and reserves nothing. Raises NotFound."""
        principal.require(Scope.CALLS_READ)
        agent = await self._agents.get(principal, request.agent_id)
        facts = await self._policy.facts(principal, request)
        wanted = self._intent(principal, facts, agent)
        refused = await self._store.counted(wanted, *_demands(facts))
        silent = (rule for rule in (rates.RULE, money.RULE) if rule not in {verdict.rule for verdict in refused})
        counted = [*refused, *(Verdict(rule=rule) for rule in silent)]
        return Checked(facts=facts, verdicts=[*verdicts(facts), *counted], cost=wanted.cost, approval=wanted.approval)

    async def _add_and_dial(self, wanted: Call, facts: Facts, agent: Agent) -> Call:
        """The call dialled, or waiting, or the one that has its idempotency key already. Raises NotAdded."""
        stored = await self._store.add(wanted, *_demands(facts))
        if stored.waits:
            logger.info("approval_requested", extra={"call_id": stored.id})
        return await self._dial(stored, agent) if stored.id == wanted.id and not stored.waits else stored

    async def dial_approved(self) -> None:
        """Dials calls that a person has said yes to, whichever process was told, and cancels those whose time is up."""
        for call in await self._store.waiting():
            now, approval = self._clock.now(), call.approval
            if approval is None:
                continue
            just_decided = approval.decided_at is not None and now < approval.decided_at + DIAL_WITHIN
            if now >= approval.expires_at and not just_decided:
                await self.observe(call.id, Disapproved(at=now, reason=EndReason.EXPIRED, by=self._owner))
            elif approval.state is ApprovalState.APPROVED:
                claimed = await self.observe(call.id, Claimed(at=now, by=self._owner, carries=self._telephony.carries))
                if claimed.approval is not None and claimed.approval.claimed_by == self._owner:
                    self._owned(self._dial_approved(claimed))

    async def _dial_approved(self, call: Call) -> None:
        agent = await self._agents.version(call.agent_id, call.agent_version)
        refused = await self._policy.recheck(call)
        if agent is None or refused is not None:
            code, words = ("agent_not_found", GONE) if refused is None else (refused.code or "refused", refused.reason)
            error = CallError(code=code, message=words)
            at = self._clock.now()
            await self.observe(call.id, DialFailed(at=at, reason=EndReason.POLICY_REFUSED, error=error))
            return
        await self._dial(call, agent)

    async def _placed_before(self, principal: Principal, request: CallRequest) -> Placed | None:
        if request.idempotency_key is None:
            return None
        stored = await self._store.call_by_key(principal.account_id, request.idempotency_key)
        return None if stored is None else _replay(principal, stored, request)

    def _intent(self, principal: Principal, facts: Facts, agent: Agent) -> Call:
        return intent(
            principal,
            facts,
            agent,
            carrier=self._telephony.name,
            from_number=self._telephony.caller_id(agent),
            owner=self._owner if self._telephony.carries else None,
        )

    async def _dial(self, call: Call, agent: Agent) -> Call:
        try:
            carrier_id = await self._telephony.place(call, agent, self.observe)
        except CarrierRefused as refusal:
            error = CallError(code=refusal.code, message=refusal.message, carrier_code=refusal.carrier_code)
            event: Event = DialFailed(at=self._clock.now(), reason=EndReason.CARRIER_REFUSED, error=error)
        except CarrierUncertain:
            event = FellSilent(at=self._clock.now())
        else:
            event = Accepted(at=self._clock.now(), carrier_id=carrier_id)
        try:
            return await self.observe(call.id, event)
        except Unavailable:
            # The carrier has the call. To say "unavailable, try again" now would make the client place a second one.
            return call

    async def end(self, principal: Principal, call_id: str) -> Call:
        """Cancels before the answer, hangs up after it; a call that is over is returned as it is. Raises NotFound.

        The wish is stored first, so that the process that carries the call obeys it wherever it is.
        """
        principal.require(Scope.CALLS_WRITE)
        call = await self._seen(principal, call_id)
        if call.waits:
            now, key = self._clock.now(), principal.key_id
            call = await self.observe(call_id, Disapproved(at=now, reason=EndReason.ENDED_BY_CALLER, by=key))
        if call.status.is_final:
            return call
        call = await self.observe(call_id, EndRequested(at=self._clock.now()))
        if call.owner == self._owner or not self._telephony.carries:
            await self.hang_up(call)
        return await self._wait(call_id, seconds=2, until=lambda _: False)

    async def observe(self, call_id: str, *events: Event) -> Call:
        """Takes in what happened to a call. Raises NotFound."""
        call = await self._store.apply(call_id, *events)
        if self._is_unwanted(call, events):
            self._owned(self.hang_up(call))  # whoever observes, a carrier that waits for its answer above all, goes on
        for waiter in self._waiters.get(call_id, ()):
            waiter.set()
        return call

    def _is_unwanted(self, call: Call, events: Sequence[Event]) -> bool:
        """Whether the carrier still carries a call that nobody wants any more: its talk is over, it was given up before
        the carrier gave a sign of it, or it was to end before the carrier had named it."""
        if self._telephony.carries or call.carrier_id is None:
            return False
        begins = any(isinstance(event, _BEGINNINGS) for event in events)
        if call.status.is_final:
            return begins and call.end_reason is EndReason.CARRIER_SILENT
        leaves = call.end_reason is not None and any(
            isinstance(event, TalkBroke)
            or (isinstance(event, Leaving) and event.reason is not EndReason.CALLEE_HUNG_UP)
            for event in events
        )
        return leaves or (begins and call.end_requested_at is not None)

    def _owned(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that goes on whether or not somebody waits for it, until `close`."""
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def hang_up(self, call: Call) -> None:
        """Has the carrier end a call. One that it cannot end now is no error: the sweep comes back to it."""
        try:
            await self._telephony.end(call)
        except CarrierError as error:
            logger.warning("hang_up_failed", extra={"call_id": call.id, "code": error.code})

    async def close(self) -> None:
        """Lets what the carrier was asked be answered, but waits no longer than a stop may take. A call that was placed
        and not answered for is found by the sweep of whoever comes next."""
        if self._asking:
            _, late = await asyncio.wait(self._asking, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def get(self, principal: Principal, call_id: str, *, after: int = -1) -> tuple[Call, Sequence[Turn]]:
        """The call and its turns with an index above `after`. Raises NotFound."""
        principal.require(Scope.CALLS_READ)
        found = await self._store.record(call_id, after=after)
        if found is None or not _sees(principal, found[0]):
            raise _not_found(call_id)
        return found

    async def read(self, call: Call) -> tuple[Call, Sequence[Turn]]:
        """A call that `place` or `end` has just returned, with what was said in it."""
        if call.turn_count == 0:
            return call, ()
        return await self._store.record(call.id) or (call, ())

    async def wait(self, principal: Principal, call_id: str, *, seconds: float) -> None:
        """Returns when the call has ended or become `unknown`, at the latest after `seconds`. Raises NotFound.

        For a call that is `unknown` already it waits for its end: whoever waits was told so and came back.
        """
        principal.require(Scope.CALLS_READ)
        call = await self._seen(principal, call_id)
        known = call.status is not CallStatus.UNKNOWN
        await self._wait(call_id, seconds=seconds, until=lambda call: known and call.status is CallStatus.UNKNOWN)

    def stop_waiting(self) -> None:
        """Lets everybody who waits have the call as it stands, and nobody wait from now on: the process stops."""
        self._waiting = False
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.set()

    async def list(
        self, principal: Principal, wanted: CallFilter, *, limit: int = 20, after: Position | None = None
    ) -> Page:
        """The newest calls first. `next` is where to go on, None at the end."""
        principal.require(Scope.CALLS_READ)
        found = await self._store.calls(
            principal.account_id, wanted, agent_ids=principal.agent_ids, limit=limit + 1, after=after
        )
        page = found[:limit]
        more = len(found) > limit
        return Page(calls=page, next=Position(created_at=page[-1].created_at, id=page[-1].id) if more else None)

    async def _seen(self, principal: Principal, call_id: str) -> Call:
        call = await self._store.call(call_id)
        if call is None or not _sees(principal, call):
            raise _not_found(call_id)
        return call

    async def until_told_apart(self, call_id: str) -> AnsweredBy | None:
        """Who or what answered, when whichever process hears it first has told; None when the call ended before."""
        while True:
            call = await self._wait(call_id, seconds=60, until=lambda call: call.answered_by is not None)
            if call.answered_by is not None or call.status.is_final or not self._waiting:
                return call.answered_by

    async def _wait(self, call_id: str, *, seconds: float, until: Callable[[Call], bool]) -> Call:
        """The call once it is over, or `until` holds, or the time is up. Waits in real time whatever the carrier's
        clock does: it is a client that waits."""
        changed = asyncio.Event()
        self._waiters.setdefault(call_id, set()).add(changed)
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            while True:
                changed.clear()
                call = await self._store.call(call_id)
                if call is None:
                    raise _not_found(call_id)
                left = deadline - asyncio.get_running_loop().time()
                if call.status.is_final or until(call) or left <= 0 or not self._waiting:
                    return call
                try:
                    async with asyncio.timeout(min(left, self._poll)):
                        await changed.wait()
                except TimeoutError:
                    pass
        finally:
            self._waiters[call_id].discard(changed)
            if not self._waiters[call_id]:
                del self._waiters[call_id]


_BEGINNINGS = (Accepted, Dialled, Ringing, Answered)
GONE = "The voice agent of this call is gone."
KEY_REUSED = "idempotency_key_reused"


def _demands(facts: Facts) -> tuple[Sequence[Quota], Sequence[Budget]]:
    """What the store counts in the transaction that adds the call."""
    return list(quotas(facts.limits)), list(budgets(facts.limits, facts.now))


def _replay(principal: Principal, stored: Call, request: CallRequest) -> Placed:
    if not principal.sees(stored.agent_id):
        raise Conflict("This idempotency key is taken by a call that this key may not see.", code=KEY_REUSED)
    if stored.fingerprint != fingerprint(request):
        raise Conflict(
            f"The idempotency key {request.idempotency_key!r} belongs to the call {stored.id}, which was placed with "
            "other arguments; nothing was dialled. Use a new key for a new call, or repeat the first arguments.",
            code=KEY_REUSED,
        )
    return Placed(call=stored, replayed=True)


def _sees(principal: Principal, call: Call) -> bool:
    return call.account_id == principal.account_id and principal.sees(call.agent_id)


def _not_found(call_id: str) -> NotFound:
    return NotFound(f"There is no call {call_id!r} here; list_calls shows the ones there are.", code="call_not_found")
