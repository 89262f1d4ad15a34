"""What Twilio's REST API may answer, and what is known of the call then."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from callmcp.clock import SystemClock
from callmcp.errors import CarrierError, CarrierUncertain
from callmcp.telephony.twilio.addresses import Addresses
from callmcp.telephony.twilio.client import TwilioTelephony
from tests import world as worlds
from tests.telephony.twilio.serving import served
from tests.world import World

pytestmark = pytest.mark.anyio

UNREADABLE = (
    "{", "[]", "null", '{"calls": 3}', '{"calls": [3]}', '{"sid": "CA1", "end_time": 3}',
    '{"calls": [{"sid": "CA1", "end_time": 3}]}', '{"calls": [{"sid": "CA1", "date_created": "soon"}]}',
    '{"code": "abc", "message": 3}',
)  # fmt: skip


async def is_another(_: str) -> bool:
    return False


@contextlib.asynccontextmanager
async def twilio_that_answers(status: int, body: str) -> AsyncIterator[TwilioTelephony]:
    async def answer(_: object) -> Response:
        return Response(body, status, media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    async with served(lambda _: app, ws="none") as url:
        twilio = TwilioTelephony(
            account_sid=f"AC{0:032}",
            username="user",
            password="password",
            caller_id=worlds.CALLER_ID,
            addresses=Addresses("https://calls.example.org"),
            clock=SystemClock(speed=1000),
            api_url=url,
        )
        try:
            yield twilio
        finally:
            await twilio.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


@pytest.mark.parametrize("body", UNREADABLE)
@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_cannot_be_read_is_no_other_error_than_a_carriers(
    world: World, status: int, body: str
) -> None:
    unnamed = replace(await world.place("+14155550111"), carrier_id=None)
    named = replace(unnamed, carrier_id="CA1")
    async with twilio_that_answers(status, body) as twilio:
        for ask in (
            twilio.place(unnamed, world.agent, world.calls.observe),
            twilio.look(unnamed, is_another=is_another),
            twilio.look(named, is_another=is_another),
            twilio.end(named),
        ):
            with contextlib.suppress(CarrierError):
                await ask


@pytest.mark.parametrize("body", UNREADABLE)
async def test_a_placement_whose_answer_cannot_be_read_may_have_been_dialled(world: World, body: str) -> None:
    call = await world.place("+14155550111")
    async with twilio_that_answers(201, body) as twilio:
        with pytest.raises(CarrierUncertain):
            await twilio.place(call, world.agent, world.calls.observe)
