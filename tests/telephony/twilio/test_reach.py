import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from callmcp import __version__
from callmcp.telephony.finding import Verdict, passed
from callmcp.telephony.twilio import reach
from callmcp.telephony.twilio.echo import Echo
from tests.telephony.twilio.serving import served

pytestmark = pytest.mark.anyio

TOKEN = "12345"
SECONDS = 5.0


def ours(base: str) -> ASGIApp:
    return Starlette(routes=Echo(public_url=base, tokens=(TOKEN,)).routes())


def answering(make: Callable[[], Response]) -> Callable[[str], ASGIApp]:
    """Something else than our server: each request gets this."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await make()(scope, receive, send)

    return lambda _: app


def meddling(change: Callable[[Any], None]) -> Callable[[str], ASGIApp]:
    """A proxy before our server that changes the scope or the messages of a request."""

    def make(base: str) -> ASGIApp:
        behind = ours(base)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def changed() -> Any:
                message = await receive()
                change(message)
                return message

            change(scope)
            await behind(scope, changed, send)

        return app

    return make


def trims_the_body(part: Any) -> None:
    if part["type"] == "http.request":
        part["body"] = part["body"].replace(b"Empty=&", b"")


def adds_a_query(part: Any) -> None:
    if part["type"] == "http":
        part["query_string"] = b"utm=1"


async def test_a_server_that_is_reached_echoes_by_http_and_by_websocket() -> None:
    async with served(ours) as base:
        by_http = await reach.by_http(base, TOKEN, seconds=SECONDS)
        by_websocket = await reach.by_websocket(base, TOKEN, seconds=SECONDS)

    assert by_http == passed("public url", f"{base} leads to this server and back (callmcp {__version__})")
    assert by_websocket.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (answering(lambda: RedirectResponse("https://elsewhere.example.org/", 301)), "redirects (HTTP 301)"),
        (answering(lambda: Response(status_code=404)), "does not know the path"),
        (answering(lambda: PlainTextResponse("log in", 401)), "does not let us in (HTTP 401)"),
        (answering(lambda: PlainTextResponse("forbidden", 403)), "does not let us in (HTTP 403)"),
        (answering(lambda: PlainTextResponse("bad gateway", 502)), "gets nothing from the server behind it"),
        (answering(lambda: PlainTextResponse("<h1>Welcome to nginx!</h1>")), "something else than this server"),
        (answering(lambda: PlainTextResponse('{"nonce": "0"}')), "something else than this server"),
        (answering(lambda: PlainTextResponse("[]")), "something else than this server"),
        (meddling(trims_the_body), "body of the request was changed"),
        (meddling(adds_a_query), "at another path"),
    ],
)
async def test_what_stands_between_is_told_with_a_remedy(make: Callable[[str], ASGIApp], seen: str) -> None:
    async with served(make) as base:
        found = await reach.by_http(base, TOKEN, seconds=SECONDS)

    assert found.verdict is Verdict.FAILED
    assert seen in found.seen
    assert found.remedy


async def test_a_server_with_another_token_is_told_from_a_proxy_that_forbids() -> None:
    async with served(ours) as base:
        by_http = await reach.by_http(base, "another", seconds=SECONDS)
        by_websocket = await reach.by_websocket(base, "another", seconds=SECONDS)

    assert "takes no signature of ours" in by_http.seen
    assert "CALLMCP_TWILIO_AUTH_TOKEN" in (by_http.remedy or "")
    assert by_websocket.seen == "the upgrade is refused (HTTP 403)"


async def test_a_proxy_that_passes_requests_but_no_upgrades_is_told() -> None:
    async with served(ours, ws="none") as base:
        assert (await reach.by_http(base, TOKEN, seconds=SECONDS)).verdict is Verdict.PASSED
        found = await reach.by_websocket(base, TOKEN, seconds=SECONDS)

    assert found.verdict is Verdict.FAILED
    assert found.seen == "HTTP 405 came in place of an upgrade"
    assert "nginx" in (found.remedy or "")


async def test_who_never_answers_is_not_waited_for() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"

        by_http = await reach.by_http(base, TOKEN, seconds=0.2)
        by_websocket = await reach.by_websocket(base, TOKEN, seconds=0.2)

    assert by_http.seen == by_websocket.seen == f"{base} did not answer in time"


async def test_no_tls_there_nobody_there_and_no_such_name_are_told_apart() -> None:
    async with served(ours) as base:
        no_tls = base.replace("http:", "https:")
        for found in (
            await reach.by_http(no_tls, TOKEN, seconds=SECONDS),
            await reach.by_websocket(no_tls, TOKEN, seconds=SECONDS),
        ):
            assert "TLS of 127.0.0.1 does not hold" in found.seen
    for found in (
        await reach.by_http(base, TOKEN, seconds=SECONDS),
        await reach.by_websocket(base, TOKEN, seconds=SECONDS),
    ):
        assert found.seen == f"nothing answers at {base}"
    impossible = f"http://{'a' * 64}.example"  # known to have no address without asking anybody
    for found in (
        await reach.by_http(impossible, TOKEN, seconds=SECONDS),
        await reach.by_websocket(impossible, TOKEN, seconds=SECONDS),
    ):
        assert found.seen.endswith(".example has no address")


async def test_the_password_in_a_url_is_not_told() -> None:
    found = await reach.by_http("http://me:s3cret@127.0.0.1:1/calls", TOKEN, seconds=SECONDS)

    assert found.seen == "nothing answers at http://127.0.0.1:1/calls"
    assert "s3cret" not in str(found)


@pytest.mark.parametrize(
    ("public_url", "api_url", "works"),
    [
        ("http://127.0.0.1:8765", "https://api.twilio.com", False),
        ("http://localhost:8765", "https://api.twilio.com", False),
        ("http://[::1]:8765", "https://api.twilio.com", False),
        ("https://my_host.example.org", "https://api.twilio.com", False),
        ("http://127.0.0.1:8765", "http://127.0.0.1:40123", True),
        ("https://calls.example.org", "https://api.twilio.com", True),
    ],
)
async def test_a_url_that_twilio_cannot_call_is_told_without_a_request(
    public_url: str, api_url: str, *, works: bool
) -> None:
    assert (reach.unreachable_from_outside(public_url, api_url) is None) is works
