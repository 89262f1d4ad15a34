"""Whatever is sent to OAuth's endpoints, the answer is below 500, and nobody is sent anywhere but to the client."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from callmcp.app import build
from callmcp.settings import Settings
from callmcp.store.memory import MemoryStore
from tests.auth.oauth.browser import CALLBACK, App
from tests.auth.oauth.conftest import BASE

NAMES = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "resource",
    "code_challenge",
    "code_challenge_method",
    "grant_type",
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "token",
    "decision",
    "key",
    "ticket",
    "agent",
    "client_assertion",
    "client_assertion_type",
    "response_mode",
    "prompt",
    "nonce",
    "request",
    "request_uri",
]
LIKELY = [
    "code",
    "S256",
    "plain",
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "allow",
    "deny",
    "sign-in",
    "https://evil.example.net/",
    "http://127.0.0.1:1/",
    "calls:read",
    "admin",
    "*",
    "form_post",
    "none",
    "https://127.0.0.1/client.json",
    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
]
LIKELY += [CALLBACK, f"{BASE}/mcp", BASE, "a" * 43]
VALUE = st.sampled_from(LIKELY) | st.text(max_size=60) | st.just("")
PARAMETERS = st.lists(st.tuples(st.sampled_from(NAMES) | st.text(max_size=10), VALUE), max_size=12)
AUTHORIZATION = st.sampled_from(
    [None, "Basic", "Basic !!!", "Basic Og==", "Basic YTpi", "Bearer x", "Digest x", "Basic " + "A" * 3000]
)


@settings(max_examples=60)
@given(
    st.sampled_from(["authorize", "authorize-post", "token", "revoke"]),
    PARAMETERS,
    st.sampled_from(["a stranger", "a client"]),
    AUTHORIZATION,
)
def test_any_parameters_are_answered(
    where: str, parameters: list[tuple[str, str]], who: str, authorization: str | None
) -> None:
    answer = asyncio.run(sent(where, parameters, known=who == "a client", authorization=authorization))

    assert answer.status_code < 500, answer.text
    assert answer.content or "location" in answer.headers
    if location := answer.headers.get("location"):
        assert location.startswith(CALLBACK)
        assert urlsplit(location).hostname == "app.example.com"


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.builds(lambda fields: urlencode(fields).encode(), PARAMETERS))
def test_any_registration_is_answered(body: bytes) -> None:
    assert asyncio.run(registered(body)).status_code in {201, 400, 413}


async def sent(
    where: str, parameters: list[tuple[str, str]], *, known: bool, authorization: str | None
) -> httpx.Response:
    app = build(Settings(public_url=BASE), store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, trust_env=False) as http,
    ):
        if known:  # a client and an address that are good, so that the rest is looked at
            client = App(http=http, base=BASE)
            await client.register()
            parameters = [("client_id", client.client_id), ("redirect_uri", CALLBACK), *parameters]
        headers: Mapping[str, str] = {} if authorization is None else {"Authorization": authorization}
        text = urlencode([(name, value) for name, value in parameters], errors="surrogatepass")
        form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        match where:
            case "authorize":
                return await http.get(f"/oauth/authorize?{text}")
            case "authorize-post":
                return await http.post(f"/oauth/authorize?{text}", content=text, headers=form)
            case _:
                return await http.post(f"/oauth/{where}", content=text, headers=form)


async def registered(body: bytes) -> httpx.Response:
    app = build(Settings(public_url=BASE), store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, trust_env=False) as http,
    ):
        return await http.post("/oauth/register", content=body, headers={"Content-Type": "application/json"})
