"""What is asked of the database about calls, their turns and their owners. Each function is one job of a lane."""

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Select, Update, bindparam, delete, insert, select, tuple_, update

from callmcp.calls.events import Event
from callmcp.calls.model import Call, CallFilter, CallStatus, Position, Turn
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.rates import Quota
from callmcp.errors import Conflict, NotFound
from callmcp.store import policy
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.fold import fold, opt_out_in
from callmcp.store.tables import (
    CALL_FIELDS,
    CALLS,
    IS_LIVE,
    MAY_WAIT,
    OWNERS,
    TURNS,
    Columns,
    call_columns,
    call_value,
    micros,
    turn_columns,
    turn_value,
)

_ADD = InsertNew(CALLS)
_CALL = select(CALLS).where(CALLS.c.id == bindparam("call_id"))
_CALL_TO_CHANGE = _CALL.with_for_update()
_CALL_BY_KEY = select(CALLS).where(
    CALLS.c.account_id == bindparam("account_id"), CALLS.c.idempotency_key == bindparam("idempotency_key")
)
_CALL_BY_CARRIER_ID = select(CALLS).where(
    CALLS.c.carrier == bindparam("carrier"), CALLS.c.carrier_id == bindparam("carrier_id")
)
_ADD_TURN = insert(TURNS)
_TURNS = (
    select(TURNS)
    .where(
        TURNS.c.call_id == bindparam("call_id"),
        TURNS.c.index > bindparam("after"),
        TURNS.c.index < bindparam("turn_count"),
    )
    .order_by(TURNS.c.index)
)
CARRIED = select(CALLS).where(IS_LIVE, CALLS.c.owner == bindparam("owner")).order_by(CALLS.c.created_at, CALLS.c.id)
TO_END = CARRIED.where(CALLS.c.end_requested_at.is_not(None))
QUIET = (
    select(CALLS)
    .where(IS_LIVE, CALLS.c.status == bindparam("status"), CALLS.c.heard_from_at <= bindparam("since"))
    .order_by(CALLS.c.heard_from_at, CALLS.c.id)
    .limit(bindparam("limit"))
)
WAITING = select(CALLS).where(MAY_WAIT).order_by(CALLS.c.created_at, CALLS.c.id)
WAITING_HERE = WAITING.where(CALLS.c.account_id == bindparam("account_id"))
_FIRST_BEAT = InsertNew(OWNERS).values(id=bindparam("owner"), beats=1)
_BEAT = update(OWNERS).where(OWNERS.c.id == bindparam("owner")).values(beats=OWNERS.c.beats + 1)
_BEATS = select(OWNERS.c.id, OWNERS.c.beats)
_FORGET_OWNER = delete(OWNERS).where(OWNERS.c.id == bindparam("owner"))


def add(connection: Connection, call: Call, quotas: Sequence[Quota] = (), budgets: Sequence[Budget] = ()) -> Call:
    if call.idempotency_key is not None:
        # Who repeats a request is not refused for what it did the first time.
        first = call_by_key(connection, call.account_id, call.idempotency_key)
        if first is not None:
            return first
    policy.admit(connection, call, quotas, budgets)
    if connection.run(_ADD, call_columns(call)):
        if call.cost is not None:
            policy.spend(connection, call, call.cost.held)
        return call
    if call.idempotency_key is not None:
        # In PostgreSQL the insert waited for the other transaction's end, and a new statement sees what it committed.
        first = call_by_key(connection, call.account_id, call.idempotency_key)
        if first is not None:
            return first
    raise Conflict(f"There is a call {call.id!r} already.", code="call_exists")


def call(connection: Connection, call_id: str) -> Call | None:
    row = connection.one(_CALL, {"call_id": call_id})
    return None if row is None else call_value(row)


def call_by_key(connection: Connection, account_id: str, idempotency_key: str) -> Call | None:
    row = connection.one(_CALL_BY_KEY, {"account_id": account_id, "idempotency_key": idempotency_key})
    return None if row is None else call_value(row)


def call_by_carrier_id(connection: Connection, carrier: str, carrier_id: str) -> Call | None:
    row = connection.one(_CALL_BY_CARRIER_ID, {"carrier": carrier, "carrier_id": carrier_id})
    return None if row is None else call_value(row)


def record(connection: Connection, call_id: str, after: int) -> tuple[Call, Sequence[Turn]] | None:
    """One moment without a transaction: turns never change, so those below the call's own count are its turns."""
    found = call(connection, call_id)
    if found is None:
        return None
    after = max(after, -1)
    if after + 1 >= found.turn_count:
        return found, []
    rows = connection.all(_TURNS, {"call_id": call_id, "after": after, "turn_count": found.turn_count})
    return found, [turn_value(row) for row in rows]


