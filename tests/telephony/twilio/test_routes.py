"""What Twilio reports changes its call, in whatever order and however often, and nothing it acknowledged is lost."""

import itertools
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from callmcp.calls.events import Answered, EndRequested, FellSilent, GivenUp
from callmcp.calls.model import AnsweredBy, CallStatus, EndReason, GoalMet, Outcome
from callmcp.telephony.twilio.addresses import Report
from callmcp.telephony.twilio.routes import FORM_LIMIT, MAX_FIELDS
from tests.telephony.twilio.api import ACCOUNT, TOKEN
from tests.telephony.twilio.desk import NEW_TOKEN, SID, Desk, action, amd, sign, status

pytestmark = pytest.mark.anyio

# What is genuine.


async def test_each_report_of_twilio_moves_its_call(desk: Desk) -> None:
    call = await desk.call(carrier_id=None)
    seen = []
    for word in ("initiated", "ringing", "in-progress", "completed"):
        assert (await desk.post(Report.STATUS, call, status(word))).status_code == 204
        seen.append((await desk.now(call)).status)

    assert seen == [CallStatus.INITIATED, CallStatus.RINGING, CallStatus.IN_PROGRESS, CallStatus.COMPLETED]
    assert (await desk.now(call)).carrier_id == SID
    assert desk.inbox.refused == Counter()


@pytest.mark.parametrize("token", [TOKEN, NEW_TOKEN])
async def test_both_auth_tokens_sign_while_one_is_rotated(desk: Desk, token: str) -> None:
    call = await desk.call()
    assert (await desk.post(Report.STATUS, call, token=token)).status_code == 204
    assert (await desk.now(call)).status is CallStatus.RINGING


async def test_a_report_of_the_largest_size_and_number_of_fields_is_taken(desk: Desk) -> None:
    call = await desk.call()
    form = list(status("ringing").items())
    form += [(f"x{n}", "") for n in range(MAX_FIELDS - len(form) - 1)]
    form.append(("y", "a" * (FORM_LIMIT - len(urlencode([*form, ("y", "")])))))
    assert len(urlencode(form)) == FORM_LIMIT
    answer = await desk.send(Report.STATUS, call, form, signature=sign(desk.url(Report.STATUS, call), form))
    assert answer.status_code == 204
    assert (await desk.now(call)).status is CallStatus.RINGING


@pytest.mark.parametrize("report", [Report.STATUS, Report.AMD, Report.RECORDING, Report.ACTION])
async def test_a_report_of_a_call_whose_name_is_not_known_yet_names_it(desk: Desk, report: Report) -> None:
    for call in (await desk.call(carrier_id=None), await desk.call(FellSilent(at=desk.clock.now()), carrier_id=None)):
        answer = await desk.post(report, call, {"AccountSid": ACCOUNT, "CallSid": f"{SID}-{call.id}"})
        assert answer.is_success
        assert (await desk.now(call)).carrier_id == f"{SID}-{call.id}"
        assert (await desk.now(call)).status is not CallStatus.UNKNOWN


@pytest.mark.parametrize("field", ["CallDuration", "Timestamp", "CallStatus", "ErrorCode", "ErrorMessage", "CallSid"])
@pytest.mark.parametrize("value", ["²", "-1", "9" * 300, "\x00", "Fri, 31 Dec 9999 23:59:59 -2300", "\ud7ff", "None"])
async def test_no_value_in_a_genuine_report_breaks_the_server(desk: Desk, field: str, value: str) -> None:
    for word in ("completed", "failed"):
        call = await desk.call(carrier_id=None)
        answer = await desk.post(Report.STATUS, call, status(word) | {field: value})
        assert answer.status_code < 500


# What cannot be stored, comes late, twice or in another order.


@pytest.mark.parametrize(
    ("report", "form"),
    [
        (Report.STATUS, status("in-progress")),
        (Report.STATUS, status("completed")),
        (Report.AMD, amd("machine_start")),
        (Report.ACTION, action("completed")),
    ],
)
async def test_a_report_that_cannot_be_stored_is_not_acknowledged_and_is_taken_when_it_comes_again(
    desk: Desk, report: Report, form: dict[str, str]
) -> None:
    call = await desk.call()
    desk.store.full = True
    assert (await desk.post(report, call, form)).status_code == 503
    desk.store.full = False
    assert await desk.now(call) == call
    assert (await desk.post(report, call, form)).is_success
    assert await desk.now(call) != call
    assert desk.inbox.refused == Counter()


