"""The simulated line: it plays the agent's words to the callee and acts out the callee's script.

Only one side is heard at a time, and speech takes time in proportion to its length. It is heard a few words at a time,
so that whatever cuts a line cuts it between words.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Sequence

import structlog

from callmcp.calls.model import EndReason, Speaker, Turn
from callmcp.clock import Clock, within
from callmcp.conversation.events import (
    Digit,
    EndTheCall,
    Heard,
    Interrupted,
    LineClosed,
    LineEvent,
    LineOpened,
    PressKeys,
    Recognised,
    SpeechBegan,
    Spoken,
)
from callmcp.telephony.simulator.callee import (
    HangsUp,
    Improvises,
    IsTakenFor,
    Listens,
    OffersMenu,
    Presses,
    Says,
    StaysSilent,
    Step,
)
from callmcp.telephony.simulator.played import Played

log = structlog.get_logger()

CHARACTERS_PER_SECOND = 60  # about four times what people do: a whole conversation takes about ten seconds
WORDS_AT_A_TIME = 3  # a timer for each word made a call cost a third more
REACTION_SECONDS = 0.3
KEY_SECONDS = 5
PATIENCE_SECONDS = 30  # of silence, and the callee hangs up
MENU_TIMES = 3
IMPROVISED_TURNS = 60
_WORD = re.compile(r"\S+\s*|\s+")


class SimulatedLine:
    """Implements conversation.ports.Line. `act` is the callee's side, run as a task by whoever owns the line."""

    def __init__(self, script: Sequence[Step], clock: Clock, played: Played | None = None) -> None:
        self._script = script
        self._played = played
        self._clock = clock
        self._happened: asyncio.Queue[LineEvent] = asyncio.Queue()
        self._closed = False
        self._words: deque[str] = deque()  # said by the agent and not heard yet
        self._complete = False  # nothing more will be said of the agent's line
        self._cut = False  # the line under way was interrupted; the rest of it is not for anybody's ears
        self._interruptible = True
        self._heard_of_agent = ""
        self._heard_last = ""  # the agent's last line
        self._heard_of_callee = ""
        self._keys = ""
        self._agent_acted = asyncio.Event()

    # The agent's side.

    async def events(self) -> AsyncIterator[LineEvent]:
        while True:
            event = await self._happened.get()
            yield event
            if isinstance(event, LineClosed):
                return

    async def say(self, text: str, *, last: bool, interruptible: bool = True) -> None:
        if self._cut:
            self._cut = not last
            return
        self._interruptible = interruptible
        self._words.extend(_WORD.findall(text))
        self._complete = last
        self._agent_acted.set()

    async def send_digits(self, digits: str) -> None:
        self._keys += digits.replace("w", "")
        self._agent_acted.set()

    async def end(self, _: EndReason) -> None:
        self.hang_up(None)

    def hang_up(self, reason: EndReason | None) -> None:
        """Closes the line, whoever is speaking. The first reason stays."""
        if self._closed:
            return
        if self._heard_of_callee:
            self._happened.put_nowait(Heard(self._heard_of_callee))
        self._happened.put_nowait(LineClosed(reason=reason, heard=self._heard_of_agent.strip()))
        self._closed = True

    # The callee's side.

    async def act(self) -> None:
        """Follows the script to its end, then hangs up."""
        self._tell(LineOpened())
        for step in self._script:
            if not self._closed:
                await self._do(step)
        self.hang_up(EndReason.CALLEE_HUNG_UP)

    async def _do(self, step: Step) -> None:
        match step:
            case Listens(words):
                if not await self._listen(words):
                    self.hang_up(EndReason.CALLEE_HUNG_UP)
                elif words is None:
                    await self._clock.sleep(REACTION_SECONDS)
            case Says(text, words):
                await self._speak(text, words)
            case HangsUp():
                self.hang_up(EndReason.CALLEE_HUNG_UP)
            case IsTakenFor(answered_by):
                self._tell(Recognised(answered_by))
            case OffersMenu(text, keys):
                await self._offer(text, keys)
            case Presses(digit):
                self._cut_the_agent()
                self._tell(Digit(digit))
            case StaysSilent():
                while not self._closed:
                    await self._listen()
            case Improvises():
                await self._improvise()

    async def _listen(self, words: int | None = None) -> bool:
        """Hears the agent's line to its end, or `words` of it. False when the agent has said nothing for too long."""
        while words is None or words > 0:
            if self._words:
                count = min(len(self._words), WORDS_AT_A_TIME, words or WORDS_AT_A_TIME)
                phrase = "".join(self._words.popleft() for _ in range(count))
                await self._clock.sleep(len(phrase) / CHARACTERS_PER_SECOND)
                self._heard_of_agent += phrase
                words = None if words is None else words - count
            elif self._complete:
                self._complete = False
                self._heard_last, self._heard_of_agent = self._heard_of_agent.strip(), ""
                self._tell(Spoken())
                return True
            elif not await self._agent_acts(PATIENCE_SECONDS):
                return False
        return True

    async def _speak(self, text: str, words: int | None = None) -> None:
        self._cut_the_agent()
        self._tell(SpeechBegan())
        spoken = _WORD.findall(text)[:words]
        for start in range(0, len(spoken), WORDS_AT_A_TIME):
            phrase = "".join(spoken[start : start + WORDS_AT_A_TIME])
            await self._clock.sleep(len(phrase) / CHARACTERS_PER_SECOND)
            self._heard_of_callee += phrase
        if words is None:
            heard, self._heard_of_callee = self._heard_of_callee, ""
            self._tell(Heard(heard))
        else:
            self.hang_up(EndReason.CALLEE_HUNG_UP)

    async def _improvise(self) -> None:
        turns: list[Turn] = []

        def said(speaker: Speaker, text: str) -> None:
            turns.append(Turn(index=len(turns), at=self._clock.now(), speaker=speaker, text=text))

        while not self._closed and self._played is not None and len(turns) < IMPROVISED_TURNS:
            if not await self._listen():
                return
            said(Speaker.AGENT, self._heard_last)
            try:
                reply = [piece async for piece in self._played.reply(turns)]
            except Exception:  # whatever the model dies of, the callee hangs up and the call has an end
                log.exception("callee_failed")
                return
            if words := "".join(piece for piece in reply if isinstance(piece, str)).strip():
                said(Speaker.CALLEE, words)
                await self._speak(words)
            for piece in reply:
                if isinstance(piece, PressKeys):
                    for digit in piece.digits.replace("w", ""):
                        self._tell(Digit(digit))
            if any(isinstance(piece, EndTheCall) for piece in reply):
                await self._listen()
                return

    async def _offer(self, menu: str, keys: str) -> None:
        for _ in range(MENU_TIMES):
            await self._speak(menu)
            if await self._gets_a_key(keys):
                return
        self.hang_up(EndReason.CALLEE_HUNG_UP)

    async def _gets_a_key(self, keys: str) -> bool:
        while True:
            pressed, self._keys = self._keys, ""
            if pressed:
                return pressed[-1] in keys
            if self._words or self._complete:
                await self._listen()
            elif not await self._agent_acts(KEY_SECONDS):
                return False

    async def _agent_acts(self, seconds: float) -> bool:
        self._agent_acted.clear()
        try:
            await within(seconds, self._agent_acted.wait(), clock=self._clock)
        except TimeoutError:
            return False
        return True

    def _cut_the_agent(self) -> None:
        """What the agent has queued is never heard, nor what it adds to a line that it has not completed."""
        if self._interruptible and (self._words or self._heard_of_agent):
            self._cut = not self._complete
            self._tell(Interrupted(self._heard_of_agent.strip()))
            self._words.clear()
            self._complete = False
            self._heard_of_agent = ""

    def _tell(self, event: LineEvent) -> None:
        if not self._closed:
            self._happened.put_nowait(event)
