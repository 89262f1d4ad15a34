"""Who speaks when. Events in, actions out: no I/O, no clock; the time comes with each event.

The agent opens; then it listens, thinks (a model answers) and speaks (the line plays the answer) in turn. A line of
the agent is recorded when it has been heard, and only as far as it was heard; an utterance of the callee when the
agent takes it up, so that one that came in pieces is one turn. Every talk ends in exactly one Finish: limits on
silence, answers and seconds see to that whatever the callee, the model and the line do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from callmcp.calls import events as facts
from callmcp.calls.model import NO_PERSON, AnsweredBy, CallError, EndReason, Speaker, Turn
from callmcp.conversation.events import (
    Action,
    AnswerFailed,
    Answering,
    AnswerOver,
    AskModel,
    Claim,
    Digit,
    EndCall,
    Event,
    Finish,
    Heard,
    Interrupted,
    LineClosed,
    LineLost,
    LineOpened,
    NoteAnswer,
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
from callmcp.conversation.manners import Manners
from callmcp.conversation.optout import asks_not_to_be_called
from callmcp.conversation.transcript import Transcript

MODEL_FAILED = CallError(
    code="model_failed",
    message="The voice agent's language model failed or was too slow, and the agent ended the call.",
)
_UNSPOKEN = str.maketrans("", "", "*`~")  # the markup that models fall into; a voice reads it aloud
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
    voicemail: bool = False
    error: CallError | None = None


class Session:
    """One talk. `receive` takes what happened and returns what to do, in order.

    `disclosure` is the part of the first words that is reported when it was heard to its end. `voicemail` is what is
    left on a machine, None to hang up on one; `models` is how many language models there are to ask, one after the
    other fails. A talk whose line broke goes on as a new session from its `turns`.
    """

    def __init__(
        self,
        *,
        opening: str,
        disclosure: str = "",
        voicemail: str | None = None,
        models: int = 1,
        turns: Sequence[Turn] = (),
        manners: Manners | None = None,
    ) -> None:
        self.phase = Phase.NEW
        self.noted: dict[str, Claim] = {}
        """The answers that were taken down, by the name of the question."""
        self.model = 0
        """Which of the models is asked; one that failed is not asked again in this talk."""
        self._models = models
        self._opening = opening.strip()
        self._disclosure = disclosure
        self._disclosed = any(disclosure in turn.text for turn in turns)
        self._voicemail = voicemail
        self._voicemail_owed = False
        self._manners = manners or Manners()
        self._phrases = self._manners.phrases
        self._transcript = Transcript(turns)
        self._resumed = bool(turns)
        # What was said before the line broke, and nobody has answered.
        self._unanswered = turns[-1].text if turns and turns[-1].speaker is Speaker.CALLEE else ""
        self._actions: list[Action] = []
        self._now: datetime = _NEVER
        self._line_complete = True  # the last piece of the agent's line under way has been said
        # Whoever is on the line has not heard the opening to its end.
        self._opening_owed = not any(self._opening in turn.text for turn in turns)
        self._keys = ""
        self._answer = 0  # the number of the present answer; events of another are stale
        self._answers = sum(turn.speaker is Speaker.AGENT for turn in turns)  # how many there were
        self._wait = 0  # likewise for waits
        self._silences = 0
        self._leaving: Leaving | None = None
        self._opted_out = False

    @property
    def transcript(self) -> Sequence[Turn]:
        """What was heard so far, the utterance that waits for its answer included, and what is being said."""
        return tuple(self._transcript)

    def receive(self, event: Event, now: datetime) -> Sequence[Action]:
        self._now = now
        if self.phase is not Phase.OVER:
            _HANDLERS[type(event)](self, event)
        actions, self._actions = self._actions, []
        return actions

    # The line.

    def _opened(self, _: LineOpened) -> None:
        if self.phase is Phase.NEW:
            self._say(self._phrases.resumed if self._resumed else "", last=True)

    def _speech_began(self, _: SpeechBegan) -> None:
        self._transcript.speech_began(self._now)
        if self.phase is Phase.LISTENING:
            self._wait_for(self._manners.speech)

    def _heard(self, event: Heard) -> None:
        if not event.text.strip():
            return
        self._transcript.hear(event.text.strip(), self._now)
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
            self._after_line()
            return
        self._leaving = None
        self._listen()

    def _spoken(self, _: Spoken) -> None:
        if self.phase is Phase.SPEAKING and self._line_complete:
            is_voicemail = self._leaving is not None and self._leaving.voicemail and not self._voicemail_owed
            self._record_line(self._transcript.line)
            if is_voicemail:
                self._actions.append(Report(facts.VoicemailLeft(at=self._now)))
            self._after_line()

    def _recognised(self, event: Recognised) -> None:
        self._actions.append(Report(facts.Detected(at=self._now, answered_by=event.answered_by)))
        if event.answered_by not in NO_PERSON or self.phase is Phase.ENDING:
            return
        if self._voicemail is None or event.answered_by is not AnsweredBy.MACHINE:
            self._end(EndReason.MACHINE)
        elif self._leaving is None or not self._leaving.voicemail:
            self._leave_voicemail()

    def _closed(self, event: LineClosed) -> None:
        leaving = self._leaving
        decided = leaving is not None and (self.phase is Phase.ENDING or leaving.voicemail)
        reason = leaving.reason if leaving is not None and decided else event.reason
        error = leaving.error if leaving is not None else None
        # A line that closes and not by us was closed from the other side, as far as a talk can know.
        end = facts.HungUp(at=self._now, reason=reason or EndReason.CALLEE_HUNG_UP, error=error)
        self._finish(end, heard=event.heard)

    def _lost(self, event: LineLost) -> None:
        if self.phase is Phase.ENDING:
            self._closed(LineClosed(heard=event.heard))
        else:
            self._finish(None, heard=event.heard)

    # The model.

    def _answering(self, event: Answering) -> None:
        if event.answer != self._answer or self.phase not in {Phase.THINKING, Phase.SPEAKING}:
            return
        match event.piece:
            case str() as words:
                words = words.translate(_UNSPOKEN)
                if not words:
                    return
                self._say(words, last=False)
                if len(self._transcript.line) > self._manners.answer_characters:
                    self._stop_model()
                    self._complete_line()
                else:
                    self._wait_for(self._manners.thinking)
            case PressKeys(digits):
                self._keys += digits
            case NoteOptOut():
                self._note_opt_out()
                self._leaving = Leaving(firm=True)
            case NoteAnswer(claim):
                self._note_answer(claim)
            case _:  # EndTheCall
                self._leaving = self._leaving or Leaving(firm=False)

    def _answer_over(self, event: AnswerOver) -> None:
        if event.answer != self._answer:
            return
        if self.phase is Phase.SPEAKING:
            self._complete_line()
        elif self.phase is Phase.THINKING and self._opted_out and self._leaving is not None:
            self._leave(self._phrases.opted_out)  # who asks for that hears that it was understood
        elif self.phase is Phase.THINKING:
            self._record_utterance()
            self._after_line()

    def _answer_failed(self, event: AnswerFailed) -> None:
        if event.answer != self._answer or self.phase not in {Phase.THINKING, Phase.SPEAKING}:
            return
        if self._leaving is not None:  # it had said that it was done
            self._answer_over(AnswerOver(event.answer))
        elif self.model + 1 < self._models:
            # It goes on in the middle of the line, if there is one.
            self.model += 1
            self._keys = ""
            self._ask()
        else:
            self._keys = ""
            self._leave(self._phrases.failed, error=MODEL_FAILED)

    # Time.

    def _wait_over(self, event: WaitOver) -> None:
        if event.wait != self._wait:
            return
        if self.phase is Phase.LISTENING:
            self._break_silence()
        elif self.phase is Phase.THINKING:
            self._say(f"{self._phrases.filler} ", last=False)
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
        heard = f"{self._unanswered} {self._transcript.utterance}"
        self._unanswered = ""
        if asks_not_to_be_called(heard):
            self._note_opt_out()
            self._leave(self._phrases.opted_out)
        elif self._answers >= self._manners.answers:
            self._leave(self._phrases.enough)
        else:
            self.phase = Phase.THINKING
            self._keys = ""
            self._answers += 1
            self._ask()

    def _ask(self) -> None:
        self._answer += 1
        self._actions.append(AskModel(self._answer, self.model))
        self._wait_for(self._manners.thinking)

    def _say(self, words: str, *, last: bool, interruptible: bool = True) -> None:
        """The next words of the line, or the first; the opening goes before them while it is owed."""
        begins = self.phase is not Phase.SPEAKING
        if begins:
            self._transcript.begin_line(self._now)
            owed = self._opening if self._opening_owed and self._leaving is None else ""
            words = f"{owed} {words}" if owed and words else owed or words
        elif last and self._transcript.line and not self._transcript.line[-1].isspace():
            words = f" {words}"
        self._actions.append(Say(words, last, interruptible))
        self._transcript.line += words
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
        self._wait_for_last(words)

    def _leave_voicemail(self) -> None:
        """After the line under way, which the machine has recorded in part: to break it off takes as long."""
        self._stop_model()
        self._leaving = Leaving(reason=EndReason.MACHINE, firm=True, voicemail=True)
        self._voicemail_owed = True
        self._keys = ""
        if self.phase is not Phase.SPEAKING:
            self._say_voicemail()
        elif not self._line_complete:
            self._complete_line()

    def _say_voicemail(self) -> None:
        words = self._voicemail or ""
        self._voicemail_owed = False
        self.phase = Phase.LISTENING  # a line of its own
        self._say(words, last=True, interruptible=False)
        self._wait_for_last(words)

    def _after_line(self) -> None:
        """The agent has said what it had to say: what now?"""
        if self._keys:
            self._actions.append(SendDigits(self._keys))
            self._record(self._transcript.press(self._keys, self._now))
            self._keys = ""
            self._opening_owed = True  # a key leads to somebody else
        if self._voicemail_owed:
            self._say_voicemail()
        elif self._leaving is not None:
            self._end(self._leaving.reason)
        elif self._transcript.utterance or self._unanswered:
            self._take_up()
        else:
            self._listen()

    def _listen(self) -> None:
        self.phase = Phase.LISTENING
        self._wait_for(self._manners.silence)

    def _break_silence(self) -> None:
        if self._silences < len(self._phrases.still_there):
            self._say(self._phrases.still_there[self._silences], last=True)
            self._silences += 1
        else:
            self._leave(self._phrases.nobody)

    def _end(self, reason: EndReason) -> None:
        self._stop_model()
        self._leaving = Leaving(reason=reason, firm=True, error=self._leaving.error if self._leaving else None)
        self.phase = Phase.ENDING
        self._actions.append(EndCall(reason))
        self._wait_for(self._manners.hanging_up)

    def _finish(self, end: facts.HungUp | None, *, heard: str) -> None:
        self._stop_model()
        self._record_line(heard)
        self._record_utterance()
        self.phase = Phase.OVER
        self._actions.append(Finish(end))

    def _note_opt_out(self) -> None:
        if not self._opted_out:
            self._opted_out = True
            self._actions.append(Report(facts.OptedOut(at=self._now)))

    def _note_answer(self, claim: Claim) -> None:
        """With the turn that it was said in, when the model does not name one."""
        said = [turn.index for turn in self.transcript if turn.speaker is Speaker.CALLEE]
        evidence = claim.evidence if claim.evidence is not None else next(reversed(said), None)
        self.noted[claim.name] = replace(claim, evidence=evidence)

    def _stop_model(self) -> None:
        self._answer += 1
        self._actions.append(StopModel())

    def _wait_for(self, seconds: float) -> None:
        self._wait += 1
        self._actions.append(Wait(self._wait, seconds))

    def _wait_for_last(self, words: str) -> None:
        self._wait_for(self._manners.farewell + self._manners.character * len(words))

    def _stop_waiting(self) -> None:
        self._wait += 1

    # The record.

    def _record_line(self, heard: str) -> None:
        self._line_complete = True
        if self.phase is Phase.SPEAKING:
            self.phase = Phase.LISTENING
        self._opening_owed = self._opening_owed and self._opening not in heard
        if self._disclosure and not self._disclosed and self._disclosure in heard:
            self._disclosed = True
            self._actions.append(Report(facts.Disclosed(at=self._now)))
        self._record(self._transcript.end_line(heard))

    def _record_utterance(self) -> None:
        self._record(self._transcript.take_up())

    def _record(self, turn: facts.TurnSpoken | None) -> None:
        if turn is not None:
            self._actions.append(Report(turn))


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
