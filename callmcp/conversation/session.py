"""Who speaks when. Events in, actions out: no I/O, no clock; the time comes with each event.

The agent opens; then it listens, thinks (a model answers) and speaks (the line plays the answer) in turn. A line of
the agent is recorded when it has been heard, and only as far as it was heard; an utterance of the callee when the
agent takes it up, so that one that came in pieces is one turn. Every talk ends in exactly one Finish: limits on
silence, answers and seconds see to that whatever the callee, the model and the line do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from callmcp.calls import events as facts
from callmcp.calls.model import AnsweredBy, CallError, EndReason, Speaker, Turn
from callmcp.conversation.events import (
    Action,
    AnswerFailed,
    Answering,
    AnswerOver,
    AskModel,
    Digit,
    EndCall,
    Event,
    Finish,
    Heard,
    Interrupted,
    LineClosed,
    LineLost,
    LineOpened,
    NoteOptOut,
    PressKeys,
    Recognised,
    Report,
    Say,
    SendDigits,
    SpeechBegan,
    Spoken,
    StopModel,
    TimeUp,
    Wait,
    WaitOver,
)
from callmcp.conversation.optout import asks_not_to_be_called


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """The limits of a talk, in seconds and counts, and the words the agent has of its own when no model speaks.

    `silence`: how long nothing may be heard. `speech`: how long the callee may speak without a word recognised.
    `thinking`: how long a model may keep everybody waiting, first for the filler and then for good. `farewell` and
    `hanging_up`: how long to wait until last words are heard, and until the line says that it has closed.
    """

    silence: float = 6
    speech: float = 60
    thinking: float = 6
    farewell: float = 20
    hanging_up: float = 5
    answers: int = 100
    answer_characters: int = 4000
    still_there: Sequence[str] = ("Hello? Is somebody there?", "I cannot hear anybody. Are you still there?")
    nobody: str = "I cannot hear you, so I will end the call here. Goodbye."
    filler: str = "One moment, please."
    enough: str = "I have to end the call here. Thank you for your time. Goodbye."
    opted_out: str = "I am sorry to have disturbed you. I have noted that you do not want to be called again. Goodbye."
    failed: str = "I am sorry, I have a technical problem and must end the call here. Goodbye."


MODEL_FAILED = CallError(
    code="model_failed",
    message="The voice agent's language model failed or was too slow, and the agent ended the call.",
)
LINE_LOST = CallError(code="line_lost", message="The connection that carried the talk broke in the middle of it.")


_NEVER = datetime.min.replace(tzinfo=UTC)


class Phase(Enum):
    NEW = auto()
    LISTENING = auto()
    THINKING = auto()
    SPEAKING = auto()
    ENDING = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Why the call ends once the present line has been heard. `firm`: an interruption does not change that."""

    reason: EndReason = EndReason.AGENT_HUNG_UP
    firm: bool
    error: CallError | None = None


