"""What identity asks of a store, of every store."""

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from callmcp.errors import Conflict, NotFound
from callmcp.identity.model import Scope
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, a_key, an_account

pytestmark = pytest.mark.anyio


async def test_an_account_is_found_by_its_name(store: Store) -> None:
    account = an_account(name="Zoë & sons")
    await store.add_account(account)
    assert await store.account_named("Zoë & sons") == account
    assert await store.account_named("zoë & sons") is None


async def test_a_taken_account_name_is_a_conflict_and_the_first_account_keeps_it(store: Store) -> None:
    first, second = an_account(name="shop"), an_account(name="shop")
    await store.add_account(first)
    with pytest.raises(Conflict):
        await store.add_account(second)
    assert await store.accounts() == [first]


async def test_accounts_come_oldest_first(store: Store) -> None:
    accounts = [an_account(created_at=NOON + timedelta(microseconds=age)) for age in (3, 1, 2)]
    for account in accounts:
        await store.add_account(account)
    assert await store.accounts() == sorted(accounts, key=lambda account: account.created_at)


async def test_a_key_comes_back_as_it_went_in(store: Store) -> None:
    key = a_key(
        scopes=frozenset(Scope),
        agent_ids=frozenset({"agt_000002", "agt_000001"}),
        expires_at=NOON + timedelta(days=1),
        revoked_at=NOON + timedelta(hours=1),
        last_used_at=NOON + timedelta(microseconds=1),
    )
    await store.add_key(key)
    assert await store.key(key.id) == key
    assert await store.key_by_digest(key.digest) == key


async def test_a_key_that_is_not_there_is_none(store: Store) -> None:
    await store.add_key(a_key())
    assert await store.key("key_unknown") is None
    assert await store.key_by_digest("0" * 64) is None


async def test_a_digest_that_is_there_already_is_a_conflict(store: Store) -> None:
    key = a_key()
    await store.add_key(key)
    with pytest.raises(Conflict):
        await store.add_key(a_key(digest=key.digest))
    assert await store.keys() == [key]


async def test_keys_are_listed_for_one_account_or_for_all_and_oldest_first(store: Store) -> None:
    young, old = a_key(created_at=NOON + timedelta(seconds=1)), a_key()
    stranger = a_key(account_id="acct_2", created_at=NOON + timedelta(seconds=2))
    for key in (stranger, young, old):
        await store.add_key(key)
    assert await store.keys("acct_1") == [old, young]
    assert await store.keys("acct_2") == [stranger]
    assert await store.keys() == [old, young, stranger]
    assert await store.keys("acct_3") == []


async def test_saving_replaces_all_but_when_it_was_last_used(store: Store) -> None:
    key, other = a_key(), a_key()
    await store.add_key(key)
    await store.add_key(other)
    await store.touch_key(key.id, NOON)
    changed = replace(
        key,
        name="new name",
        scopes=frozenset({Scope.ADMIN}),
        agent_ids=frozenset({"agt_000009"}),
        expires_at=NOON + timedelta(days=2),
        last_used_at=NOON - timedelta(days=9),
    )
    await store.save_key(changed)
    assert await store.key(key.id) == replace(changed, last_used_at=NOON)
    assert await store.key(other.id) == other


async def test_a_revocation_is_not_undone_by_whoever_read_the_key_before_it(store: Store) -> None:
    key = a_key()
    await store.add_key(key)
    await store.save_key(replace(key, revoked_at=NOON))
    await store.save_key(replace(key, name="renamed"))
    assert await store.key(key.id) == replace(key, name="renamed", revoked_at=NOON)


async def test_saving_a_key_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.save_key(a_key())
    assert await store.keys() == []


async def test_touching_changes_nothing_but_when_it_was_last_used(store: Store) -> None:
    key, other = a_key(), a_key()
    await store.add_key(key)
    await store.add_key(other)
    at = (NOON + timedelta(minutes=5)).astimezone(timezone(timedelta(hours=5, minutes=30)))
    await store.touch_key(key.id, at)
    touched = await store.key_by_digest(key.digest)
    assert touched == replace(key, last_used_at=NOON + timedelta(minutes=5))
    assert await store.key(other.id) == other


async def test_text_that_no_database_can_hold_is_replaced_and_found_again(store: Store) -> None:
    await store.add_account(an_account(name="\ud83d\x00"))
    found = await store.account_named("\ud83d\x00")
    assert found is not None
    assert found.name == "\ufffd\ufffd"
    await store.add_key(a_key(name="a\x00b", agent_ids=frozenset({"agt_\ud800"})))
    (key,) = await store.keys()
    assert (key.name, key.agent_ids) == ("a\ufffdb", frozenset({"agt_\ufffd"}))
    assert await store.key("key_\x00") is None
    assert await store.key_by_digest("\udfff") is None
