"""What people with bad intentions, and programs with none, send."""

import asyncio
import base64
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from starlette.applications import Starlette

from callmcp.auth.oauth.addresses import Addresses
from callmcp.auth.oauth.clients import REGISTRATIONS_A_MINUTE
from callmcp.auth.oauth.consent import TICKET_SECONDS
from callmcp.auth.oauth.serving import embedded
from callmcp.auth.oauth.tokens import AccessTokens, SigningKeys
from callmcp.clock import TestClock
from callmcp.errors import Unauthenticated
from callmcp.identity.model import Scope
from callmcp.identity.redirects import matches
from tests.auth.oauth.browser import CALLBACK, App, at, came_back
from tests.auth.oauth.conftest import BASE, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(server: Server) -> App:
    return await server.registered()


@pytest.fixture
async def key(server: Server) -> str:
    return (await server.key())[1]


async def test_a_code_that_is_used_twice_ends_what_it_had_given(server: Server, app: App, key: str) -> None:
    back = await app.code(key)
    tokens = (await app.exchange(back["code"])).json()
    assert (await server.call(tokens["access_token"])).status_code == 200

    again = await app.exchange(back["code"])

    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert (await server.call(tokens["access_token"])).status_code == 401
    assert (await app.refresh(tokens["refresh_token"])).status_code == 400


async def test_of_many_who_use_a_code_at_once_at_most_one_gets_tokens(app: App, key: str) -> None:
    back = await app.code(key)

    answers = await asyncio.gather(*(app.exchange(back["code"]) for _ in range(8)))

    assert sum(answer.status_code == 200 for answer in answers) <= 1


async def test_a_refresh_token_that_is_used_twice_ends_its_family(server: Server, app: App, key: str) -> None:
    first = await app.tokens(key)
    second = (await app.refresh(first["refresh_token"])).json()

    stolen = await app.refresh(first["refresh_token"])

    assert stolen.json()["error"] == "invalid_grant"
    assert (await server.call(second["access_token"])).status_code == 401
    assert (await app.refresh(second["refresh_token"])).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "fields",
    [
        {"code_verifier": None},
        {"code_verifier": "x" * 50},
        {"code_verifier": "short"},
        {"redirect_uri": "https://app.example.com/other"},
        {"redirect_uri": None},
        {"client_id": "client_nobody"},
        {"client_id": None},
        {"code": "guessed"},
        {"code": None},
        {"resource": "https://other.example.org/mcp"},
        {"grant_type": "password"},
        {"grant_type": None},
        {"grant_type": "client_credentials"},
    ],
)
async def test_a_code_is_bound_to_client_verifier_redirect_and_resource(
    app: App, key: str, fields: dict[str, str | None]
) -> None:
    back = await app.code(key)

    answer = await app.exchange(**({"code": back["code"]} | fields))  # type: ignore[arg-type]

    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]
    assert "access_token" not in answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_another_client_cannot_use_a_code_or_a_refresh_token(server: Server, app: App, key: str) -> None:
    other = await server.registered()
    other.verifier = app.verifier
    assert (await other.exchange((await app.code(key))["code"])).json()["error"] == "invalid_grant"

    tokens = await app.tokens(key)
    assert (await other.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (
        await other.post("/oauth/revoke", token=tokens["refresh_token"], client_id=other.client_id)
    ).status_code == 400
    assert (await server.call(tokens["access_token"])).status_code == 200
    assert (await app.refresh(tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"redirect_uri": "https://evil.example.net/callback"},
        {"redirect_uri": f"{CALLBACK}/"},
        {"redirect_uri": f"{CALLBACK}?x=1"},
        {"redirect_uri": f"{CALLBACK}#x"},
        {"redirect_uri": "https://app.example.com@evil.example.net/callback"},
        {"redirect_uri": 'https://app.example.com/"callback'},
        {"redirect_uri": None},
        {"client_id": "client_nobody"},
        {"client_id": None},
        {"client_id": 'x"\\'},
        {"client_id": "https://evil.example.net/"},
    ],
)
async def test_nobody_is_sent_to_an_address_that_is_not_the_clients(app: App, fields: dict[str, str | None]) -> None:
    answer = await app.http.get(app.request(**fields))

    assert answer.status_code in {400, 401}
    assert "location" not in answer.headers
    assert "<script" not in answer.text


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": "https://other.example.org/mcp"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"scope": "everything"}, "invalid_scope"),
    ],
)
async def test_a_request_that_cannot_be_granted_leads_back_to_the_app_with_why(
    server: Server, app: App, fields: dict[str, str | None], error: str
) -> None:
    made, _ = await server.services.grants.add_client(
        "An app", account=server.account, redirect_uris=[CALLBACK], public=True
    )

    at_once = await app.http.get(app.request(**{"client_id": made.id} | fields))
    on_a_click = await app.http.get(app.request(**fields))

    assert at(at_once) == CALLBACK
    back = came_back(at_once)
    assert (back["error"], back["state"], back["iss"]) == (error, "st ate", BASE)
    # One that registered itself may have named any address: nobody is sent there by a link to this server alone.
    assert on_a_click.status_code == 400
    assert "location" not in on_a_click.headers
    assert "Go back to the app at app.example.com" in on_a_click.text
    link = unescape(re.findall(r'href="([^"]*)"', on_a_click.text)[0])
    assert dict(parse_qsl(urlsplit(link).query))["error"] == error


