"""The agent's voice: what the relay was sent, played in the time that speech takes, word by word.

Only what was played to its end counts as heard. Twilio plays, reports (`tokensPlayed`) and cuts by the clause: in the
recordings `utteranceUntilInterrupt` is the part of the last clause that was heard, not of the whole turn.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.twilio_emulator.callee import SECONDS_A_CHARACTER
from tests.twilio_emulator.line import Line
from tests.twilio_emulator.pace import Pace

LATENCY = 0.35  # recorded: from the first token to agentSpeaking, 0.32 to 0.48 s
HALF_A_WORD = 1.0  # how long an unfinished word waits for its rest
KEY = 0.25  # of sendDigits
CLIP = 2.0  # of play, whatever its length really is
CLAUSE_ENDS = re.compile(r"[.?!:;]$")


@dataclass(slots=True, kw_only=True)
class Utterance:
    """A talk cycle of the agent: text until `last`, or keys, or a clip. `whole` is not reported by the clause."""

    text: str = ""
    digits: str = ""
    clip: str = ""
    loop: int = 1
    closed: bool = False
    by_speech: bool = True  # whether it may be interrupted so
    by_dtmf: bool = True
    preemptible: bool = False
    whole: bool = False

    def next_word(self, *, forced: bool) -> str | None:
        """The next word with the space before it; None while it may still grow; empty at the end."""
        found = re.match(r"\s*\S+(?=\s)", self.text) or re.match(r"\s*\S*[.?!]$", self.text)
        if found is None and (self.closed or forced):
            found = re.match(r"\s*\S+", self.text)
        if found:
            self.text = self.text[found.end() :]
            return found[0]
        return "" if self.closed else None


@dataclass(frozen=True, slots=True)
class Cut:
    """What was heard of the clause at hand and of the whole turn, and how many milliseconds each had lasted."""

    clause: tuple[str, int]
    turn: tuple[str, int]


class Mouth:
    def __init__(self, line: Line, pace: Pace, info: Callable[[str, str], None]) -> None:
        self._line, self._pace, self._info = line, pace, info
        self._queue: deque[Utterance] = deque()
        self._pulse = asyncio.Event()
        self._clause = self._turn = ""
        self._clause_began = self._turn_began = 0.0
        self._audible = False

    @property
    def current(self) -> Utterance | None:
        return self._queue[0] if self._queue else None

    def say(self, token: str, *, last: bool, by_speech: bool, by_dtmf: bool, preemptible: bool) -> None:
        """A token: of the talk cycle that is open, or the first of a new one."""
        cycle = self._queue[-1] if self._queue and not self._queue[-1].closed else None
        if cycle is None:
            if not token and last:
                return  # closes what was cut already
            cycle = Utterance(by_speech=by_speech, by_dtmf=by_dtmf, preemptible=preemptible)
            self.add(cycle)
        cycle.text += token
        cycle.closed = last
        self._wake()

    def add(self, utterance: Utterance) -> None:
        """Behind what is queued, and instead of what there is preemptible."""
        if self._queue and self._queue[0].preemptible:
            self._played()
            self._line.agent_ends(interrupted=True)
        for earlier in [earlier for earlier in self._queue if earlier.preemptible]:
            self._queue.remove(earlier)
        self._queue.append(utterance)
        self._line.speaking = True
        self._wake()

    @property
    def audible(self) -> bool:
        return self._audible

    def cut(self) -> Cut:
        """Stops at once and forgets all that is queued. `hush` follows."""
        cut = Cut(self._heard(self._clause, self._clause_began), self._heard(self._turn, self._turn_began))
        self._played()
        self._queue.clear()
        self._line.agent_ends(interrupted=True)
        self._wake()
        return cut

    def _heard(self, text: str, since: float) -> tuple[str, int]:
        return text.strip(), round((self._pace.now() - since) * 1000) if text.strip() else 0

    def hush(self) -> None:
        """Nothing more is to be heard."""
        self._line.speaking = False
        if self._audible:
            self._audible = False
            self._info("agentSpeaking", "off")
        self._line.notify()

    async def run(self) -> None:
        """Plays until cancelled."""
        while True:
            while not self._queue:
                await self._pulse.wait()
                self._pulse.clear()
            utterance = self._queue[0]
            await self._play(utterance)
            if self._playing(utterance):
                self._queue.popleft()
                self._line.speaking = bool(self._queue)
                self._line.agent_ends()
            if not self._queue:
                self.hush()

    async def _play(self, utterance: Utterance) -> None:
        began = self._pace.now() + (0 if self._audible else LATENCY)
        await self._pace.until(began)
        if not self._playing(utterance):
            return
        if not self._audible:
            self._audible = True
            self._info("agentSpeaking", "on")
        if utterance.digits:
            await self._pace.until(began + KEY * len(utterance.digits))
            if self._playing(utterance):
                self._line.agent_presses(utterance.digits)
                self._info("tokensPlayed", utterance.digits)
        elif utterance.clip:
            await self._pace.until(began + CLIP * utterance.loop)
            if self._playing(utterance):
                self._line.agent_word(f"[{utterance.clip}]")
        else:
            await self._speak(utterance, began)

    async def _speak(self, utterance: Utterance, moment: float) -> None:
        self._clause = self._turn = ""
        self._clause_began = self._turn_began = moment
        forced = False
        while self._playing(utterance):
            word = utterance.next_word(forced=forced)
            if word is None:
                self._pulse.clear()
                forced = await self._pace.unless(self._pulse, HALF_A_WORD)
                moment = self._pace.now()
                continue
            if word == "":
                break
            forced = False
            moment += len(word) * SECONDS_A_CHARACTER
            await self._pace.until(moment)
            if not self._playing(utterance):
                return
            self._clause += word
            self._turn += word
            self._line.agent_word(word)
            await asyncio.sleep(0)  # whoever waited for this word acts before the clause is reported
            if CLAUSE_ENDS.search(word) and not utterance.whole and self._playing(utterance):
                self._played()
                self._clause_began = moment
        if self._playing(utterance):
            self._played()

    def _playing(self, utterance: Utterance) -> bool:
        """It was not cut meanwhile."""
        return self.current is utterance

    def _played(self) -> None:
        if self._clause:
            self._info("tokensPlayed", self._clause)
            self._clause = ""

    def _wake(self) -> None:
        self._pulse.set()