EVERYTHING = [
    *((Report.STATUS, status(word)) for word in ("queued", "initiated", "ringing", "in-progress", "paused")),
    *((Report.STATUS, status(word)) for word in ("completed", "busy", "no-answer", "canceled", "failed")),
    *((Report.AMD, amd(word)) for word in ("machine_start", "human", "fax", "unknown", "parrot")),
    *((Report.ACTION, action(word)) for word in ("completed", "ended", "failed")),
    (Report.RECORDING, {"AccountSid": ACCOUNT, "CallSid": SID, "RecordingSid": "RE1"}),
]


async def test_nothing_changes_a_call_that_is_over(desk: Desk) -> None:
    call = await desk.call()
    for word in ("ringing", "in-progress"):
        await desk.post(Report.STATUS, call, status(word))
    await desk.post(Report.AMD, call, amd("human"))
    await desk.post(Report.STATUS, call, status("completed", CallDuration="9"))
    over = await desk.now(call)
    assert over.status is CallStatus.COMPLETED
    await desk.clock.advance(60)
    for report, form in EVERYTHING:
        assert (await desk.post(report, call, form)).is_success
        assert await desk.now(call) == over
    assert await desk.hung_up() == []


@pytest.mark.parametrize("word", ["machine_start", "human"])
async def test_who_answered_is_still_learnt_after_the_end_and_a_machine_is_no_success(desk: Desk, word: str) -> None:
    call = await desk.call()
    for state in ("in-progress", "completed"):
        await desk.post(Report.STATUS, call, status(state))
    over = await desk.now(call)
    await desk.post(Report.AMD, call, amd(word))
    learnt = replace(over, answered_by=AnsweredBy.HUMAN)
    if word != "human":
        to_a_machine = Outcome(goal_met=GoalMet.NO, summary="A machine answered; nobody was spoken to.")
        learnt = replace(over, answered_by=AnsweredBy.MACHINE, outcome=to_a_machine)
    assert await desk.now(call) == learnt
    assert await desk.hung_up() == []


@pytest.mark.parametrize(
    ("report", "form"),
    [
        *((Report.STATUS, status(word)) for word in ("initiated", "ringing", "in-progress")),
        (Report.AMD, amd("human")),
        (Report.RECORDING, {"AccountSid": ACCOUNT, "CallSid": SID}),
    ],
)
async def test_a_call_that_was_given_up_is_hung_up_when_it_turns_up(
    desk: Desk, report: Report, form: dict[str, str]
) -> None:
    now = desk.clock.now()
    call = await desk.call(FellSilent(at=now), GivenUp(at=now), carrier_id=None)
    assert (await desk.post(report, call, form)).is_success
    assert await desk.hung_up() == [SID]
    late = await desk.now(call)
    assert late == replace(call, carrier_id=SID, answered_by=late.answered_by)


async def test_a_call_that_is_to_end_is_hung_up_when_it_is_named(desk: Desk) -> None:
    call = await desk.call(carrier_id=None, end_requested_at=desk.clock.now())
    await desk.post(Report.STATUS, call, status("ringing"))
    assert await desk.hung_up() == [SID]


async def test_every_order_of_a_calls_reports_told_twice_gives_one_record(desk: Desk) -> None:
    began = desk.clock.now()
    at = [began + timedelta(seconds=seconds) for seconds in (1, 2, 5, 15)]
    await desk.clock.advance(20)
    reports = [
        (Report.STATUS, status("initiated", at=at[0], SequenceNumber="0")),
        (Report.STATUS, status("ringing", at=at[1], SequenceNumber="1")),
        (Report.STATUS, status("in-progress", at=at[2], SequenceNumber="2")),
        (Report.STATUS, status("completed", at=at[3], SequenceNumber="3", CallDuration="10")),
        (Report.AMD, amd("human")),
    ]
    records = set()
    for order in itertools.permutations(reports):
        call = await desk.call(carrier_id=None, created_at=began, heard_from_at=began)
        for report, form in (*order, *order):
            assert (await desk.post(report, call, form)).status_code == 204
        now = await desk.now(call)
        records.add((now.status, now.end_reason, now.answered_by, now.answered_at, now.ended_at, now.error))
    assert records == {(CallStatus.COMPLETED, EndReason.CALLEE_HUNG_UP, AnsweredBy.HUMAN, at[2], at[3], None)}


