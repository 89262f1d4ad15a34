"""The life of a call. Everything that changes a call lives here.

`TRANSITIONS` says which event moves the line from which status to which. An event that is not in the row of the
present status came late or twice and moves nothing: carriers repeat themselves and change the order (a `ringing`
that arrived before `initiated` has been recorded on the wire, TWILIO.md section 0). A final status never moves.

Some events carry a fact besides the move (when it was answered, who answered, what was said). A fact that is still
missing is taken from a late event too: if `completed` overtakes `answered`, the record has its answered_at after all.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from callmcp.calls.approval import ApprovalState
from callmcp.calls.cost import used
from callmcp.calls.events import (
    Accepted,
    Answered,
    Approved,
    Asked,
    Canceled,
    Claimed,
    Detected,
    DialFailed,
    Dialled,
    Disapproved,
    Disclosed,
    EndRequested,
    Event,
    FellSilent,
    FoundBusy,
    GivenUp,
    HungUp,
    Judged,
    Leaving,
    NotAnswered,
    OptedOut,
    OwnerLost,
    Recorded,
    Ringing,
    TalkBroke,
    TurnSpoken,
    Unreported,
    VoicemailLeft,
)
from callmcp.calls.model import (
    FINAL,
    NO_PERSON,
    Answer,
    Call,
    CallError,
    CallStatus,
    EndReason,
    GoalMet,
    Outcome,
    RecordingStatus,
)

_ENDS: Mapping[type[Event], CallStatus] = {
    HungUp: CallStatus.COMPLETED,
    Canceled: CallStatus.CANCELED,
    FoundBusy: CallStatus.BUSY,
    NotAnswered: CallStatus.NO_ANSWER,
    DialFailed: CallStatus.FAILED,
    OwnerLost: CallStatus.FAILED,
}

TRANSITIONS: Mapping[CallStatus, Mapping[type[Event], CallStatus]] = {
    CallStatus.QUEUED: {
        Disapproved: CallStatus.CANCELED,
        Accepted: CallStatus.QUEUED,
        Dialled: CallStatus.INITIATED,
        Ringing: CallStatus.RINGING,
        Answered: CallStatus.IN_PROGRESS,
        FellSilent: CallStatus.UNKNOWN,
        **_ENDS,
    },
    CallStatus.INITIATED: {
        Ringing: CallStatus.RINGING,
        Answered: CallStatus.IN_PROGRESS,
        FellSilent: CallStatus.UNKNOWN,
        **_ENDS,
    },
    CallStatus.RINGING: {
        Answered: CallStatus.IN_PROGRESS,
        FellSilent: CallStatus.UNKNOWN,
        **_ENDS,
    },
    # Nobody can find an answered line busy or unanswered; a carrier that says so speaks of an earlier moment.
    CallStatus.IN_PROGRESS: {
        HungUp: CallStatus.COMPLETED,
        Canceled: CallStatus.CANCELED,
        DialFailed: CallStatus.FAILED,
        OwnerLost: CallStatus.FAILED,
        FellSilent: CallStatus.UNKNOWN,
    },
    CallStatus.UNKNOWN: {
        Accepted: CallStatus.QUEUED,
        Dialled: CallStatus.INITIATED,
        Ringing: CallStatus.RINGING,
        Answered: CallStatus.IN_PROGRESS,
        GivenUp: CallStatus.FAILED,
        **_ENDS,
    },
    **{final: {} for final in FINAL},
}

# What may follow `unknown` when somebody had answered before: it does not ring again, and is not found busy.
_UNKNOWN_AFTER_ANSWER: Mapping[type[Event], CallStatus] = {
    **TRANSITIONS[CallStatus.IN_PROGRESS],
    Answered: CallStatus.IN_PROGRESS,
    FellSilent: CallStatus.UNKNOWN,
    GivenUp: CallStatus.FAILED,
}

_SIGNS_OF_LIFE = (Accepted, Dialled, Ringing, Answered, Detected, TurnSpoken, Leaving, Asked, TalkBroke)
_TALK_LOST = frozenset({EndReason.SERVER_LOST, EndReason.CARRIER_FAILED})
MAX_BREAKS = 2  # a server that falls over again and again must not hold somebody on the line

NOT_ASKED = "it was not asked: nobody was spoken to"
NOT_JUDGED = "the talk ended before its answers could be gathered; see the transcript"
SILENT = CallError(
    code="carrier_silent",
    message="The carrier took the call and never said what became of it. Nobody may have been reached, or somebody "
    "may have: do not assume either.",
)
UNREPORTED = CallError(
    code="carrier_does_not_report",
    message="The carrier took the call but its reports do not reach this server; what became of it had to be asked "
    "for, and times are as exact as the asking. Whoever runs the server should check its public URL: callmcp doctor.",
)
LOST = CallError(
    code="server_lost",
    message="The server process that carried this call stopped in the middle of it, and the call ended there.",
)


def apply(call: Call, event: Event) -> Call:
    """The call after `event`. The very same object when the event has nothing new to say."""
    if _speaks_from_the_grave(call, event) or _decides_what_is_decided(call, event):
        return call
    lost_after_answer = call.status is CallStatus.UNKNOWN and call.answered_at is not None
    status = (_UNKNOWN_AFTER_ANSWER if lost_after_answer else TRANSITIONS[call.status]).get(type(event))
    facts: dict[str, Any] = dict(_FACTS[type(event)](call, event)) if type(event) in _FACTS else {}
    if status is not None:
        facts["status"] = status
        if status.is_final:
            facts |= _ending(call, event, status)
    if isinstance(event, _SIGNS_OF_LIFE) and not call.status.is_final:
        facts["heard_from_at"] = max(call.heard_from_at, event.at)
    changed = {name: value for name, value in facts.items() if getattr(call, name) != value}
    return _settled(_truthful(replace(call, **changed))) if changed else call


def _decides_what_is_decided(call: Call, event: Event) -> bool:
    """Of two who decide about a call the first one does; nobody dials without a yes, and no two do with one."""
    if not isinstance(event, _OF_APPROVAL):
        return False
    if call.approval is None or not call.waits:
        return True
    approved = call.approval.state is ApprovalState.APPROVED
    match event:
        case Claimed():
            return not approved
        case Approved():
            return approved or event.at >= call.approval.expires_at
        case _:
            return approved and event.reason is EndReason.DECLINED


def _settled(call: Call) -> Call:
    """What a call that is over has cost, also when a late event tells more of when it was answered."""
    if call.cost is None or not call.status.is_final or call.ended_at is None:
        return call
    if call.end_reason is EndReason.CARRIER_SILENT:
        settled = call.cost.reserved  # somebody may have been on the line all that time
    elif call.answered_at is None and call.status is not CallStatus.COMPLETED:
        settled = 0
    else:
        settled = used(call.cost, (call.ended_at - (call.answered_at or call.created_at)).total_seconds())
    return call if settled == call.cost.settled else replace(call, cost=replace(call.cost, settled=settled))


def _speaks_from_the_grave(call: Call, event: Event) -> bool:
    """A process that was stopped for so long that its call was settled wakes up and talks on. What it has to tell of
    the time before is a fact, what it does after that is not the call any more; a wish not to be called is heard
    always."""
    lost_at = call.ended_at if call.end_reason is EndReason.SERVER_LOST else None
    return lost_at is not None and event.at > lost_at and not isinstance(event, OptedOut)


def _truthful(call: Call) -> Call:
    """What a talk with a machine came to is what machines come to, whatever the talk thought of it: voicemail that is
    reported as a success, or as somebody who said nothing, is the record that lies most. And no goal was met where not
    a word was said."""
    if call.outcome is None:
        return call
    if call.answered_by in NO_PERSON:
        return replace(call, outcome=_of_machine(call))
    if call.turn_count == 0 and call.outcome.goal_met in {GoalMet.YES, GoalMet.PARTLY}:
        return replace(call, outcome=_outcome(call, GoalMet.NO, "Not a word was said.", NOT_ASKED))
    return call


def _of_machine(call: Call) -> Outcome:
    left = " The message was left on it." if call.voicemail_left else ""
    return _outcome(call, GoalMet.NO, f"A machine answered; nobody was spoken to.{left}", NOT_ASKED)


def _outcome(call: Call, goal_met: GoalMet, summary: str, unanswered: str) -> Outcome:
    answers = tuple(Answer(name=question.name, error=unanswered) for question in call.questions)
    return Outcome(goal_met=goal_met, summary=summary, answers=answers)


def _ending(call: Call, event: Event, status: CallStatus) -> dict[str, Any]:
    reason, error = _why_ended(call, event)
    outcome = call.outcome or _outcome_without_talk(call, status, reason)
    # Other clocks than the one that dated the beginning may be behind it, and carriers round to whole seconds.
    ended_at = max(event.at, call.answered_at or call.created_at)
    return {"ended_at": ended_at, "end_reason": reason, "error": error or call.error, "outcome": outcome}


def _outcome_without_talk(call: Call, status: CallStatus, reason: EndReason) -> Outcome:
    if reason is EndReason.CARRIER_SILENT:
        return _outcome(call, GoalMet.UNKNOWN, "The carrier never said whether anybody was reached.", NOT_JUDGED)
    if call.answered_by in NO_PERSON:
        return _of_machine(call)
    if status is CallStatus.COMPLETED and reason not in _TALK_LOST:
        # Whoever held the talk says more when it has been judged, unless it is killed before.
        return _outcome(call, GoalMet.UNKNOWN, "What came of the call has not been judged.", NOT_JUDGED)
    if call.answered_at is not None or status is CallStatus.COMPLETED:
        return _outcome(call, GoalMet.UNKNOWN, "The call broke off before the goal could be judged.", NOT_JUDGED)
    return _outcome(call, GoalMet.NO, "Nobody was reached.", NOT_ASKED)


def _why_ended(call: Call, event: Event) -> tuple[EndReason, CallError | None]:
    match event:
        case HungUp(reason=None, error=error) if call.end_reason is not None:
            return call.end_reason, error
        case HungUp(reason=None) if call.end_requested_at is not None:
            return EndReason.ENDED_BY_CALLER, None
        case HungUp(reason=None) if call.answered_by in NO_PERSON:
            return EndReason.MACHINE, None
        case HungUp(reason=None) if call.turn_count > 0:
            # There was a talk, and whoever held it went without a word.
            return EndReason.SERVER_LOST, LOST
        case HungUp(reason=None, error=error):
            return EndReason.CALLEE_HUNG_UP, error
        case HungUp(reason=EndReason() as reason, error=error):
            return reason, error
        case Canceled(reason=reason):
            return reason or call.end_reason or EndReason.ENDED_BY_CALLER, None
        case Disapproved(reason=reason):
            return reason, None
        case FoundBusy() | NotAnswered():
            return EndReason.BUSY if isinstance(event, FoundBusy) else EndReason.NO_ANSWER, None
        case DialFailed(reason=reason, error=error):
            return reason, error
        case GivenUp():
            return EndReason.CARRIER_SILENT, SILENT
        case _:
            return EndReason.SERVER_LOST, LOST


def _approved(call: Call, event: Approved) -> dict[str, Any]:
    return _decided(call, ApprovalState.APPROVED, event)


def _disapproved(call: Call, event: Disapproved) -> dict[str, Any]:
    return _decided(call, _DISAPPROVALS.get(event.reason, ApprovalState.WITHDRAWN), event)


_DISAPPROVALS = {EndReason.DECLINED: ApprovalState.DECLINED, EndReason.EXPIRED: ApprovalState.EXPIRED}


def _decided(call: Call, state: ApprovalState, event: Approved | Disapproved) -> dict[str, Any]:
    if call.approval is None:
        return {}
    return {"approval": replace(call.approval, state=state, decided_at=event.at, decided_by=event.by)}


def _claimed(call: Call, event: Claimed) -> dict[str, Any]:
    if call.approval is None:
        return {}
    owner = event.by if event.carries else None
    return {"approval": replace(call.approval, claimed_by=event.by), "owner": owner, "heard_from_at": event.at}


def _accepted(call: Call, event: Accepted) -> dict[str, Any]:
    return {"carrier_id": call.carrier_id or event.carrier_id}


def _answered(call: Call, event: Answered) -> dict[str, Any]:
    if call.answered_at is not None or call.status not in {*_BEFORE_ANSWER, CallStatus.COMPLETED}:
        return {}
    answered_at = max(event.at, call.created_at)
    return {"answered_at": min(answered_at, call.ended_at or answered_at)}


def _detected(call: Call, event: Detected) -> dict[str, Any]:
    return {"answered_by": call.answered_by or event.answered_by}


def _turn_spoken(call: Call, _: TurnSpoken) -> dict[str, Any]:
    return {"turn_count": call.turn_count + 1}


def _opted_out(_: Call, __: OptedOut) -> dict[str, Any]:
    return {"opt_out": True}


def _end_requested(call: Call, event: EndRequested) -> dict[str, Any]:
    return {} if call.status.is_final else {"end_requested_at": call.end_requested_at or event.at}


def _leaving(call: Call, event: Leaving) -> dict[str, Any]:
    if call.status.is_final or call.end_reason is not None:
        return {}
    return {"end_reason": _why_closed(call, event.reason), "error": event.error or call.error}


def _why_closed(call: Call, reason: EndReason) -> EndReason:
    """A line that closed looks the same from within the talk, whoever closed it."""
    if reason is not EndReason.CALLEE_HUNG_UP:
        return reason
    if call.end_requested_at is not None:
        return EndReason.ENDED_BY_CALLER
    return EndReason.MACHINE if call.answered_by in NO_PERSON else reason


def _talk_broke(call: Call, event: TalkBroke) -> dict[str, Any]:
    if call.status.is_final or call.end_reason is not None:
        return {}
    if call.end_requested_at is not None:
        return {"end_reason": EndReason.ENDED_BY_CALLER}
    if call.opt_out:  # who does not want to be called is not held on the line either
        return {"end_reason": EndReason.AGENT_HUNG_UP}
    if call.breaks < MAX_BREAKS:
        return {"breaks": call.breaks + 1}
    return {"end_reason": event.reason, "error": event.error}


def _disclosed(_: Call, __: Disclosed) -> dict[str, Any]:
    return {"disclosure_spoken": True}


def _voicemail_left(_: Call, __: VoicemailLeft) -> dict[str, Any]:
    return {"voicemail_left": True}


def _recorded(call: Call, event: Recorded) -> dict[str, Any]:
    """A call that was not to be recorded has no recording, and one that is complete does not begin again."""
    known = call.recording
    if known is None or _RECORDING_ORDER[event.recording.status] <= _RECORDING_ORDER[known.status]:
        return {}
    return {"recording": event.recording}


_RECORDING_ORDER = {
    RecordingStatus.REQUESTED: 0,
    RecordingStatus.IN_PROGRESS: 1,
    RecordingStatus.ABSENT: 2,
    RecordingStatus.FAILED: 2,
    RecordingStatus.COMPLETED: 3,
}


def _unreported(call: Call, _: Unreported) -> dict[str, Any]:
    return {} if call.status.is_final else {"error": call.error or UNREPORTED}


def _judged(call: Call, event: Judged) -> dict[str, Any]:
    undecided = call.outcome is None or call.outcome.goal_met is GoalMet.UNKNOWN
    return {"outcome": event.outcome} if undecided else {}


_BEFORE_ANSWER = frozenset({CallStatus.QUEUED, CallStatus.INITIATED, CallStatus.RINGING, CallStatus.UNKNOWN})

_OF_APPROVAL = (Approved, Disapproved, Claimed)
_FACTS: Mapping[type[Event], Callable[[Call, Any], dict[str, Any]]] = {
    Approved: _approved,
    Disapproved: _disapproved,
    Claimed: _claimed,
    Accepted: _accepted,
    Answered: _answered,
    Detected: _detected,
    TurnSpoken: _turn_spoken,
    OptedOut: _opted_out,
    EndRequested: _end_requested,
    Judged: _judged,
    Leaving: _leaving,
    Unreported: _unreported,
    TalkBroke: _talk_broke,
    Disclosed: _disclosed,
    VoicemailLeft: _voicemail_left,
    Recorded: _recorded,
}
