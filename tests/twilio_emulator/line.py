"""The sound on the line as the callee has it: what they heard of the agent, and what they said and pressed."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(slots=True)
class Turn:
    """`by` is agent, callee, or carrier (a <Say> or <Play> of TwiML). `text` is what was heard, and no more."""

    by: str
    text: str = ""
    interrupted: bool = False
    digits: str = ""


class Listener(Protocol):
    """Twilio's ear on the line: a ConversationRelay session."""

    def speech_begins(self) -> bool:
        """The callee opens their mouth, which may cut the agent short: will what they say be reported?"""

    async def hears(self, text: str) -> None:
        """Takes as long as the saying of it."""

    def digit(self, digit: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Moment:
    turns: int
    finished: int
    words: int


class Line:
    def __init__(self, changed: Callable[[], None]) -> None:
        self.turns: list[Turn] = []
        self.listener: Listener | None = None
        self.speaking = False  # the agent is, or is about to
        self.pending = True  # it was picked up, and what there is to hear is not there yet
        self.dead = False  # someone hung up: nothing more is heard
        self._changed = changed
        self._words: list[str] = []
        self._finished = 0
        self._open: Turn | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def now(self) -> Moment:
        return Moment(len(self.turns), self._finished, len(self._words))

    def heard_since(self, moment: Moment) -> str:
        return " ".join(word.strip() for word in self._words[moment.words :])

    def words_since(self, moment: Moment) -> int:
        return len(self._words) - moment.words

    def finished_since(self, moment: Moment) -> int:
        return self._finished - moment.finished

    def agent_word(self, word: str, by: str = "agent") -> None:
        """One more word was played to its end; its leading space belongs to it."""
        if self.dead:
            return
        if self._open is None:
            self._open = Turn(by)
            self.turns.append(self._open)
        self._open.text += word
        self._words.append(word)
        self.notify()

    def agent_ends(self, *, interrupted: bool = False) -> None:
        """The agent's turn is over, or was cut short."""
        if self._open is not None:
            self._open.text = self._open.text.strip()
            self._open.interrupted = interrupted
            self._open = None
        self._finished += 1
        self.notify()

    def agent_presses(self, digits: str) -> None:
        if not self.dead:
            self.turns.append(Turn("agent", digits=digits))
        self.notify()

    def callee_said(self, text: str) -> None:
        self.turns.append(Turn("callee", text))
        self.notify()

    def callee_pressed(self, digit: str) -> None:
        self.turns.append(Turn("callee", digits=digit))
        self.notify()

    def die(self) -> None:
        self.dead = True
        self.notify()

    def connected(self) -> None:
        if self.pending:
            self.pending = False
            self.notify()

    def notify(self) -> None:
        """Wakes those whose moment has come, in this very step: the next word waits for them."""
        for holds, future in list(self._waiting):
            if not future.done() and holds():
                future.set_result(None)
        self._changed()

    async def until(self, holds: Callable[[], bool]) -> None:
        if holds():
            return
        waiting = (holds, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.remove(waiting)

    def transcript(self) -> list[dict[str, Any]]:
        return [asdict(turn) for turn in self.turns]
