"""What happens in a talk, and what the session wants done about it: frozen values, no I/O.

Three things happen outside the session: on the line, in the language model, and with time. `Event` is all of them.
An `answer` or `wait` number says which question or wait an event belongs to; one that was given up is ignored.
"""

from dataclasses import dataclass

from callmcp.calls import events as facts
from callmcp.calls.model import AnsweredBy, EndReason

# On the line.


@dataclass(frozen=True, slots=True)
class LineOpened:
    """Somebody or something picked up and can be spoken to."""


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """The callee began to speak; the words follow as Heard when they are known."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The callee said this. One utterance may come as several of these."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The callee spoke or pressed a key over the agent. `heard` is what was heard of the agent's line until then;
    the rest of it, queued words included, will never be heard."""

    heard: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """The agent's line has been heard to its end. Comes once for each line, after the piece marked last."""


@dataclass(frozen=True, slots=True)
class Digit:
    """The callee pressed a key: 0-9, * or #."""

    digit: str


@dataclass(frozen=True, slots=True)
class Recognised:
    """Who or what picked up has been told apart."""

    answered_by: AnsweredBy


@dataclass(frozen=True, slots=True)
class LineClosed:
    """The call is over. `reason` None: the line does not know who hung up. `heard` is what was heard of the agent's
    line under way, "" when there was none."""

    reason: EndReason | None = None
    heard: str = ""


@dataclass(frozen=True, slots=True)
class LineLost:
    """The line broke; the carrier may bring the callee back on another. `heard` as in LineClosed."""

    heard: str = ""


LineEvent = LineOpened | SpeechBegan | Heard | Interrupted | Spoken | Digit | Recognised | LineClosed | LineLost

# In the language model: what it says and the tools it uses, piece by piece.


@dataclass(frozen=True, slots=True)
class EndTheCall:
    """Hang up once what was said has been heard."""


@dataclass(frozen=True, slots=True)
class PressKeys:
    """Press these keys once what was said has been heard: 0-9, *, # and w for half a second's pause."""

    digits: str


@dataclass(frozen=True, slots=True)
class NoteOptOut:
    """The callee does not want to be called again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a model takes the answer to a question to be, as it came: nothing of it is checked. `evidence` is to be the
    index of the turn that says so."""

    name: str
    value: object
    evidence: object = None


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """The callee has answered a question."""

    claim: Claim


Piece = str | EndTheCall | PressKeys | NoteOptOut | NoteAnswer
"""What a model answers with: words to say, or a tool it uses."""


@dataclass(frozen=True, slots=True)
class Answering:
    answer: int
    piece: Piece


@dataclass(frozen=True, slots=True)
class AnswerOver:
    answer: int


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    answer: int


# With time.


@dataclass(frozen=True, slots=True)
class WaitOver:
    wait: int


@dataclass(frozen=True, slots=True)
class TimeUp:
    """The call has lasted as long as it may."""


Event = LineEvent | Answering | AnswerOver | AnswerFailed | WaitOver | TimeUp

# What the session wants done.


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of the agent's line; `last` ends the line, also with no words of its own. What is not `interruptible` is
    heard whatever the other side does."""

    text: str
    last: bool
    interruptible: bool = True


@dataclass(frozen=True, slots=True)
class SendDigits:
    digits: str


@dataclass(frozen=True, slots=True)
class AskModel:
    """Give up the answer under way, if any, and ask for one to the transcript as it now stands. `model` counts the
    voice agent's models, the first being the one it wants."""

    answer: int
    model: int = 0


@dataclass(frozen=True, slots=True)
class StopModel:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    """Send WaitOver in so many seconds, in place of the wait before."""

    wait: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A fact for the call's record."""

    fact: facts.Event


@dataclass(frozen=True, slots=True)
class EndCall:
    """Hang up, for this reason."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class Finish:
    """The talk is over, and this is how it ended. None: the line broke; what becomes of the call is the carrier's."""

    end: facts.HungUp | None


Action = Say | SendDigits | AskModel | StopModel | Wait | Report | EndCall | Finish
