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
    """The line broke and will not come back. `heard` as in LineClosed."""

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


Piece = str | EndTheCall | PressKeys | NoteOptOut
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
    """A piece of the agent's line; `last` ends the line, also with no words of its own."""

    text: str
    last: bool


@dataclass(frozen=True, slots=True)
class SendDigits:
    digits: str


@dataclass(frozen=True, slots=True)
class AskModel:
    """Give up the answer under way, if any, and ask for one to the transcript as it now stands."""

    answer: int


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
    pass


@dataclass(frozen=True, slots=True)
class Finish:
    """The talk is over, and this is how it ended."""

    end: facts.HungUp | facts.DialFailed


Action = Say | SendDigits | AskModel | StopModel | Wait | Report | EndCall | Finish
