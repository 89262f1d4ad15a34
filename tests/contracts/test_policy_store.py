"""What limits ask of a store, of every store."""

import asyncio
import itertools
import secrets
from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callmcp.calls.events import Answered, HungUp, OptedOut
from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.calls.policy.limits import Hours, Level, Limits
from callmcp.calls.policy.opt_out import opted_out
from callmcp.calls.policy.rates import Counted, Exhausted, Period, Quota, verdict
from callmcp.calls.ports import NotAdded
from callmcp.calls.refusals import Refusal
from callmcp.identity.audit import Entry
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, a_call

pytestmark = pytest.mark.anyio
_accounts = itertools.count(1000)


def quota(counted: Counted, period: Period, most: int = 1, seconds: int = 0) -> Quota:
    return Quota(
        level=Level.ACCOUNT, counted=counted, period=period, most=most, seconds=seconds, code="x", words="too often"
    )


def at(seconds: float) -> dict[str, object]:
    return {"created_at": NOON + timedelta(seconds=seconds)}


async def test_a_window_is_full_with_so_many_and_free_when_the_oldest_has_left_it(store: Store) -> None:
    two_a_minute = quota(Counted.KEY, Period.WINDOW, most=2, seconds=60)
    for seconds in (0, 10):
        await store.add(a_call(**at(seconds)), [two_a_minute])

    with pytest.raises(NotAdded) as refused:
        await store.add(a_call(**at(59)), [two_a_minute])
    assert refused.value.verdict == verdict(Exhausted(quota=two_a_minute, since=NOON))
    await store.add(a_call(**at(60)), [two_a_minute])
    await store.add(a_call(**at(61), key_id="key_2"), [two_a_minute])
    await store.add(a_call(**at(61), account_id="acct_2"), [two_a_minute])


@pytest.mark.parametrize(
    ("counted", "other"),
    [
        (Counted.ACCOUNT, {"account_id": "acct_2"}),
        (Counted.AGENT, {"agent_id": "agt_000002"}),
        (Counted.KEY, {"key_id": "key_2"}),
        (Counted.DESTINATION, {"to": "+15550100001"}),
    ],
)
async def test_what_is_counted_is_what_shares_it(store: Store, counted: Counted, other: dict[str, str]) -> None:
    one = quota(counted, Period.LIVE)
    first = await store.add(a_call(), [one])

    with pytest.raises(NotAdded):
        await store.add(a_call(), [one])
    await store.add(a_call(**other), [one])
    await store.apply(first.id, HungUp(at=NOON))
    await store.add(a_call(), [one])  # every end releases its slot


async def test_a_number_is_left_alone_for_a_while_after_the_last_call(store: Store) -> None:
    pause = quota(Counted.DESTINATION, Period.PAUSE, seconds=300)
    first = await store.add(a_call(**at(0)), [pause])
    await store.apply(first.id, Answered(at=NOON), HungUp(at=NOON + timedelta(seconds=30)))

    found = Exhausted(quota=pause, since=NOON + timedelta(seconds=30))
    assert await store.counted(a_call(**at(329)), [pause], []) == [verdict(found)]
    assert await store.counted(a_call(**at(330)), [pause], []) == []
    assert await store.counted(a_call(**at(31), to="+15550100001"), [pause], []) == []


async def test_of_many_that_come_at_once_as_many_are_added_as_there_is_room_for(store: Store) -> None:
    three = [quota(Counted.ACCOUNT, Period.WINDOW, most=3, seconds=60), quota(Counted.KEY, Period.LIVE, most=5)]
    calls = [a_call(**at(0), to=f"+1555010{number:04}") for number in range(12)]

    results = await asyncio.gather(*(store.add(call, three) for call in calls), return_exceptions=True)

    assert sum(isinstance(result, NotAdded) for result in results) == 9


async def test_who_repeats_a_request_gets_its_call_whatever_the_quotas(store: Store) -> None:
    one = quota(Counted.ACCOUNT, Period.LIVE)
    first = await store.add(a_call(idempotency_key="k"), [one])

    assert await store.add(a_call(idempotency_key="k"), [one]) == first


placings = st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["key_1", "key_2"]), st.booleans()), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(placings, st.integers(1, 3), st.integers(1, 3))
async def test_no_history_ever_exceeds_a_quota(
    store: Store, placed: list[tuple[int, str, bool]], a_minute: int, at_once: int
) -> None:
    account = f"acct_{next(_accounts)}"
    counted = [
        quota(Counted.KEY, Period.WINDOW, most=a_minute, seconds=60),
        quota(Counted.ACCOUNT, Period.LIVE, most=at_once),
    ]
    live = 0
    times: dict[str, list[int]] = {"key_1": [], "key_2": []}
    now = 0
    for gap, key, ends in placed:
        now += gap
        room = live < at_once and sum(now - then < 60 for then in times[key]) < a_minute
        call = a_call(**at(now), account_id=account, key_id=key)
        try:
            await store.add(call, counted)
        except NotAdded:
            assert not room
            continue
        assert room
        times[key].append(now)
        live += 1
        if ends:
            await store.apply(call.id, HungUp(at=NOON + timedelta(seconds=now)))
            live -= 1


# The suppression list.


def an_opt_out(number: str, **fields: object) -> OptOut:
    some: dict[str, object] = {"account_id": "acct_1", "source": OptOutSource.OPERATOR, "created_at": NOON}
    return OptOut(**{**some, "number": number} | fields)  # type: ignore[arg-type]


