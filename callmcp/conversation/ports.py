"""What a talk needs of the world: somebody to think, and a line to speak over."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from callmcp.calls.model import EndReason, Turn
from callmcp.conversation.events import LineEvent, Piece
from callmcp.conversation.outcome import Judgement
from callmcp.conversation.prompt import Brief


class LanguageModel(Protocol):
    def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        """What the agent says and does next, piece by piece as it comes. `turns` are what was really heard.

        It is cancelled when the callee speaks again, or it is too slow. Any error it raises brings in the next model.
        """

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:
        """Whether the goal of the call was met and what the answers to the brief's questions are, by what was said.
        `ended` None: nobody knows who hung up."""


class Models(Protocol):
    async def named(self, reference: str) -> LanguageModel:
        """The language model of that name (agents.model.Agent.model); the first time may take seconds. Raises
        BadConfiguration when there is none."""


class Line(Protocol):
    """An answered call, as the talk sees it. What is done to a line that has closed is no error and has no effect."""

    def events(self) -> AsyncIterator[LineEvent]:
        """LineOpened, then what happens; LineClosed or LineLost is the last. Iterated once."""

    async def say(self, text: str, *, last: bool, interruptible: bool = True) -> None:
        """Queues a piece of the agent's line and returns at once. `last` ends the line, also with no words."""

    async def send_digits(self, digits: str) -> None:
        """Presses keys: 0-9, *, # and w for half a second's pause."""

    async def end(self, reason: EndReason) -> None:
        """Hangs up. LineClosed follows."""