async def test_a_parameter_that_is_there_twice_is_refused(app: App, key: str) -> None:
    twice = await app.http.get(app.request() + "&client_id=other")
    assert twice.status_code == 400
    back = await app.code(key)
    form = f"grant_type=authorization_code&code={back['code']}&code={back['code']}&client_id={app.client_id}"
    answer = await app.http.post(
        "/oauth/token", content=form, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.json()["error"] == "invalid_request"


async def test_the_page_can_be_neither_framed_nor_posted_to_by_another_site(app: App, key: str) -> None:
    request = app.request()
    page = await app.sign_in(request, key)
    for answer in (await app.http.get(request), page):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in answer.headers
        assert "<script" not in answer.text

    forged: list[dict[str, Any]] = [
        {"decision": "allow", "scope": ["calls:write"], "agent": ["*"]},
        {"decision": "allow", "ticket": "x.y", "scope": ["calls:write"], "agent": ["*"]},
        {"decision": "allow", "ticket": "\u2603", "scope": ["calls:write"], "agent": ["*"]},
    ]
    for form in forged:
        assert (await app.http.post(request, data=form)).status_code == 400
    other = app.request(scope="calls:read")
    assert (await app.allow(other, page.text)).status_code == 400  # a ticket is for one request
    assert (await app.allow(request, page.text, scope=[], agent=["*"])).status_code == 400
    assert (await app.allow(request, page.text, agent=["agt_other"])).status_code == 400
    assert (await app.allow(request, page.text)).status_code == 303


async def test_a_page_that_was_left_open_for_too_long_asks_for_the_key_again(server: Server, app: App) -> None:
    _, key = await server.key()
    clock, parts = TestClock(datetime.now(UTC)), server.services
    tokens = embedded(
        public_url=BASE,
        client_documents=True,
        inside=(),
        store=parts.store,
        grants=parts.grants,
        keys=parts.keys,
        agents=parts.agents,
        clock=clock,
    )
    transport = httpx.ASGITransport(Starlette(routes=list(tokens.routes)))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, trust_env=False) as http:
        app.http = http
        request = app.request()
        page = await app.sign_in(request, key)
        await clock.advance(TICKET_SECONDS + 1)

        late = await app.allow(request, page.text)

        assert (late.status_code, "Paste the key once more" in late.text) == (400, True)
        assert (await app.allow(request, (await app.sign_in(request, key)).text)).status_code == 303


async def test_the_name_that_an_app_gives_itself_is_only_text(server: Server) -> None:
    app = await server.registered(client_name='<img src=x onerror="alert(1)">')

    page = await app.http.get(app.request())

    assert "<img" not in page.text
    assert "nobody has checked that name" in page.text


