"""What a talk needs of the world: somebody to think, and a line to speak over."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from callmcp.calls.model import EndReason, Outcome, Turn
from callmcp.conversation.events import LineEvent, Piece
from callmcp.conversation.prompt import Brief


class LanguageModel(Protocol):
    def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        """What the agent says and does next, piece by piece as it comes. `turns` are what was really heard.

        It is cancelled when the callee speaks again. Any error it raises ends the call politely.
        """

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Outcome:
        """Whether the goal of the call was met, by what was said. `ended` None: nobody knows who hung up."""


class Line(Protocol):
    """An answered call, as the talk sees it. What is done to a line that has closed is no error and has no effect."""

    def events(self) -> AsyncIterator[LineEvent]:
        """LineOpened, then what happens; LineClosed or LineLost is the last. Iterated once."""

    async def say(self, text: str, *, last: bool) -> None:
        """Queues a piece of the agent's line and returns at once. `last` ends the line, also with no words."""

    async def send_digits(self, digits: str) -> None:
        """Presses keys: 0-9, *, # and w for half a second's pause."""

    async def end(self) -> None:
        """Hangs up. LineClosed follows."""
