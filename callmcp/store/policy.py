"""What is asked of the database about limits, the suppression list and refusals. Each function is one job of a lane."""

import functools
from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy import ScalarSelect, Select, bindparam, delete, func, select, text, update

from callmcp.calls.model import Call
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy import money, rates
from callmcp.calls.policy.facts import LaidDown, Verdict
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.opt_out import opted_out
from callmcp.calls.policy.prices import MOST_PRICES, Price, prices_for
from callmcp.calls.policy.rates import Counted, Exhausted, Period, Quota
from callmcp.calls.ports import NotAdded
from callmcp.calls.refusals import Refusal
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.policy_tables import (
    LIMITS,
    OPT_OUTS,
    PRICES,
    REFUSALS,
    SPEND,
    limits_columns,
    limits_value,
    opt_out_columns,
    opt_out_value,
    price_columns,
    price_value,
    refusal_columns,
    refusal_value,
)
from callmcp.store.tables import CALLS, IS_LIVE, micros, moment

_OPT_OUT = select(OPT_OUTS).where(
    OPT_OUTS.c.account_id == bindparam("account_id"), OPT_OUTS.c.number == bindparam("number")
)
_OPT_OUTS = (
    select(OPT_OUTS)
    .where(OPT_OUTS.c.account_id == bindparam("account_id"), OPT_OUTS.c.number > bindparam("after"))
    .order_by(OPT_OUTS.c.number)
    .limit(bindparam("limit"))
)
_ADD_OPT_OUT = InsertNew(OPT_OUTS)
_REMOVE_OPT_OUT = delete(OPT_OUTS).where(
    OPT_OUTS.c.account_id == bindparam("account_id"), OPT_OUTS.c.number == bindparam("number")
)
_LIMITS = select(LIMITS).where(
    LIMITS.c.account_id == bindparam("account_id"),
    LIMITS.c.subject_id.in_([bindparam("account"), bindparam("agent_id"), bindparam("key_id")]),
)
_ALL_LIMITS = (
    select(LIMITS).where(LIMITS.c.account_id == bindparam("account_id")).order_by(LIMITS.c.level, LIMITS.c.subject_id)
)
_ADD_LIMITS = InsertNew(LIMITS)
_CHANGE_LIMITS = (
    update(LIMITS).where(LIMITS.c.subject_id == bindparam("subject")).values(definition=bindparam("definition"))
)
_REMOVE_LIMITS = delete(LIMITS).where(
    LIMITS.c.account_id == bindparam("account_id"), LIMITS.c.subject_id == bindparam("subject_id")
)
_ADD_REFUSAL = InsertNew(REFUSALS)
_REFUSALS = (
    select(REFUSALS)
    .where(REFUSALS.c.account_id == bindparam("account_id"))
    .order_by(REFUSALS.c.at.desc(), REFUSALS.c.id.desc())
    .limit(bindparam("limit"))
)
_PRICES = select(PRICES).where(PRICES.c.account_id == bindparam("account_id")).order_by(PRICES.c.of)
_PRICES_OF = select(PRICES).where(
    PRICES.c.account_id == bindparam("account_id"), PRICES.c.of.in_([bindparam(f"of_{n}") for n in range(MOST_PRICES)])
)
_IS_PRICE = (PRICES.c.account_id == bindparam("account")) & (PRICES.c.of == bindparam("what"))
_PRICE = select(PRICES).where(_IS_PRICE)
_ADD_PRICE = InsertNew(PRICES)
_CHANGE_PRICE = update(PRICES).where(_IS_PRICE).values(per_minute=bindparam("per_minute"))
_REMOVE_PRICE = delete(PRICES).where(_IS_PRICE)
_SPEND = text(  # in one order, so that no two wait for each other
    "INSERT INTO spend (subject_id, day, micros) VALUES (:account_id, :day, :more), (:agent_id, :day, :more), "
    "(:key_id, :day, :more) ON CONFLICT (subject_id, day) DO UPDATE SET micros = spend.micros + excluded.micros"
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:account_id, 7))")
"""One call of an account is admitted at a time: of two that count at once, each would find room for itself."""


