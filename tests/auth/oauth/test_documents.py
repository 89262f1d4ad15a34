"""Clients that are described by a document at their id, and what such an address must not be a way into."""

import asyncio
import gzip
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import pytest

from callmcp.app import build
from callmcp.auth.oauth.addresses import Addresses
from callmcp.auth.oauth.clients import Clients, Refused
from callmcp.auth.oauth.documents import AT_ONCE, MAX_BYTES, Documents, NoDocument
from callmcp.clock import SystemClock, TestClock
from callmcp.settings import Settings
from callmcp.store.memory import MemoryStore
from tests.auth.oauth.browser import App
from tests.auth.oauth.conftest import BASE, Server
from tests.auth.oauth.web import Web, answer, serving

pytestmark = pytest.mark.anyio
CALLBACK = "https://app.example.com/callback"


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def described(web: Web, path: str = "/client.json", **fields: Any) -> str:
    """The address of a document that describes its client."""
    document = {"client_id": web.base + path, "client_name": "An app", "redirect_uris": [CALLBACK]}
    return web.says(path, document | fields)


def clients(inside: tuple[str, ...] = ("127.0.0.1",)) -> Clients:
    return Clients(store=MemoryStore(), clock=SystemClock(), inside=inside)


async def test_a_document_says_what_a_client_is_called_and_where_it_is(web: Web) -> None:
    found = await clients().find(described(web))

    assert found is not None
    assert (found.name, found.redirect_uris, found.secret_digest) == ("An app", (CALLBACK,), None)


@pytest.mark.parametrize(
    "fields",
    [
        {"client_id": "https://other.example.com/client.json"},
        {"client_id": None},
        {"redirect_uris": []},
        {"redirect_uris": ["http://evil.example.com/cb"]},
        {"redirect_uris": "https://app.example.com/callback"},
        {"client_secret": "s3cret"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"client_name": 5},
    ],
)
async def test_a_document_that_is_not_of_this_client_or_no_description_is_refused(
    web: Web, fields: dict[str, Any]
) -> None:
    with pytest.raises(Refused):
        await clients().find(described(web, **fields))


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://[::1]/client.json",
        "https://[::ffff:10.0.0.1]/client.json",
        "https://[::ffff:7f00:1]/client.json",
        "https://[2002:7f00:0001::]/client.json",
        "https://[64:ff9b::7f00:1]/client.json",
        "https://[fd00::1]/client.json",
        "https://[fe80::1]/client.json",
        "https://[fec0::1]/client.json",
        "https://[::7f00:1]/client.json",
        "https://[::ffff:0:7f00:1]/client.json",
        "https://[64:ff9b:1::7f00:1]/client.json",
        "https://0.0.0.0/client.json",
        "https://10.1.2.3/client.json",
        "https://172.16.0.1/client.json",
        "https://192.168.1.1/client.json",
        "https://100.64.0.1/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://224.0.0.1/client.json",
        "https://2130706433/client.json",
        "https://0x7f000001/client.json",
        "https://0177.0.0.1/client.json",
        "https://127.1/client.json",
    ],
)
async def test_an_address_of_a_network_that_is_not_public_is_not_asked(address: str) -> None:
    documents = Documents(SystemClock(), seconds=5)

    assert documents.is_address(address)
    with pytest.raises(NoDocument, match=r"not on the public internet|gaierror"):
        await documents.get(address)


async def test_nothing_reaches_a_server_inside_unless_its_host_is_allowed(web: Web) -> None:
    address = described(web)

    for inside in ((), ("intranet.example.com",)):
        assert await clients(inside).find(address) is None  # by http it is no address at all, only a name unknown
        with pytest.raises(NoDocument):
            await Documents(SystemClock(), inside).get(address)
    assert web.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "http://app.example.com/client.json",
        "https://app.example.com",
        "https://app.example.com/",
        "https://user@app.example.com/client.json",
        "https://app.example.com/client.json#part",
        "https://app.example.com/../client.json",
        "https://:443/client.json",
        "https://app.example.com:8443/client.json",
        "https://app.example.com/\x01",
        "https://app.example.com:99999/client.json",
        "https://[/client.json",
        "ftp://app.example.com/client.json",
        "file:///etc/passwd",
        "client_0123",
        "",
    ],
)
def test_what_cannot_name_a_document_is_not_taken_for_an_address(text: str) -> None:
    assert not Documents(SystemClock()).is_address(text)


