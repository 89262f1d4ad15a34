"""Calls that stopped reporting, and calls whose process is gone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from callmcp.calls.events import Asked, EndRequested, Event, Ringing
from callmcp.calls.model import Call, CallStatus, EndReason
from callmcp.calls.sweep import Patience, Sweep
from callmcp.errors import CarrierUncertain
from callmcp.telephony.simulator.client import Simulator
from tests import world as worlds
from tests.world import Process, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


def sweep_of(world: World, process: Process | None = None, *, owner: float = 0) -> Sweep:
    """The sweep of the world's own process, or of another."""
    carrier = process or world
    return Sweep(
        store=world.store,
        calls=carrier.calls,
        telephony=carrier.simulator,
        clock=world.clock,
        owner="process-2" if process else "process-1",
        patience=Patience(silence=15, give_up=120, owner=owner),
    )


async def test_a_silent_carrier_makes_a_call_unknown_and_then_given_up(world: World) -> None:
    call = await world.place("+14155550111")
    sweep = sweep_of(world)
    seen = []
    for seconds in (14.9, 0.1, 119.9, 0.1, 1000):
        await world.clock.advance(seconds)
        await sweep.settle()
        seen.append((await world.record(call))[0].status)

    assert seen == [
        CallStatus.QUEUED,
        CallStatus.UNKNOWN,
        CallStatus.UNKNOWN,
        CallStatus.FAILED,
        CallStatus.FAILED,
    ]
    assert (await world.record(call))[0].end_reason is EndReason.CARRIER_SILENT


async def test_a_call_that_reports_is_left_alone_however_long_it_lasts(world: World) -> None:
    call = await world.place("+14155550102")
    sweep = sweep_of(world)
    for _ in range(20):
        await world.clock.advance(1)
        await sweep.settle()

    assert (await world.record(call))[0].status is CallStatus.RINGING


async def test_calls_of_a_process_whose_heart_stopped_are_settled_and_of_a_living_one_are_not(world: World) -> None:
    call = await world.place("+14155550102")
    mine, theirs = sweep_of(world), sweep_of(world, world.another_process())
    await mine.beat()

    for _ in range(3):  # it lives
        await mine.beat()
        await theirs.settle()
    assert not (await world.record(call))[0].status.is_final

    await theirs.settle()  # and does not
    settled, _ = await world.record(call)
    assert (settled.status, settled.end_reason) == (CallStatus.FAILED, EndReason.SERVER_LOST)
    assert settled.error is not None


async def test_a_process_has_time_to_beat_again(world: World) -> None:
    call = await world.place("+14155550102")
    theirs = sweep_of(world, world.another_process(), owner=60)

    for _ in range(3):
        await theirs.settle()

    assert not (await world.record(call))[0].status.is_final


async def test_a_process_never_takes_itself_for_dead(world: World) -> None:
    call = await world.place("+14155550102")
    mine = sweep_of(world)

    for _ in range(3):
        await mine.settle()

    assert not (await world.record(call))[0].status.is_final


async def test_a_wish_to_end_from_elsewhere_is_obeyed_at_the_next_beat(world: World) -> None:
    call = await world.place("+14155550102")
    await world.clock.advance(5)
    elsewhere = world.another_process()
    sweep = sweep_of(world)
    await sweep.beat()
    assert not (await world.record(call))[0].status.is_final  # nobody has asked yet

    asked = asyncio.create_task(elsewhere.calls.end(world.owner, call.id))
    await world.clock.advance(0)
    await sweep.beat()
    await world.clock.advance(0)

    assert (await asked).status is CallStatus.CANCELED
    await elsewhere.simulator.close()


class Stubborn(Simulator):
    """A carrier that knows of every call and ends none."""

    async def look(self, _: Call, *, is_another: Callable[[str], Awaitable[bool]]) -> Sequence[Event]:  # noqa: ARG002
        return [Asked(at=self._clock.now())]

    async def end(self, call: Call) -> None:  # noqa: ARG002
        raise CarrierUncertain("The carrier did not answer.")


class StubbornAndElsewhere(Stubborn):
    carries = False


async def test_a_call_that_cannot_be_ended_keeps_no_other_from_being_settled() -> None:
    world = await worlds.build(carrier=StubbornAndElsewhere)
    unwanted, ringing = await world.place("+14155550111"), await world.place("+14155550111")
    await world.calls.observe(unwanted.id, EndRequested(at=world.clock.now()))
    await world.calls.observe(ringing.id, Ringing(at=world.clock.now()))
    await world.clock.advance(100)
    for _ in range(2):
        await sweep_of(world).settle()

    assert (await world.record(unwanted))[0].end_requested_at is not None
    assert (await world.record(ringing))[0].heard_from_at == world.clock.now()
    await world.simulator.close()


async def test_a_call_that_cannot_be_ended_keeps_no_process_from_beating() -> None:
    world = await worlds.build(carrier=Stubborn)
    sweep = sweep_of(world)
    for _ in range(2):
        call = await world.place("+14155550111")
        await world.calls.observe(call.id, EndRequested(at=world.clock.now()))
        await sweep.beat()

    assert await world.store.beats() == {"process-1": 2}
    await world.simulator.close()
