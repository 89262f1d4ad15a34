"""What is asked of the database about limits, the suppression list and refusals. Each function is one job of a lane."""

import functools
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ScalarSelect, Select, bindparam, delete, select, text, update

from callmcp.calls.model import Call
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.rates import Counted, Exhausted, Period, Quota
from callmcp.calls.ports import NotAdded
from callmcp.calls.refusals import Refusal
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.tables import (
    CALLS,
    IS_LIVE,
    LIMITS,
    OPT_OUTS,
    REFUSALS,
    limits_columns,
    limits_value,
    micros,
    moment,
    opt_out_columns,
    opt_out_value,
    refusal_columns,
    refusal_value,
)

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
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:account_id, 7))")
"""One call of an account is admitted at a time: of two that count at once, each would find room for itself."""


# The quotas. Each is answered from an index by as many entries as its cap has, whatever the history: the row that would
# fill the quota is looked for, not counted up to. All of them in one statement, as a statement costs more than a look.
@functools.cache
def _fills(shapes: tuple[tuple[Period, Counted], ...]) -> Select[Any]:
    return select(*(_nth(period, counted, f"_{number}") for number, (period, counted) in enumerate(shapes)))


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


def admit(connection: Connection, call: Call, quotas: Sequence[Quota]) -> None:
    """Raises NotAdded."""
    if quotas and not connection.is_sqlite:
        connection.one(_LOCK, {"account_id": call.account_id})
    if opt_out(connection, call.account_id, call.to) is not None:
        raise NotAdded(None)
    if quotas and (found := exhausted(connection, call, quotas)):
        raise NotAdded(found[0])


def exhausted(connection: Connection, call: Call, quotas: Sequence[Quota]) -> Sequence[Exhausted]:
    if not quotas:
        return []
    binds: dict[str, Any] = {counted.value: getattr(call, counted.value) for counted in Counted}
    for number, quota in enumerate(quotas):
        binds[f"since_{number}"] = micros(call.created_at - timedelta(seconds=quota.seconds))
        binds[f"before_{number}"] = quota.most - 1
    statement = _fills(tuple((quota.period, quota.counted) for quota in quotas))
    fills = connection.one(statement, binds) or ()
    found = (_exhausted(call, quota, at) for quota, at in zip(quotas, fills, strict=True))
    return [one for one in found if one is not None]


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


def limits(connection: Connection, account_id: str, agent_id: str, key_id: str) -> Mapping[Level, Limits]:
    binds = {"account_id": account_id, "account": account_id, "agent_id": agent_id, "key_id": key_id}
    found = {level: limits for level, _, limits in map(limits_value, connection.all(_LIMITS, binds))}
    return {level: found[level] for level in Level if level in found}


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
