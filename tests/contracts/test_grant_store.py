"""What OAuth asks of a store, of every store."""

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import pytest

from callmcp.errors import Conflict
from callmcp.identity.grants import ClientKind, Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import Scope
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, a_key

pytestmark = pytest.mark.anyio
_numbers = itertools.count(1)
HOUR = timedelta(hours=1)


def a_client(**fields: Any) -> OAuthClient:
    some: dict[str, Any] = {
        "id": f"client_{next(_numbers)}",
        "kind": ClientKind.DYNAMIC,
        "name": "An app 🍽",
        "redirect_uris": ("https://app.example.com/cb", "http://127.0.0.1/cb"),
        "created_at": NOON,
    }
    return OAuthClient(**some | fields)


def a_grant(**fields: Any) -> Grant:
    some: dict[str, Any] = {
        "id": f"grant_{next(_numbers)}",
        "account_id": "acct_1",
        "key_id": "key_none",
        "client_id": "client_x",
        "client_name": "An app",
        "scopes": frozenset({Scope.CALLS_READ, Scope.CALLS_WRITE}),
        "agent_ids": frozenset({"agt_000001"}),
        "resource": "https://calls.example.org/mcp",
        "created_at": NOON,
    }
    return Grant(**some | fields)


def a_code(grant: Grant) -> Code:
    return Code(
        digest=f"{next(_numbers):064}",
        grant_id=grant.id,
        client_id=grant.client_id,
        redirect_uri="https://app.example.com/cb",
        challenge="c" * 43,
        expires_at=NOON + HOUR,
    )


async def revoked(store: Store, grant: Grant) -> bool:
    found = await store.grant(grant.id)
    assert found is not None
    return found[0].revoked_at is not None


async def test_clients_come_back_as_they_were_and_go_with_their_grants(store: Store) -> None:
    made = a_client(
        kind=ClientKind.REGISTERED, account_id="acct_1", secret_digest="d", scopes=frozenset({Scope.CALLS_READ})
    )
    await store.add_client(made)
    await store.add_client(a_client())
    with pytest.raises(Conflict):
        await store.add_client(made)
    grant = a_grant(client_id=made.id)
    await store.add_grant(grant)

    assert await store.client(made.id) == made
    assert await store.clients("acct_1") == [made]
    assert await store.clients("acct_2") == []
    await store.use_client(made.id, NOON + HOUR)
    assert (await store.clients("acct_1"))[0].last_used_at == NOON + HOUR
    await store.remove_client(made.id, NOON)
    assert await store.client(made.id) is None
    assert await revoked(store, grant)


async def test_of_many_who_register_at_once_no_more_than_may_are_added(store: Store) -> None:
    await store.add_client(a_client(created_at=NOON - 5 * HOUR))
    await store.add_client(a_client(kind=ClientKind.REGISTERED))
    clients = [a_client() for _ in range(12)]

    added = await asyncio.gather(*(store.register_client(client, most=5, since=NOON - HOUR) for client in clients))

    assert sum(added) == 5
    there = [await store.client(client.id) is not None for client in clients]
    assert there == list(added)


async def test_clients_that_registered_themselves_are_forgotten_when_nobody_uses_them(store: Store) -> None:
    old, fresh = a_client(created_at=NOON - 3 * HOUR), a_client()
    used, idle = (a_client(created_at=NOON - 9 * HOUR) for _ in range(2))
    ours = a_client(kind=ClientKind.REGISTERED, created_at=NOON - 9 * HOUR)
    for client in (old, fresh, used, idle, ours):
        await store.add_client(client)
    await store.use_client(used.id, NOON)
    await store.use_client(idle.id, NOON - 8 * HOUR)

    await store.forget_clients(unused_since=NOON - HOUR, idle_since=NOON - 7 * HOUR)

    left = [await store.client(client.id) is not None for client in (old, fresh, used, idle, ours)]
    assert left == [False, True, True, False, True]


async def test_a_grant_comes_with_the_key_behind_it(store: Store) -> None:
    key = a_key()
    await store.add_key(key)
    ours, theirs = a_grant(key_id=key.id), a_grant()
    await store.add_grant(ours)
    await store.add_grant(theirs)

    assert await store.grant(ours.id) == (ours, key)
    assert await store.grant(theirs.id) == (theirs, None)
    assert await store.grant("grant_none") is None
    await store.revoke_grant(ours.id, NOON)
    await store.revoke_grant(ours.id, NOON + HOUR)
    found = await store.grant(ours.id)
    assert found is not None
    assert found[0].revoked_at == NOON


