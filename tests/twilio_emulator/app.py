"""The emulator as an ASGI application, and the server it runs in."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.twilio_emulator import control, rest
from tests.twilio_emulator.answers import Protocol
from tests.twilio_emulator.refusals import Refused
from tests.twilio_emulator.world import Settings, World


def build(settings: Settings) -> Starlette:
    world: World

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await world.close()

    async def unknown(request: Request, error: Exception) -> Response:  # noqa: ARG001
        refused = Refused(20404, request.url.path)
        return JSONResponse(refused.body(), refused.status)

    async def misread(request: Request, error: Exception) -> Response:  # noqa: ARG001
        return JSONResponse({"error": str(error)}, 400)

    world = World(settings)
    return Starlette(
        routes=[*rest.routes(world), *control.routes(world)],
        lifespan=lifespan,
        exception_handlers={404: unknown, ValueError: misread},
    )


def listen(port: int) -> socket.socket:
    """On the loopback. asyncio sets TCP_NODELAY only on sockets whose protocol is given; without it 40 ms an answer."""
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve(settings: Settings, listening: socket.socket) -> None:
    """Until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        build(settings), http=Protocol, ws="none", loop="asyncio", log_level="warning", access_log=False
    )
    config.timeout_graceful_shutdown = 1
    await uvicorn.Server(config).serve([listening])
