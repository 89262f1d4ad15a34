"""Tokens of an identity provider outside, which is a server on a socket here: known, unknown, changed, down."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from callmcp.app import Services, build
from callmcp.auth.oauth.external import ExternalTokens
from callmcp.clock import TestClock
from callmcp.errors import Unauthenticated
from callmcp.identity.audit import Trail
from callmcp.identity.model import Scope
from callmcp.identity.operations import Keys
from callmcp.settings import OAuth, Settings
from callmcp.store.memory import MemoryStore
from tests.auth.oauth.conftest import BASE
from tests.auth.oauth.web import Web, serving

pytestmark = pytest.mark.anyio


@dataclass
class Provider:
    """`keys`: what it signs with, by id."""

    web: Web
    keys: dict[str, RSAKey | ECKey] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"{self.web.base}/realms/one"

    def publish(self, path: str = "/realms/one/.well-known/openid-configuration", **fields: Any) -> None:
        keys = [{**key.as_dict(private=False), "use": "sig"} for key in self.keys.values()]
        self.web.says("/keys", {"keys": keys})
        self.web.says(path, {"issuer": self.issuer, "jwks_uri": f"{self.web.base}/keys"} | fields)

    def token(self, kid: str = "one", *, header_typ: str = "at+jwt", alg: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        some = {
            "iss": self.issuer,
            "aud": [f"{BASE}/mcp", "account"],
            "sub": "ada@example.com",
            "iat": now,
            "exp": now + 600,
            "scope": "openid calls:read calls:write admin",
        }
        kept = {name: value for name, value in (some | claims).items() if value is not None}
        return jwt.encode({"alg": alg, "typ": header_typ, "kid": kid}, kept, self.keys[kid], algorithms=[alg])


@pytest.fixture(scope="module")
def rsa() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one"})


@pytest.fixture
def provider(rsa: RSAKey) -> Iterator[Provider]:
    with serving() as web:
        provider = Provider(web, {"one": rsa})
        provider.publish()
        yield provider


@dataclass(frozen=True)
class Server:
    http: httpx.AsyncClient
    services: Services

    async def call(self, token: str, tool: str = "list_calls") -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        return await self.http.post("/mcp", json=body, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
async def server(provider: Provider) -> AsyncIterator[Server]:
    settings = Settings(
        public_url=BASE, oauth=OAuth.EXTERNAL, oauth_issuer=provider.issuer, oauth_account_claim="callmcp_account"
    )
    app = build(settings, store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, trust_env=False) as http,
    ):
        services: Services = app.state.services
        await services.keys.default_account()
        yield Server(http, services)


async def test_the_server_leads_to_the_provider_and_takes_its_tokens(provider: Provider, server: Server) -> None:
    told = (await server.http.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert told["authorization_servers"] == [provider.issuer]
    for path in ("/.well-known/oauth-authorization-server", "/oauth/token", "/oauth/authorize", "/oauth/register"):
        assert (await server.http.get(path)).status_code == 404

    answer = await server.call(provider.token(callmcp_account="default"))

    assert answer.json()["result"]["structuredContent"]["calls"] == []


async def test_claims_are_mapped_to_scopes_and_never_to_admin(provider: Provider, server: Server) -> None:
    token = provider.token(callmcp_account="default", scope="calls:read admin")

    assert (await server.call(token)).status_code == 200
    assert (await server.call(token, "list_agents")).status_code == 403
    assert (await server.call(token, "make_call")).status_code == 403


@pytest.mark.parametrize("claim", [None, "", 5, ["default"], "nobody's"])
async def test_an_account_that_is_not_named_or_not_here_is_a_401_that_says_so(
    provider: Provider, server: Server, claim: object
) -> None:
    refused = await server.call(provider.token(callmcp_account=claim))

    assert refused.status_code == 401
    assert "account" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other.example.org/mcp"},
        {"aud": None},
        {"iss": "https://evil.example.net"},
        {"exp": int(time.time()) - 60},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"sub": None},
        {"header_typ": "id+jwt"},
        {"header_typ": "logout+jwt"},
        {"typ": "ID"},
        {"typ": "Refresh"},
    ],
)
async def test_a_token_for_another_purpose_is_refused(
    provider: Provider, server: Server, changes: dict[str, Any]
) -> None:
    account = {"callmcp_account": "default"}
    assert (await server.call(provider.token(header_typ="JWT", **account))).status_code == 200

    refused = await server.call(provider.token(**{"header_typ": "JWT", **account, **changes}))

    assert (refused.status_code, 'error="invalid_token"' in refused.headers["www-authenticate"]) == (401, True)


async def test_no_trick_with_the_algorithm_makes_a_token(provider: Provider, server: Server) -> None:
    public = json.dumps(provider.keys["one"].as_dict(private=False))
    claims = jwt.decode(provider.token(callmcp_account="default"), provider.keys["one"]).claims
    header = {"alg": "HS256", "typ": "at+jwt", "kid": "one"}
    confused = jwt.encode(header, claims, OctKey.import_key(public), algorithms=["HS256"])
    stranger = jwt.encode({**header, "alg": "RS256"}, claims, RSAKey.generate_key(2048, {"kid": "one"}))

    for token in (confused, stranger):
        assert (await server.call(token)).status_code == 401


def tokens(provider: Provider, clock: TestClock, store: MemoryStore) -> ExternalTokens:
    return ExternalTokens(
        issuer=provider.issuer,
        audience=f"{BASE}/mcp",
        account_claim=None,
        scope_claim="scp",
        accounts=Keys(store, Trail(store, clock), clock),
        clock=clock,
    )


async def test_a_key_that_is_new_is_found_and_a_flood_of_unknown_ones_is_not(provider: Provider) -> None:
    clock, store = TestClock(datetime.now(UTC)), MemoryStore()
    verifier = tokens(provider, clock, store)
    await Keys(store, Trail(store, clock), clock).default_account()
    first = await verifier.verify(provider.token(scp=["calls:read", "x"]))
    assert first.scopes == {Scope.CALLS_READ}
    assert "@" not in first.key_id
    asked = len(provider.web.asked)

    provider.keys["two"] = ECKey.generate_key("P-256", {"kid": "two"})
    token = provider.token("two", alg="ES256")
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await verifier.verify(token)
    assert len(provider.web.asked) == asked

    provider.publish()
    await clock.advance(11)
    second = await verifier.verify(token)

    assert second.key_id == first.key_id  # the same subject
    assert second.scopes == frozenset()


async def test_while_the_provider_is_down_known_keys_work_and_unknown_ones_are_told_so(provider: Provider) -> None:
    clock, store = TestClock(datetime.now(UTC)), MemoryStore()
    verifier = tokens(provider, clock, store)
    await Keys(store, Trail(store, clock), clock).default_account()
    await verifier.verify(provider.token())
    provider.web.pages.clear()
    await clock.advance(3600)

    later = int(clock.now().timestamp()) + 600
    await verifier.verify(provider.token(exp=later, scp="calls:read"))
    provider.keys["two"] = ECKey.generate_key("P-256", {"kid": "two"})
    await clock.advance(11)
    with pytest.raises(Unauthenticated, match="cannot be reached"):
        await verifier.verify(provider.token("two", alg="ES256", exp=later))


async def test_a_provider_that_says_it_is_another_is_not_believed(provider: Provider) -> None:
    provider.publish(issuer="https://evil.example.net")

    with pytest.raises(Unauthenticated, match="cannot be reached"):
        await tokens(provider, TestClock(datetime.now(UTC)), MemoryStore()).verify(provider.token())


async def test_a_provider_that_speaks_oauth_alone_is_found_too(provider: Provider) -> None:
    provider.web.pages.clear()
    provider.publish("/.well-known/oauth-authorization-server/realms/one")
    clock, store = TestClock(datetime.now(UTC)), MemoryStore()
    await Keys(store, Trail(store, clock), clock).default_account()

    assert (await tokens(provider, clock, store).verify(provider.token())).scopes == frozenset()


@pytest.mark.parametrize("document", [[], {"keys": 5}, {"keys": [{"kty": "RSA"}]}, "text", {"keys": []}, {}])
async def test_keys_that_are_none_are_a_clear_401(provider: Provider, document: object) -> None:
    provider.web.says("/keys", document)

    with pytest.raises(Unauthenticated):
        await tokens(provider, TestClock(datetime.now(UTC)), MemoryStore()).verify(provider.token())
