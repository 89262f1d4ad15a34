"""What agents ask of a store, of every store."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from callmcp.agents.questions import AnswerType, Question
from callmcp.errors import Conflict
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, an_agent

pytestmark = pytest.mark.anyio


async def test_an_agent_comes_back_as_it_went_in(store: Store) -> None:
    agent = an_agent(
        description="Books tables. 🍽",
        instructions="Be brief.\n" * 2000,
        model="openai:gpt",
        from_number="+15550100000",
        max_duration_seconds=14400,
        version=7,
        updated_at=NOON + timedelta(microseconds=1),
        deleted_at=NOON + timedelta(days=1),
    )
    await store.add_agent(agent)
    assert await store.agent(agent.id) == agent
    assert await store.agent("agt_ffffff") is None


async def test_everything_of_an_agent_comes_back(store: Store) -> None:
    day = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
    agent = an_agent(
        language="de-DE",
        voice="Journey-O",
        tts_provider="Google",
        transcription_provider="Deepgram",
        speech_model="nova-3-general",
        hints=("Lovelace", "Käse"),
        fallbacks=("openai:gpt", "scripted"),
        temperature=0.25,
        voicemail_message="Please call back.",
        recording=True,
        questions=(day, Question(name="who", question="Who?")),
    )
    await store.add_agent(agent)
    assert await store.agent(agent.id) == agent
    assert await store.agent_version(agent.id, 1) == agent


async def test_what_an_agent_was_in_each_version_stays_also_when_it_is_deleted(store: Store) -> None:
    first = an_agent()
    second = replace(first, name="Bob", hints=("Ada",), version=2, updated_at=NOON + timedelta(seconds=1))
    third = replace(second, version=3, deleted_at=NOON + timedelta(seconds=2))
    await store.add_agent(first)
    await store.save_agent(second)
    await store.save_agent(third)
    assert await store.agent_versions(first.id) == [third, second, first]
    assert await store.agent_version(first.id, 1) == first
    assert await store.agent_version(first.id, 4) is None
    assert await store.agent_version("agt_ffffff", 1) is None
    assert await store.agent_versions("agt_ffffff") == []


async def test_a_lost_race_leaves_no_version(store: Store) -> None:
    agent = an_agent()
    await store.add_agent(agent)
    with pytest.raises(Conflict):
        await store.save_agent(replace(agent, name="Bob", version=3))
    with pytest.raises(Conflict):
        await store.add_agent(replace(agent, name="Bob"))
    assert await store.agent_versions(agent.id) == [agent]


async def test_a_taken_id_is_a_conflict_for_any_account(store: Store) -> None:
    agent = an_agent()
    await store.add_agent(agent)
    with pytest.raises(Conflict):
        await store.add_agent(replace(agent, account_id="acct_2"))
    assert await store.agent(agent.id) == agent


async def test_the_list_has_the_accounts_own_agents_oldest_first_without_deleted_ones(store: Store) -> None:
    young, old = an_agent(created_at=NOON + timedelta(seconds=1)), an_agent()
    deleted, stranger = an_agent(deleted_at=NOON), an_agent(account_id="acct_2")
    for agent in (young, deleted, stranger, old):
        await store.add_agent(agent)
    assert await store.agents("acct_1") == [old, young]
    assert await store.agent(deleted.id) == deleted


async def test_saving_the_next_version_replaces_the_agent(store: Store) -> None:
    agent, other = an_agent(), an_agent()
    await store.add_agent(agent)
    await store.add_agent(other)
    changed = replace(agent, name="Bob", from_number="+15550100001", version=2, updated_at=NOON + timedelta(seconds=1))
    await store.save_agent(changed)
    assert await store.agent(agent.id) == changed
    assert await store.agent(other.id) == other


@pytest.mark.parametrize("version", [1, 3])
async def test_saving_any_other_version_is_a_conflict_and_changes_nothing(store: Store, version: int) -> None:
    agent = an_agent()
    await store.add_agent(agent)
    with pytest.raises(Conflict):
        await store.save_agent(replace(agent, name="Bob", version=version))
    assert await store.agent(agent.id) == agent


async def test_saving_an_agent_that_is_not_there_is_a_conflict(store: Store) -> None:
    with pytest.raises(Conflict):
        await store.save_agent(an_agent(version=2))
    assert await store.agents("acct_1") == []


async def test_of_several_who_change_the_same_version_one_wins(store: Store) -> None:
    agent = an_agent()
    await store.add_agent(agent)
    names = [f"name {number}" for number in range(8)]
    saves = [store.save_agent(replace(agent, name=name, version=2)) for name in names]
    results = await asyncio.gather(*saves, return_exceptions=True)
    (winner,) = [name for name, result in zip(names, results, strict=True) if result is None]
    assert [type(result) for result in results if result is not None] == [Conflict] * 7
    assert await store.agent(agent.id) == replace(agent, name=winner, version=2)


async def test_text_that_no_database_can_hold_is_replaced(store: Store) -> None:
    await store.add_agent(an_agent(id="agt_0000ff", instructions="a\x00b\ud800c"))
    agent = await store.agent("agt_0000ff")
    assert agent is not None
    assert agent.instructions == "a\ufffdb\ufffdc"
    assert await store.agent("agt_\x00") is None


async def test_text_within_lists_that_no_database_can_hold_is_replaced_too(store: Store) -> None:
    agent = an_agent(hints=("a\x00b", "c"), questions=(Question(name="day", question="Which\ud800?"),))
    await store.add_agent(agent)
    stored = await store.agent(agent.id)
    assert stored is not None
    assert stored.hints == ("a\ufffdb", "c")
    assert stored.questions[0].question == "Which\ufffd?"