def apply(connection: Connection, call_id: str, *events: Event) -> Call:
    row = connection.one(_CALL_TO_CHANGE, {"call_id": call_id})
    if row is None:
        raise NotFound(f"There is no call {call_id!r}.", code="call_not_found")
    before = call_value(row)
    after, turns = fold(before, events)
    changed = tuple(name for name in CALL_FIELDS if getattr(after, name) is not getattr(before, name))
    if changed:
        connection.run(_update_of(changed), {"call_id": call_id} | call_columns(after, changed))
    if after.opt_out and not before.opt_out:
        policy.add_opt_outs(connection, [opt_out_in(after, events)])
    if after.cost is not None and before.cost is not None and after.cost.held != before.cost.held:
        policy.spend(connection, after, after.cost.held - before.cost.held)
    if turns:
        connection.run_many(_ADD_TURN, [turn_columns(call_id, turn) for turn in turns])
    return after


@functools.cache
def _update_of(fields: tuple[str, ...]) -> Update:
    return update(CALLS).where(CALLS.c.id == bindparam("call_id")).values({field: bindparam(field) for field in fields})


def calls(
    connection: Connection,
    account_id: str,
    wanted: CallFilter,
    *,
    agent_ids: frozenset[str],
    limit: int,
    after: Position | None,
) -> Sequence[Call]:
    """One query an agent, as an index keeps the order of one agent's calls and not that of several."""
    parameters: Columns = {"account_id": account_id, "limit": limit}
    if wanted.status is not None:
        parameters["status"] = wanted.status.value
    if wanted.to is not None:
        parameters["to"] = wanted.to
    if wanted.since is not None:
        parameters["since"] = micros(wanted.since)
    if (end := _earlier(wanted.until, after)) is not None:
        parameters |= {"end": end[0], "end_id": end[1]}
    rows = [
        row
        for agent in _narrowed_to(wanted, agent_ids)
        for row in connection.all(listing(frozenset(parameters | agent)), parameters | agent)
    ]
    found = sorted(map(call_value, rows), key=lambda call: (call.created_at, call.id), reverse=True)
    return found[:limit]


def _earlier(until: datetime | None, after: Position | None) -> tuple[int, str] | None:
    """Where a list ends at its new side: two conditions there would bring SQLite's planner to a worse index."""
    ends = []
    if until is not None:
        ends.append((micros(until), ""))  # no id sorts before the empty one, so this is all of that moment
    if after is not None:
        ends.append((micros(after.created_at), after.id))
    return min(ends, default=None)


def _narrowed_to(wanted: CallFilter, agent_ids: frozenset[str]) -> Sequence[Columns]:
    if wanted.agent_id is None:
        return [{"agent_id": agent_id} for agent_id in agent_ids] or [{}]
    if agent_ids and wanted.agent_id not in agent_ids:
        return []
    return [{"agent_id": wanted.agent_id}]


@functools.cache
def listing(parameters: frozenset[str]) -> Select[tuple[object, ...]]:
    """The newest first, narrowed by what is named.

    With `to`, nothing else may choose the index (so the `|| ''`): a planner without statistics might go by status and
    walk through every completed call.
    """
    by_number = "to" in parameters
    status = CALLS.c.status.concat("") if by_number else CALLS.c.status
    agent_id = CALLS.c.agent_id.concat("") if by_number else CALLS.c.agent_id
    conditions = {
        "account_id": CALLS.c.account_id == bindparam("account_id"),
        "agent_id": agent_id == bindparam("agent_id"),
        "status": status == bindparam("status"),
        "to": CALLS.c.to == bindparam("to"),
        "since": CALLS.c.created_at >= bindparam("since"),
        "end": tuple_(CALLS.c.created_at, CALLS.c.id) < tuple_(bindparam("end"), bindparam("end_id")),
    }
    return (
        select(CALLS)
        .where(*(condition for name, condition in conditions.items() if name in parameters))
        .order_by(CALLS.c.created_at.desc(), CALLS.c.id.desc())
        .limit(bindparam("limit"))
    )


def carried_by(connection: Connection, owner: str) -> Sequence[Call]:
    return [call_value(row) for row in connection.all(CARRIED, {"owner": owner})]


def to_end(connection: Connection, owner: str) -> Sequence[Call]:
    return [call_value(row) for row in connection.all(TO_END, {"owner": owner})]


def quiet(connection: Connection, status: CallStatus, since: datetime, limit: int) -> Sequence[Call]:
    rows = connection.all(QUIET, {"status": status.value, "since": micros(since), "limit": limit})
    return [call_value(row) for row in rows]


def waiting(connection: Connection, account_id: str | None) -> Sequence[Call]:
    statement = WAITING if account_id is None else WAITING_HERE
    rows = connection.all(statement, {} if account_id is None else {"account_id": account_id})
    return [call for call in map(call_value, rows) if call.waits]


def beat(connection: Connection, owner: str) -> None:
    if not connection.run(_BEAT, {"owner": owner}):
        connection.run(_FIRST_BEAT, {"owner": owner})


def beats(connection: Connection) -> Mapping[str, int]:
    return {row[0]: row[1] for row in connection.all(_BEATS, {})}


def forget_owner(connection: Connection, owner: str) -> None:
    connection.run(_FORGET_OWNER, {"owner": owner})
