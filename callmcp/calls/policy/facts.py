"""What the rules are asked about, gathered once, and what a rule says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.cost import Cost, reserve
from callmcp.calls.model import CallRequest, NumberLooks
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy.limits import Level, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`limits` are those of each level, `zones` where the number may be (IANA names; empty: nobody knows),
    `strict_numbers`: a number must be valid by the numbering plan, not only possible. `trusts_zone`: the client's word
    for the callee's time zone is taken although the number does not say so. `per_minute`: everything that a minute of
    the call costs, in micro-units of `currency`. `approval_seconds`: how long it waits for a person's yes."""

    request: CallRequest
    now: datetime
    looks: NumberLooks
    limits: Mapping[Level, Limits]
    opt_out: OptOut | None = None
    per_minute: int = 0
    currency: str = "USD"
    approval_seconds: int = 3600
    strict_numbers: bool = False
    trusts_zone: bool = False

    @property
    def approval(self) -> Approval | None:
        """What the call waits for, if it must."""
        if not any(limits.approval for limits in self.limits.values()):
            return None
        expires_at = self.now + timedelta(seconds=self.approval_seconds)
        return Approval(state=ApprovalState.REQUESTED, expires_at=expires_at)

    def cost(self, max_seconds: int) -> Cost | None:
        """The worst case of a call of so many seconds. None: it costs nothing."""
        if not self.per_minute:
            return None
        return reserve(currency=self.currency, per_minute=self.per_minute, max_seconds=max_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidDown:
    """What the store knows of a call that is wanted: the limits of its account, agent and key, whether its number is on
    the suppression list, and the prices that may say something of it."""

    limits: Mapping[Level, Limits]
    opt_out: OptOut | None
    prices: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule says. Refused when it has a `code`: stable, with words for a model, the level that says no, and when
    asking again can help, if time helps."""

    rule: str
    code: str | None = None
    reason: str = ""
    level: Level | None = None
    retry_at: datetime | None = None

    @property
    def allowed(self) -> bool:
        return self.code is None
