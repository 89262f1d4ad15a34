"""What Twilio posts, as events. Fields as recorded from real calls (TWILIO.md section 3)."""

import itertools
from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls import state
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
from callmcp.calls.model import AnsweredBy, CallStatus, EndReason
from callmcp.telephony.twilio.callbacks import ANSWERED_BY, action_events, amd_events, status_events
from tests.contracts.values import a_call

NOW = datetime(2026, 8, 30, 8, 35, tzinfo=UTC)
AT = datetime(2026, 8, 30, 8, 34, 26, tzinfo=UTC)


def form(status: str, **more: str) -> dict[str, str]:
    return {"CallSid": "CA1", "CallStatus": status, "Timestamp": "Sun, 30 Aug 2026 08:34:26 +0000", **more}


@pytest.mark.parametrize(
    ("status", "event"),
    [
        ("initiated", Dialled),
        ("ringing", Ringing),
        ("in-progress", Answered),
        ("completed", HungUp),
        ("busy", FoundBusy),
        ("no-answer", NotAnswered),
        ("canceled", Canceled),
        ("failed", DialFailed),
    ],
)
def test_each_status_is_an_event_at_twilios_time(status: str, event: type[Event]) -> None:
    named, moved = status_events(form(status), NOW)
    assert named == Accepted(at=AT, carrier_id="CA1")
    assert type(moved) is event
    assert moved.at == AT


@pytest.mark.parametrize("status", ["queued", "", "paused"])
def test_a_status_that_moves_nothing_still_names_the_call(status: str) -> None:
    assert status_events(form(status), NOW) == [Accepted(at=AT, carrier_id="CA1")]


def test_a_final_callback_tells_when_the_call_was_answered() -> None:
    events = status_events(form("completed", CallDuration="10"), NOW)
    assert events[1:] == [Answered(at=AT - timedelta(seconds=10)), HungUp(at=AT)]


def test_a_failure_keeps_twilios_code_and_words() -> None:
    (_, failed) = status_events(form("failed", ErrorCode="13224", ErrorMessage="Invalid number"), NOW)
    assert isinstance(failed, DialFailed)
    assert (failed.reason, failed.error.carrier_code, failed.error.message) == (
        EndReason.CARRIER_FAILED,
        "13224",
        "Invalid number",
    )
    (_, failed) = status_events(form("failed", SipResponseCode="503", ErrorCode=""), NOW)
    assert isinstance(failed, DialFailed)
    assert failed.error.carrier_code == "503"


@pytest.mark.parametrize("timestamp", ["", "yesterday", "Sun, 30 Aug 2026 08:34:26", "Sun, 30 Aug 2099 08:34:26 +0000"])
def test_a_time_that_cannot_be_is_now(timestamp: str) -> None:
    (named, _) = status_events(form("ringing", Timestamp=timestamp), NOW)
    assert named.at == NOW


@pytest.mark.parametrize(("word", "answered_by"), ANSWERED_BY.items())
def test_who_answered_is_told_and_a_machine_is_hung_up_on(word: str, answered_by: AnsweredBy) -> None:
    events = amd_events({"CallSid": "CA1", "AnsweredBy": word}, a_call(), NOW)
    assert events[0] == Detected(at=NOW, answered_by=answered_by)
    no_person = answered_by in {AnsweredBy.MACHINE, AnsweredBy.FAX}
    assert events[1:] == ([Leaving(at=NOW, reason=EndReason.MACHINE)] if no_person else [])


def test_a_machine_that_a_message_is_left_on_is_not_hung_up_on() -> None:
    call = a_call(voicemail_message="Please call back.")

    told = amd_events({"CallSid": "CA1", "AnsweredBy": "machine_end_beep"}, call, NOW)
    assert told == [Detected(at=NOW, answered_by=AnsweredBy.MACHINE)]
    assert len(amd_events({"CallSid": "CA1", "AnsweredBy": "fax"}, call, NOW)) == 2


def test_an_unknown_word_for_who_answered_is_no_event() -> None:
    assert amd_events({"CallSid": "CA1", "AnsweredBy": "parrot"}, a_call(), NOW) == []
    assert amd_events({"CallSid": "CA1"}, a_call(), NOW) == []


@pytest.mark.parametrize("order", list(itertools.permutations(["initiated", "ringing", "in-progress", "completed"])))
def test_callbacks_in_any_order_and_twice_end_alike(order: tuple[str, ...]) -> None:
    events = [event for status in (*order, *order) for event in status_events(form(status, CallDuration="1"), NOW)]
    call = reduce(state.apply, events, a_call(created_at=AT - timedelta(seconds=30), heard_from_at=AT))
    assert (call.status, call.end_reason, call.carrier_id) == (CallStatus.COMPLETED, EndReason.CALLEE_HUNG_UP, "CA1")
    assert call.answered_at is not None
    assert call.answered_at <= AT


@given(st.dictionaries(st.sampled_from(["CallStatus", "Timestamp", "CallDuration", "ErrorCode", "X"]), st.text()))
def test_no_form_makes_it_fail(junk: dict[str, str]) -> None:
    status_events({**junk, "CallSid": "CA1"}, NOW)
    amd_events(junk, a_call(), NOW)
    action_events(junk, NOW)