async def test_a_redirect_is_not_followed(web: Web) -> None:
    inner = described(web, "/inner.json")
    web.pages["/client.json"] = lambda handler: answer(handler, b"", 302, Location=inner)

    with pytest.raises(Refused):
        await clients().find(web.base + "/client.json")
    assert web.asked == ["/client.json"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff\xfe", b"null", b"[" * 60_000, b'{"a":"' + b"x" * MAX_BYTES + b'"}']
)
async def test_what_is_no_document_or_too_large_is_refused(web: Web, body: bytes) -> None:
    web.pages["/client.json"] = lambda handler: answer(handler, body)

    with pytest.raises(Refused):
        await clients().find(web.base + "/client.json")


async def test_who_asks_is_told_where_to_look_and_not_what_answers_inside(server: Server) -> None:
    app = server.a_client(client_id="https://127.0.0.1/client.json")

    page = await server.http.get(app.request())

    assert page.status_code == 400
    assert "finds why in its log" in page.text
    assert "internet" not in page.text


async def test_where_documents_are_off_they_are_not_offered_and_not_fetched(web: Web) -> None:
    off = Clients(store=MemoryStore(), clock=SystemClock(), documents=False, inside=("127.0.0.1",))

    assert await off.find(described(web)) is None
    assert web.asked == []
    told = Addresses("https://calls.example.org").server_document(client_documents=off.documents)
    assert told["client_id_metadata_document_supported"] is False


async def test_a_server_that_never_ends_is_given_up(web: Web) -> None:
    go = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.wfile.flush()
        go.wait(30)

    web.pages["/client.json"] = drip
    documents = Documents(SystemClock(), ("127.0.0.1",), seconds=0.3)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(NoDocument):
                await documents.get(web.base + "/client.json")
    finally:
        go.set()


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "br", "identity, gzip"])
async def test_an_encoded_document_is_not_decoded(web: Web, encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(b"{" + b" " * 10_000_000 + b"}"))
    web.pages["/client.json"] = lambda handler: answer(handler, bomb, Content_Encoding=encoding)

    with pytest.raises(NoDocument, match="it is encoded"):
        await Documents(SystemClock(), ("127.0.0.1",)).get(web.base + "/client.json")


async def test_a_document_that_could_not_be_had_is_not_asked_for_again_at_once(web: Web) -> None:
    clock = TestClock(datetime.now(UTC))
    documents = Documents(clock, ("127.0.0.1",))
    for seconds, asked in ((0, 1), (29, 1), (2, 2)):
        await clock.advance(seconds)
        with pytest.raises(NoDocument):
            await documents.get(web.base + "/client.json")
        assert len(web.asked) == asked


async def test_slow_documents_keep_nobody_else_from_an_answer(web: Web) -> None:
    go = threading.Event()
    app = build(Settings(public_url=BASE, oauth_inside_hosts=("127.0.0.1",)), store=MemoryStore())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, trust_env=False) as http,
    ):
        slow = []

        def wait(_: BaseHTTPRequestHandler) -> None:
            go.wait(30)

        for number in range(AT_ONCE + 10):
            web.pages[f"/{number}"] = wait
            who = App(http=http, base=BASE, client_id=f"{web.base}/{number}")
            slow.append(asyncio.create_task(http.get(who.request())))
        try:
            quick = App(http=http, base=BASE)
            async with asyncio.timeout(4):  # before the slow ones are given up
                assert (await quick.register()).status_code == 201
                assert (await http.get(quick.request())).status_code == 200
                assert (await quick.refresh("none")).json()["error"] == "invalid_grant"
                await asyncio.to_thread(str)
        finally:
            go.set()
        assert {response.status_code for response in await asyncio.gather(*slow)} <= {400, 401}


async def test_a_document_is_kept_for_ten_minutes(web: Web) -> None:
    clock = TestClock(datetime.now(UTC))
    documents = Documents(clock, ("127.0.0.1",))
    address = described(web)
    for seconds, asked in ((0, 1), (599, 1), (2, 2)):
        await clock.advance(seconds)
        await documents.get(address)
        assert len(web.asked) == asked
