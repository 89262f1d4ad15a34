"""The verbs on calls: who may, what is dialled, and what a client is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from callmcp.agents.model import Agent
from callmcp.calls.events import Accepted, Event
from callmcp.calls.intent import fingerprint
from callmcp.calls.model import Call, CallFilter, CallRequest, CallStatus, EndReason, GoalMet, PhoneNumber, Position
from callmcp.calls.operations import KEY_REUSED, Calls
from callmcp.calls.ports import Observe
from callmcp.errors import CarrierUncertain, Conflict, Forbidden, InvalidArguments, NotFound, Refused, Unavailable
from callmcp.identity.model import Principal, Scope
from callmcp.store.memory import MemoryStore
from callmcp.store.sql import SqlStore
from callmcp.telephony.simulator.client import Simulator
from tests import world as worlds
from tests.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


def request(world: World, to: str = "+14155550111", key: str | None = None, seconds: int | None = None) -> CallRequest:
    return CallRequest(
        agent_id=world.agent.id, to=PhoneNumber.parse(to), idempotency_key=key, max_duration_seconds=seconds
    )


class Counting(Simulator):
    """A simulator that keeps what it was asked to dial."""

    dialled: list[str]

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:
        self.dialled = [*getattr(self, "dialled", []), call.id]
        return await super().place(call, agent, observe)


class Uncertain(Counting):
    """A carrier whose answer to a dial is lost."""

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:
        await super().place(call, agent, observe)
        raise CarrierUncertain("The connection was reset while waiting for the carrier's answer.")


class Slow(Simulator):
    """A carrier that takes a second to answer."""

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:
        carrier_id = await super().place(call, agent, observe)
        await self._clock.sleep(1)
        return carrier_id


async def test_a_placed_call_is_the_carriers_and_this_processs(world: World) -> None:
    placed = await world.calls.place(world.owner, request(world))

    call = placed.call
    assert not placed.replayed
    assert (call.status, call.carrier, call.owner) == (CallStatus.QUEUED, "simulator", "process-1")
    assert call.carrier_id == f"sim_{call.id.removeprefix('call_')}"
    assert (call.account_id, call.key_id, call.agent_version) == (world.owner.account_id, "key_owner", 1)
    assert call.from_number == worlds.CALLER_ID


@pytest.mark.parametrize(("asked", "allowed"), [(None, 600), (30, 30), (9000, 600)])
async def test_a_call_lasts_no_longer_than_its_agent_allows(world: World, asked: int | None, allowed: int) -> None:
    placed = await world.calls.place(world.owner, request(world, seconds=asked))

    assert placed.call.max_duration_seconds == allowed


async def test_fifty_requests_at_once_with_one_key_dial_once(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'callmcp.db'}")
    await store.open()
    await store.upgrade()
    world = await worlds.build(carrier=Counting, store=store)

    placed = await asyncio.gather(*(world.calls.place(world.owner, request(world, key="order-1")) for _ in range(50)))

    assert isinstance(world.simulator, Counting)
    assert len(world.simulator.dialled) == 1
    assert {one.call.id for one in placed} == set(world.simulator.dialled)
    assert sum(not one.replayed for one in placed) == 1
    await world.simulator.close()
    await store.close()


async def test_the_same_key_with_other_arguments_is_a_conflict_and_dials_nothing(world: World) -> None:
    first = await world.calls.place(world.owner, request(world, key="order-1"))

    with pytest.raises(Conflict) as refused:
        await world.calls.place(world.owner, request(world, to="+14155550100", key="order-1"))

    assert refused.value.code == KEY_REUSED
    assert first.call.id in refused.value.message
    assert len((await world.calls.list(world.owner, CallFilter())).calls) == 1


async def test_a_call_without_a_key_is_a_call_each_time(world: World) -> None:
    first = await world.calls.place(world.owner, request(world))
    second = await world.calls.place(world.owner, request(world))

    assert first.call.id != second.call.id


async def test_an_idempotency_key_belongs_to_its_account(world: World) -> None:
    theirs = await world.agents.create(world.stranger, name="Eve", greeting="Hello, this is Eve.")
    first = await world.calls.place(world.owner, request(world, key="order-1"))

    again = await world.calls.place(world.colleague, request(world, key="order-1"))
    other = await world.calls.place(world.stranger, replace(request(world, key="order-1"), agent_id=theirs.id))

    assert (again.call.id, again.replayed) == (first.call.id, True)
    assert (other.call.id == first.call.id, other.replayed) == (False, False)


async def test_a_key_that_may_not_see_the_first_call_is_told_no_more_than_that_it_is_taken(world: World) -> None:
    first = await world.calls.place(world.owner, request(world, key="order-1"))

    with pytest.raises(Conflict) as refused:
        await world.calls.place(world.narrow, request(world, key="order-1"))

    assert first.call.id not in refused.value.message


@pytest.mark.parametrize("number", ["+14155550112", "+14155550113"])
async def test_what_the_carrier_refuses_is_the_call_and_its_replay(world: World, number: str) -> None:
    refused = await world.calls.place(world.owner, request(world, to=number, key="order-1"))
    again = await world.calls.place(world.owner, request(world, to=number, key="order-1"))

    assert (refused.call.status, refused.call.end_reason) == (CallStatus.FAILED, EndReason.CARRIER_REFUSED)
    assert refused.call.error is not None
    assert (again.call, again.replayed) == (refused.call, True)


async def test_an_answer_that_was_lost_makes_the_call_unknown_and_never_dials_again() -> None:
    world = await worlds.build(carrier=Uncertain)

    placed = await world.calls.place(world.owner, request(world, to="+14155550100", key="order-1"))
    again = await world.calls.place(world.owner, request(world, to="+14155550100", key="order-1"))

    assert placed.call.status is CallStatus.UNKNOWN
    assert (again.call.id, again.replayed) == (placed.call.id, True)
    assert isinstance(world.simulator, Uncertain)
    assert len(world.simulator.dialled) == 1
    found, _, _ = await world.until_over(placed.call)  # it had been dialled after all, and the carrier says so
    assert found.outcome is not None
    assert (found.status, found.outcome.goal_met) == (CallStatus.COMPLETED, GoalMet.YES)
    await world.simulator.close()


class Forgetful(MemoryStore):
    """A store that cannot be reached when the carrier has answered."""

    async def apply(self, call_id: str, *events: Event) -> Call:
        if any(isinstance(event, Accepted) for event in events):
            raise Unavailable("The database does not answer.")
        return await super().apply(call_id, *events)


async def test_a_call_that_the_carrier_took_is_given_back_though_the_store_is_gone() -> None:
    world = await worlds.build(carrier=Counting, store=Forgetful())

    placed = await world.calls.place(world.owner, request(world, to="+14155550100", key="order-1"))
    again = await world.calls.place(world.owner, request(world, to="+14155550100", key="order-1"))

    assert (again.call.id, again.replayed) == (placed.call.id, True)
    assert isinstance(world.simulator, Counting)
    assert len(world.simulator.dialled) == 1
    ended, _, _ = await world.until_over(placed.call)
    assert ended.status is CallStatus.COMPLETED
    await world.simulator.close()


@pytest.mark.parametrize("number", ["+1911", "+44999", "+49112"])
async def test_an_emergency_number_is_refused_and_leaves_no_call(world: World, number: str) -> None:
    with pytest.raises(Refused) as refused:
        await world.calls.place(world.owner, replace(request(world, key="order-1"), to=PhoneNumber(number)))

    assert refused.value.code == "emergency_number"
    assert not (await world.calls.list(world.owner, CallFilter())).calls


async def test_the_short_number_of_an_emergency_service_is_refused_as_such() -> None:
    with pytest.raises(Refused):
        PhoneNumber.parse("911")
    with pytest.raises(InvalidArguments):
        PhoneNumber.parse("555-1234")


async def test_a_client_that_goes_away_does_not_leave_the_carriers_answer_unheard() -> None:
    world = await worlds.build(carrier=Slow)
    placing = asyncio.create_task(world.calls.place(world.owner, request(world)))
    await world.clock.advance(0.5)
    placing.cancel()
    await world.clock.advance(1)

    (call,) = (await world.calls.list(world.owner, CallFilter())).calls
    assert placing.cancelled()
    assert call.carrier_id is not None
    await world.simulator.close()


async def test_a_process_that_stops_still_hears_what_the_carrier_answers_to_a_client_that_went_away() -> None:
    world = await worlds.build(carrier=Slow)
    placing = asyncio.create_task(world.calls.place(world.owner, request(world)))
    await world.clock.advance(0.5)
    placing.cancel()
    closing = asyncio.create_task(world.calls.close())
    await world.clock.advance(0.1)
    assert not closing.done()
    await world.clock.advance(1)
    await closing

    (call,) = (await world.calls.list(world.owner, CallFilter())).calls
    assert call.carrier_id is not None
    await world.simulator.close()


async def test_a_carrier_that_does_not_answer_keeps_no_process_from_stopping() -> None:
    world = await worlds.build(carrier=Slow)
    placing = asyncio.create_task(world.calls.place(world.owner, request(world)))
    await world.clock.advance(0.5)

    async with asyncio.timeout(5):
        await world.calls.close()

    with pytest.raises(asyncio.CancelledError):
        await placing
    (call,) = (await world.calls.list(world.owner, CallFilter())).calls
    assert call.status is CallStatus.QUEUED  # for the sweep to ask about
    await world.simulator.close()


# Who may.


async def test_calls_need_the_scope_that_their_verb_names(world: World) -> None:
    call = await world.place("+14155550111")
    reader = replace(world.owner, scopes=frozenset({Scope.CALLS_READ}))
    other = replace(world.owner, scopes=frozenset({Scope.AGENTS_WRITE}))

    for verb in (
        world.calls.place(reader, request(world)),
        world.calls.end(reader, call.id),
        world.calls.get(other, call.id),
        world.calls.wait(other, call.id, seconds=0),
        world.calls.list(other, CallFilter()),
    ):
        with pytest.raises(Forbidden):
            await verb
    assert (await world.calls.get(reader, call.id))[0].id == call.id


VERBS: dict[str, Callable[[Calls, Principal, str], Awaitable[object]]] = {
    "get": lambda calls, who, call_id: calls.get(who, call_id),
    "end": lambda calls, who, call_id: calls.end(who, call_id),
    "wait": lambda calls, who, call_id: calls.wait(who, call_id, seconds=0),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_an_account_sees_its_calls_and_nobody_elses_exist(world: World, verb: str) -> None:
    call = await world.place("+14155550111")

    await VERBS[verb](world.calls, world.owner, call.id)
    await VERBS[verb](world.calls, world.colleague, call.id)
    for who, call_id in ((world.stranger, call.id), (world.narrow, call.id), (world.owner, "call_0")):
        with pytest.raises(NotFound) as missing:
            await VERBS[verb](world.calls, who, call_id)
        assert missing.value.code == "call_not_found"


async def test_lists_hold_what_their_reader_may_see(world: World) -> None:
    call = await world.place("+14155550111")

    seen = {
        name: [found.id for found in (await world.calls.list(getattr(world, name), CallFilter())).calls]
        for name in ("owner", "colleague", "narrow", "stranger")
    }

    assert seen == {"owner": [call.id], "colleague": [call.id], "narrow": [], "stranger": []}


@pytest.mark.parametrize("who", ["narrow", "stranger"])
async def test_nobody_calls_with_an_agent_that_is_not_theirs(world: World, who: str) -> None:
    with pytest.raises(NotFound) as missing:
        await world.calls.place(getattr(world, who), request(world))

    assert missing.value.code == "agent_not_found"


# Reading and waiting.


async def test_only_the_turns_after_an_index_are_given(world: World) -> None:
    call, turns, _ = await world.until_over(await world.place())

    assert (await world.calls.get(world.owner, call.id, after=3))[1] == turns[4:]
    assert (await world.calls.read(call))[1] == turns


async def test_a_call_without_turns_is_read_without_the_store(world: World) -> None:
    call = await world.place("+14155550111")

    assert await world.calls.read(call) == (call, ())


async def test_waiting_ends_with_the_call(world: World) -> None:
    call = await world.place("+14155550101")
    waiting = asyncio.create_task(world.calls.wait(world.owner, call.id, seconds=50))
    await world.clock.advance(10)

    async with asyncio.timeout(5):
        await waiting
    assert (await world.record(call))[0].status is CallStatus.BUSY


async def test_waiting_ends_when_its_time_is_over(world: World) -> None:
    call = await world.place("+14155550111")

    async with asyncio.timeout(5):
        await world.calls.wait(world.owner, call.id, seconds=0.02)
    assert (await world.record(call))[0].status is CallStatus.QUEUED


async def test_what_another_process_observes_is_seen_by_polling(world: World) -> None:
    call = await world.place("+14155550111")
    other = world.another_process()
    waiting = asyncio.create_task(other.calls.wait(world.owner, call.id, seconds=50))
    await world.clock.advance(0)
    await world.calls.end(world.owner, call.id)

    async with asyncio.timeout(5):
        await waiting


async def test_an_unknown_call_is_told_at_once_and_then_waited_for() -> None:
    world = await worlds.build(carrier=Uncertain)
    call = await world.place("+14155550101")
    waiting = asyncio.create_task(world.calls.wait(world.owner, call.id, seconds=50))
    await world.clock.advance(10)

    async with asyncio.timeout(5):
        await waiting
    assert (await world.record(call))[0].status is CallStatus.BUSY
    await world.simulator.close()


async def test_nobody_waits_in_a_process_that_stops(world: World) -> None:
    call = await world.place("+14155550111")
    waiting = asyncio.create_task(world.calls.wait(world.owner, call.id, seconds=50))
    await world.clock.advance(0)

    world.calls.stop_waiting()

    async with asyncio.timeout(5):
        await waiting
        await world.calls.wait(world.owner, call.id, seconds=50)
    assert (await world.record(call))[0].status is CallStatus.QUEUED


async def test_two_may_wait_for_one_call(world: World) -> None:
    call = await world.place("+14155550101")
    waiting = [asyncio.create_task(world.calls.wait(world.owner, call.id, seconds=50)) for _ in range(2)]
    await world.clock.advance(10)

    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)


async def test_ending_from_another_process_is_a_wish_that_the_owner_obeys(world: World) -> None:
    call = await world.place("+14155550111")
    other = world.another_process()
    ending = asyncio.create_task(other.calls.end(world.owner, call.id))
    await world.clock.advance(0)
    wished, _ = await world.record(call)
    assert (wished.status, wished.end_requested_at) == (CallStatus.QUEUED, world.clock.now())

    await world.simulator.end(wished)

    assert (await ending).end_reason is EndReason.ENDED_BY_CALLER


# Lists.


async def test_pages_follow_one_another_newest_first(world: World) -> None:
    placed = []
    for _ in range(5):
        placed.append((await world.place("+14155550111")).id)
        await world.clock.advance(1)

    pages = []
    after: Position | None = None
    for _ in range(3):
        page = await world.calls.list(world.owner, CallFilter(), limit=2, after=after)
        pages.append([call.id for call in page.calls])
        after = page.next

    assert after is None
    assert pages == [placed[:-3:-1], placed[2:0:-1], placed[:1]]


async def test_lists_are_filtered(world: World) -> None:
    first = await world.place("+14155550111")
    await world.clock.advance(10)
    second = await world.place("+14155550112")

    async def found(**wanted: object) -> list[str]:
        page = await world.calls.list(world.owner, replace(CallFilter(), **wanted))  # type: ignore[arg-type]
        return [call.id for call in page.calls]

    assert await found(status=CallStatus.FAILED) == [second.id]
    assert await found(to="+14155550111") == [first.id]
    assert await found(since=second.created_at) == [second.id]
    assert await found(until=second.created_at) == [first.id]
    assert await found(since=first.created_at, until=first.created_at + timedelta(seconds=1)) == [first.id]
    assert await found(agent_id="agt_ffffff") == []


def test_a_fingerprint_tells_arguments_apart_and_not_the_key_or_the_order_of_metadata() -> None:
    base = CallRequest(agent_id="agt_000001", to=PhoneNumber("+14155550100"), metadata={"a": "1", "b": "2"})

    assert fingerprint(base) == fingerprint(replace(base, idempotency_key="k", metadata={"b": "2", "a": "1"}))
    others = (
        replace(base, agent_id="agt_000002"),
        replace(base, to=PhoneNumber("+14155550101")),
        replace(base, context="x"),
        replace(base, max_duration_seconds=30),
        replace(base, metadata={"a": "1"}),
    )
    assert len({fingerprint(one) for one in (base, *others)}) == 6
