"""Voice agents as operators and keys meet them."""

import asyncio
from dataclasses import replace

import pytest

from callmcp.agents.model import Agent
from callmcp.agents.questions import Question
from callmcp.errors import Conflict, Forbidden, InvalidArguments, NotFound
from callmcp.identity.model import Scope
from callmcp.store.memory import MemoryStore
from tests.world import GREETING, World, build

pytestmark = pytest.mark.anyio

WHO = Question(name="who", question="Who?")


async def test_each_change_is_a_version_and_changes_nothing_else() -> None:
    world = await build()

    await world.clock.advance(5)
    changed = await world.agents.update(world.owner, world.agent.id, voice="Journey-O", questions=(WHO,))

    assert changed == replace(world.agent, voice="Journey-O", questions=(WHO,), version=2, updated_at=world.clock.now())
    assert await world.agents.get(world.owner, world.agent.id) == changed
    assert await world.agents.versions(world.owner, world.agent.id) == [changed, world.agent]
    assert await world.agents.version(world.agent.id, 1) == world.agent


async def test_a_call_names_the_version_it_was_placed_with_and_that_stays_readable() -> None:
    world = await build()
    call = await world.place()

    await world.agents.update(world.owner, world.agent.id, greeting="Good day, this is Ada.")
    await world.agents.delete(world.owner, world.agent.id)

    record, _ = await world.record(call)
    placed_with = await world.agents.version(record.agent_id, record.agent_version)
    assert placed_with is not None
    assert placed_with.greeting == GREETING


async def test_a_change_that_cannot_be_leaves_no_version() -> None:
    world = await build()

    for fields in ({"name": ""}, {"model": "opanai:gpt"}, {"fallbacks": ("scripted", "opanai:gpt")}):
        with pytest.raises(InvalidArguments):
            await world.agents.update(world.owner, world.agent.id, **fields)

    assert await world.agents.versions(world.owner, world.agent.id) == [world.agent]


async def test_a_model_that_cannot_be_used_is_told_with_its_place_and_the_reason() -> None:
    world = await build()

    with pytest.raises(InvalidArguments) as refused:
        await world.agents.update(world.owner, world.agent.id, model="opanai:gpt", fallbacks=("scripted", "nobody:x"))

    assert [problem.field for problem in refused.value.problems] == ["model", "fallbacks.1"]
    assert "there is no provider 'opanai'" in refused.value.problems[0].message


class Together(MemoryStore):
    """A store in which two operators have both read before either writes."""

    def __init__(self) -> None:
        super().__init__()
        self.reading: asyncio.Barrier | None = None

    async def agent(self, agent_id: str) -> Agent | None:
        found = await super().agent(agent_id)
        if self.reading is not None:
            async with asyncio.timeout(10):
                await self.reading.wait()
        return found


async def test_of_two_operators_who_change_an_agent_at_once_one_is_told() -> None:
    store = Together()
    world = await build(store=store)
    store.reading = asyncio.Barrier(2)

    results = await asyncio.gather(
        world.agents.update(world.owner, world.agent.id, name="Bob"),
        world.agents.update(world.colleague, world.agent.id, recording=True),
        return_exceptions=True,
    )

    store.reading = None
    (won,) = [result for result in results if isinstance(result, Agent)]
    (lost,) = [result for result in results if isinstance(result, BaseException)]
    assert isinstance(lost, Conflict)
    assert await world.agents.versions(world.owner, world.agent.id) == [won, world.agent]


async def test_who_may_not_see_an_agent_is_told_that_there_is_none() -> None:
    world = await build()

    for principal in (world.stranger, world.narrow):
        for attempt in (
            world.agents.get(principal, world.agent.id),
            world.agents.versions(principal, world.agent.id),
            world.agents.update(principal, world.agent.id, name="Stolen"),
            world.agents.delete(principal, world.agent.id),
        ):
            with pytest.raises(NotFound):
                await attempt

    assert await world.agents.get(world.owner, world.agent.id) == world.agent


async def test_who_may_only_read_agents_changes_none() -> None:
    world = await build()
    reader = replace(world.owner, scopes=frozenset({Scope.AGENTS_READ, Scope.CALLS_WRITE}))

    for attempt in (
        world.agents.create(reader, name="Mine", greeting="Hello."),
        world.agents.update(reader, world.agent.id, name="Mine"),
        world.agents.delete(reader, world.agent.id),
    ):
        with pytest.raises(Forbidden):
            await attempt

    assert len(await world.agents.list(reader)) == 2


async def test_a_deleted_agent_is_gone_but_for_its_versions() -> None:
    world: World = await build()

    await world.agents.delete(world.owner, world.agent.id)

    with pytest.raises(NotFound):
        await world.agents.get(world.owner, world.agent.id)
    assert world.agent.id not in {agent.id for agent in await world.agents.list(world.owner)}
    gone = await world.agents.version(world.agent.id, 2)
    assert gone is not None
    assert gone.deleted_at is not None
