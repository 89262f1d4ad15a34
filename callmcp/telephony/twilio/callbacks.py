"""From what Twilio posts about a call to events. Pure: a form in, events out; whoever calls has checked the signature.

Callbacks come late, twice and in any order (TWILIO.md section 0.4); that is not sorted out here but by `state.apply`,
for which every one of them is a fact.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
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
    Recorded,
    Ringing,
    TalkBroke,
)
from callmcp.calls.model import NO_PERSON, AnsweredBy, Call, CallError, EndReason, Recording, RecordingStatus

Form = Mapping[str, str]

RELAY_UNREACHABLE = CallError(
    code="relay_unreachable",
    message="The call was answered, but the carrier could not connect the talk to this server. Whoever runs the "
    "server should check its public URL: callmcp doctor.",
)
TALK_LOST = CallError(
    code="talk_lost",
    message="The connection that carried the talk broke again and again, and the call was hung up.",
)
_CANNOT_CONNECT = frozenset({"64102", "39001"})

ANSWERED_BY = {
    "human": AnsweredBy.HUMAN,
    "fax": AnsweredBy.FAX,
    "machine_start": AnsweredBy.MACHINE,
    "machine_end_beep": AnsweredBy.MACHINE,
    "machine_end_silence": AnsweredBy.MACHINE,
    "machine_end_other": AnsweredBy.MACHINE,
    "unknown": AnsweredBy.UNKNOWN,
}


def status_events(form: Form, now: datetime) -> Sequence[Event]:
    """A status callback, or a call as the REST API shows it with the same names. A status we do not know tells its
    name alone."""
    at = _moment(form, now)
    named = Accepted(at=at, carrier_id=form["CallSid"])
    moved = _moved(form, at)
    return [named] if moved is None else [named, *_answer(form, at), moved]


def amd_events(form: Form, call: Call, now: datetime) -> Sequence[Event]:
    """The result of answering machine detection: who answered, and for a machine that the call is being hung up, unless
    a message is to be left on it."""
    answered_by = ANSWERED_BY.get(form.get("AnsweredBy", ""))
    if answered_by is None:
        return []
    to_leave = call.voicemail_message is not None and answered_by is AnsweredBy.MACHINE
    leaving = [Leaving(at=now, reason=EndReason.MACHINE)] if answered_by in NO_PERSON and not to_leave else []
    return [Detected(at=now, answered_by=answered_by), *leaving]


def action_events(form: Form, now: datetime) -> Sequence[Event]:
    """What Twilio tells when a session of ConversationRelay is over (TWILIO.md section 5, "Ending and action")."""
    match form.get("SessionStatus"):
        case "completed":
            return [Leaving(at=now, reason=EndReason.CALLEE_HUNG_UP)]
        case "ended":  # by us, and we have said why
            reason = form.get("HandoffData", "")
            return [Leaving(at=now, reason=EndReason(reason))] if reason in set(EndReason) else []
        case "failed" if form.get("ErrorCode") in _CANNOT_CONNECT:
            return [TalkBroke(at=now, reason=EndReason.CARRIER_FAILED, error=RELAY_UNREACHABLE)]
        case "failed":
            return [TalkBroke(at=now, reason=EndReason.SERVER_LOST, error=TALK_LOST)]
        case _:
            return []


RECORDINGS = {
    "in-progress": RecordingStatus.IN_PROGRESS,
    "completed": RecordingStatus.COMPLETED,
    "absent": RecordingStatus.ABSENT,
    "failed": RecordingStatus.FAILED,
}


def recording_events(form: Form, now: datetime) -> Sequence[Event]:
    """A recording status callback. One that is complete and cannot be fetched, having no name, is none."""
    status = RECORDINGS.get(form.get("RecordingStatus", ""))
    carrier_id = form.get("RecordingSid") or None
    if status is None or (carrier_id is None and status is RecordingStatus.COMPLETED):
        return []
    seconds = form.get("RecordingDuration", "")
    duration = int(seconds[:6]) if seconds.isascii() and seconds.isdigit() else None
    recording = Recording(status=status, carrier_id=carrier_id, duration_seconds=duration)
    return [Recorded(at=now, recording=recording)]


def _moved(form: Form, at: datetime) -> Event | None:
    match form.get("CallStatus"):
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
        case _:  # queued, and what Twilio may add
            return None


def _answer(form: Form, at: datetime) -> Sequence[Event]:
    """A final callback says how long the talk was, so when it began is known although `answered` was lost."""
    seconds = form.get("CallDuration", "")
    if form.get("CallStatus") != "completed" or not (seconds.isascii() and seconds.isdigit()):
        return []
    return [Answered(at=at - timedelta(seconds=int(seconds[:6])))]


def _failure(form: Form) -> CallError:
    code = form.get("ErrorCode") or form.get("SipResponseCode") or None
    words = form.get("ErrorMessage") or "The carrier could not complete the call."
    return CallError(code="carrier_failed", message=words[:500], carrier_code=code)


def _moment(form: Form, now: datetime) -> datetime:
    """When it happened, by Twilio's clock, to the second; never later than now."""
    try:
        at = parsedate_to_datetime(form.get("Timestamp", ""))
        return min(at.astimezone(UTC), now) if at.tzinfo is not None else now
    except (ValueError, OverflowError):
        return now
