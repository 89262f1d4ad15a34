"""What money and approval ask of a store, of every store."""

import asyncio
import itertools
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.cost import Cost
from callmcp.calls.events import Answered, Approved, Canceled, Claimed, Disapproved, Event, GivenUp, HungUp
from callmcp.calls.model import Call, CallStatus, EndReason
from callmcp.calls.policy.limits import Level
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.prices import Price
from callmcp.calls.policy.rates import Counted
from callmcp.calls.ports import NotAdded
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, a_call

pytestmark = pytest.mark.anyio
_accounts = itertools.count(1000)
TODAY = NOON.date()


def budget(most: int, counted: Counted = Counted.ACCOUNT, *, since: date = TODAY) -> Budget:
    until = since + timedelta(days=1)
    return Budget(level=Level.ACCOUNT, counted=counted, since=since, until=until, most=most, per="day")


def costing(reserved: int, **fields: object) -> Call:
    cost = Cost(currency="USD", per_minute=10, reserved=reserved)
    return a_call(cost=cost, created_at=NOON, **fields)


async def test_what_calls_under_way_may_cost_counts_until_what_they_cost_is_known(store: Store) -> None:
    first = await store.add(costing(110), [], [budget(200)])
    with pytest.raises(NotAdded, match=r"0\.00011 is spent or reserved"):
        await store.add(costing(110), [], [budget(200)])

    answered, over = NOON + timedelta(seconds=5), NOON + timedelta(seconds=95)
    ended = await store.apply(first.id, Answered(at=answered), HungUp(at=over))

    assert ended.cost is not None
    assert ended.cost.settled == 20  # two minutes have begun
    await store.add(costing(110), [], [budget(200)])


@pytest.mark.parametrize(
    ("events", "settled"),
    [
        ([Canceled(at=NOON)], 0),
        ([Answered(at=NOON), HungUp(at=NOON)], 0),
        ([HungUp(at=NOON + timedelta(seconds=61)), Answered(at=NOON + timedelta(seconds=31))], 10),
        ([HungUp(at=NOON + timedelta(seconds=61))], 20),
    ],
    ids=["canceled", "answered for no time", "answered is told late", "nobody says when it was answered"],
)
async def test_a_call_costs_what_it_used_whatever_order_it_is_told_in(
    store: Store, events: list[Event], settled: int
) -> None:
    call = await store.add(costing(110))
    for event in events:
        call = await store.apply(call.id, event)

    assert call.cost is not None
    assert call.cost.settled == settled
    assert await spent(store, "acct_1") == settled


async def spent(store: Store, account: str) -> int:
    """As a budget of that account has it: the most of it that is still free, looked for."""
    low, high = 0, 10**6
    probe = costing(0, account_id=account)
    while low < high:
        middle = (low + high) // 2
        if await store.counted(probe, [], [budget(middle)]):
            low = middle + 1
        else:
            high = middle
    return low


async def test_a_call_of_which_nothing_was_heard_costs_the_worst_case(store: Store) -> None:
    call = await store.add(costing(110, status=CallStatus.UNKNOWN))
    await store.apply(call.id, GivenUp(at=NOON))

    assert await spent(store, "acct_1") == 110


@pytest.mark.parametrize(
    ("counted", "other"),
    [
        (Counted.ACCOUNT, {"account_id": "acct_2"}),
        (Counted.AGENT, {"agent_id": "agt_000002"}),
        (Counted.KEY, {"key_id": "key_2"}),
    ],
)
async def test_a_budget_is_of_whom_it_is_and_of_its_days(store: Store, counted: Counted, other: dict[str, str]) -> None:
    await store.add(costing(100), [], [budget(100, counted)])

    with pytest.raises(NotAdded):
        await store.add(costing(1), [], [budget(100, counted)])
    await store.add(costing(100, **other), [], [budget(100, counted)])
    tomorrow = replace(costing(100), created_at=NOON + timedelta(days=1))
    await store.add(tomorrow, [], [budget(100, counted, since=TODAY + timedelta(days=1))])
    await store.add(a_call(created_at=NOON), [], [budget(1, counted)])  # it costs nothing


