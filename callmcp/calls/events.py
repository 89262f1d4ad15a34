"""What can happen to a call: frozen facts, in the past tense. What each does to a call is `state.py`'s to say."""

from dataclasses import dataclass
from datetime import datetime

from callmcp.calls.model import AnsweredBy, CallError, EndReason, Outcome, Recording, Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved(Event):
    """A person said yes to a call that waits for one."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disapproved(Event):
    """A call that waits is not to be dialled: declined, expired, or ended by whoever wanted it."""

    reason: EndReason
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """A process takes it upon itself to dial what was approved. `carries`: the call lives in it from now on."""

    by: str
    carries: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(Event):
    """The carrier took the call and named it."""

    carrier_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled(Event):
    """The carrier began to dial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ringing(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """Somebody or something picked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected(Event):
    """Who or what answered has been told apart."""

    answered_by: AnsweredBy


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSpoken(Event):
    """One side said something, and the other heard it."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptedOut(Event):
    """The callee asked never to be called again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosed(Event):
    """Whoever answered has heard to its end that an AI speaks, and for whom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoicemailLeft(Event):
    """A machine has heard the message to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Event):
    """The carrier tells of its recording of the call."""

    recording: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkBroke(Event):
    """The connection that carried the talk is gone and the line is still up: the talk is taken up again, but not for
    ever. `reason` and `error` are how the call ends then."""

    reason: EndReason
    error: CallError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequested(Event):
    """A client or an operator wants the call to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving(Event):
    """The talk is over for this reason, and the line is being hung up. The carrier's word that it is down follows."""

    reason: EndReason
    error: CallError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """The carrier was asked about a call that had gone quiet, and says that it is still under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreported(Event):
    """The carrier took the call and does not report on it by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HungUp(Event):
    """An answered call ended. `reason` None: the carrier does not say who hung up. `error` is what on our side made
    the agent hang up, if something did."""

    reason: EndReason | None = None
    error: CallError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled(Event):
    """The call ended before anybody answered, because we wanted it to. `reason` None: as was laid down before."""

    reason: EndReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBusy(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAnswered(Event):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailed(Event):
    """The carrier refused the call, or took it and could not complete it, or a rule said no when it was to be dialled.
    `reason` tells which."""

    reason: EndReason
    error: CallError


@dataclass(frozen=True, slots=True, kw_only=True)
class FellSilent(Event):
    """The carrier may have dialled and does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp(Event):
    """The carrier has been silent for too long; nothing more is expected of this call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLost(Event):
    """The process that carried the call is gone, and the call with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """Whether the goal was met has been decided; comes during the call or after its end."""

    outcome: Outcome