async def test_a_number_on_the_list_is_never_added_again_by_its_account(store: Store) -> None:
    assert await store.add_opt_outs([an_opt_out("+15550100000", reason="Asked by letter. 🍽")]) == 1

    with pytest.raises(NotAdded) as refused:
        await store.add(a_call())
    assert refused.value.verdict == opted_out("+15550100000")
    await store.add(a_call(account_id="acct_2"))
    await store.add(a_call(to="+15550100001"))
    found = await store.remove_opt_out("acct_1", "+15550100000")
    assert found == an_opt_out("+15550100000", reason="Asked by letter. 🍽")
    assert await store.remove_opt_out("acct_1", "+15550100000") is None
    await store.add(a_call())


async def test_a_callee_who_asks_for_it_is_on_the_list_at_once(store: Store) -> None:
    call = await store.add(a_call())
    await store.apply(call.id, OptedOut(at=NOON), OptedOut(at=NOON))

    assert await store.opt_out("acct_1", call.to) == an_opt_out(call.to, source=OptOutSource.CALLEE, call_id=call.id)
    with pytest.raises(NotAdded):
        await store.add(a_call())


async def test_the_list_is_read_a_page_at_a_time_and_first_come_stays(store: Store) -> None:
    numbers = [f"+1555010{number:04}" for number in range(5)]
    assert await store.add_opt_outs([an_opt_out(number) for number in reversed(numbers)]) == 5
    assert await store.add_opt_outs([an_opt_out(numbers[0], reason="again"), an_opt_out("+15550109999")]) == 1
    await store.add_opt_outs([an_opt_out("+15550100000", account_id="acct_2")])

    first = await store.opt_outs("acct_1", limit=3)
    rest = await store.opt_outs("acct_1", after=first[-1].number)
    assert [one.number for one in (*first, *rest)] == [*numbers, "+15550109999"]
    assert first[0].reason == ""


# What operators lay down.

EVERYTHING = Limits(
    regions=frozenset({"US", "*"}),
    allow_prefixes=("+1",),
    deny_prefixes=("+1900", "+1976"),
    hours=Hours.parse("08:00-21:00"),
    region_hours={"DE": Hours.parse("09:00-20:00")},
    calls_per_minute=1,
    calls_per_hour=2,
    calls_per_day=3,
    calls_at_once=4,
    destination_per_day=5,
    destination_at_once=6,
    destination_pause_seconds=7,
    spend_per_day=8_500_000,
    spend_per_month=90_000_000,
    approval=True,
    consent=frozenset({"DE"}),
)


async def test_limits_come_back_as_they_were_set_level_by_level(store: Store) -> None:
    async def limits_of(key_id: str) -> Mapping[Level, Limits]:
        number = "+15550100000"
        return (await store.laid_down("acct_1", agent_id="agt_1", key_id=key_id, number=number)).limits

    await store.set_limits("acct_1", Level.ACCOUNT, "acct_1", Limits(calls_per_day=9))
    await store.set_limits("acct_1", Level.ACCOUNT, "acct_1", EVERYTHING)
    await store.set_limits("acct_1", Level.KEY, "key_1", Limits(calls_at_once=1))
    await store.set_limits("acct_2", Level.ACCOUNT, "acct_2", Limits(calls_at_once=2))

    found = await limits_of("key_1")
    assert found == {Level.ACCOUNT: EVERYTHING, Level.KEY: Limits(calls_at_once=1)}
    assert list(await limits_of("key_2")) == [Level.ACCOUNT]
    assert len(await store.all_limits("acct_1")) == 2
    await store.set_limits("acct_1", Level.ACCOUNT, "acct_1", None)
    assert list(await limits_of("key_1")) == [Level.KEY]


async def test_refusals_are_remembered_newest_first(store: Store) -> None:
    def a_refusal(number: int, **fields: object) -> Refusal:
        some: dict[str, object] = {
            "id": f"ref_{number}",
            "account_id": "acct_1",
            "key_id": "key_1",
            "agent_id": "agt_1",
            "to": "+15550100000",
            "rule": "hours",
            "level": Level.AGENT,
            "code": "outside_hours",
            "reason": "It is late.",
            "retry_at": NOON,
            "at": NOON + timedelta(seconds=number),
        }
        return Refusal(**some | fields)  # type: ignore[arg-type]

    refusals = [a_refusal(1), a_refusal(2, retry_at=None), a_refusal(3, account_id="acct_2")]
    for refusal in refusals:
        await store.add_refusal(refusal)

    assert await store.refusals("acct_1") == [refusals[1], refusals[0]]
    assert await store.refusals("acct_1", limit=1) == [refusals[1]]


async def test_the_audit_trail_is_read_newest_first(store: Store) -> None:
    account = f"acct_{secrets.token_hex(6)}"
    entries = [
        Entry(
            id=f"aud_{account}_{number}",
            account_id=account,
            at=NOON + timedelta(seconds=number),
            actor="operator",
            action="limits.account",
            subject=account,
            before=None,
            after='{"calls_per_day": 9}',
        )
        for number in range(3)
    ]
    for entry in entries:
        await store.add_entry(entry)

    assert await store.entries(account) == entries[::-1]
    assert await store.entries(account, limit=1) == [entries[2]]