async def test_of_many_that_come_at_once_no_more_are_added_than_the_budget_has_room_for(store: Store) -> None:
    calls = [costing(30, to=f"+1555010{number:04}") for number in range(12)]

    results = await asyncio.gather(*(store.add(call, [], [budget(100)]) for call in calls), return_exceptions=True)

    assert sum(isinstance(result, NotAdded) for result in results) == 9


steps = st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["key_1", "key_2"]), st.integers(0, 200)), max_size=10)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(steps, st.integers(1, 150), st.integers(1, 100))
async def test_no_history_ever_exceeds_a_budget(
    store: Store, wanted: list[tuple[int, str, int]], account_may: int, key_may: int
) -> None:
    account = f"acct_{next(_accounts)}"
    both = [budget(account_may), budget(key_may, Counted.KEY)]
    held: dict[str, int] = {"key_1": 0, "key_2": 0}
    for reserved, name, seconds in wanted:
        fits = sum(held.values()) + reserved <= account_may and held[name] + reserved <= key_may
        call = costing(reserved, account_id=account, key_id=f"{name}_{account}", to=f"+1555010{reserved:04}")
        try:
            await store.add(call, [], both)
        except NotAdded:
            assert not fits
            continue
        assert fits
        ended = await store.apply(call.id, Answered(at=NOON), HungUp(at=NOON + timedelta(seconds=seconds)))
        assert ended.cost is not None
        held[name] += ended.cost.held


async def test_prices_are_set_changed_and_taken_away(store: Store) -> None:
    async def found(number: str) -> dict[str, int]:
        return dict((await store.laid_down("acct_1", agent_id="a", key_id="k", number=number)).prices)

    for of, price in (("+1", 14), ("+1", 15), ("+1416", 16), ("+49", 17), ("speech", 70)):
        await store.set_price(Price(account_id="acct_1", of=of, per_minute=price))
    await store.set_price(Price(account_id="acct_2", of="+1", per_minute=99))

    assert [(price.of, price.per_minute) for price in await store.prices("acct_1")] == [
        ("+1", 15),
        ("+1416", 16),
        ("+49", 17),
        ("speech", 70),
    ]
    assert await found("+14165550100") == {"+1": 15, "+1416": 16, "speech": 70}
    assert await found("+493023125000") == {"+49": 17, "speech": 70}
    assert await store.remove_price("acct_1", "+49") == Price(account_id="acct_1", of="+49", per_minute=17)
    assert await store.remove_price("acct_1", "+49") is None
    assert await found("+493023125000") == {"speech": 70}


# Approval.


def waiting_call(**fields: object) -> Call:
    approval = Approval(state=ApprovalState.REQUESTED, expires_at=NOON + timedelta(hours=1))
    return a_call(approval=approval, created_at=NOON, **fields)


async def test_what_waits_is_found_until_somebody_dials_it_or_says_no(store: Store) -> None:
    one, two, other = waiting_call(), waiting_call(to="+15550100001"), waiting_call(account_id="acct_2")
    for call in (one, two, other, a_call()):
        await store.add(call)
    assert [call.id for call in await store.waiting("acct_1")] == [one.id, two.id]
    assert {call.id for call in await store.waiting()} >= {one.id, two.id, other.id}

    await store.apply(one.id, Approved(at=NOON, by="operator"))
    await store.apply(two.id, Disapproved(at=NOON, reason=EndReason.DECLINED, by="operator"))
    assert [call.id for call in await store.waiting("acct_1")] == [one.id]
    claimed = await store.apply(one.id, Claimed(at=NOON, by="process-1", carries=True))

    assert await store.waiting("acct_1") == []
    assert claimed.owner == "process-1"
    assert await store.call(one.id) == claimed


async def test_of_many_who_claim_a_call_one_gets_it(store: Store) -> None:
    call = await store.add(waiting_call())
    await store.apply(call.id, Approved(at=NOON, by="operator"))

    claims = [Claimed(at=NOON, by=f"process-{number}", carries=False) for number in range(10)]
    after = await asyncio.gather(*(store.apply(call.id, claim) for claim in claims))

    (winner,) = {one.approval.claimed_by for one in after if one.approval}
    assert winner is not None
