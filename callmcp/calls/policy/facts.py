"""What the rules are asked about, gathered once, and what a rule says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from callmcp.calls.model import CallRequest, NumberLooks
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy.limits import Level, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`limits` are those of each level, `zones` where the number may be (IANA names; empty: nobody knows),
    `strict_numbers`: a number must be valid by the numbering plan, not only possible. `trusts_zone`: the client's word
    for the callee's time zone is taken although the number does not say so."""

    request: CallRequest
    now: datetime
    looks: NumberLooks
    limits: Mapping[Level, Limits]
    opt_out: OptOut | None = None
    strict_numbers: bool = False
    trusts_zone: bool = False


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
