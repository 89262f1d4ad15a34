"""A callee whose words are a language model's: to hear how a voice agent does with somebody who is not on a script."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from callmcp.calls.model import Speaker, Turn
from callmcp.conversation.events import Piece
from callmcp.conversation.ports import Models
from callmcp.conversation.prompt import Brief

RULES = """\
How you speak and act:
- Your phone rang, you picked up, and you do not know who is calling. You are the one who was called, never the caller.
- Your words are spoken aloud. One or two short sentences at a time; no lists, no markup, no stage directions.
- Answer what you are asked as this person would. When the talk is over, say goodbye and end the call."""


class Played:
    """`reference` names the model, as an agent's does; `instructions` say who the callee is."""

    def __init__(self, models: Models, reference: str, instructions: str) -> None:
        self._models = models
        self._reference = reference
        self._brief = Brief(name="the callee", context="", instructions=f"{instructions}\n\n{RULES}")

    async def reply(self, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        """What the callee says next. To the model, the agent is the other side."""
        model = await self._models.named(self._reference)
        async for piece in model.answer(self._brief, [_turned_round(turn) for turn in turns]):
            yield piece


def _turned_round(turn: Turn) -> Turn:
    return replace(turn, speaker=Speaker.CALLEE if turn.speaker is Speaker.AGENT else Speaker.AGENT)