class Session:
    """One talk. `receive` takes what happened and returns what to do, in order."""

    def __init__(self, *, opening: str, manners: Manners | None = None) -> None:
        self.phase = Phase.NEW
        self._opening = opening.strip()
        self._manners = manners or Manners()
        self._turns: list[Turn] = []
        self._actions: list[Action] = []
        self._now: datetime = _NEVER
        self._line = ""  # what the agent has said of its line under way
        self._line_began: datetime = _NEVER
        self._line_complete = True  # its last piece has been said
        self._utterance: list[str] = []  # what the callee said and the agent has not taken up
        self._heard_at: datetime = _NEVER
        self._speech_began_at: datetime | None = None
        self._opening_owed = True  # whoever is on the line has not heard the opening to its end
        self._keys = ""
        self._answer = 0  # the number of the present answer; events of another are stale
        self._answers = 0  # how many there were
        self._wait = 0  # likewise for waits
        self._silences = 0
        self._leaving: Leaving | None = None
        self._opted_out = False

    @property
    def transcript(self) -> Sequence[Turn]:
        """What was heard so far, the utterance that waits for its answer included."""
        pending = Turn(index=len(self._turns), at=self._heard_at, speaker=Speaker.CALLEE, text=self._pending)
        return (*self._turns, pending) if pending.text else tuple(self._turns)

    def receive(self, event: Event, now: datetime) -> Sequence[Action]:
        self._now = now
        if self.phase is not Phase.OVER:
            _HANDLERS[type(event)](self, event)
        actions, self._actions = self._actions, []
        return actions

    # The line.

    def _opened(self, _: LineOpened) -> None:
        if self.phase is Phase.NEW:
            self._say("", last=True)

    def _speech_began(self, _: SpeechBegan) -> None:
        self._speech_began_at = self._now
        if self.phase is Phase.LISTENING:
            self._wait_for(self._manners.speech)

    def _heard(self, event: Heard) -> None:
        if not event.text.strip():
            return
        if not self._utterance:
            self._heard_at = self._speech_began_at or self._now
        self._speech_began_at = None
        self._utterance.append(event.text.strip())
        self._silences = 0
        if self.phase is Phase.LISTENING or (self.phase is Phase.THINKING and self._leaving is None):
            self._take_up()
        elif self.phase is Phase.SPEAKING and self._leaving is None and not self._line_complete:
            self._stop_model()  # the answer is stale; what was said of it is heard out
            self._keys = ""
            self._complete_line()

    def _digit(self, event: Digit) -> None:
        self._heard(Heard(f"[pressed {event.digit}]"))

    def _interrupted(self, event: Interrupted) -> None:
        if self.phase is not Phase.SPEAKING:
            return
        self._stop_model()
        self._keys = ""
        if not self._line_complete:
            self._actions.append(Say("", last=True))
        self._record_line(event.heard)
        if self._leaving is not None and self._leaving.firm:
            self._end(self._leaving.reason)
            return
        self._leaving = None
        self._listen()

    def _spoken(self, _: Spoken) -> None:
        if self.phase is Phase.SPEAKING and self._line_complete:
            self._record_line(self._line)
            self._after_line()

    def _recognised(self, event: Recognised) -> None:
        self._actions.append(Report(facts.Detected(at=self._now, answered_by=event.answered_by)))
        if event.answered_by in {AnsweredBy.MACHINE, AnsweredBy.FAX} and self.phase is not Phase.ENDING:
            self._end(EndReason.MACHINE)

    def _closed(self, event: LineClosed) -> None:
        leaving = self._leaving
        reason = leaving.reason if leaving is not None and self.phase is Phase.ENDING else event.reason
        error = leaving.error if leaving is not None else None
        # A line that closes and not by us was closed from the other side, as far as a talk can know.
        end = facts.HungUp(at=self._now, reason=reason or EndReason.CALLEE_HUNG_UP, error=error)
        self._finish(end, heard=event.heard)

    def _lost(self, event: LineLost) -> None:
        if self.phase is Phase.ENDING:
            self._closed(LineClosed(heard=event.heard))
        else:
            lost = facts.DialFailed(at=self._now, reason=EndReason.CARRIER_FAILED, error=LINE_LOST)
            self._finish(lost, heard=event.heard)

    # The model.

    def _answering(self, event: Answering) -> None:
        if event.answer != self._answer or self.phase not in {Phase.THINKING, Phase.SPEAKING}:
            return
        match event.piece:
            case "":
                pass
            case str() as words:
                self._say(words, last=False)
                if len(self._line) > self._manners.answer_characters:
                    self._stop_model()
                    self._complete_line()
                else:
                    self._wait_for(self._manners.thinking)
            case PressKeys(digits):
                self._keys += digits
            case NoteOptOut():
                self._note_opt_out()
                self._leaving = Leaving(firm=True)
            case _:  # EndTheCall
                self._leaving = self._leaving or Leaving(firm=False)

    def _answer_over(self, event: AnswerOver) -> None:
        if event.answer != self._answer:
            return
        if self.phase is Phase.SPEAKING:
            self._complete_line()
        elif self.phase is Phase.THINKING:
            self._record_utterance()
            self._after_line()

    def _answer_failed(self, event: AnswerFailed) -> None:
        if event.answer == self._answer and self.phase in {Phase.THINKING, Phase.SPEAKING}:
            self._keys = ""
            self._leave(self._manners.failed, error=MODEL_FAILED)

    # Time.

    def _wait_over(self, event: WaitOver) -> None:
        if event.wait != self._wait:
            return
        if self.phase is Phase.LISTENING:
            self._break_silence()
        elif self.phase is Phase.THINKING:
            self._say(f"{self._manners.filler} ", last=False)
            self._wait_for(self._manners.thinking)
        elif self.phase is Phase.SPEAKING and not self._line_complete:
            self._answer_failed(AnswerFailed(self._answer))
        elif self.phase is Phase.SPEAKING and self._leaving is not None:
            self._end(self._leaving.reason)
        else:  # it was to close
            self._closed(LineClosed())

    def _time_up(self, _: TimeUp) -> None:
        if self.phase is not Phase.ENDING:
            self._end(EndReason.MAX_DURATION)

    # What those have in common.

    def _take_up(self) -> None:
        """Answers what the callee said."""
        if asks_not_to_be_called(self._pending):
            self._note_opt_out()
            self._leave(self._manners.opted_out)
        elif self._answers >= self._manners.answers:
            self._leave(self._manners.enough)
        else:
            self.phase = Phase.THINKING
            self._keys = ""
            self._answer += 1
            self._answers += 1
            self._actions.append(AskModel(self._answer))
            self._wait_for(self._manners.thinking)

    def _say(self, words: str, *, last: bool) -> None:
        """The next words of the line, or the first; the opening goes before them while it is owed."""
        begins = self.phase is not Phase.SPEAKING
        if begins:
            self._line, self._line_began = "", self._now
            owed = self._opening if self._opening_owed and self._leaving is None else ""
            words = f"{owed} {words}" if owed and words else owed or words
        elif self._line and not self._line[-1].isspace() and last:
            words = f" {words}"
        self._actions.append(Say(words, last))
        self._line += words
        self._line_complete = last
        self.phase = Phase.SPEAKING
        self._stop_waiting()
        if begins:
            self._record_utterance()

    def _complete_line(self) -> None:
        self._actions.append(Say("", last=True))
        self._line_complete = True
        self._stop_waiting()
        if self._leaving is not None:
            self._wait_for(self._manners.farewell)

    def _leave(self, words: str, *, error: CallError | None = None) -> None:
        """Says a last thing; the call ends when it has been heard, whatever the callee does."""
        self._stop_model()
        self._leaving = Leaving(firm=True, error=error)
        self._say(words, last=True)
        self._wait_for(self._manners.farewell)

    def _after_line(self) -> None:
        """The agent has said what it had to say: what now?"""
        if self._keys:
            self._actions.append(SendDigits(self._keys))
            self._record(Speaker.AGENT, f"[pressed {self._keys}]", self._now)
            self._keys = ""
            self._opening_owed = True  # a key leads to somebody else
        if self._leaving is not None:
            self._end(self._leaving.reason)
        elif self._utterance:
            self._take_up()
        else:
            self._listen()

    def _listen(self) -> None:
        self.phase = Phase.LISTENING
        self._wait_for(self._manners.silence)

    def _break_silence(self) -> None:
        if self._silences < len(self._manners.still_there):
            self._say(self._manners.still_there[self._silences], last=True)
            self._silences += 1
        else:
            self._leave(self._manners.nobody)

    def _end(self, reason: EndReason) -> None:
        self._stop_model()
        self._leaving = Leaving(reason=reason, firm=True, error=self._leaving.error if self._leaving else None)
        self.phase = Phase.ENDING
        self._actions.append(EndCall())
        self._wait_for(self._manners.hanging_up)

    def _finish(self, end: facts.HungUp | facts.DialFailed, *, heard: str) -> None:
        self._stop_model()
        self._record_line(heard)
        self._record_utterance()
        self.phase = Phase.OVER
        self._actions.append(Finish(end))

    def _note_opt_out(self) -> None:
        if not self._opted_out:
            self._opted_out = True
            self._actions.append(Report(facts.OptedOut(at=self._now)))

    def _stop_model(self) -> None:
        self._answer += 1
        self._actions.append(StopModel())

    def _wait_for(self, seconds: float) -> None:
        self._wait += 1
        self._actions.append(Wait(self._wait, seconds))

    def _stop_waiting(self) -> None:
        self._wait += 1

    # The record.

    @property
    def _pending(self) -> str:
        return " ".join(self._utterance)

    def _record_line(self, heard: str) -> None:
        self._line, self._line_complete = "", True
        if self.phase is Phase.SPEAKING:
            self.phase = Phase.LISTENING
        self._opening_owed = self._opening_owed and self._opening not in heard
        self._record(Speaker.AGENT, heard, self._line_began)

    def _record_utterance(self) -> None:
        text, self._utterance = self._pending, []
        self._record(Speaker.CALLEE, text, self._heard_at)

    def _record(self, speaker: Speaker, text: str, at: datetime) -> None:
        text = text.strip()
        if text:
            self._turns.append(Turn(index=len(self._turns), at=at, speaker=speaker, text=text))
            self._actions.append(Report(facts.TurnSpoken(at=at, speaker=speaker, text=text)))


_HANDLERS: Mapping[type[Event], Callable[[Session, Any], None]] = {
    LineOpened: Session._opened,
    SpeechBegan: Session._speech_began,
    Heard: Session._heard,
    Digit: Session._digit,
    Interrupted: Session._interrupted,
    Spoken: Session._spoken,
    Recognised: Session._recognised,
    LineClosed: Session._closed,
    LineLost: Session._lost,
    Answering: Session._answering,
    AnswerOver: Session._answer_over,
    AnswerFailed: Session._answer_failed,
    WaitOver: Session._wait_over,
    TimeUp: Session._time_up,
}
