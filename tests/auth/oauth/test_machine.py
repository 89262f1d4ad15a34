"""Clients that act by themselves (the client credentials extension of MCP), and what operators do with clients."""

import base64

import httpx
import pytest

from callmcp.errors import InvalidArguments, NotFound
from callmcp.identity.model import Scope
from tests.auth.oauth.conftest import BASE, Server

pytestmark = pytest.mark.anyio


async def ask(server: Server, client_id: str, secret: str, **fields: str) -> httpx.Response:
    form = {"grant_type": "client_credentials", "resource": f"{BASE}/mcp", **fields}
    return await server.http.post("/oauth/token", data=form, auth=(client_id, secret))


async def test_a_client_with_a_secret_acts_for_its_account_by_itself(server: Server) -> None:
    client, secret = await server.services.grants.add_client(
        "A robot", account=server.account, scopes=[Scope.CALLS_WRITE, Scope.AGENTS_READ]
    )

    tokens = (await ask(server, client.id, secret or "")).json()

    assert set(tokens["scope"].split()) == {"calls:write", "agents:read"}
    assert "refresh_token" not in tokens
    placed = await server.call(tokens["access_token"], "make_call", agent_id=server.agent_id, to="+14155550100")
    assert placed.json()["result"]["structuredContent"]["call_id"].startswith("call_")


async def test_it_may_ask_for_less_and_not_for_more(server: Server) -> None:
    client, secret = await server.services.grants.add_client(
        "A robot", account=server.account, scopes=[Scope.CALLS_WRITE]
    )

    less = (await ask(server, client.id, secret or "", scope="calls:read")).json()
    assert less["scope"] == "calls:read"
    assert (await server.call(less["access_token"], "make_call", agent_id="x", to="+1")).status_code == 403
    more = await ask(server, client.id, secret or "", scope="agents:write admin")
    assert (more.status_code, more.json()["error"]) == (400, "invalid_scope")


async def test_only_the_right_secret_of_a_client_that_may_is_good(server: Server) -> None:
    robot, secret = await server.services.grants.add_client(
        "A robot", account=server.account, scopes=[Scope.CALLS_READ]
    )
    asking, other = await server.services.grants.add_client(
        "An app", account=server.account, redirect_uris=["https://app.example.com/cb"]
    )
    registered = await server.registered(token_endpoint_auth_method="client_secret_basic")

    assert (await ask(server, robot.id, "wrong")).json()["error"] == "invalid_client"
    assert (await ask(server, robot.id, other or "")).json()["error"] == "invalid_client"
    assert (await ask(server, "client_none", secret or "")).json()["error"] == "invalid_client"
    assert (await ask(server, asking.id, other or "")).json()["error"] == "unauthorized_client"
    assert (await ask(server, registered.client_id, registered.secret or "")).json()["error"] == "unauthorized_client"
    posted = {"grant_type": "client_credentials", "client_id": robot.id, "client_secret": secret}
    assert (await server.http.post("/oauth/token", data=posted)).status_code == 200
    crooked = {"Authorization": "Basic " + base64.b64encode(b"\xff:\xfe").decode()}
    odd = await server.http.post("/oauth/token", data={"grant_type": "client_credentials"}, headers=crooked)
    assert (odd.status_code, "error" in odd.json()) == (400, True)


async def test_removing_a_client_ends_its_tokens_at_once(server: Server) -> None:
    grants = server.services.grants
    client, secret = await grants.add_client("A robot", account=server.account, scopes=[Scope.AGENTS_READ])
    token = (await ask(server, client.id, secret or "")).json()["access_token"]
    assert (await server.call(token)).status_code == 200

    with pytest.raises(NotFound):
        await grants.remove_client(server.other, client.id)
    await grants.remove_client(server.account, client.id)

    assert (await server.call(token)).status_code == 401
    assert (await ask(server, client.id, secret or "")).json()["error"] == "invalid_client"


async def test_an_operator_sees_what_was_granted_and_takes_it_back(server: Server) -> None:
    app = await server.registered()
    key, secret = await server.key()
    token = (await app.tokens(secret))["access_token"]
    (grant,) = await server.services.grants.grants(server.account)
    assert (grant.client_id, grant.key_id) == (app.client_id, key.id)

    with pytest.raises(NotFound):
        await server.services.grants.revoke(server.other, grant.id)
    await server.services.grants.revoke(server.account, grant.id)

    assert (await server.call(token)).status_code == 401
    assert await server.services.grants.grants(server.account) == []
    trail = await server.services.store.entries(server.account.id)
    assert [(one.actor, one.action) for one in trail[:2]] == [("operator", "grants.revoke"), (key.id, "grants.allow")]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "needed"),
        ({"scopes": [Scope.ADMIN]}, "never has admin"),
        ({"scopes": [Scope.CALLS_READ], "public": True}, "secret"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "http only to this machine"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "not an address"),
        ({"name": "two\nlines", "scopes": [Scope.CALLS_READ]}, "name"),
    ],
)
async def test_a_client_that_cannot_be_says_what_is_wrong(
    server: Server, fields: dict[str, object], wrong: str
) -> None:
    with pytest.raises(InvalidArguments, match=wrong):
        await server.services.grants.add_client(
            **{"name": "A robot", "account": server.account, **fields}  # type: ignore[arg-type]
        )