# Whether the number is on the list, what fills each quota and what is spent of each budget: in one statement, as a
# statement costs more than a look. A quota is answered from an index by as many entries as its cap has, whatever the
# history: the row that would fill it is looked for, not counted up to.
@functools.cache
def _asked(quotas: tuple[tuple[Period, Counted], ...], budgets: tuple[Counted, ...]) -> Select[Any]:
    on_list = select(OPT_OUTS.c.number).where(
        OPT_OUTS.c.account_id == bindparam("account_id"), OPT_OUTS.c.number == bindparam("to")
    )
    nths = (_nth(period, counted, f"_{number}") for number, (period, counted) in enumerate(quotas))
    spent = (_spent(counted, f"_{number}") for number, counted in enumerate(budgets))
    return select(on_list.scalar_subquery(), *nths, *spent)


def _nth(period: Period, counted: Counted, suffix: str) -> ScalarSelect[Any]:
    """When the nth newest call of the subject was placed, or for a pause, when the newest one ended."""
    conditions: list[Any] = [CALLS.c.account_id == bindparam("account_id")]
    conditions.append(CALLS.c[counted.value] == bindparam(counted.value))
    if period is Period.WINDOW:
        conditions.append(CALLS.c.created_at > bindparam(f"since{suffix}"))
    if period is Period.LIVE:
        conditions.append(IS_LIVE)
    wanted = CALLS.c.ended_at if period is Period.PAUSE else CALLS.c.created_at
    newest_first = select(wanted).where(*conditions).order_by(CALLS.c.created_at.desc())
    return newest_first.limit(1).offset(bindparam(f"before{suffix}")).scalar_subquery()


def _spent(counted: Counted, suffix: str) -> ScalarSelect[Any]:
    days = SPEND.c.day >= bindparam(f"first{suffix}"), SPEND.c.day < bindparam(f"until{suffix}")
    of_subject = SPEND.c.subject_id == bindparam(counted.value)
    return select(func.coalesce(func.sum(SPEND.c.micros), 0)).where(of_subject, *days).scalar_subquery()


def admit(connection: Connection, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]) -> None:
    """Raises NotAdded."""
    if (quotas or budgets) and not connection.is_sqlite:
        connection.one(_LOCK, {"account_id": call.account_id})
    on_list, refused = _look(connection, call, quotas, budgets)
    if on_list:
        raise NotAdded(opted_out(call.to))
    if refused:
        raise NotAdded(refused[0])


def counted(
    connection: Connection, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]
) -> Sequence[Verdict]:
    """What the quotas and budgets that are exhausted say."""
    return _look(connection, call, quotas, budgets)[1]


def _look(
    connection: Connection, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]
) -> tuple[bool, Sequence[Verdict]]:
    """Whether the number is on the list, and what the quotas and budgets that are exhausted say."""
    binds: dict[str, Any] = {counted.value: getattr(call, counted.value) for counted in Counted}
    for number, quota in enumerate(quotas):
        binds[f"since_{number}"] = micros(call.created_at - timedelta(seconds=quota.seconds))
        binds[f"before_{number}"] = quota.most - 1
    for number, budget in enumerate(budgets):
        binds[f"first_{number}"], binds[f"until_{number}"] = budget.since.isoformat(), budget.until.isoformat()
    shapes = tuple((quota.period, quota.counted) for quota in quotas)
    on_list, *found = connection.one(_asked(shapes, tuple(one.counted for one in budgets)), binds) or (None,)
    filled = (_exhausted(call, quota, at) for quota, at in zip(quotas, found, strict=False))
    verdicts = [rates.verdict(one) for one in filled if one is not None]
    if call.cost is not None:
        spent = zip(budgets, found[len(quotas) :], strict=True)
        told = (money.verdict(budget, int(so_far), call.cost) for budget, so_far in spent)
        verdicts += [verdict for verdict in told if not verdict.allowed]
    return on_list is not None, verdicts


