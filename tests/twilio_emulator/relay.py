"""ConversationRelay from Twilio's side: the WebSocket client that hears for the server and speaks its words."""

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.twilio_emulator.callee import SECONDS_A_CHARACTER
from tests.twilio_emulator.chaos import Switch, strike
from tests.twilio_emulator.frames import End, Frame, Language, Malformed, Play, SendDigits, Text, read
from tests.twilio_emulator.model import Call, sid
from tests.twilio_emulator.mouth import Mouth, Utterance
from tests.twilio_emulator.signature import signature
from tests.twilio_emulator.twiml import Relay
from tests.twilio_emulator.webhooks import route
from tests.twilio_emulator.world import World

CONNECT_SECONDS = 5.0
MALFORMED_IN_A_ROW = 10
FRAMES_A_SECOND = 50  # our own cap: no limit is documented
CLOSING = "Closing websocket session"
PARTIAL = 0.25  # recorded: a partial prompt every 200 to 300 ms, and the last one 350 ms after the speech
END_OF_SPEECH = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """As <Connect action> is told. `status` is completed (hung up), ended (by the server) or failed."""

    session: str
    status: str
    seconds: int = 0
    handoff: str | None = None
    error: int | None = None
    message: str = ""


class Session:
    """One <ConversationRelay>. It listens on the call's line and speaks there, until one side ends it."""

    def __init__(self, world: World, call: Call, relay: Relay) -> None:
        self.sid = sid("VX")
        self._world, self._call, self._relay = world, call, relay
        self._mouth = Mouth(call.line, world.pace, self._info)
        self._outbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._arrivals: deque[float] = deque(maxlen=FRAMES_A_SECOND + 1)
        self._began = world.pace.now()

    async def run(self) -> Ended:
        """From the handshake to the end of the session, whoever brings it about."""
        if self._relay.wrong:
            self._call.line.connected()
            return self._ended("failed", error=64101, message=self._relay.wrong)
        socket = await self._connect()
        if socket is None:
            self._call.line.connected()
            message = "Network connection to WebSocket server failed."
            self._world.journal.alert(64102, message, self._call.sid)
            return self._ended("failed", error=64102, message=message)
        self._call.relays.append(self.sid)
        self._began = self._world.pace.now()
        self._send(self._setup())
        self._greet()
        self._call.line.listener = self
        self._call.line.connected()
        writer, mouth = asyncio.create_task(self._write(socket)), asyncio.create_task(self._mouth.run())
        reader, over = asyncio.create_task(self._read(socket)), asyncio.create_task(self._call.signal.wait())
        cut = asyncio.create_task(self._until_cut())
        try:
            await asyncio.wait({reader, over, cut}, return_when=asyncio.FIRST_COMPLETED)
            self._call.line.listener = None
            mouth.cancel()
            if self._mouth.current:
                self._mouth.cut()
            self._call.line.speaking = False
            return await self._close(socket, writer, reader if reader.done() else None, cut=cut.done())
        finally:
            for task in (writer, mouth, reader, over, cut):
                task.cancel()
            socket.transport.abort()
            await asyncio.gather(writer, mouth, reader, over, cut, return_exceptions=True)

    async def _close(
        self, socket: ClientConnection, writer: asyncio.Task[None], reader: "asyncio.Task[Ended] | None", *, cut: bool
    ) -> Ended:
        if reader is not None:
            ended = reader.result()
            code, reason = (1007, "Too many consecutive malformed messages.") if ended.error else (1000, CLOSING)
        elif cut:
            self._world.journal.note("relay-cut", self._call.sid, session=self.sid)
            socket.transport.abort()
            return self._ended("failed", error=64105, message="Websocket ended")
        else:
            ended, code, reason = self._ended("completed"), 1000, CLOSING
        self._outbox.put_nowait(None)
        await writer
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await socket.close(code, reason)
        self._world.journal.note("relay-closed", self._call.sid, session=self.sid, code=socket.close_code)
        return ended

    async def _connect(self) -> ClientConnection | None:
        url = self._relay.attributes["url"]
        note = self._world.journal.note
        if strike(self._call.chaos, Switch.RELAY_REFUSED):
            note("relay-connect", self._call.sid, url=url, error="refused by chaos")
            return None
        signed = signature(self._world.settings.auth_token, url)
        to, _ = route(self._world, url)
        headers = {"X-Twilio-Signature": signed, "x-amzn-bedrock-agentcore-runtime-custom-twilio-signature": signed}
        there = to.partition("://")[2].partition("/")[0].rpartition(":")
        options: dict[str, Any] = {}
        if to != url:  # the Host is the public one, and the socket goes where the route says
            options = {"host": there[0].strip("[]"), "port": int(there[2])}
            url = to.partition("://")[0] + "://" + url.partition("://")[2]
        try:
            socket = await connect(
                url,
                additional_headers=headers,
                user_agent_header="Jetty/11.0.24",
                compression=None,
                proxy=None,
                open_timeout=CONNECT_SECONDS,
                ping_interval=None,
                **options,
            )
        except (OSError, InvalidHandshake, TimeoutError) as error:
            note("relay-connect", self._call.sid, url=url, error=repr(error))
            return None
        note("relay-connect", self._call.sid, url=self._relay.attributes["url"], session=self.sid)
        return socket

    def _setup(self) -> dict[str, Any]:
        call = self._call
        return {
            "type": "setup",
            "sessionId": self.sid,
            "callSid": call.sid,
            "parentCallSid": "",
            "from": call.order.from_,
            "to": call.order.to,
            "forwardedFrom": "",
            "callerName": "",
            "direction": "outbound-api",
            "callType": "PSTN",
            "callStatus": "IN_PROGRESS",
            "accountSid": call.account_sid,
            "customParameters": dict(self._relay.parameters),
        }

    def _greet(self) -> None:
        if greeting := self._relay.attributes.get("welcomeGreeting"):
            by_speech = self._relay.lets("welcomeGreetingInterruptible", "any", "speech")
            by_dtmf = self._relay.lets("welcomeGreetingInterruptible", "any", "dtmf")
            self._mouth.add(Utterance(text=greeting, closed=True, by_speech=by_speech, by_dtmf=by_dtmf, whole=True))

    async def _until_cut(self) -> None:
        """For ever, unless chaos cuts the socket in the middle of what the agent says."""
        cut = strike(self._call.chaos, Switch.RELAY_CUT)
        if cut is None:
            await asyncio.Event().wait()
            return
        line, since = self._call.line, self._call.line.now()
        await line.until(lambda: line.words_since(since) >= cut.words)
        self._mouth.cut()

    # What the server says.

    async def _read(self, socket: ClientConnection) -> Ended:
        bad = 0
        while True:
            try:
                raw = await socket.recv()
            except ConnectionClosed:
                self._world.journal.note("relay-dropped", self._call.sid, session=self.sid, code=socket.close_code)
                self._world.journal.alert(64105, "Websocket ended", self._call.sid)
                return self._ended("failed", error=64105, message="Websocket ended")
            shown = raw if isinstance(raw, str) else repr(raw)
            self._world.journal.note("frame-in", self._call.sid, session=self.sid, frame=shown)
            self._count()
            try:
                frame, odd = read(raw)
            except Malformed as error:
                bad += 1
                self._world.journal.violation(f"malformed frame: {error}", self._call.sid, frame=shown)
                self._send({"type": "error", "description": f"Invalid message received, code: 64107, {shown}"})
                if bad == MALFORMED_IN_A_ROW:
                    return self._ended("failed", error=64105, message="Websocket ended")
                continue
            bad = 0
            for text in odd:
                self._world.journal.violation(text, self._call.sid, frame=shown)
            if isinstance(frame, End):
                return self._ended("ended", handoff=frame.handoffData)
            self._obey(frame)

    def _obey(self, frame: Frame) -> None:
        match frame:
            case Text():
                default = self._relay.on("preemptible")
                self._mouth.say(
                    frame.token,
                    last=frame.last,
                    by_speech=self._may(frame.interruptible, "speech"),
                    by_dtmf=self._may(frame.interruptible, "dtmf"),
                    preemptible=frame.preemptible or default,
                )
            case Play():
                by_speech, by_dtmf = self._may(frame.interruptible, "speech"), self._may(frame.interruptible, "dtmf")
                clip = Utterance(clip=frame.source, loop=frame.loop, closed=True, by_speech=by_speech, by_dtmf=by_dtmf)
                clip.preemptible = frame.preemptible
                self._mouth.add(clip)
            case SendDigits(digits=digits):
                self._mouth.add(Utterance(digits=digits, closed=True, by_speech=False, by_dtmf=False))
            case Language() | End():
                pass

    def _may(self, interruptible: bool | None, by: str) -> bool:  # noqa: FBT001 -- as the frame has it
        return self._relay.lets("interruptible", "any", by) if interruptible is None else interruptible

    def _count(self) -> None:
        now = self._world.pace.now()
        self._arrivals.append(now)
        if len(self._arrivals) > FRAMES_A_SECOND and now - self._arrivals[0] < 1:
            self._arrivals.clear()
            self._world.journal.violation(f"more than {FRAMES_A_SECOND} frames in a second", self._call.sid)

    # What the callee does: the Listener of the line.

    def speech_begins(self) -> bool:
        self._info("clientSpeaking", "on")
        return self._break_in("speech")

    async def hears(self, text: str) -> None:
        if self._relay.on("partialPrompts"):
            words = text.split(" ")
            for heard in range(1, len(words)):
                await self._world.pace.sleep(PARTIAL)
                self._prompt(" ".join(words[:heard]), last=False)
            await self._world.pace.sleep(PARTIAL + END_OF_SPEECH)
        else:
            await self._world.pace.sleep(len(text) * SECONDS_A_CHARACTER + END_OF_SPEECH)
        self._call.line.callee_said(text)
        self._info("clientSpeaking", "off")
        self._prompt(text, last=True)

    def digit(self, digit: str) -> None:
        if self._break_in("dtmf") and self._relay.on("dtmfDetection"):
            self._send({"type": "dtmf", "digit": digit})

    def _break_in(self, by: str) -> bool:
        """Cuts what the agent says, if it may be cut so. Is the input reported?"""
        current = self._mouth.current
        if current is None or not self._mouth.audible:
            return True
        if not (current.by_speech if by == "speech" else current.by_dtmf):
            return self._relay.lets("reportInputDuringAgentSpeech", "none", by)
        cut = self._mouth.cut()
        heard, milliseconds = cut.turn if self._world.settings.interrupt == "turn" else cut.clause
        frame = {"utteranceUntilInterrupt": heard, "durationUntilInterruptMs": milliseconds}
        self._send({"type": "interrupt"} | frame)
        self._mouth.hush()
        return True

    def _prompt(self, text: str, *, last: bool) -> None:
        language = self._relay.attributes.get("transcriptionLanguage") or self._relay.attributes.get("language")
        self._send({"type": "prompt", "voicePrompt": text, "lang": language or "en-US", "last": last})

    # What the server is told.

    def _info(self, name: str, value: str) -> None:
        group = "tokens-played" if name == "tokensPlayed" else "speaker-events"
        if group in self._relay.events:
            self._send({"type": "info", "name": name, "value": value})

    def _send(self, frame: dict[str, Any]) -> None:
        """In the order of the sending, whatever the socket does."""
        self._outbox.put_nowait(frame)

    async def _write(self, socket: ClientConnection) -> None:
        while (frame := await self._outbox.get()) is not None:
            try:
                await socket.send(json.dumps(frame, ensure_ascii=False, separators=(",", ":")))
            except ConnectionClosed:
                return
            self._world.journal.note("frame-out", self._call.sid, session=self.sid, frame=frame)

    def _ended(self, status: str, *, handoff: str | None = None, error: int | None = None, message: str = "") -> Ended:
        seconds = round(self._world.pace.now() - self._began)
        return Ended(session=self.sid, status=status, seconds=seconds, handoff=handoff, error=error, message=message)
