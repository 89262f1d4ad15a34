"""Who may open a relay, and what becomes of it: over a real socket, since a refused upgrade is uvicorn's to say."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from callmcp.calls.events import HungUp
from callmcp.calls.model import Call, CallStatus
from callmcp.clock import TestClock
from callmcp.conversation.phrases import ENGLISH
from callmcp.telephony.twilio.addresses import Report
from callmcp.telephony.twilio.inbox import Refusal
from tests.telephony.twilio.api import ACCOUNT, TOKEN
from tests.telephony.twilio.desk import PUBLIC, SID, Desk, action, amd, path, sign

pytestmark = pytest.mark.anyio


@dataclass
class Relay:
    desk: Desk
    base: str

    def connect(self, call: Call, *, signature: str | None = None, token: str = TOKEN) -> connect:
        url = f"wss{PUBLIC.removeprefix('https')}{path(Report.RELAY, call)}"
        headers = {"X-Twilio-Signature": sign(url, token=token) if signature is None else signature}
        headers = {name: value for name, value in headers.items() if value}
        return connect(f"{self.base}{path(Report.RELAY, call)}", additional_headers=headers, proxy=None)

    async def refused(self, call: Call, **how: str) -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with self.connect(call, **how):
                pass
        assert refused.value.response.status_code == 403


@pytest.fixture
async def relay(desk: Desk) -> AsyncIterator[Relay]:
    server = uvicorn.Server(uvicorn.Config(desk.app, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(5):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    ticking = asyncio.create_task(tick(desk.clock))
    yield Relay(desk, f"ws://127.0.0.1:{port}")
    ticking.cancel()
    server.should_exit = True
    await asyncio.wait_for(serving, 5)


async def tick(clock: TestClock) -> None:
    """Time passes, about twenty times as fast as it does."""
    while True:
        await clock.advance(0.02)
        await asyncio.sleep(0.001)


def setup(sid: str = SID, **more: Any) -> str:
    return json.dumps({"type": "setup", "sessionId": "VX1", "callSid": sid, "accountSid": ACCOUNT} | more)


async def closed(socket: ClientConnection) -> int:
    """The code that it was closed with."""
    with suppress(ConnectionClosed):
        async with asyncio.timeout(5):
            while True:
                await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


async def test_a_genuine_relay_begins_the_talk_and_answers_the_call(relay: Relay) -> None:
    call = await relay.desk.call(carrier_id=None)
    async with relay.connect(call) as socket, asyncio.timeout(5):
        await socket.send(setup())
        first = json.loads(await socket.recv())
    assert first["type"] == "text"
    now = await relay.desk.now(call)
    assert (now.status, now.carrier_id) == (CallStatus.IN_PROGRESS, SID)


@pytest.mark.parametrize("signature", [" ", "guess", sign(f"wss{PUBLIC.removeprefix('https')}/twilio/relay/x/y")])
async def test_a_relay_that_is_not_twilios_is_refused_before_it_is_open(relay: Relay, signature: str) -> None:
    call = await relay.desk.call()
    await relay.refused(call, signature=signature)
    assert relay.desk.inbox.refused == Counter({Refusal.FORGED: 1})
    assert await relay.desk.now(call) == call


async def test_the_https_address_is_not_what_twilio_signs_for_a_relay(relay: Relay) -> None:
    call = await relay.desk.call()
    await relay.refused(call, signature=sign(relay.desk.url(Report.RELAY, call)))
    assert relay.desk.inbox.refused == Counter({Refusal.FORGED: 1})


async def test_a_relay_of_another_call_or_of_one_that_is_over_or_has_no_agent_is_refused(relay: Relay) -> None:
    desk = relay.desk
    call, other = await desk.call(), await desk.call(carrier_id="CA2")
    over = await desk.call(HungUp(at=desk.clock.now()))
    orphan = await desk.call(agent_id="agt_ffffff")
    for wrong in (replace(call, token=other.token), replace(call, id="call_0"), over, orphan):
        await relay.refused(wrong)
    assert desk.inbox.refused == Counter({Refusal.WRONG_CALL: 4})
    assert [await desk.now(one) for one in (call, other, over, orphan)] == [call, other, over, orphan]


async def said(socket: ClientConnection) -> str:
    """What the agent says next."""
    async with asyncio.timeout(5):
        while True:
            frame = json.loads(await socket.recv())
            if frame["type"] == "text" and frame["token"]:
                return str(frame["token"])


async def test_a_relay_that_comes_again_goes_on_where_the_one_before_was(relay: Relay) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as first:
        await first.send(setup())
        opening = await said(first)
        await first.send(json.dumps({"type": "info", "name": "tokensPlayed", "value": opening}))
        async with relay.connect(call) as second:
            await second.send(setup(sessionId="VX2"))
            again = await said(second)
            assert await closed(first) == 1012
    assert again == ENGLISH.resumed
    _, turns = await relay.desk.calls.read(await relay.desk.now(call))
    assert turns[0].text == opening


async def test_a_relay_that_only_claims_to_be_the_calls_own_does_not_end_the_one_there_is(relay: Relay) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as first, asyncio.timeout(5):
        await first.send(setup())
        await said(first)
        async with relay.connect(call) as second:
            await second.send(setup("CA2"))
            assert await closed(second) == 1008
        await (await first.ping())
        await first.send(json.dumps({"type": "prompt", "voicePrompt": "What is it about?", "last": True}))
        assert await said(first)


async def test_talks_are_handed_over_when_this_process_stops(relay: Relay) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        await socket.send(setup())
        opening = await said(socket)
        await socket.send(json.dumps({"type": "info", "name": "tokensPlayed", "value": opening}))
        await (await socket.ping())
        handing_over = asyncio.create_task(relay.desk.routes.hand_over())
        assert await closed(socket) == 1012
    assert not handing_over.done()
    answer = await relay.desk.post(Report.ACTION, call, action("failed", ErrorCode="64105"))
    assert answer.text.index("<Pause") < answer.text.index("<Connect")
    async with asyncio.timeout(1):
        await handing_over
    await relay.refused(call)  # by this process; there is another
    now = await relay.desk.now(call)
    assert (now.breaks, now.end_reason, now.status) == (1, None, CallStatus.IN_PROGRESS)


async def test_who_answered_reaches_the_talk_that_is_to_leave_a_message(relay: Relay) -> None:
    call = await relay.desk.call(voicemail_message="Please call us back.")
    async with relay.connect(call) as socket:
        await socket.send(setup())
        opening = await said(socket)
        await socket.send(json.dumps({"type": "info", "name": "tokensPlayed", "value": opening}))
        await relay.desk.post(Report.AMD, call, amd("machine_end_beep"))
        message = await said(socket)
        await socket.send(json.dumps({"type": "info", "name": "tokensPlayed", "value": message}))
        async with asyncio.timeout(5):
            while json.loads(await socket.recv())["type"] != "end":
                pass
        await socket.close()
    async with asyncio.timeout(5):
        while (await relay.desk.now(call)).end_reason is None:  # noqa: ASYNC110 - the server learns of it in its own time
            await asyncio.sleep(0.005)
    assert message.endswith("calling for Ada. Please call us back.")
    assert (await relay.desk.now(call)).voicemail_left
    assert await relay.desk.hung_up() == [SID]  # by Leaving, in case the session's end is not heard


FIRST_FRAMES = {
    "another call": setup("CA2"),
    "no call": setup(""),
    "no setup": json.dumps({"type": "prompt", "voicePrompt": "Hello", "last": True}),
    "no JSON": "hello",
    "nothing": "",
    "a list": "[]",
    "bytes": b"\x00\x01",
    "a large one": "x" * 2_000_000,
}


@pytest.mark.parametrize("frame", FIRST_FRAMES.values(), ids=FIRST_FRAMES)
async def test_a_relay_that_does_not_begin_as_the_calls_own_is_closed_and_changes_nothing(
    relay: Relay, frame: str | bytes
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        await socket.send(frame)
        assert await closed(socket) == 1008
    assert relay.desk.inbox.refused == Counter({Refusal.WRONG_CALL: 1})
    assert await relay.desk.now(call) == call


@pytest.mark.parametrize("how", ["politely", "rudely"])
async def test_a_relay_that_goes_away_before_it_begins_leaves_no_trace(
    relay: Relay, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        if how == "rudely":
            socket.transport.abort()
    async with asyncio.timeout(5):
        while not relay.desk.inbox.refused:  # noqa: ASYNC110 - the server learns of it in its own time
            await asyncio.sleep(0.005)
    assert await relay.desk.now(call) == call
    async with relay.connect(call) as socket, asyncio.timeout(5):  # and the call can be talked in after it
        await socket.send(setup())
        await socket.recv()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_store_that_is_away_refuses_a_relay_or_closes_it_without_a_trace(
    relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        relay.desk.store.full = True
        await socket.send(setup())
        assert await closed(socket) == 1011
    assert not [record for record in caplog.records if record.exc_info]
