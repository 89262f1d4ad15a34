"""A process that was taken for dead and lives, and a store that is away in the middle of a call."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls import state
from callmcp.calls.events import Answered, Event, HungUp, Judged, OptedOut, OwnerLost, TurnSpoken
from callmcp.calls.model import Call, CallStatus, EndReason, GoalMet, Outcome, Speaker
from callmcp.calls.sweep import Patience, Sweep
from callmcp.clock import TestClock
from callmcp.errors import Unavailable
from callmcp.store.memory import MemoryStore
from tests import world as worlds
from tests.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


async def test_a_call_that_was_settled_elsewhere_is_hung_up_and_its_record_stays(world: World) -> None:
    call = await world.place()
    await world.clock.advance(4)
    _, said = await world.record(call)
    assert said
    await world.store.apply(call.id, OwnerLost(at=world.clock.now()))
    settled, said = await world.record(call)

    await world.clock.advance(60)

    assert await world.record(call) == (settled, said)
    assert (settled.status, settled.end_reason) == (CallStatus.FAILED, EndReason.SERVER_LOST)


LATE: st.SearchStrategy[list[type[Event]]] = st.lists(st.sampled_from([Answered, HungUp, TurnSpoken, Judged]))


@given(kinds=LATE, seconds=st.integers(min_value=1, max_value=10**6))
async def test_nothing_that_a_lost_process_does_afterwards_is_the_call_but_a_wish_not_to_be_called_is(
    kinds: list[type[Event]], seconds: int
) -> None:
    lost_at = TestClock().now()
    call = state.apply(_answered_call(), OwnerLost(at=lost_at))
    at = lost_at + timedelta(seconds=seconds)
    late = {
        Answered: Answered(at=at),
        HungUp: HungUp(at=at),
        TurnSpoken: TurnSpoken(at=at, speaker=Speaker.AGENT, text="Still there?"),
        Judged: Judged(at=at, outcome=Outcome(goal_met=GoalMet.YES, summary="")),
    }
    after = call
    for kind in kinds:
        after = state.apply(after, late[kind])
    assert after == call
    assert state.apply(after, OptedOut(at=at)).opt_out


async def test_what_a_lost_process_heard_before_it_was_given_up_is_kept() -> None:
    lost_at = TestClock().now()
    call = state.apply(_answered_call(), OwnerLost(at=lost_at))
    before = TurnSpoken(at=lost_at - timedelta(seconds=3), speaker=Speaker.CALLEE, text="Yes.")
    assert state.apply(call, before).turn_count == call.turn_count + 1


class AwayStore(MemoryStore):
    """A memory store whose database can go away. Its calls are kept meanwhile."""

    away = False

    async def apply(self, call_id: str, *events: Event) -> Call:
        if self.away:
            raise Unavailable("The database is away.")
        return await super().apply(call_id, *events)

    async def beat(self, owner: str) -> None:
        if self.away:
            raise Unavailable("The database is away.")
        await super().beat(owner)


async def test_a_call_that_was_dialled_is_told_although_its_acceptance_could_not_be_stored() -> None:
    store = AwayStore()
    world = await worlds.build(store=store)
    store.away = True
    placed = await world.place("+14155550101", idempotency_key="k")
    assert placed.status is CallStatus.QUEUED
    store.away = False

    assert (await world.place("+14155550101", idempotency_key="k")).id == placed.id
    ended, _, _ = await world.until_over(placed)
    assert ended.status is CallStatus.BUSY
    await world.simulator.close()


async def test_a_heartbeat_that_cannot_be_stored_is_trouble_until_one_can(world: World) -> None:
    store = AwayStore()
    sweep = Sweep(
        store=store,
        calls=world.calls,
        telephony=world.simulator,
        clock=world.clock,
        owner="process-1",
        patience=Patience(),
    )
    troubles = []
    for away in (False, True, False):
        store.away = away
        with contextlib.suppress(Unavailable):
            await sweep.beat()
        troubles.append(sweep.trouble is not None)
    assert troubles == [False, True, False]


async def test_a_gap_in_which_nobody_could_look_is_nobodys_silence(world: World) -> None:
    """The database was away, or the machine slept: who looks first finds that the others did not beat for long."""
    call = await world.place("+14155550110")
    elsewhere = Sweep(
        store=world.store,
        calls=world.calls,
        telephony=world.simulator,
        clock=world.clock,
        owner="process-2",
        patience=Patience(owner=0.04),
    )
    await world.store.beat("process-1")
    await elsewhere.settle()
    await asyncio.sleep(0.05)
    await elsewhere.settle()
    assert not (await world.record(call))[0].status.is_final

    async with asyncio.timeout(5):
        while not (await world.record(call))[0].status.is_final:  # it is no more than a reprieve
            await asyncio.sleep(0.01)
            await elsewhere.settle()


def _answered_call() -> Call:
    now = TestClock().now() - timedelta(seconds=10)
    call = Call(
        id="call_1",
        account_id="acct_1",
        key_id="key_1",
        agent_id="agt_1",
        agent_version=1,
        to="+14155550100",
        from_number=worlds.CALLER_ID,
        context="",
        metadata={},
        max_duration_seconds=60,
        idempotency_key=None,
        fingerprint="",
        carrier="simulator",
        token="token",
        created_at=now,
        heard_from_at=now,
    )
    call = state.apply(call, Answered(at=now))
    return dataclasses.replace(call, turn_count=3)
