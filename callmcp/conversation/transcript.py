"""What was heard of a talk, turn by turn, and beside it what has been said and is no turn yet."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from callmcp.calls.events import TurnSpoken
from callmcp.calls.model import Speaker, Turn

_NEVER = datetime.min.replace(tzinfo=UTC)


class Transcript:
    """A line of the agent becomes a turn when it has been heard, and only as far as it was heard; an utterance of the
    callee, which may come in pieces, when the agent takes it up."""

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self._turns = list(turns)
        self.line = ""
        """What the agent has said of its line under way."""
        self._line_began = _NEVER
        self._utterance: list[str] = []
        self._heard_at = _NEVER
        self._speech_began_at: datetime | None = None

    def __iter__(self) -> Iterator[Turn]:
        """The turns, and then what is being said and what waits for its answer, as if it were heard already."""
        yield from self._turns
        index = len(self._turns)
        said = ((Speaker.AGENT, self._line_began, self.line.strip()), (Speaker.CALLEE, self._heard_at, self.utterance))
        for speaker, at, text in said:
            if text:
                yield Turn(index=index, at=at, speaker=speaker, text=text)
                index += 1

    @property
    def utterance(self) -> str:
        """What the callee has said and the agent has not taken up."""
        return " ".join(self._utterance)

    def speech_began(self, now: datetime) -> None:
        self._speech_began_at = now

    def hear(self, text: str, now: datetime) -> None:
        """The callee said this; it is dated by when the speech began."""
        if not self._utterance:
            self._heard_at = self._speech_began_at or now
        self._speech_began_at = None
        self._utterance.append(text)

    def begin_line(self, now: datetime) -> None:
        self.line, self._line_began = "", now

    def end_line(self, heard: str) -> TurnSpoken | None:
        """The agent's line, as far as it was heard. None: nothing was."""
        self.line = ""
        return self._turn(Speaker.AGENT, heard, self._line_began)

    def take_up(self) -> TurnSpoken | None:
        """The callee's utterance. None: there is none."""
        text, self._utterance = self.utterance, []
        return self._turn(Speaker.CALLEE, text, self._heard_at)

    def press(self, digits: str, now: datetime) -> TurnSpoken | None:
        """Keys that the agent pressed stand in the transcript like words."""
        return self._turn(Speaker.AGENT, f"[pressed {digits}]", now)

    def _turn(self, speaker: Speaker, text: str, at: datetime) -> TurnSpoken | None:
        text = text.strip()
        if not text:
            return None
        self._turns.append(Turn(index=len(self._turns), at=at, speaker=speaker, text=text))
        return TurnSpoken(at=at, speaker=speaker, text=text)
