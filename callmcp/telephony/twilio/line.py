"""The line of a Twilio call: ConversationRelay over a WebSocket, as conversation.ports.Line.

Twilio does the speech, we do the words. It has no word for "the agent's line was heard to its end": that is worked
out from what it reports as played, when the agent falls silent, and at the latest from how long the words take.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

import structlog

from callmcp.calls.model import AnsweredBy, EndReason
from callmcp.clock import Clock
from callmcp.conversation.events import (
    Digit,
    Heard,
    Interrupted,
    LineClosed,
    LineEvent,
    LineLost,
    LineOpened,
    Recognised,
    SpeechBegan,
    Spoken,
)
from callmcp.telephony.twilio import relay
from callmcp.telephony.twilio.speech import Speech

log = structlog.get_logger()

# Seconds. Recorded: 49 characters in 2.6 s, 0.3 to 0.5 s from a text to its sound, 2 s to keys that wait for nothing.
# The bounds are generous: one too short cuts the agent's last words off, and they count only when Twilio reports
# less than it should.
A_CHARACTER = 0.11
TO_BEGIN = 5
TO_FALL_SILENT = 2  # once all was reported as played
SILENT = 3  # and the line is complete: nothing more of it will come
A_KEY = 0.5
TO_PRESS = 2
PRESSING = 4  # at most, before hanging up; the session waits 5 s for a line to close
CLOSING = 3


class Socket(Protocol):
    """A WebSocket whose handshake and setup frame are done."""

    async def receive_text(self) -> str | None:
        """The next text frame; None when Twilio closed the socket with 1000. Raises when it ended in any other way."""

    async def send_text(self, text: str, /) -> None:
        """Raises ConnectionError when the socket is closed."""


@dataclass(frozen=True, slots=True)
class _Text:
    token: str
    last: bool
    interruptible: bool

    def frame(self) -> str:
        # What Twilio does by itself with what we say nothing of is the TwiML's to say.
        return relay.text(self.token, last=self.last, interruptible=None if self.interruptible else False)


@dataclass(frozen=True, slots=True)
class _Keys:
    digits: str

    def frame(self) -> str:
        return relay.send_digits(self.digits)


@dataclass(frozen=True, slots=True)
class _End:
    reason: EndReason

    def frame(self) -> str:
        return relay.end(handoff=self.reason.value)


class _Callee(Enum):
    QUIET = auto()
    SPEAKING = auto()
    AWAITED = auto()  # has spoken; the words are not known yet


class RelayLine:
    """Implements conversation.ports.Line. What it starts is stopped when `events` ends or is closed."""

    def __init__(self, socket: Socket, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._happened: asyncio.Queue[LineEvent] = asyncio.Queue()
        self._closed = False
        self._outbox: deque[_Text | _Keys | _End] = deque()
        self._posted = asyncio.Event()
        self._open = False  # what was sent of a line has not been ended by `last`
        self._speech: Speech | None = None  # the line under way
        self._cut = False  # the line under way was interrupted; what the session adds to it is for nobody's ears
        self._audible = False  # the agent is
        self._silent = False  # the agent has fallen silent since it was last given words
        self._callee = _Callee.QUIET
        self._keys = ""  # that have not been pressed yet
        self._ending: EndReason | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}

    # The agent's side.

    async def events(self) -> AsyncIterator[LineEvent]:
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            yield LineOpened()
            while True:
                event = await self._happened.get()
                yield event
                if isinstance(event, LineClosed | LineLost):
                    return
        finally:
            self._closed = True
            tasks += self._timers.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def say(self, text: str, *, last: bool, interruptible: bool = True) -> None:
        if self._closed or self._ending is not None:
            return
        if self._cut:
            if last:
                self._cut = False
                self._end_line()
            return
        self._speech = self._speech or Speech()
        self._speech.add(text, last=last)
        for token in relay.tokens(relay.speakable(text)):
            self._silent = False
            self._post_text(token, interruptible=interruptible)
        if last:
            self._end_line()
        self._reckon()

    async def send_digits(self, digits: str) -> None:
        digits = "".join(digit for digit in digits if digit in relay.DIGITS)  # a language model chose them
        if digits and not self._closed and self._ending is None:
            self._keys += digits
            self._post(_Keys(digits))
            self._later("keys", min(TO_PRESS + A_KEY * len(self._keys), PRESSING), self._pressed)

    async def end(self, reason: EndReason) -> None:
        if not self._closed and self._ending is None:
            self._ending = reason
            if not self._keys:
                self._hang_up(reason)

    def recognised(self, answered_by: AnsweredBy) -> None:
        """Twilio has told apart who answered; it says so elsewhere, and maybe to another process."""
        if not self._closed:
            self._tell(Recognised(answered_by))

    def break_off(self) -> None:
        """Ends the line as if it had broken, and not the call: Twilio asks what to do with it."""
        if not self._closed:
            self._close(LineLost(heard=self._heard_so_far()))

    def _hang_up(self, reason: EndReason) -> None:
        self._outbox.clear()
        self._post(_End(reason))
        self._later("close", CLOSING, lambda: self._close(LineClosed(heard=self._heard_so_far())))

    # What goes out.

    def _post(self, message: _Text | _Keys | _End) -> None:
        self._outbox.append(message)
        self._posted.set()

    def _post_text(self, token: str, *, interruptible: bool) -> None:
        """Joined to the text that waits to be sent, if the two fit in a frame."""
        waiting = self._outbox[-1] if self._outbox else None
        if isinstance(waiting, _Text) and not waiting.last and len(relay.tokens(waiting.token + token)) == 1:
            self._outbox[-1] = _Text(waiting.token + token, last=False, interruptible=interruptible)
        else:
            self._post(_Text(token, last=False, interruptible=interruptible))

    def _end_line(self) -> None:
        """Sends `last`: with the text that waits, else by itself. A line of no words is none for Twilio."""
        waiting = self._outbox[-1] if self._outbox else None
        if isinstance(waiting, _Text):
            self._outbox[-1] = replace(waiting, last=True)
        elif self._open:
            self._post(_Text("", last=True, interruptible=True))

    async def _write(self) -> None:
        """At once when nothing was sent just now; what is said meanwhile goes together in the next frame."""
        while True:
            await self._posted.wait()
            self._posted.clear()
            while self._outbox:
                message = self._outbox.popleft()
                if isinstance(message, _Text):
                    self._open = not message.last
                try:
                    await self._socket.send_text(message.frame())
                except ConnectionError:
                    return  # how it closed is told by the reading side
                await self._clock.sleep(1 / relay.FRAMES_A_SECOND)

    # What comes in.

    async def _read(self) -> None:
        try:
            while (raw := await self._socket.receive_text()) is not None:
                self._take(relay.parse(raw))
            self._close(LineClosed(heard=self._heard_so_far()))
        except Exception:  # whatever the socket dies of, the talk ends with what was heard
            log.warning("relay_lost", exc_info=True)
            self._close(LineLost(heard=self._heard_so_far()))

    def _take(self, frame: relay.Frame) -> None:
        match frame:
            case relay.Prompt(text=text, last=True):
                self._heard_if_all()
                self._callee = _Callee.QUIET
                self._tell(Heard(text))
            case relay.Prompt():
                self._callee_speaks(again=False)
            case relay.Info(name="clientSpeaking", value="on"):
                self._callee_speaks(again=True)
            case relay.Info(name="clientSpeaking"):
                self._callee = _Callee.AWAITED if self._callee is _Callee.SPEAKING else self._callee
            case relay.Info(name="agentSpeaking", value=value):
                self._audible = value == "on"
                self._silent = not self._audible
                self._reckon()
            case relay.Info(name="tokensPlayed", value=value):
                self._played(value)
            case relay.Interrupt(heard=heard):
                self._interrupted(heard)
            case relay.Dtmf(digit=digit):
                self._heard_if_all()
                self._tell(Digit(digit))
            case relay.RelayError(code=code):
                log.warning("relay_error", carrier_code=code)
            case relay.Unknown(why=why):
                log.debug("relay_frame_unknown", why=why)
            case _:
                pass  # a second setup, and news that nothing hangs on

    def _callee_speaks(self, *, again: bool) -> None:
        """Once for each utterance. `again`: a new one may begin before the words of the last are known."""
        begins = self._callee is _Callee.QUIET or (again and self._callee is _Callee.AWAITED)
        if begins:
            self._heard_if_all()
            self._callee = _Callee.SPEAKING
            self._tell(SpeechBegan())

    def _played(self, report: str) -> None:
        if self._keys and self._keys.startswith(report):
            self._keys = self._keys.removeprefix(report)
            if not self._keys:
                self._pressed()
        elif self._speech is not None:
            self._speech.played(report)
            self._reckon()

    def _pressed(self) -> None:
        self._keys = ""
        self._stop("keys")
        if self._ending is not None:
            self._hang_up(self._ending)

    def _interrupted(self, report: str) -> None:
        """Twilio has purged all that was queued there, so what is queued here goes too."""
        speech = self._speech
        if speech is not None:
            speech.cut(report)
        if self._ending is not None:
            return
        self._outbox.clear()
        self._keys = ""
        self._stop("keys")
        if speech is None:
            return
        if speech.all_heard:
            self._spoken()
            return
        self._speech = None
        self._stop("spoken")
        self._tell(Interrupted(speech.heard))
        self._cut = not speech.complete
        if speech.complete:
            self._end_line()

    # The line under way.

    def _reckon(self) -> None:
        """When the line will have been heard to its end, by what is known of it now."""
        speech = self._speech
        if speech is None or not speech.complete:
            return
        if speech.all_heard and not self._audible:
            self._spoken()
        elif speech.all_heard:
            self._later("spoken", TO_FALL_SILENT, self._spoken)
        elif self._silent:
            self._later("spoken", SILENT, self._spoken)
        else:
            self._later("spoken", TO_BEGIN + A_CHARACTER * speech.rest, self._spoken)

    def _heard_if_all(self) -> None:
        """Who answers has heard the line, though Twilio has not said yet that the agent is silent."""
        if self._speech is not None and self._speech.all_heard:
            self._spoken()

    def _spoken(self) -> None:
        self._speech = None
        self._stop("spoken")
        self._tell(Spoken())

    def _heard_so_far(self) -> str:
        return "" if self._speech is None else self._speech.heard

    def _close(self, event: LineClosed | LineLost) -> None:
        self._tell(event)
        self._closed = True

    def _tell(self, event: LineEvent) -> None:
        self._happened.put_nowait(event)

    # Time.

    def _later(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        """There is one timer of each name; a new one replaces the old."""

        async def wait() -> None:
            await self._clock.sleep(seconds)
            del self._timers[name]
            do()

        self._stop(name)
        self._timers[name] = asyncio.create_task(wait())

    def _stop(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()
