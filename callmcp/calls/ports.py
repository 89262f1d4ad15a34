"""What calls need of the world. Each port has a shipped stand-in: the memory store, the simulator, the test clock."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from callmcp.agents.model import Agent
from callmcp.calls.events import Event
from callmcp.calls.model import Call, CallFilter, CallStatus, NumberLooks, PhoneNumber, Position, Turn
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy.facts import LaidDown, Verdict
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.prices import Price
from callmcp.calls.policy.rates import Quota
from callmcp.calls.refusals import Refusal

Observe = Callable[..., Awaitable[Call]]
"""`observe(call_id, *events)`: tells the domain what happened, in order, and returns the call after it."""


class NotAdded(Exception):
    """A call was not added: its number is on the suppression list, a quota is exhausted, a budget too small."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class PolicyStore(Protocol):
    """What operators laid down, who asked not to be called, and what came of asking."""

    async def opt_out(self, account_id: str, number: str) -> OptOut | None: ...

    async def opt_outs(self, account_id: str, *, after: str = "", limit: int = 1000) -> Sequence[OptOut]:
        """By number, those after `after`."""

    async def add_opt_outs(self, opt_outs: Sequence[OptOut]) -> int:
        """Those that are on the list already stay as they are. How many were not."""

    async def remove_opt_out(self, account_id: str, number: str) -> OptOut | None:
        """What was on the list, None when nothing was."""

    async def laid_down(self, account_id: str, *, agent_id: str, key_id: str, number: str) -> LaidDown: ...

    async def all_limits(self, account_id: str) -> Sequence[tuple[Level, str, Limits]]:
        """Every limit of the account, its agents and its keys: level, id of what it is of, limits."""

    async def set_limits(self, account_id: str, level: Level, subject_id: str, limits: Limits | None) -> None:
        """None: there are none any more."""

    async def counted(self, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]) -> Sequence[Verdict]:
        """What the quotas and budgets that a call like this would exceed now say of it."""

    async def prices(self, account_id: str) -> Sequence[Price]:
        """By what they are of."""

    async def set_price(self, price: Price) -> None: ...

    async def remove_price(self, account_id: str, of: str) -> Price | None:
        """What it was, None when there was none."""

    async def add_refusal(self, refusal: Refusal) -> None: ...

    async def refusals(self, account_id: str, *, limit: int = 100) -> Sequence[Refusal]:
        """The newest first."""


class CallStore(PolicyStore, Protocol):
    """Where calls are kept. What a method has returned from is durable and seen by every process."""

    async def add(self, call: Call, quotas: Sequence[Quota] = (), budgets: Sequence[Budget] = ()) -> Call:
        """Stores a new call, and adds what it may cost to what is spent. When its account already has a call with its
        idempotency key, stores nothing and returns that call instead. Raises NotAdded when its number is on the
        suppression list, one of the quotas exhausted or one of the budgets too small: counted in the same transaction,
        so that no two processes find room for one each."""

    async def call(self, call_id: str) -> Call | None: ...

    async def call_by_key(self, account_id: str, idempotency_key: str) -> Call | None: ...

    async def call_by_carrier_id(self, carrier: str, carrier_id: str) -> Call | None: ...

    async def record(self, call_id: str, *, after: int = -1) -> tuple[Call, Sequence[Turn]] | None:
        """The call and its turns with an index above `after`, both as of one moment."""

    async def apply(self, call_id: str, *events: Event) -> Call:
        """Brings the call forward by `state.apply`, in one transaction that no other writer can interleave with.

        Each TurnSpoken that changes the call becomes the Turn whose index is the call's turn_count before it. What the
        call costs other than before is what is spent other than before.
        Raises NotFound.
        """

    async def calls(
        self,
        account_id: str,
        wanted: CallFilter,
        *,
        agent_ids: frozenset[str],
        limit: int,
        after: Position | None = None,
    ) -> Sequence[Call]:
        """The newest calls first, by (created_at, id). `agent_ids` empty means those of every agent."""

    async def carried_by(self, owner: str) -> Sequence[Call]:
        """The calls of any account that are not final and that this owner carries, oldest first."""

    async def to_end(self, owner: str) -> Sequence[Call]:
        """Those of them that somebody has asked to end."""

    async def quiet(self, status: CallStatus, *, since: datetime, limit: int = 500) -> Sequence[Call]:
        """The calls of any account in this status, which is not final, that were last heard from at `since` or
        before, the quietest first."""

    async def waiting(self, account_id: str | None = None) -> Sequence[Call]:
        """The calls of this account, or of any, that wait for a person's yes or to be dialled after it, oldest
        first."""

    async def beat(self, owner: str) -> None:
        """Says that `owner` is alive, by adding one to its count of beats."""

    async def beats(self) -> Mapping[str, int]:
        """Every owner's count of beats. Whether a count still moves tells who is alive without comparing clocks."""

    async def forget_owner(self, owner: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A sound as it comes from the carrier. `length` in bytes, when the carrier says it."""

    content_type: str
    length: int | None
    chunks: AsyncIterator[bytes]


class Telephony(Protocol):
    """A carrier."""

    @property
    def name(self) -> str:
        """`simulator`, `twilio`: kept with each call."""

    @property
    def carries(self) -> bool:
        """True when calls live in this process and die with it."""

    def caller_id(self, agent: Agent) -> str:
        """The number that this agent rings from, in E.164."""

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:
        """Asks the carrier to dial, once, and returns the carrier's name for the call when it was accepted.

        What becomes of the call is told through `observe`, possibly before this returns.
        Raises CarrierRefused when it was certainly not placed, CarrierUncertain when it may have been.
        """

    async def end(self, call: Call) -> None:
        """Cancels before the answer, hangs up after it. A call that is already over is no error.

        Raises CarrierError when the carrier cannot be asked or does not do it.
        """

    async def close(self) -> None:
        """Lets go of the carrier; calls that live in this process end with it."""

    async def look(self, call: Call, *, is_another: Callable[[str], Awaitable[bool]]) -> Sequence[Event]:
        """What the carrier says of a call now that it is asked, as events; empty when it knows of no such call.

        A call that the carrier has not named yet is searched for. `is_another` tells whether one of the carrier's
        names belongs to another call of ours. Raises CarrierError when the carrier cannot be asked.
        """

    def recording(self, carrier_id: str) -> AbstractAsyncContextManager[Media]:
        """A recording, by the carrier's name for it. Raises NotFound when the carrier has none of that name,
        CarrierError when it cannot be asked."""


class NumberPlan(Protocol):
    """What is known of telephone numbers apart from their form."""

    def looks(self, number: PhoneNumber) -> NumberLooks: ...