async def forged(server: Server, **changes: Any) -> str:
    """A token signed with this server's own key, so that only the claim that was changed can be what is refused."""
    (stored, *_) = await server.services.store.signing_keys()
    signing = ECKey.import_key(json.loads(stored.jwk))
    now = int(time.time())
    claims = {
        "iss": BASE,
        "aud": f"{BASE}/mcp",
        "sub": server.account.id,
        "client_id": "client_x",
        "scope": "calls:read agents:read",
        "iat": now,
        "exp": now + 600,
        "jti": "1",
        "grant": changes.pop("grant", "grant_none"),
    }
    header = {"alg": "ES256", "typ": changes.pop("typ", "at+jwt"), "kid": stored.id}
    return jwt.encode(header, {**claims, **changes}, signing)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other.example.org/mcp"},
        {"aud": None},
        {"iss": "https://evil.example.net"},
        {"exp": int(time.time()) - 5},
        {"exp": None},
        {"exp": 4102444800},
        {"iat": None},
        {"typ": "JWT"},
        {"typ": "id+jwt"},
        {"grant": "grant_none"},
        {"sub": None},
    ],
)
async def test_a_token_for_another_purpose_is_refused(
    server: Server, app: App, key: str, changes: dict[str, Any]
) -> None:
    tokens = await app.tokens(key)
    grant = (await server.services.store.grant(_claims(tokens["access_token"])["grant"])) is not None
    assert grant
    ours = _claims(tokens["access_token"])["grant"]
    assert (await server.call(await forged(server, grant=ours))).status_code == 200

    refused = await server.call(await forged(server, **({"grant": ours} | changes)))

    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


async def test_no_trick_with_the_algorithm_or_the_key_makes_a_token(server: Server, app: App, key: str) -> None:
    token = (await app.tokens(key))["access_token"]
    header, body, signature = token.split(".")
    (public,) = (await server.http.get("/oauth/jwks")).json()["keys"]
    stranger = ECKey.generate_key("P-256", {"kid": public["kid"]})
    as_secret = OctKey.import_key(json.dumps(public).encode())
    tricks = [
        f"{_b64({'alg': 'none', 'typ': 'at+jwt'})}.{body}.",
        f"{_b64({'alg': 'none', 'typ': 'at+jwt'})}.{body}.{signature}",
        f"{header}.{body}.",
        f"{header}.{body}.{signature[:-4]}AAAA",
        f"{header}.{_b64({**_claims(token), 'scope': 'agents:write'})}.{signature}",
        jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": public["kid"]}, _claims(token), stranger),
        jwt.encode(
            {"alg": "HS256", "typ": "at+jwt", "kid": public["kid"]}, _claims(token), as_secret, algorithms=["HS256"]
        ),
        f"{_b64({'alg': 'ES256', 'typ': 'at+jwt', 'jwk': public})}.{body}.{signature}"[:4000],
        "a.b.c",
        f"{base64.urlsafe_b64encode(b'[' * 3000).decode().rstrip('=')}.x.y",
        f"{_b64({'alg': ['ES256'], 'kid': {}})}.{body}.{signature}",
    ]

    answers = [await server.call(trick) for trick in tricks]

    assert [answer.status_code for answer in answers] == [401] * len(tricks)
    assert (await server.call(token)).status_code == 200


def _b64(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": 5}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["data:text/html,x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://u:p@app.example.com/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com/cb#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://\u4f8b\u3048.jp/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com:abc/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example.com\\@evil.example.net/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["intent://app/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["ms-settings:privacy"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [CALLBACK] * 21}, "invalid_redirect_uri"),
        ({"client_name": "x" * 201}, "invalid_client_metadata"),
        ({"client_name": {"a": 1}}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["password"]}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
    ],
)
async def test_a_registration_that_cannot_be_says_why(server: Server, fields: dict[str, Any], error: str) -> None:
    answer = await server.a_client().register(**fields)

    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert answer.json()["error_description"]


