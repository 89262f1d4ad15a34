"""The routes that Twilio uses, each kind of report its own: a status callback that lands on the address of `action`
would be answered with TwiML and end the talk (TWILIO.md section 13.5).

The Origin and Host rules of the MCP endpoint do not hold here; the signature does.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from callmcp.agents.model import Agent
from callmcp.agents.operations import Agents
from callmcp.calls.events import Accepted, Answered, Event, HungUp
from callmcp.calls.model import Call
from callmcp.calls.operations import Calls
from callmcp.clock import Clock
from callmcp.conversation.ports import Models
from callmcp.conversation.run import talk
from callmcp.errors import Unavailable
from callmcp.telephony.twilio import relay
from callmcp.telephony.twilio.addresses import PREFIX, Addresses, Report
from callmcp.telephony.twilio.inbox import Envelope, Inbox, Refusal, Refused
from callmcp.telephony.twilio.line import RelayLine
from callmcp.telephony.twilio.twiml import converse, hang_up

log = structlog.get_logger()

FORM_LIMIT = 64 * 1024  # bytes; a callback has about 1,500
MAX_FIELDS = 200
SETUP_SECONDS = 10
ENDED_SECONDS = 3
ASKED_SECONDS = 3  # recorded: Twilio asks 1.2 s after a session broke
STATUSES = {
    Refusal.FORGED: 403,
    Refusal.TRUNCATED: 400,
    Refusal.OVERSIZED: 413,
    Refusal.WRONG_CALL: 404,
}
_NORMAL = 1000
_POLICY_VIOLATION = 1008
_OUR_FAULT = 1011
_RESTARTS = 1012


@dataclass(eq=False, slots=True)
class _Held:
    """A talk that this process holds. `over`: what was said in it is stored."""

    line: RelayLine
    over: asyncio.Event = field(default_factory=asyncio.Event)


class TwilioRoutes:
    """`restart_seconds`: how long a callee waits in silence for the next process when this one stops."""

    def __init__(
        self,
        *,
        inbox: Inbox,
        calls: Calls,
        agents: Agents,
        models: Models,
        clock: Clock,
        addresses: Addresses,
        restart_seconds: float = 4,
    ) -> None:
        self._inbox = inbox
        self._calls = calls
        self._agents = agents
        self._models = models
        self._clock = clock
        self._addresses = addresses
        self._restart_seconds = restart_seconds
        self._talks: dict[str, _Held] = {}
        self._leaving = False
        self._asked_for: set[str] = set()  # calls that Twilio will ask about, now that we leave them
        self._all_asked = asyncio.Event()

    def routes(self) -> list[BaseRoute]:
        path = "{call_id}/{token}"
        return [
            *(
                Route(f"{PREFIX}/{report.value}/{path}", self._answering(report), methods=["POST"])
                for report in (Report.STATUS, Report.AMD, Report.RECORDING, Report.ACTION)
            ),
            WebSocketRoute(f"{PREFIX}/{Report.RELAY.value}/{path}", self._relay),
        ]

    def _answering(self, report: Report) -> Callable[[Request], Awaitable[Response]]:
        async def take(request: Request) -> Response:
            try:
                call = await self._inbox.take(await self._envelope(report, request))
                if report is Report.ACTION:
                    return Response(await self._what_next(call), media_type="text/xml")
            except Refused as refused:
                return Response(status_code=STATUSES[refused.why])
            except Unavailable as error:
                log.warning("report_not_stored", report=report.value, error=error.code)
                return Response(status_code=503)
            return Response(status_code=204)

        return take

    async def _envelope(self, report: Report, request: Request) -> Envelope:
        body = b""
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_LIMIT:
                    raise self._inbox.refusal(Refusal.OVERSIZED)
        except ClientDisconnect:
            raise self._inbox.refusal(Refusal.TRUNCATED) from None
        try:
            fields = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            raise self._inbox.refusal(Refusal.TRUNCATED) from None
        return Envelope(
            report=report,
            call_id=request.path_params["call_id"],
            token=request.path_params["token"],
            signature=request.headers.get("x-twilio-signature"),
            parameters=fields,
        )

    async def _what_next(self, call: Call) -> str:
        """What Twilio does with a call whose session is over. One whose talk broke, and is to go on, is connected anew:
        to this process, or to whichever is there after `restart_seconds`."""
        self._asked_for.discard(call.id)
        if not self._asked_for:
            self._all_asked.set()
        agent = await self._agents.version(call.agent_id, call.agent_version)
        if agent is None or call.status.is_final or call.end_reason is not None or call.breaks == 0:
            return hang_up()
        log.info("talk_resumed", call_id=call.id, breaks=call.breaks)
        pause = self._restart_seconds if self._leaving else 0
        return converse(call, agent, self._addresses, resumed=True, pause=pause)

    async def hand_over(self) -> None:
        """Breaks off every talk so that Twilio asks what to do with the call, and is told to connect it again: to the
        process that comes after this one. Returns when it has asked for all, or takes too long."""
        self._leaving = True
        talks = dict(self._talks)
        if not talks:
            return
        log.info("talks_handed_over", talks=len(talks))
        self._asked_for = set(talks)
        for held in talks.values():
            held.line.break_off()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASKED_SECONDS):
                await self._all_asked.wait()

    async def _relay(self, websocket: WebSocket) -> None:
        envelope = Envelope(
            report=Report.RELAY,
            call_id=websocket.path_params["call_id"],
            token=websocket.path_params["token"],
            signature=websocket.headers.get("x-twilio-signature"),
        )
        try:
            call = await self._inbox.call_of(envelope)
            agent = await self._agents.version(call.agent_id, call.agent_version)
            if call.status.is_final or agent is None or self._leaving:
                raise self._inbox.refusal(Refusal.WRONG_CALL)
        except (Refused, Unavailable):
            await websocket.close()  # before it was accepted: HTTP 403
            return
        with structlog.contextvars.bound_contextvars(call_id=call.id):
            await self._connected(Socket(websocket), call, agent)

    async def _connected(self, socket: "Socket", call: Call, agent: Agent) -> None:
        try:
            await socket.accept()
            setup = await self._setup(socket)
            if setup is None or (call.carrier_id is not None and setup.call_sid != call.carrier_id):
                self._inbox.refusal(Refusal.WRONG_CALL)
                await socket.close(_POLICY_VIOLATION)
                return
            await self._hold(socket, call, agent, setup)
        except ConnectionError:
            log.warning("relay_gone")
        except Unavailable as error:
            # A talk that cannot be recorded is not held; Twilio asks `action` what to do.
            log.warning("talk_not_stored", error=error.code)
            await socket.close(_OUR_FAULT)

    async def _hold(self, socket: "Socket", call: Call, agent: Agent, setup: relay.Setup) -> None:
        """Holds the talk. Twilio has one session a call, so one before it is gone, though we may not know yet; what was
        said in it is stored before this one goes on from there."""
        line = RelayLine(socket, clock=self._clock)
        held = _Held(line)
        before, self._talks[call.id] = self._talks.get(call.id), held
        try:
            if before is not None:
                before.line.break_off()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ENDED_SECONDS):
                        await before.over.wait()
            now = self._clock.now()
            call = await self._calls.observe(call.id, Accepted(at=now, carrier_id=setup.call_sid), Answered(at=now))
            if call.status.is_final:
                await socket.close()
            else:
                await socket.close(_NORMAL if await self._talk(call, agent, line) else _RESTARTS)
        finally:
            held.over.set()
            if self._talks[call.id] is held:
                del self._talks[call.id]

    async def _talk(self, call: Call, agent: Agent, line: RelayLine) -> bool:
        """False when the line broke."""
        call, turns = await self._calls.read(call)
        telling = asyncio.create_task(self._tell_who_answered(call, line))
        try:
            return await talk(
                call,
                agent,
                line=line,
                models=self._models,
                observe=self._observe_talk,
                clock=self._clock,
                turns=turns,
            )
        finally:
            telling.cancel()

    async def _tell_who_answered(self, call: Call, line: RelayLine) -> None:
        """A machine that no message is left on is hung up by whoever hears that it is one."""
        if call.voicemail_message is not None:
            answered_by = await self._calls.until_told_apart(call.id)
            if answered_by is not None:
                line.recognised(answered_by)

    async def _setup(self, socket: "Socket") -> relay.Setup | None:
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                frame = await socket.receive_text()
        except (TimeoutError, ConnectionError):
            return None
        received = None if frame is None else relay.parse(frame)
        return received if isinstance(received, relay.Setup) else None

    async def _observe_talk(self, call_id: str, *events: Event) -> Call:
        """Why the talk ended has been told by its Leaving; that the line is down is Twilio's to say."""
        return await self._calls.observe(call_id, *(event for event in events if not isinstance(event, HungUp)))


class Socket:
    """A Starlette WebSocket as the line knows sockets."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def accept(self) -> None:
        try:
            await self._websocket.accept()
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError("closed") from error

    async def receive_text(self) -> str | None:
        try:
            return await self._websocket.receive_text()
        except WebSocketDisconnect as closed:
            if closed.code == _NORMAL:
                return None
            raise ConnectionError(f"closed with {closed.code}") from closed
        except KeyError:  # a binary frame, which Twilio never sends
            raise ConnectionError("a binary frame") from None

    async def send_text(self, text: str) -> None:
        try:
            await self._websocket.send_text(text)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError("closed") from error

    async def close(self, code: int = _NORMAL) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # closed already
            await self._websocket.close(code)