def spend(connection: Connection, call: Call, micros: int) -> None:
    """Counts so much more, or less, as spent on the day that the call was placed."""
    subjects = {"account_id": call.account_id, "agent_id": call.agent_id, "key_id": call.key_id}
    day = call.created_at.astimezone(UTC).date().isoformat()
    connection.run(_SPEND, {**subjects, "day": day, "more": micros})


def _exhausted(call: Call, quota: Quota, at: int | None) -> Exhausted | None:
    if at is None:
        return None
    if quota.period is Period.LIVE:
        return Exhausted(quota=quota)
    if quota.period is Period.PAUSE and moment(at) + timedelta(seconds=quota.seconds) <= call.created_at:
        return None
    return Exhausted(quota=quota, since=moment(at))


def opt_out(connection: Connection, account_id: str, number: str) -> OptOut | None:
    row = connection.one(_OPT_OUT, {"account_id": account_id, "number": number})
    return None if row is None else opt_out_value(row)


def opt_outs(connection: Connection, account_id: str, *, after: str, limit: int) -> Sequence[OptOut]:
    binds = {"account_id": account_id, "after": after, "limit": limit}
    return [opt_out_value(row) for row in connection.all(_OPT_OUTS, binds)]


def add_opt_outs(connection: Connection, opt_outs: Sequence[OptOut]) -> int:
    return sum(connection.run(_ADD_OPT_OUT, opt_out_columns(one)) for one in opt_outs)


def remove_opt_out(connection: Connection, account_id: str, number: str) -> OptOut | None:
    found = opt_out(connection, account_id, number)
    connection.run(_REMOVE_OPT_OUT, {"account_id": account_id, "number": number})
    return found


def laid_down(connection: Connection, account_id: str, agent_id: str, key_id: str, number: str) -> LaidDown:
    binds = {"account_id": account_id, "account": account_id, "agent_id": agent_id, "key_id": key_id}
    found = {level: limits for level, _, limits in map(limits_value, connection.all(_LIMITS, binds))}
    names = prices_for(number)
    wanted = {f"of_{n}": names[n] if n < len(names) else "" for n in range(MOST_PRICES)}
    return LaidDown(
        limits={level: found[level] for level in Level if level in found},
        opt_out=opt_out(connection, account_id, number),
        prices={of: price for _, of, price in connection.all(_PRICES_OF, {"account_id": account_id, **wanted})},
    )


def prices(connection: Connection, account_id: str) -> Sequence[Price]:
    return [price_value(row) for row in connection.all(_PRICES, {"account_id": account_id})]


def set_price(connection: Connection, price: Price) -> None:
    if not connection.run(_ADD_PRICE, price_columns(price)):
        binds = {"account": price.account_id, "what": price.of, "per_minute": price.per_minute}
        connection.run(_CHANGE_PRICE, binds)


def remove_price(connection: Connection, account_id: str, of: str) -> Price | None:
    row = connection.one(_PRICE, {"account": account_id, "what": of})
    connection.run(_REMOVE_PRICE, {"account": account_id, "what": of})
    return None if row is None else price_value(row)


def all_limits(connection: Connection, account_id: str) -> Sequence[tuple[Level, str, Limits]]:
    return [limits_value(row) for row in connection.all(_ALL_LIMITS, {"account_id": account_id})]


def set_limits(connection: Connection, account_id: str, level: Level, subject_id: str, limits: Limits | None) -> None:
    if limits is None:
        connection.run(_REMOVE_LIMITS, {"account_id": account_id, "subject_id": subject_id})
        return
    columns = limits_columns(account_id, level, subject_id, limits)
    if not connection.run(_ADD_LIMITS, columns):
        connection.run(_CHANGE_LIMITS, {"subject": subject_id, "definition": columns["definition"]})


def add_refusal(connection: Connection, refusal: Refusal) -> None:
    connection.run(_ADD_REFUSAL, refusal_columns(refusal))


def refusals(connection: Connection, account_id: str, *, limit: int) -> Sequence[Refusal]:
    return [refusal_value(row) for row in connection.all(_REFUSALS, {"account_id": account_id, "limit": limit})]
