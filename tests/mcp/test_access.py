"""Who may do what, over the wire. Alice owns, Bob is her colleague (another key of the account), Carol a stranger."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callmcp.identity.model import Scope
from tests.mcp.conftest import key_for
from tests.mcp.rpc import ALL, Rpc, World

pytestmark = pytest.mark.anyio

CALL: dict[str, dict[str, Any]] = {
    "list_agents": {},
    "make_call": {"agent_id": "agt_000000", "to": "+15551234567"},
    "get_call": {"call_id": "call_x"},
    "list_calls": {},
    "end_call": {"call_id": "call_x"},
}
NEEDS = {
    "list_agents": "agents:read",
    "make_call": "calls:write",
    "get_call": "calls:read",
    "list_calls": "calls:read",
    "end_call": "calls:write",
}
each_tool = pytest.mark.parametrize("tool", CALL)


async def key_with(world: World, *scopes: Scope, **fields: Any) -> Rpc:
    account = await world.services.keys.default_account()
    return Rpc(world.http, await key_for(world.services, account, "some", scopes=scopes, **fields))


@each_tool
@pytest.mark.parametrize("revision", ALL)
async def test_without_a_key_a_call_is_401_with_words_and_a_challenge(world: World, tool: str, revision: str) -> None:
    response = await Rpc(world.http, revision=revision).send("tools/call", {"name": tool, "arguments": CALL[tool]})
    assert response.status_code == 401
    challenge = response.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert "error=" not in challenge
    assert 'resource_metadata="http://127.0.0.1:8765/.well-known/oauth-protected-resource/mcp"' in challenge
    assert response.json()["error"]["code"] == -32600
    assert "callmcp keys create" in response.json()["error"]["message"]
    assert response.json()["id"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Bearer cmcp_wrong")],
        [("authorization", "Bearer ")],
        [("authorization", "Bearer")],
        [("authorization", "Basic dXNlcjpwYXNz")],
        [("authorization", "Bearer " + "A" * 30_000)],
        [("authorization", "Bearer \xe9")],
        [("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.")],
        [("x-api-key", "cmcp_wrong")],
        [("x-api-key", "")],
    ],
)
async def test_a_wrong_key_is_401_invalid_token(world: World, headers: list[tuple[str, str]]) -> None:
    body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "list_agents"}}
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    response = await world.http.post("/mcp", json=body, headers=encoded)
    assert response.status_code == 401
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    assert response.json()["id"] == 9


async def test_of_two_credentials_none_is_picked(world: World) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents"}}
    good = f"Bearer {world.alice.key}"
    for headers in (
        [("authorization", "Bearer nonsense"), ("authorization", good)],
        [("authorization", good), ("authorization", "Bearer nonsense")],
        [("authorization", good), ("x-api-key", "nonsense")],
    ):
        assert (await world.http.post("/mcp", json=body, headers=headers)).status_code == 401


@pytest.mark.parametrize("query", ["access_token", "api_key", "key", "token"])
async def test_a_key_in_the_url_is_not_a_credential(world: World, query: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents"}}
    response = await world.http.post(f"/mcp?{query}={world.alice.key}", json=body)
    assert response.status_code == 401


async def test_the_scheme_is_read_in_any_case_and_the_other_header_works_too(world: World) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents"}}
    for headers in (
        {"authorization": f"bearer {world.alice.key}"},
        {"authorization": f"BEARER   {world.alice.key} "},
        {"x-api-key": str(world.alice.key)},
        {"x-api-key": str(world.alice.key), "authorization": f"Bearer {world.alice.key}"},
    ):
        response = await world.http.post("/mcp", json=body, headers=headers)
        assert response.status_code == 200, response.text


@each_tool
@pytest.mark.parametrize("scope", Scope)
async def test_a_scope_opens_what_it_implies_and_nothing_else(world: World, tool: str, scope: Scope) -> None:
    rpc = await key_with(world, scope)
    response = await rpc.send("tools/call", {"name": tool, "arguments": CALL[tool]})
    if scope.implies(Scope(NEEDS[tool])):
        assert response.status_code == 200
    else:
        assert response.status_code == 403
        challenge = response.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert f'scope="{NEEDS[tool]}"' in challenge
        assert NEEDS[tool] in response.json()["error"]["message"]


async def test_write_implies_read_of_its_own_resource_alone_and_admin_everything() -> None:
    for scope in Scope:
        assert Scope.ADMIN.implies(scope)
        assert scope.implies(scope)
    assert Scope.CALLS_WRITE.implies(Scope.CALLS_READ)
    assert not Scope.CALLS_READ.implies(Scope.CALLS_WRITE)
    assert not Scope.CALLS_WRITE.implies(Scope.AGENTS_READ)
    assert not Scope.AGENTS_WRITE.implies(Scope.CALLS_READ)
    assert not Scope.CALLS_WRITE.implies(Scope.ADMIN)


async def test_a_revoked_key_stops_at_once(world: World) -> None:
    rpc = await key_with(world, Scope.AGENTS_READ)
    assert (await rpc.call("list_agents"))["structuredContent"]
    key = (await world.services.keys.list())[-1]
    await world.services.keys.revoke(key.id)
    response = await rpc.send("tools/call", {"name": "list_agents"})
    assert response.status_code == 401
    assert "was revoked" in response.json()["error"]["message"]


async def test_an_expired_key_is_refused(world: World) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=50)
    rpc = await key_with(world, Scope.AGENTS_READ, expires_at=soon)
    await world.services.clock.sleep(0.06)
    response = await rpc.send("tools/call", {"name": "list_agents"})
    assert response.status_code == 401
    assert "has expired" in response.json()["error"]["message"]


async def test_a_key_shows_when_it_was_last_used(world: World) -> None:
    before = (await world.services.keys.list())[0]
    assert before.last_used_at is None
    await world.alice.call("list_agents")
    after = (await world.services.keys.list())[0]
    assert after.last_used_at is not None


async def test_a_key_is_kept_only_as_a_hash_and_a_short_prefix(world: World) -> None:
    key = (await world.services.keys.list())[0]
    assert world.alice.key is not None
    assert world.alice.key.startswith(key.prefix)
    assert len(key.prefix) <= 12
    assert world.alice.key not in repr(key)


async def test_a_call_is_seen_by_its_owner_and_her_colleague_and_by_no_stranger(world: World) -> None:
    placed = await world.alice.record("make_call", agent_id=world.agent_id, to="+14155550111")
    call_id = placed["call_id"]
    for insider in (world.alice, world.bob):
        assert (await insider.record("get_call", call_id=call_id))["call_id"] == call_id
        assert [call["call_id"] for call in (await insider.record("list_calls"))["calls"]] == [call_id]
    for tool in ("get_call", "end_call"):
        result = await world.carol.call(tool, call_id=call_id)
        assert result["isError"]
        assert result["_meta"]["callmcp/error"]["code"] == "call_not_found"
        assert "structuredContent" not in result
    waited = await world.carol.call("get_call", call_id=call_id, wait_seconds=5)
    assert waited["_meta"]["callmcp/error"]["code"] == "call_not_found"
    assert (await world.carol.record("list_calls"))["calls"] == []
    assert (await world.bob.record("end_call", call_id=call_id))["status"] == "canceled"


async def test_a_strangers_call_and_no_call_are_told_in_the_same_words(world: World) -> None:
    placed = await world.alice.record("make_call", agent_id=world.agent_id, to="+14155550111")
    theirs = await world.carol.call("get_call", call_id=placed["call_id"])
    none = await world.carol.call("get_call", call_id="call_000")
    words = [result["content"][0]["text"].replace(placed["call_id"], "call_000") for result in (theirs, none)]
    assert words[0] == words[1]


async def test_another_accounts_agent_is_not_found(world: World) -> None:
    result = await world.alice.call("make_call", agent_id=world.strangers_agent_id, to="+15551234567")
    assert result["_meta"]["callmcp/error"]["code"] == "agent_not_found"
    listed = await world.alice.record("list_agents")
    assert [agent["agent_id"] for agent in listed["agents"]] == [world.agent_id]


async def test_an_idempotency_key_is_each_accounts_own(world: World) -> None:
    to = "+14155550111"
    alices = await world.alice.record("make_call", agent_id=world.agent_id, to=to, idempotency_key="k")
    carols = await world.carol.record("make_call", agent_id=world.strangers_agent_id, to=to, idempotency_key="k")
    assert alices["call_id"] != carols["call_id"]
    assert not carols["replayed"]
    bobs = await world.bob.record("make_call", agent_id=world.agent_id, to=to, idempotency_key="k")
    assert (bobs["call_id"], bobs["replayed"]) == (alices["call_id"], True)


async def test_a_key_limited_to_some_agents_sees_only_theirs(world: World) -> None:
    placed = await world.alice.record("make_call", agent_id=world.agent_id, to="+14155550111", idempotency_key="k")
    limited = await key_with(
        world, Scope.CALLS_WRITE, Scope.AGENTS_READ, agent_ids=frozenset({world.strangers_agent_id})
    )
    assert (await limited.record("list_agents"))["agents"] == []
    assert (await limited.record("list_calls"))["calls"] == []
    for tool in ("get_call", "end_call"):
        assert (await limited.call(tool, call_id=placed["call_id"]))["isError"]
    refused = await limited.call("make_call", agent_id=world.agent_id, to="+15551234567")
    assert refused["_meta"]["callmcp/error"]["code"] == "agent_not_found"
    replay = await limited.call("make_call", agent_id=world.agent_id, to="+14155550111", idempotency_key="k")
    assert replay["isError"]
    assert placed["call_id"] not in replay["content"][0]["text"]
