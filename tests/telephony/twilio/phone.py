"""Twilio's end of a relay's socket: frames are told to the line, and what it sends is kept and, in a talk, played."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callmcp.clock import Clock, TestClock
from callmcp.conversation.events import LineEvent
from callmcp.telephony.twilio.line import RelayLine

A_CHARACTER = 0.055
LATENCY = 0.35
_WORD = re.compile(r"\s*\S+")
_CLAUSE_ENDS = re.compile(r"[.?!:;]$")


@dataclass
class Phone:
    """Implements Socket. `heard` is the transcript as the callee would write it."""

    clock: Clock
    sent: list[dict[str, Any]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self._told: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self._arrived = asyncio.Event()
        self._read = 0  # of `sent`

    async def receive_text(self) -> str | None:
        told = await self._told.get()
        if isinstance(told, Exception):
            raise told
        return told

    async def send_text(self, text: str, /) -> None:
        if self.closed:
            raise ConnectionError
        self.sent.append(json.loads(text))
        self._arrived.set()
        if self.sent[-1]["type"] == "end":
            self.close()

    def tell(self, kind: str, **members: Any) -> None:
        self._told.put_nowait(json.dumps({"type": kind, **members}))

    def info(self, name: str, value: str) -> None:
        self.tell("info", name=name, value=value)

    def plays(self, text: str) -> None:
        self.info("agentSpeaking", "on")
        self.info("tokensPlayed", text)
        self.info("agentSpeaking", "off")

    def close(self) -> None:
        self.closed = True
        self._told.put_nowait(None)

    def breaks(self) -> None:
        self.closed = True
        self._told.put_nowait(ConnectionError("1006"))

    # The callee, for whole talks.

    async def listen(self, words: int | None = None) -> None:
        """Hears the agent's line to its end, or so many words of it and then speaks over it."""
        text, clause, last, count = "", "", False, 0
        self.heard.append("")
        while True:
            found = _WORD.match(text)
            if found is None or (found.end() == len(text) and not last):  # a word that may still grow
                if last:
                    break
                text, last = await self._next(text)
            else:
                await self.clock.sleep(LATENCY if not count else 0)
                text, word = text[found.end() :], found[0]
                self.info("agentSpeaking", "on") if not count else None
                await self.clock.sleep(A_CHARACTER * len(word))
                self.heard[-1] += word
                clause, count = clause + word, count + 1
                if count == words:
                    self.tell("interrupt", utteranceUntilInterrupt=clause.strip(), durationUntilInterruptMs=1)
                    break
                if _CLAUSE_ENDS.search(word):
                    self.info("tokensPlayed", clause)
                    clause = ""
        self.heard[-1] = self.heard[-1].strip()
        if clause and words is None:
            self.info("tokensPlayed", clause)
        self.info("agentSpeaking", "off")
        self._read = len(self.sent)

    async def _next(self, text: str) -> tuple[str, bool]:
        while self._read == len(self.sent):
            self._arrived.clear()
            await self._arrived.wait()
        frame = self.sent[self._read]
        self._read += 1
        return (text + frame["token"], frame["last"]) if frame["type"] == "text" else (text, False)

    async def speak(self, text: str) -> None:
        self.info("clientSpeaking", "on")
        await self.clock.sleep(A_CHARACTER * len(text))
        self.info("clientSpeaking", "off")
        self.tell("prompt", voicePrompt=text, lang="en", last=True)
        self.heard.append(text)


@dataclass
class Ear:
    """What the line says has happened."""

    line: RelayLine
    clock: TestClock
    events: list[LineEvent] = field(default_factory=list)

    async def listen(self) -> None:
        async for event in self.line.events():
            self.events.append(event)

    async def after(self, seconds: float = 0) -> Sequence[LineEvent]:
        """What has happened since this was asked last."""
        await self.clock.advance(seconds)
        events, self.events[:] = list(self.events), []
        return events
