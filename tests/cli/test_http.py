"""The HTTP of `callmcp serve` against clients that take their time, with the patience of a test."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from callmcp.cli.http import Http

pytestmark = pytest.mark.anyio

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


class Hurried(Http):
    arrives_within_seconds = 0.3


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await asyncio.sleep(0.4 if body == b"[]" else 0)  # longer than a request may take to arrive
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(echo, http=Hurried, lifespan="off", log_config=None, ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


@pytest.mark.parametrize("sent", [b"", REQUEST[:5], REQUEST[:30], REQUEST[:-1], REQUEST + REQUEST[:10]])
async def test_a_request_that_does_not_arrive_in_time_loses_its_connection(port: int, sent: bytes) -> None:
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answered = await reader.read()
    assert answered.count(b"HTTP/1.1 200 OK") == (1 if sent.startswith(REQUEST) else 0)
    writer.close()


async def test_a_request_that_arrived_may_take_its_time_to_be_answered(port: int) -> None:
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST.replace(b"{}", b"[]"))
        assert (await reader.readuntil(b"[]")).startswith(b"HTTP/1.1 200 OK")
    writer.close()


async def test_an_idle_connection_is_kept_between_requests(port: int) -> None:
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(REQUEST)
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK")
            await asyncio.sleep(0.4)
    writer.close()


@pytest.mark.parametrize("cut", [1, 20, 60, 100, 130, len(REQUEST) + 40])
async def test_an_upgrade_that_is_declined_keeps_the_request_wherever_the_network_cuts_it(port: int, cut: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    request = REQUEST.replace(b"Host: x\r\n", b"Host: x\r\n" + offer)
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in (request[:cut], request[cut:] + REQUEST):
            writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0.02)
        answered = await reader.readuntil(b"{}") + await reader.readuntil(b"{}")
    assert answered.count(b"HTTP/1.1 200 OK") == 2
    writer.close()