@pytest.mark.parametrize("body", [b"[" * 16_000, b"", b"[]", b"{", b"null", b"\xff", b"x" * 20_000])
async def test_a_registration_that_is_none_is_a_clear_400(server: Server, body: bytes) -> None:
    answer = await server.http.post("/oauth/register", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code in {400, 413}
    assert answer.json()["error"]


async def test_a_flood_of_registrations_is_stopped_and_says_when_to_come_back(server: Server) -> None:
    answers = [await server.a_client().register() for _ in range(REGISTRATIONS_A_MINUTE + 3)]

    assert [answer.status_code for answer in answers[-3:]] == [429] * 3
    assert answers[-1].headers["retry-after"] == "60"
    assert answers[0].status_code == 201


async def test_a_form_of_another_kind_is_a_clear_400(app: App) -> None:
    for body, kind in ((b"{}", "application/json"), (b"\xff\xfe", "application/x-www-form-urlencoded")):
        answer = await app.http.post("/oauth/token", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("registered", "given", "same"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:53211/cb", True),
        ("http://localhost:1/cb", "http://localhost:2/cb", True),
        ("http://[::1]/cb", "http://[::1]:9/cb", True),
        ("http://127.0.0.1/cb", "http://localhost/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1/other", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example.net/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1/cb", False),
        ("https://app.example.com/cb", "https://app.example.com:8443/cb", False),
        ("https://app.example.com/cb", "https://APP.example.com/cb", False),
        ("myapp:/cb", "myapp:/cb", True),
        ("myapp:/cb", "myapp:/cb2", False),
    ],
)
def test_redirects_are_compared_exactly_but_for_the_port_of_this_machine(
    registered: str, given: str, *, same: bool
) -> None:
    assert matches(registered, given) is same


async def test_a_wrong_secret_is_compared_in_constant_time_and_never_stored(server: Server, key: str) -> None:
    app = server.a_client()
    await app.register(token_endpoint_auth_method="client_secret_post")
    stored = await server.services.store.client(app.client_id)
    assert stored is not None
    assert app.secret is not None
    assert app.secret not in repr(stored)
    answer = await app.exchange((await app.code(key))["code"], client_secret=app.secret[:-1] + "x")
    assert answer.json()["error"] == "invalid_client"


async def test_a_stranger_does_not_see_what_a_token_of_another_account_sees(server: Server, app: App) -> None:
    _, theirs = await server.key(account=server.other)
    tokens = await app.tokens(theirs)

    listed = (await server.call(tokens["access_token"])).json()["result"]["structuredContent"]

    assert listed["agents"] == []
    refused = await server.call(tokens["access_token"], "make_call", agent_id=server.agent_id, to="+14155550100")
    assert refused.json()["result"]["isError"]


async def test_a_key_that_was_thrown_away_verifies_nothing_a_minute_later(server: Server, app: App, key: str) -> None:
    token = (await app.tokens(key))["access_token"]
    clock, store = TestClock(datetime.now(UTC)), server.services.store
    keys = SigningKeys(store, clock)
    tokens = AccessTokens(store=store, keys=keys, addresses=Addresses(BASE), clock=clock)
    await tokens.verify(token)

    await SigningKeys(store, TestClock(datetime.now(UTC) + timedelta(seconds=1))).rotate()  # in another process
    await clock.advance(61)
    await tokens.verify(token)  # what the old key signed stays good
    await store.forget_signing_keys(succeeded_before=datetime.now(UTC) + timedelta(days=1))
    await clock.advance(61)

    with pytest.raises(Unauthenticated):
        await tokens.verify(token)


async def test_letting_go_while_the_key_has_expired_lets_go_for_good(server: Server, app: App) -> None:
    made, secret = await server.key()
    tokens = await app.tokens(secret)
    store = server.services.store
    await store.save_key(replace(made, expires_at=datetime.now(UTC) - timedelta(seconds=1)))

    assert (await app.post("/oauth/revoke", token=tokens["refresh_token"], client_id=app.client_id)).status_code == 200
    await server.services.keys.update(made.id, never_expires=True)

    assert (await app.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await server.call(tokens["access_token"])).status_code == 401


async def test_a_grant_that_was_stored_after_its_client_was_removed_is_worth_nothing(server: Server) -> None:
    grants, store = server.services.grants, server.services.store
    client, secret = await grants.add_client("A robot", account=server.account, scopes=[Scope.AGENTS_READ])
    form = {"grant_type": "client_credentials", "client_id": client.id, "client_secret": secret}
    token = (await server.http.post("/oauth/token", data=form)).json()["access_token"]
    found = await store.grant(_claims(token)["grant"])
    assert found is not None
    await grants.remove_client(server.account, client.id)
    await store.add_grant(found[0])  # as another process does that had begun before

    assert (await server.call(token)).status_code == 401


async def test_a_token_that_was_used_is_refused_when_it_has_expired(server: Server) -> None:

    app = await server.registered()
    _, key = await server.key(Scope.AGENTS_READ)
    token = (await app.tokens(key, scope="agents:read"))["access_token"]
    clock, store = TestClock(datetime.now(UTC)), server.services.store
    tokens = AccessTokens(store=store, keys=SigningKeys(store, clock), addresses=Addresses(BASE), clock=clock)
    assert (await tokens.verify(token)).scopes == {Scope.AGENTS_READ}

    await clock.advance(timedelta(hours=1, seconds=1).total_seconds())

    with pytest.raises(Unauthenticated, match="expired"):
        await tokens.verify(token)
