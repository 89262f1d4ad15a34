"""What each event does to a call, for every status and in every order."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import permutations
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.agents.questions import Question
from callmcp.calls import events
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
    LIVE,
    AnsweredBy,
    Call,
    CallError,
    CallStatus,
    EndReason,
    GoalMet,
    Outcome,
    Recording,
    RecordingStatus,
    Speaker,
)
from callmcp.calls.state import LOST, SILENT, TRANSITIONS, apply

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(seconds=30)
QUEUED = Call(
    id="call_1",
    account_id="acct_1",
    key_id="key_1",
    agent_id="agt_000001",
    agent_version=1,
    to="+14155550100",
    from_number="+15550100000",
    context="",
    metadata=MappingProxyType({}),
    max_duration_seconds=600,
    idempotency_key=None,
    fingerprint="",
    carrier="simulator",
    token="token",
    created_at=START,
    heard_from_at=START,
)
BROKEN = CallError(code="carrier_failed", message="It broke.", carrier_code="503")
MET = Outcome(goal_met=GoalMet.YES, summary="It was agreed.")
SAID = TurnSpoken(at=datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC), speaker=Speaker.CALLEE, text="Yes, gladly.")
RECORDED = Recording(status=RecordingStatus.COMPLETED, carrier_id="RE1", duration_seconds=9)
S = CallStatus


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def samples(when: datetime) -> Sequence[Event]:
    """One of each kind of event, and of each variant that matters."""
    return (
        Approved(at=when, by="operator"),
        Disapproved(at=when, reason=EndReason.DECLINED, by="operator"),
        Claimed(at=when, by="process-1", carries=True),
        Accepted(at=when, carrier_id="CA1"),
        Dialled(at=when),
        Ringing(at=when),
        Answered(at=when),
        *(Detected(at=when, answered_by=who) for who in AnsweredBy),
        TurnSpoken(at=when, speaker=Speaker.CALLEE, text="Hello?"),
        OptedOut(at=when),
        EndRequested(at=when),
        HungUp(at=when),
        HungUp(at=when, reason=EndReason.AGENT_HUNG_UP),
        Canceled(at=when),
        FoundBusy(at=when),
        NotAnswered(at=when),
        DialFailed(at=when, reason=EndReason.CARRIER_FAILED, error=BROKEN),
        FellSilent(at=when),
        GivenUp(at=when),
        OwnerLost(at=when),
        Leaving(at=when, reason=EndReason.AGENT_HUNG_UP),
        Asked(at=when),
        Unreported(at=when),
        TalkBroke(at=when, reason=EndReason.SERVER_LOST, error=BROKEN),
        VoicemailLeft(at=when),
        Disclosed(at=when),
        Recorded(at=when, recording=RECORDED),
        *(Judged(at=when, outcome=Outcome(goal_met=met, summary="So it is.")) for met in GoalMet),
    )


def called(status: CallStatus) -> Call:
    """A call that came to this status in the usual way."""
    ways: dict[CallStatus, Sequence[Event]] = {
        S.QUEUED: (),
        S.INITIATED: (Dialled(at=at(1)),),
        S.RINGING: (Dialled(at=at(1)), Ringing(at=at(2))),
        S.IN_PROGRESS: (Ringing(at=at(2)), Answered(at=at(3))),
        S.UNKNOWN: (FellSilent(at=at(1)),),
        S.COMPLETED: (Answered(at=at(3)), HungUp(at=at(4))),
        S.BUSY: (FoundBusy(at=at(2)),),
        S.NO_ANSWER: (NotAnswered(at=at(3)),),
        S.FAILED: (DialFailed(at=at(1), reason=EndReason.CARRIER_FAILED, error=BROKEN),),
        S.CANCELED: (Canceled(at=at(2)),),
    }
    call = reduce(apply, ways[status], QUEUED)
    assert call.status is status
    return call


# What the line does, written down a second time from the carriers' documentation: who mends the table must mean it.
# fmt: off
TO = {
    S.QUEUED: {Accepted: S.QUEUED, Dialled: S.INITIATED, Ringing: S.RINGING, Answered: S.IN_PROGRESS,
               FellSilent: S.UNKNOWN, HungUp: S.COMPLETED, Canceled: S.CANCELED, FoundBusy: S.BUSY,
               NotAnswered: S.NO_ANSWER, DialFailed: S.FAILED, OwnerLost: S.FAILED},
    S.INITIATED: {Ringing: S.RINGING, Answered: S.IN_PROGRESS, FellSilent: S.UNKNOWN, HungUp: S.COMPLETED,
                  Canceled: S.CANCELED, FoundBusy: S.BUSY, NotAnswered: S.NO_ANSWER, DialFailed: S.FAILED,
                  OwnerLost: S.FAILED},
    S.RINGING: {Answered: S.IN_PROGRESS, FellSilent: S.UNKNOWN, HungUp: S.COMPLETED, Canceled: S.CANCELED,
                FoundBusy: S.BUSY, NotAnswered: S.NO_ANSWER, DialFailed: S.FAILED, OwnerLost: S.FAILED},
    S.IN_PROGRESS: {FellSilent: S.UNKNOWN, HungUp: S.COMPLETED, Canceled: S.CANCELED, DialFailed: S.FAILED,
                    OwnerLost: S.FAILED},
    S.UNKNOWN: {Accepted: S.QUEUED, Dialled: S.INITIATED, Ringing: S.RINGING, Answered: S.IN_PROGRESS,
                HungUp: S.COMPLETED, Canceled: S.CANCELED, FoundBusy: S.BUSY, NotAnswered: S.NO_ANSWER,
                DialFailed: S.FAILED, OwnerLost: S.FAILED, GivenUp: S.FAILED},
}
# fmt: on


def test_there_is_a_sample_of_every_event() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)} - {Event}

    assert {type(event) for event in samples(LATER)} == kinds


@pytest.mark.parametrize("event", samples(LATER), ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("status", CallStatus)
def test_every_event_in_every_status_moves_the_line_as_laid_down(status: CallStatus, event: Event) -> None:
    before = called(status)

    after = apply(before, event)

    assert after.status is TO.get(status, {}).get(type(event), status)
    assert (after.ended_at is not None) is after.status.is_final
    assert (after.end_reason is not None) is (after.status.is_final or isinstance(event, Leaving))
    assert after.outcome is not None or after.status is S.COMPLETED or not after.status.is_final
    assert apply(after, event) == after or isinstance(event, TurnSpoken | Accepted | TalkBroke)
    if status.is_final:
        untouchable = {field.name for field in fields(Call)} - {
            "answered_at", "answered_by", "outcome", "opt_out", "turn_count", "carrier_id",
            "voicemail_left", "disclosure_spoken"
        }  # fmt: skip
        assert all(getattr(after, name) == getattr(before, name) for name in untouchable)


def test_a_status_is_final_or_live() -> None:
    assert set(CallStatus) == FINAL | LIVE
    assert all(not TRANSITIONS[status] for status in FINAL)
    assert all(status.is_final is (status in FINAL) for status in CallStatus)


def test_what_the_talk_ended_for_is_the_reason_once_the_carrier_says_that_the_line_is_down() -> None:
    call = apply(called(S.IN_PROGRESS), Leaving(at=at(5), reason=EndReason.AGENT_HUNG_UP, error=BROKEN))
    assert (call.status, call.ended_at) == (S.IN_PROGRESS, None)

    call = apply(apply(call, Leaving(at=at(6), reason=EndReason.MAX_DURATION)), HungUp(at=at(7)))
    assert (call.status, call.end_reason, call.error, call.ended_at) == (
        S.COMPLETED,
        EndReason.AGENT_HUNG_UP,
        BROKEN,
        at(7),
    )


@pytest.mark.parametrize("late", [Accepted(at=LATER, carrier_id="CA1"), Dialled(at=LATER), Ringing(at=LATER)])
def test_a_call_that_was_answered_and_fell_silent_does_not_ring_again(late: Event) -> None:
    lost = apply(called(S.IN_PROGRESS), FellSilent(at=at(9)))
    assert apply(lost, late).status is S.UNKNOWN
    assert apply(lost, FoundBusy(at=LATER)).status is S.UNKNOWN
    assert apply(lost, Answered(at=LATER)).status is S.IN_PROGRESS
    assert apply(lost, HungUp(at=LATER)).status is S.COMPLETED
    assert apply(lost, GivenUp(at=LATER)).outcome == Outcome(
        goal_met=GoalMet.UNKNOWN, summary="The carrier never said whether anybody was reached."
    )


def test_a_carrier_that_does_not_report_is_noted_and_does_not_hide_what_went_wrong() -> None:
    noted = apply(QUEUED, Unreported(at=LATER))
    assert noted.error is not None
    assert noted.error.code == "carrier_does_not_report"
    failed = apply(noted, DialFailed(at=LATER, reason=EndReason.CARRIER_FAILED, error=BROKEN))
    assert failed.error == BROKEN


def test_an_event_with_nothing_new_gives_back_the_very_same_call() -> None:
    over = called(S.COMPLETED)

    assert apply(over, Ringing(at=LATER)) is over
    assert apply(over, HungUp(at=LATER)) is over
    assert apply(over, EndRequested(at=LATER)) is over


anything = st.sampled_from(samples(START)).flatmap(
    lambda event: st.integers(-9, 99).map(lambda second: replace(event, at=at(second)))
)


@given(st.lists(anything, max_size=25))
def test_whatever_is_observed_a_final_status_never_moves_and_no_machine_meets_a_goal(seen: list[Event]) -> None:
    call = QUEUED
    for event in seen:
        before, call = call, apply(call, event)
        if before.status.is_final:
            assert (call.status, call.ended_at, call.end_reason) == (before.status, before.ended_at, before.end_reason)
        if call.answered_by in {AnsweredBy.MACHINE, AnsweredBy.FAX} and call.outcome is not None:
            assert call.outcome.goal_met is not GoalMet.YES
        assert call.heard_from_at >= before.heard_from_at
        lost_at = before.ended_at if before.end_reason is EndReason.SERVER_LOST else None
        heard = isinstance(event, TurnSpoken) and not (lost_at is not None and event.at > lost_at)
        assert call.turn_count - before.turn_count == heard
        assert call.opt_out or not before.opt_out
        times = [call.created_at, call.answered_at, call.ended_at]
        known = [time for time in times if time is not None]
        assert known == sorted(known)


IN_ORDER: Sequence[Sequence[Event]] = (
    (Accepted(at=at(0), carrier_id="CA1"), Dialled(at=at(1)), Ringing(at=at(2)), Answered(at=at(4)), HungUp(at=at(9))),
    (Accepted(at=at(0), carrier_id="CA1"), Dialled(at=at(1)), FoundBusy(at=at(2))),
    (Accepted(at=at(0), carrier_id="CA1"), Dialled(at=at(1)), Ringing(at=at(2)), NotAnswered(at=at(22))),
    (Accepted(at=at(0), carrier_id="CA1"), Dialled(at=at(1)), Ringing(at=at(2)), Canceled(at=at(3))),
    (
        Accepted(at=at(0), carrier_id="CA1"),
        Dialled(at=at(1)),
        Ringing(at=at(2)),
        DialFailed(at=at(3), reason=EndReason.CARRIER_FAILED, error=BROKEN),
    ),
)


@pytest.mark.parametrize("callbacks", IN_ORDER, ids=lambda callbacks: type(callbacks[-1]).__name__)
def test_callbacks_in_any_order_and_repeated_give_the_same_record(callbacks: Sequence[Event]) -> None:
    in_order = reduce(apply, callbacks, QUEUED)
    for shuffled in permutations(callbacks):
        call = reduce(apply, (*shuffled, *shuffled), QUEUED)

        assert replace(call, heard_from_at=START) == replace(in_order, heard_from_at=START)


def test_an_answer_that_is_reported_after_the_end_is_in_the_record_and_never_after_it() -> None:
    hung_up = apply(QUEUED, HungUp(at=at(9)))

    assert apply(hung_up, Answered(at=at(4))).answered_at == at(4)
    assert apply(hung_up, Answered(at=at(12))).answered_at == at(9)


@pytest.mark.parametrize("status", [S.BUSY, S.NO_ANSWER, S.FAILED, S.CANCELED])
def test_a_call_that_nobody_answered_gets_no_answer_later(status: CallStatus) -> None:
    assert apply(called(status), Answered(at=LATER)).answered_at is None


@pytest.mark.parametrize("who", [AnsweredBy.MACHINE, AnsweredBy.FAX])
def test_a_machine_that_is_found_out_late_takes_the_success_back(who: AnsweredBy) -> None:
    call = reduce(apply, (Judged(at=at(5), outcome=MET), HungUp(at=at(6)), Detected(at=at(8), answered_by=who)), QUEUED)

    assert call.outcome is not None
    assert (call.outcome.goal_met, call.outcome.summary) == (GoalMet.NO, "A machine answered; nobody was spoken to.")


@pytest.mark.parametrize("who", [AnsweredBy.HUMAN, AnsweredBy.UNKNOWN, AnsweredBy.IVR])
def test_a_goal_that_was_met_with_anybody_else_stays_met(who: AnsweredBy) -> None:
    call = reduce(
        apply, (SAID, Judged(at=at(5), outcome=MET), HungUp(at=at(6)), Detected(at=at(8), answered_by=who)), QUEUED
    )

    assert call.outcome == MET


def test_who_answered_is_what_was_said_first() -> None:
    found = reduce(apply, [Detected(at=at(3), answered_by=who) for who in AnsweredBy], QUEUED)

    assert found.answered_by is next(iter(AnsweredBy))


def test_a_decided_outcome_stays_and_an_unknown_one_may_be_decided() -> None:
    unknown = apply(
        apply(QUEUED, SAID), Judged(at=at(5), outcome=Outcome(goal_met=GoalMet.UNKNOWN, summary="Who knows?"))
    )
    met = apply(unknown, Judged(at=at(6), outcome=MET))

    assert met.outcome == MET
    assert apply(met, Judged(at=at(7), outcome=Outcome(goal_met=GoalMet.NO, summary="No."))) is met


ENDINGS = [
    (HungUp(at=LATER), EndReason.CALLEE_HUNG_UP, None),
    (HungUp(at=LATER, reason=EndReason.MAX_DURATION), EndReason.MAX_DURATION, None),
    (HungUp(at=LATER, reason=EndReason.AGENT_HUNG_UP, error=BROKEN), EndReason.AGENT_HUNG_UP, BROKEN),
    (HungUp(at=LATER, error=BROKEN), EndReason.CALLEE_HUNG_UP, BROKEN),
    (Canceled(at=LATER), EndReason.ENDED_BY_CALLER, None),
    (Canceled(at=LATER, reason=EndReason.EXPIRED), EndReason.EXPIRED, None),
    (FoundBusy(at=LATER), EndReason.BUSY, None),
    (NotAnswered(at=LATER), EndReason.NO_ANSWER, None),
    (DialFailed(at=LATER, reason=EndReason.CARRIER_REFUSED, error=BROKEN), EndReason.CARRIER_REFUSED, BROKEN),
    (OwnerLost(at=LATER), EndReason.SERVER_LOST, LOST),
]


@pytest.mark.parametrize(("end", "reason", "error"), ENDINGS)
def test_every_end_says_why_and_when(end: Event, reason: EndReason, error: CallError | None) -> None:
    call = apply(QUEUED, end)

    assert (call.end_reason, call.error, call.ended_at) == (reason, error, LATER)


def test_a_carrier_that_stays_silent_is_given_up_with_an_honest_word() -> None:
    call = reduce(apply, (FellSilent(at=at(15)), GivenUp(at=at(135))), QUEUED)

    assert (call.status, call.end_reason, call.error) == (S.FAILED, EndReason.CARRIER_SILENT, SILENT)
    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.UNKNOWN


def test_a_hang_up_that_was_asked_for_is_the_callers_when_the_carrier_does_not_say() -> None:
    asked = reduce(apply, (Answered(at=at(3)), EndRequested(at=at(5)), EndRequested(at=at(6))), QUEUED)

    assert asked.end_requested_at == at(5)
    assert apply(asked, HungUp(at=at(7))).end_reason is EndReason.ENDED_BY_CALLER


@pytest.mark.parametrize(
    ("seen", "met"),
    [
        ((NotAnswered(at=LATER),), GoalMet.NO),
        ((Answered(at=at(3)), OwnerLost(at=LATER)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), Detected(at=at(4), answered_by=AnsweredBy.MACHINE), HungUp(at=LATER)), GoalMet.NO),
        ((Answered(at=at(3)), HungUp(at=LATER)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), HungUp(at=LATER, reason=EndReason.AGENT_HUNG_UP)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), Leaving(at=at(5), reason=EndReason.CALLEE_HUNG_UP), HungUp(at=LATER)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), Leaving(at=at(5), reason=EndReason.CARRIER_FAILED), HungUp(at=LATER)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), Leaving(at=at(5), reason=EndReason.SERVER_LOST), HungUp(at=LATER)), GoalMet.UNKNOWN),
        ((Answered(at=at(3)), SAID, HungUp(at=LATER), Judged(at=LATER, outcome=MET)), GoalMet.YES),
        ((Answered(at=at(3)), HungUp(at=LATER), Judged(at=LATER, outcome=MET)), GoalMet.NO),
        ((Answered(at=at(3)), SAID, Judged(at=at(5), outcome=MET), OwnerLost(at=LATER)), GoalMet.YES),
    ],
)
def test_an_end_without_a_judged_talk_still_says_what_came_of_it(seen: Sequence[Event], met: GoalMet | None) -> None:
    call = reduce(apply, seen, QUEUED)

    assert (call.outcome and call.outcome.goal_met) == met


def test_only_signs_of_life_of_the_line_count_as_such() -> None:
    alive = {type(event) for event in samples(LATER) if apply(called(S.RINGING), event).heard_from_at == LATER}

    assert alive == {Accepted, Dialled, Ringing, Answered, Detected, TurnSpoken, Leaving, Asked, TalkBroke}


# What a talk leaves behind.

QUESTIONS = (Question(name="day", question="Which day?"), Question(name="guests", question="How many are you?"))
TALKING = reduce(apply, (Answered(at=at(3)), SAID), QUEUED)
BROKE = TalkBroke(at=at(5), reason=EndReason.SERVER_LOST, error=BROKEN)


def test_a_talk_that_breaks_is_taken_up_again_twice_and_then_ends_the_call() -> None:
    twice = reduce(apply, (BROKE, BROKE), TALKING)
    assert (twice.breaks, twice.end_reason, twice.status) == (2, None, S.IN_PROGRESS)

    thrice = apply(twice, BROKE)
    assert (thrice.breaks, thrice.end_reason, thrice.error) == (2, EndReason.SERVER_LOST, BROKEN)


@pytest.mark.parametrize(
    "before",
    [
        (Leaving(at=at(4), reason=EndReason.AGENT_HUNG_UP),),
        (EndRequested(at=at(4)),),
        (OptedOut(at=at(4)),),
        (HungUp(at=at(4)),),
    ],
    ids=["the agent had hung up", "its end was asked for", "the callee opted out", "the line is down"],
)
def test_a_talk_that_was_to_end_is_not_taken_up_again(before: Sequence[Event]) -> None:
    call = reduce(apply, (*before, BROKE), TALKING)

    assert call.breaks == 0
    assert call.end_reason is not None


@pytest.mark.parametrize("who", [AnsweredBy.MACHINE, AnsweredBy.FAX])
def test_a_line_that_closes_on_a_machine_was_ended_because_it_is_one(who: AnsweredBy) -> None:
    found = apply(TALKING, Detected(at=at(5), answered_by=who))

    left = apply(found, Leaving(at=at(6), reason=EndReason.CALLEE_HUNG_UP))
    assert left.end_reason is EndReason.MACHINE
    assert apply(found, HungUp(at=at(6))).end_reason is EndReason.MACHINE


def test_a_message_that_was_left_is_told_and_no_goal_was_met_by_it() -> None:
    call = reduce(
        apply,
        (Detected(at=at(4), answered_by=AnsweredBy.MACHINE), VoicemailLeft(at=at(9)), HungUp(at=at(10))),
        replace(TALKING, questions=QUESTIONS),
    )

    assert call.voicemail_left
    assert call.outcome is not None
    assert call.outcome.goal_met is GoalMet.NO
    assert "The message was left on it." in call.outcome.summary
    assert [answer.name for answer in call.outcome.answers] == ["day", "guests"]
    assert all(answer.value is None and answer.error for answer in call.outcome.answers)


@pytest.mark.parametrize("end", [FoundBusy(at=LATER), NotAnswered(at=LATER), GivenUp(at=LATER), OwnerLost(at=LATER)])
def test_every_question_has_an_answer_or_an_error_however_the_call_ends(end: Event) -> None:
    before = replace(QUEUED, questions=QUESTIONS)
    call = reduce(apply, (FellSilent(at=at(1)), end) if isinstance(end, GivenUp) else (end,), before)

    assert call.outcome is not None
    assert [(answer.name, answer.value) for answer in call.outcome.answers] == [("day", None), ("guests", None)]
    assert all(answer.error for answer in call.outcome.answers)


def test_a_call_that_was_not_to_be_recorded_has_no_recording() -> None:
    assert apply(TALKING, Recorded(at=at(9), recording=RECORDED)) is TALKING


def test_a_recording_goes_forward_and_never_back() -> None:
    begun = Recording(status=RecordingStatus.IN_PROGRESS, carrier_id="RE1")
    call = replace(TALKING, recording=Recording(status=RecordingStatus.REQUESTED))

    assert apply(call, Recorded(at=at(5), recording=begun)).recording == begun
    complete = apply(call, Recorded(at=at(9), recording=RECORDED))
    assert apply(complete, Recorded(at=at(10), recording=begun)) is complete
    assert apply(apply(complete, HungUp(at=at(11))), Recorded(at=at(12), recording=RECORDED)).recording == RECORDED