# Machines and the end of the talk.


@pytest.mark.parametrize(
    ("word", "answered_by"),
    [
        ("machine_start", AnsweredBy.MACHINE),
        ("machine_end_beep", AnsweredBy.MACHINE),
        ("machine_end_silence", AnsweredBy.MACHINE),
        ("machine_end_other", AnsweredBy.MACHINE),
        ("fax", AnsweredBy.FAX),
    ],
)
@pytest.mark.parametrize("named", [True, False])
async def test_a_machine_is_hung_up_on(desk: Desk, word: str, answered_by: AnsweredBy, *, named: bool) -> None:
    call = await desk.call(carrier_id=SID if named else None)
    await desk.post(Report.AMD, call, amd(word))
    assert await desk.hung_up() == [SID]
    now = await desk.now(call)
    assert (now.answered_by, now.end_reason) == (answered_by, EndReason.MACHINE)
    await desk.post(Report.STATUS, call, status("completed"))
    assert (await desk.now(call)).end_reason is EndReason.MACHINE


@pytest.mark.parametrize("word", ["human", "unknown"])
async def test_who_may_be_a_person_is_not(desk: Desk, word: str) -> None:
    call = await desk.call()
    await desk.post(Report.AMD, call, amd(word))
    assert await desk.hung_up() == []
    assert (await desk.now(call)).answered_by == word


@pytest.mark.parametrize(
    ("form", "reason", "code", "ended"),
    [
        (action("completed"), EndReason.CALLEE_HUNG_UP, None, []),
        (action("ended"), None, None, []),
        (action("ended", HandoffData="max-duration"), EndReason.MAX_DURATION, None, [SID]),
        (action("ended", HandoffData="something else"), None, None, []),
        (action("puzzled"), None, None, []),
        (status("in-progress"), None, None, []),
    ],
)
async def test_twilio_is_told_to_hang_up_when_the_session_has_ended(
    desk: Desk, form: dict[str, str], reason: EndReason | None, code: str | None, ended: list[str]
) -> None:
    call = await desk.call()
    await desk.post(Report.STATUS, call, status("in-progress"))
    answer = await desk.post(Report.ACTION, call, form)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/xml")
    assert "<Hangup" in answer.text
    now = await desk.now(call)
    assert now.status is CallStatus.IN_PROGRESS
    assert (now.end_reason, now.error and now.error.code) == (reason, code)
    assert await desk.hung_up() == ended


@pytest.mark.parametrize(
    ("form", "reason", "code"),
    [
        (action("failed", ErrorCode="64105"), EndReason.SERVER_LOST, "talk_lost"),
        (action("failed", ErrorCode="64102"), EndReason.CARRIER_FAILED, "relay_unreachable"),
        (action("failed", ErrorCode="39001"), EndReason.CARRIER_FAILED, "relay_unreachable"),
        (action("failed"), EndReason.SERVER_LOST, "talk_lost"),
    ],
)
async def test_a_session_that_failed_is_connected_again_twice_and_then_hung_up(
    desk: Desk, form: dict[str, str], reason: EndReason, code: str
) -> None:
    call = await desk.call()
    await desk.post(Report.STATUS, call, status("in-progress"))
    for _ in range(2):
        answer = await desk.post(Report.ACTION, call, form)
        assert "<Connect" in answer.text
        assert "<Pause" not in answer.text
        assert (await desk.now(call)).end_reason is None
    assert await desk.hung_up() == []

    answer = await desk.post(Report.ACTION, call, form)
    assert "<Hangup" in answer.text
    now = await desk.now(call)
    assert (now.status, now.end_reason, now.error and now.error.code) == (CallStatus.IN_PROGRESS, reason, code)
    assert await desk.hung_up() == [SID]


async def test_a_call_that_was_to_end_is_not_connected_again(desk: Desk) -> None:
    call = await desk.call(Answered(at=desk.clock.now()), EndRequested(at=desk.clock.now()))
    answer = await desk.post(Report.ACTION, call, action("failed", ErrorCode="64105"))
    assert "<Hangup" in answer.text
    assert (await desk.now(call)).end_reason is EndReason.ENDED_BY_CALLER
