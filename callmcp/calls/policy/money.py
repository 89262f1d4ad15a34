"""How much. What calls under way may still cost counts as spent, so that no cap is passed by calls that were let in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from callmcp.calls.cost import Cost, decimal
from callmcp.calls.policy.facts import Verdict
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.rates import SUBJECT, Counted

RULE = "money"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `most` micro-units from the day `since` (UTC) on; `until` is the first day that counts anew."""

    level: Level
    counted: Counted
    since: date
    until: date
    most: int
    per: str


def budgets(limits: Mapping[Level, Limits], now: datetime) -> Iterator[Budget]:
    """What must be added up before a call that costs something may be placed."""
    today = now.astimezone(UTC).date()
    month = today.replace(day=1)
    after = (month + timedelta(days=31)).replace(day=1)
    for level, here in limits.items():
        for most, since, until, per in (
            (here.spend_per_day, today, today + timedelta(days=1), "day"),
            (here.spend_per_month, month, after, "month"),
        ):
            if most:
                yield Budget(level=level, counted=SUBJECT[level], since=since, until=until, most=most, per=per)


def verdict(budget: Budget, spent: int, cost: Cost) -> Verdict:
    """Of a call that may cost so much, when so much is spent or reserved already."""
    if spent + cost.reserved <= budget.most:
        return Verdict(rule=RULE)
    whose = f"this {budget.level.value}" if budget.level is not Level.DEPLOYMENT else "an account"
    reason = (
        f"{whose} may spend {decimal(budget.most)} {cost.currency} a {budget.per}; {decimal(spent)} is spent or "
        f"reserved for calls under way, and this call may cost {decimal(cost.reserved)}. A lower max_duration_seconds "
        "costs less."
    )
    # When the whole budget is too small for the call, no day brings more of it.
    fits_later = cost.reserved <= budget.most
    retry_at = datetime.combine(budget.until, time(), UTC) if fits_later else None
    return Verdict(
        rule=RULE, code="over_budget", reason=f"{reason[0].upper()}{reason[1:]}", level=budget.level, retry_at=retry_at
    )
