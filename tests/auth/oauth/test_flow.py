"""From a 401 to a placed call, by each way there is."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from callmcp.app import build
from callmcp.identity.model import Scope
from callmcp.settings import OAuth, Settings
from callmcp.store.memory import MemoryStore
from tests.auth.oauth.browser import CALLBACK, at, came_back
from tests.auth.oauth.conftest import BASE, Server

pytestmark = pytest.mark.anyio

DOCUMENTS = [
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/oauth/jwks",
]


async def test_a_refusal_leads_to_a_token_and_the_token_to_a_call(server: Server) -> None:
    refused = await server.http.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents"}}
    )
    challenge = refused.headers["www-authenticate"]
    assert refused.status_code == 401
    assert f'resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert 'scope="agents:read calls:read calls:write"' in challenge
    resource = (await server.http.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert resource["resource"] == f"{BASE}/mcp"
    assert resource["authorization_servers"] == [BASE]
    described = (await server.http.get("/.well-known/oauth-authorization-server")).json()
    assert described["issuer"] == BASE

    app = await server.registered()
    _, key = await server.key()
    back = await app.code(key)
    assert (back["state"], back["iss"]) == ("st ate", BASE)
    tokens = (await app.exchange(back["code"])).json()

    assert tokens["token_type"] == "Bearer"
    assert set(tokens["scope"].split()) == {"agents:read", "calls:read", "calls:write"}
    assert 0 < tokens["expires_in"] <= 3600
    placed = await server.call(tokens["access_token"], "make_call", agent_id=server.agent_id, to="+14155550100")
    assert placed.json()["result"]["structuredContent"]["call_id"].startswith("call_")


@pytest.mark.parametrize("path", DOCUMENTS)
async def test_every_document_is_json_for_any_origin_whatever_the_host(server: Server, path: str) -> None:
    told = await server.http.get(path, headers={"Host": "evil.example.net", "X-Forwarded-Host": "evil.example.net"})

    assert told.status_code == 200
    assert told.headers["access-control-allow-origin"] == "*"
    assert "evil" not in told.text
    assert (await server.http.options(path)).status_code == 204


@pytest.mark.parametrize("path", [*DOCUMENTS, "/oauth/authorize", "/oauth/token", "/oauth/register"])
async def test_with_oauth_off_there_is_no_trace_of_it(path: str) -> None:
    app = build(Settings(public_url=BASE, oauth=OAuth.OFF), store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as http,
    ):
        told = await http.get(path)
        assert (told.status_code, told.headers["content-type"]) == (404, "application/json")
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents"}}
        assert "resource_metadata" not in (await http.post("/mcp", json=call)).headers["www-authenticate"]


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-nonsense", "/.well-known/mcp.json", "/register", "/oauth/nothing"]
)
async def test_any_other_path_is_a_json_404(server: Server, path: str) -> None:
    told = await server.http.get(path)

    assert (told.status_code, told.headers["content-type"]) == (404, "application/json")


async def test_the_public_keys_verify_and_do_not_sign(server: Server) -> None:
    (key,) = (await server.http.get("/oauth/jwks")).json()["keys"]

    assert (key["kty"], key["crv"], key["use"], key["alg"]) == ("EC", "P-256", "sig", "ES256")
    assert "d" not in key


async def test_a_person_can_grant_less_than_was_asked_for(server: Server) -> None:
    app = await server.registered()
    _, key = await server.key()
    request = app.request()
    page = await app.sign_in(request, key)
    assert "Ada" in page.text
    answer = await app.allow(request, page.text, scope=["calls:read"], agent=[server.agent_id])
    tokens = (await app.exchange(came_back(answer)["code"])).json()

    assert tokens["scope"] == "calls:read"
    read = await server.call(tokens["access_token"], "list_calls")
    assert read.status_code == 200
    refused = await server.call(tokens["access_token"], "make_call", agent_id=server.agent_id, to="+14155550100")
    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope", scope="calls:write"' in challenge
    assert "resource_metadata=" in challenge


@pytest.mark.parametrize("every", [[], ["*"]])
async def test_who_ticks_one_voice_agent_allows_that_one_alone(server: Server, every: list[str]) -> None:
    app = await server.registered()
    _, key = await server.key()
    request = app.request()
    page = await app.sign_in(request, key)
    await app.allow(request, page.text, agent=[*every, server.agent_id])

    (grant,) = await server.services.grants.grants(server.account)
    assert grant.agent_ids == {server.agent_id}


@pytest.mark.parametrize("agents", [[], ["agt_nobodys"], [""]])
async def test_without_a_voice_agent_that_is_there_nothing_is_allowed(server: Server, agents: list[str]) -> None:
    app = await server.registered()
    _, key = await server.key()
    request = app.request()
    page = await app.sign_in(request, key)
    answer = await app.allow(request, page.text, agent=agents)

    assert (answer.status_code, "Choose at least one" in answer.text) == (400, True)
    assert await server.services.grants.grants(server.account) == []


async def test_a_key_grants_no_more_than_it_has(server: Server) -> None:
    app = await server.registered()
    _, key = await server.key(Scope.CALLS_READ, agent_ids=[server.agent_id])
    request = app.request()
    page = await app.sign_in(request, key)
    assert "your key may not" in page.text

    answer = await app.allow(request, page.text, scope=["calls:read", "calls:write", "admin"], agent=["*"])
    tokens = (await app.exchange(came_back(answer)["code"])).json()

    assert tokens["scope"] == "calls:read"


async def test_who_says_no_is_sent_back_with_that(server: Server) -> None:
    app = await server.registered()
    answer = await app.http.post(app.request(), data={"decision": "deny"})

    assert at(answer) == CALLBACK
    assert came_back(answer) | {"error_description": ""} == {
        "error": "access_denied",
        "error_description": "",
        "state": "st ate",
        "iss": BASE,
    }


async def test_a_wrong_key_can_be_tried_again(server: Server) -> None:
    app = await server.registered()
    request = app.request()

    wrong = await app.sign_in(request, "cmcp_wrong")
    assert (wrong.status_code, "not one of this server" in wrong.text) == (401, True)
    _, key = await server.key()
    assert (await app.sign_in(request, key)).status_code == 200
    assert (await app.sign_in(request, key)).status_code == 200  # the back button


async def test_tokens_are_refreshed_and_each_refresh_token_is_good_once(server: Server) -> None:
    app = await server.registered()
    _, key = await server.key()
    first = await app.tokens(key)

    second = (await app.refresh(first["refresh_token"])).json()
    assert (await server.call(second["access_token"])).status_code == 200
    assert second["refresh_token"] != first["refresh_token"]
    narrower = (await app.refresh(second["refresh_token"], scope="calls:read")).json()
    assert narrower["scope"] == "calls:read"
    assert (await server.call(narrower["access_token"], "list_calls")).status_code == 200
    assert (await server.call(narrower["access_token"])).status_code == 403


async def test_an_app_that_refreshes_is_an_app_in_use(server: Server) -> None:
    app = await server.registered()
    _, key = await server.key()
    store, tokens = server.services.store, await app.tokens(key)
    await store.use_client(app.client_id, datetime.now(UTC) - timedelta(days=89))

    await app.refresh(tokens["refresh_token"])

    now = datetime.now(UTC)
    await store.forget_clients(unused_since=now - timedelta(days=1), idle_since=now - timedelta(days=1))
    assert await store.client(app.client_id) is not None


async def test_revoking_a_token_ends_all_of_its_grant_at_once(server: Server) -> None:
    app = await server.registered()
    _, key = await server.key()
    for revoked in ("access_token", "refresh_token"):
        tokens = await app.tokens(key)
        assert (await server.call(tokens["access_token"])).status_code == 200

        done = await app.post("/oauth/revoke", token=tokens[revoked], client_id=app.client_id)

        assert done.status_code == 200
        after = await server.call(tokens["access_token"])
        assert (after.status_code, "revoked" in after.text) == (401, True)
        assert 'error="invalid_token"' in after.headers["www-authenticate"]
        assert (await app.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await app.post("/oauth/revoke", token="nonsense", client_id=app.client_id)).status_code == 200


async def test_revoking_or_narrowing_the_key_holds_for_what_it_allowed(server: Server) -> None:
    app = await server.registered()
    key, secret = await server.key()
    tokens = await app.tokens(secret)

    await server.services.keys.update(key.id, scopes=[Scope.AGENTS_READ])
    assert (await server.call(tokens["access_token"])).status_code == 200
    assert (await server.call(tokens["access_token"], "list_calls")).status_code == 403
    await server.services.keys.revoke(key.id)
    assert (await server.call(tokens["access_token"])).status_code == 401
    assert (await app.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_confidential_client_proves_itself(server: Server) -> None:
    app = server.a_client()
    registered = await app.register(token_endpoint_auth_method="client_secret_basic")
    assert registered.json()["client_secret"]
    _, key = await server.key()

    async def exchange(secret: str) -> httpx.Response:
        back = await app.code(key)
        form = {
            "grant_type": "authorization_code",
            "code": back["code"],
            "redirect_uri": CALLBACK,
            "code_verifier": app.verifier,
        }
        return await app.http.post("/oauth/token", data=form, auth=(app.client_id, secret))

    assert (await exchange(app.secret or "")).status_code == 200
    assert (await exchange("wrong")).status_code == 401
    assert (await app.exchange((await app.code(key))["code"])).json()["error"] == "invalid_client"


async def test_keys_work_as_before_beside_tokens(server: Server) -> None:
    _, key = await server.key()

    assert (await server.call(key)).status_code == 200
