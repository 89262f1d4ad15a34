"""How a request is answered when chaos has a hand in it."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.twilio_emulator.chaos import ANSWERS, UNPROCESSED, Chaos, Switch, strike
from tests.twilio_emulator.refusals import Refused
from tests.twilio_emulator.world import World

BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"
CALLBACK_WITHIN = 10.0  # real seconds that callback-first waits for the callback's answer


class Protocol(H11Protocol):
    """Keeps the transport in the ASGI scope's reach, so that chaos can reset the connection."""

    transports: dict[tuple[str, int], asyncio.Transport] = {}  # noqa: RUF012 -- uvicorn makes the instances

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = tuple(transport.get_extra_info("peername")[:2])
        self.transports[self.peer] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transports.pop(self.peer, None)
        super().connection_lost(exc)


def reset(request: Request) -> None:
    """The peer sees a connection reset, as when a host dies: no FIN, an RST."""
    transport = Protocol.transports[tuple(request.scope["client"])]
    raw: socket.socket = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def answered(
    world: World, request: Request, on: str, chaos: list[Chaos], work: Callable[[], Awaitable[Response]]
) -> Response:
    """What the work comes to, or what chaos makes of it. Raises Refused."""
    thrown = strike(chaos, *ANSWERS, on=on)
    if thrown is not None:
        world.journal.note("chaos", switch=thrown.switch.value, on=on)
    if thrown is not None and thrown.switch in UNPROCESSED:
        return await _instead(request, thrown)
    response = await work()
    sid = getattr(request.state, "placed", request.path_params.get("sid", ""))
    if thrown is not None:
        response = await _afterwards(world, request, thrown, response, sid)
    world.journal.note("answer", sid, on=on, status=response.status_code, chaos=thrown and thrown.switch.value)
    return response


async def _instead(request: Request, thrown: Chaos) -> Response:
    match thrown.switch:
        case Switch.RATE_LIMITED:
            raise Refused(20429)
        case Switch.ERROR_500:
            raise Refused(20500)
        case Switch.ERROR_503:
            raise Refused(20503)
        case Switch.REFUSE:
            raise Refused(thrown.code)
        case Switch.HTML_502:
            return HTMLResponse(BAD_GATEWAY, 502)
        case Switch.CLOSE:
            reset(request)
    return await _never(request)


async def _afterwards(world: World, request: Request, thrown: Chaos, response: Response, sid: str) -> Response:
    match thrown.switch:
        case Switch.ERROR_500_PROCESSED:
            return JSONResponse(Refused(20500).body(), 500)
        case Switch.HTML_502_PROCESSED:
            return HTMLResponse(BAD_GATEWAY, 502)
        case Switch.SLOW:
            await asyncio.sleep(thrown.seconds)
            return response
        case Switch.CALLBACK_FIRST if sid in world.calls:
            initiated: Any = world.calls[sid].initiated
            try:
                await asyncio.wait_for(initiated.wait(), CALLBACK_WITHIN)
            except TimeoutError:
                world.journal.note("fault", error="callback-first: no callback was answered in time")
            return response
        case Switch.RESET_PROCESSED:
            reset(request)
            return await _never(request)
        case Switch.HANG_PROCESSED:
            return await _never(request)
        case _:
            return response


async def _never(request: Request) -> Response:
    """Until the client is tired of waiting. What is returned then goes nowhere."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=500)
