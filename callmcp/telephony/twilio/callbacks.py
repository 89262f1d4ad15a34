"""From what Twilio posts about a call to events. Pure: a form in, events out; whoever calls has checked the signature.

Callbacks come late, twice and in any order (TWILIO.md section 0.4); that is not sorted out here but by `state.apply`,
for which every one of them is a fact.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from callmcp.calls.events import (
    Accepted,
    Answered,
    Canceled,
    Detected,
    DialFailed,
    Dialled,
    Event,
    FoundBusy,
    HungUp,
    Leaving,
    NotAnswered,
    Ringing,
)
from callmcp.calls.model import AnsweredBy, CallError, EndReason

Form = Mapping[str, str]

ANSWERED_BY = {
    "human": AnsweredBy.HUMAN,
    "fax": AnsweredBy.FAX,
    "machine_start": AnsweredBy.MACHINE,
    "machine_end_beep": AnsweredBy.MACHINE,
    "machine_end_silence": AnsweredBy.MACHINE,
    "machine_end_other": AnsweredBy.MACHINE,
    "unknown": AnsweredBy.UNKNOWN,
}
NO_PERSON = frozenset({AnsweredBy.MACHINE, AnsweredBy.FAX})


def status_events(form: Form, now: datetime) -> Sequence[Event]:
    """A status callback, or a call as the REST API shows it with the same names. Empty for a status we do not know."""
    at = _moment(form, now)
    named = Accepted(at=at, carrier_id=form["CallSid"])
    moved = _moved(form, at)
    return [named] if moved is None else [named, *_answer(form, at), moved]


def amd_events(form: Form, now: datetime) -> Sequence[Event]:
    """The result of answering machine detection: who answered, and for a machine that the call is being hung up."""
    answered_by = ANSWERED_BY.get(form.get("AnsweredBy", ""))
    if answered_by is None:
        return []
    leaving = [Leaving(at=now, reason=EndReason.MACHINE)] if answered_by in NO_PERSON else []
    return [Detected(at=now, answered_by=answered_by), *leaving]


def _moved(form: Form, at: datetime) -> Event | None:
    match form.get("CallStatus"):
        case "queued":
            return None
        case "initiated":
            return Dialled(at=at)
        case "ringing":
            return Ringing(at=at)
        case "in-progress":
            return Answered(at=at)
        case "completed":
            return HungUp(at=at)
        case "busy":
            return FoundBusy(at=at)
        case "no-answer":
            return NotAnswered(at=at)
        case "canceled":
            return Canceled(at=at)
        case "failed":
            return DialFailed(at=at, reason=EndReason.CARRIER_FAILED, error=_failure(form))
        case _:
            return None


def _answer(form: Form, at: datetime) -> Sequence[Event]:
    """A final callback says how long the talk was, so when it began is known although `answered` was lost."""
    seconds = form.get("CallDuration", "")
    if form.get("CallStatus") != "completed" or not seconds.isdigit():
        return []
    began = datetime.fromtimestamp(at.timestamp() - int(seconds[:6]), UTC)
    return [Answered(at=began)]


def _failure(form: Form) -> CallError:
    code = form.get("ErrorCode") or form.get("SipResponseCode") or None
    words = form.get("ErrorMessage") or "The carrier could not complete the call."
    return CallError(code="carrier_failed", message=words[:500], carrier_code=code)


def _moment(form: Form, now: datetime) -> datetime:
    """When it happened, by Twilio's clock, to the second; never later than now."""
    try:
        at = parsedate_to_datetime(form.get("Timestamp", ""))
    except ValueError:
        return now
    return min(at.astimezone(UTC), now) if at.tzinfo is not None else now