async def test_a_code_is_good_once_and_using_it_again_revokes_its_grant(store: Store) -> None:
    grant = a_grant()
    code = a_code(grant)
    await store.add_grant(grant, code)
    assert await store.use_code("unknown", NOON) is None

    used = await asyncio.gather(*(store.use_code(code.digest, NOON) for _ in range(8)))

    (first,) = (one for one in used if one is not None)
    assert (first.grant_id, first.challenge, first.expires_at) == (grant.id, code.challenge, code.expires_at)
    assert await revoked(store, grant)


async def test_a_refresh_token_is_good_once_and_using_it_again_revokes_its_grant(store: Store) -> None:
    grant = a_grant()
    await store.add_grant(grant)
    token = RefreshToken(digest="r" * 64, grant_id=grant.id, client_id="client_x", expires_at=NOON + HOUR)
    await store.add_refresh_token(token)
    assert await store.refresh_token(token.digest) == token
    assert await store.use_refresh_token("unknown", NOON) is None

    assert await store.use_refresh_token(token.digest, NOON) is not None
    assert not await revoked(store, grant)
    assert await store.use_refresh_token(token.digest, NOON) is None
    assert await revoked(store, grant)


async def test_the_grants_of_an_account_are_those_that_hold(store: Store) -> None:
    later, first, theirs, over = (
        a_grant(account_id="acct_7", created_at=NOON + HOUR),
        a_grant(account_id="acct_7"),
        a_grant(account_id="acct_8"),
        a_grant(account_id="acct_7"),
    )
    for grant in (later, first, theirs, over):
        await store.add_grant(grant)
    await store.revoke_grant(over.id, NOON)

    assert await store.grants("acct_7") == [first, later]


async def test_what_has_expired_is_forgotten_and_a_grant_when_nothing_is_left_of_it(store: Store) -> None:
    with_code, with_token, with_old_token, with_nothing, new = (
        a_grant(),
        a_grant(),
        a_grant(),
        a_grant(),
        a_grant(created_at=NOON + HOUR),
    )
    code = a_code(with_code)
    await store.add_grant(with_code, code)
    for grant in (with_token, with_old_token, with_nothing, new):
        await store.add_grant(grant)
    for grant, lives in ((with_token, 2 * HOUR), (with_old_token, timedelta(minutes=1))):
        token = RefreshToken(digest=grant.id, grant_id=grant.id, client_id="client_x", expires_at=NOON + lives)
        await store.add_refresh_token(token)

    await store.forget_grants(expired=NOON + HOUR, made_before=NOON + HOUR)

    left = [
        grant for grant in (with_code, with_token, with_old_token, with_nothing, new) if await store.grant(grant.id)
    ]
    assert left == [with_code, with_token, new]  # a code is good up to its last moment
    assert await store.refresh_token(with_old_token.id) is None
    await store.forget_grants(expired=NOON + 3 * HOUR, made_before=NOON + HOUR)
    assert await store.use_code(code.digest, NOON) is None
    assert [await store.grant(grant.id) for grant in (with_code, with_token)] == [None, None]


async def test_of_many_processes_that_start_one_makes_the_first_signing_key(store: Store) -> None:
    keys = [SigningKey(id=f"k{number}", jwk="{}", created_at=NOON) for number in range(5)]
    await asyncio.gather(*(store.add_signing_key(key, first=True) for key in keys))
    assert len(await store.signing_keys()) == 1

    newer = SigningKey(id="new", jwk="{}", created_at=NOON + HOUR)
    await store.add_signing_key(newer)
    assert next(key.id for key in await store.signing_keys()) == "new"


async def test_a_signing_key_is_kept_while_what_it_signed_may_be_good(store: Store) -> None:
    keys = [SigningKey(id=f"s{hour}", jwk="{}", created_at=NOON + hour * HOUR) for hour in (0, 50, 100)]
    for key in keys:
        await store.add_signing_key(key)

    left = []
    for hour in (1, 50, 51, 100, 101, 999):  # a key signs until its successor is made, however old it is
        await store.forget_signing_keys(succeeded_before=NOON + hour * HOUR)
        left.append([key.id for key in await store.signing_keys()])
    assert left == [["s100", "s50", "s0"], ["s100", "s50", "s0"], ["s100", "s50"], ["s100", "s50"], ["s100"], ["s100"]]
