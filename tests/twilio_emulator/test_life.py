"""The life of a call, as the program is told of it and as the API shows it."""

import io
import wave
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from starlette.responses import RedirectResponse, Response

from tests.twilio_emulator.harness import CALLS, FROM, HANGUP, Emulator, Program, spoken, xml

pytestmark = pytest.mark.anyio
TO = "+12025550100"
GEO = {f"{role}{part}" for role in ("To", "From", "Called", "Caller") for part in ("City", "State", "Zip", "Country")}
BASE = GEO | {"AccountSid", "ApiVersion", "CallSid", "CallStatus", "Direction", "From", "To", "Caller", "Called"}
PROGRESS = BASE | {"Timestamp", "CallbackSource", "SequenceNumber"}


async def test_a_conversation_is_told_in_order_and_heard_as_it_was_said(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(HANGUP)]
    steps = [{"do": "listen"}, {"do": "say", "text": "Fine."}, {"do": "listen"}, {"do": "hang-up"}]
    await emulator.plan(callee={"steps": steps})
    sid = await emulator.place(TO, program, Twiml=program.connect())
    call = await emulator.call(sid)
    assert (call["status"], call["ended_by"]) == ("completed", "callee")
    assert spoken(call) == [
        ("agent", "Hello, this is an automated assistant."),
        ("callee", "Fine."),
        ("agent", "Thank you."),
    ]
    assert all(told.genuine for told in program.told)
    paths = [(told.path, told.form["CallStatus"]) for told in program.told]
    assert paths == [
        ("/status", "initiated"),
        ("/status", "ringing"),
        ("/status", "in-progress"),
        ("/action", "completed"),
        ("/status", "completed"),
    ]


async def test_a_status_callback_has_every_field_of_the_recorded_ones(emulator: Emulator, program: Program) -> None:
    await emulator.call(await emulator.place(TO, program))
    told = {told.form["CallStatus"]: told.form for told in program.told}
    assert told["initiated"].keys() == PROGRESS
    assert told["ringing"].keys() == PROGRESS | {"StirStatus"}
    assert told["in-progress"].keys() == PROGRESS | {"StirStatus"}
    assert told["completed"].keys() == PROGRESS | {"SipResponseCode", "CallDuration", "Duration"}
    assert [form["SequenceNumber"] for form in told.values()] == ["0", "1", "2", "3"]
    assert {form["CallbackSource"] for form in told.values()} == {"call-progress-events"}
    assert told["completed"]["ToCity"] == ""
    assert abs(parsedate_to_datetime(told["completed"]["Timestamp"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert len({each.token for each in program.told}) == 4


ENDS = [
    ("+12025550110", "busy", "486", ["initiated", "ringing", "busy"]),
    ("+12025550111", "no-answer", "487", ["initiated", "ringing", "no-answer"]),
    ("+12025550112", "failed", "404", ["initiated", "failed"]),
    ("+12025550113", "canceled", "487", ["initiated", "canceled"]),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end[1])
async def test_a_call_that_nobody_answers_ends_as_its_number_says(
    emulator: Emulator, program: Program, end: tuple[str, str, str, list[str]]
) -> None:
    to, status, sip, told = end
    call = await emulator.call(await emulator.place(to, program))
    assert (call["status"], call["duration"], call["start_time"]) == (status, None, None)
    assert program.statuses() == told
    last = program.told[-1].form
    assert (last["SipResponseCode"], last["CallDuration"]) == (sip, "0")


async def test_only_the_events_asked_for_are_told(emulator: Emulator, program: Program) -> None:
    await emulator.call(await emulator.place(TO, program, StatusCallbackEvent=["answered", "completed"]))
    assert program.statuses() == ["in-progress", "completed"]
    program.told.clear()
    await emulator.call(await emulator.place(TO, program, StatusCallbackEvent=None))
    assert program.statuses() == ["completed"]


async def test_the_201_says_queued_and_every_field(emulator: Emulator) -> None:
    answer = (await emulator.post(TO)).json()
    assert (answer["status"], answer["direction"], answer["queue_time"]) == ("queued", "outbound-api", "0")
    assert (answer["to_formatted"], answer["from"]) == ("(202) 555-0100", FROM)
    assert [answer[name] for name in ("duration", "price", "start_time", "end_time", "answered_by")] == [None] * 5
    assert answer["uri"] == f"{CALLS}/{answer['sid']}.json"
    await emulator.call(answer["sid"])
    after = (await emulator.http.get(answer["uri"])).json()
    assert after["status"] == "completed"
    assert after.keys() == answer.keys()
    assert int(after["duration"]) >= 1


async def test_a_hang_up_while_it_rings_cancels_it(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee={"rings": 500})
    sid = await emulator.place(TO, program, Timeout=600)
    await emulator.call(sid, until="ringing")
    answer = await emulator.update(sid, Status="completed")
    assert answer.status_code == 200
    assert (await emulator.call(sid))["status"] == "canceled"
    assert program.statuses() == ["initiated", "ringing", "canceled"]


async def test_canceling_leaves_a_call_in_progress_alone(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    sid = await emulator.place(TO, program, Twiml=program.connect())
    await emulator.call(sid, until="in-progress")
    await emulator.update(sid, Status="canceled")
    assert (await emulator.http.get(f"{CALLS}/{sid}.json")).json()["status"] == "in-progress"
    await emulator.update(sid, Status="completed")
    assert (await emulator.call(sid))["ended_by"] == "api"


async def test_an_ended_call_cannot_be_changed(emulator: Emulator) -> None:
    sid = await emulator.place(TO)
    await emulator.call(sid)
    redirected = await emulator.update(sid, Twiml=HANGUP)
    assert (redirected.status_code, redirected.json()["code"]) == (400, 21220)
    assert redirected.json()["message"] == "Call is not in-progress. Cannot redirect."
    again = await emulator.update(sid, Status="completed")
    assert (again.status_code, again.json()["code"]) == (404, 20404)


async def test_a_redirect_asks_the_action_too_and_drops_its_answer(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee={"steps": [{"do": "stay"}]})
    program.answers["/action"] = [xml("<Response><Say>Never heard.</Say></Response>")]
    sid = await emulator.place(TO, program, Twiml=program.connect())
    await emulator.http.get("/_control/events", params={"kind": "relay-connect", "wait": 5})
    await emulator.update(sid, Twiml="<Response><Say>Please hold on.</Say><Hangup/></Response>")
    call = await emulator.call(sid)
    assert spoken(call)[-1] == ("carrier", "Please hold on.")
    assert ("carrier", "Never heard.") not in spoken(call)
    asked = [told.form for told in program.told if told.path == "/action"]
    assert [form["CallStatus"] for form in asked] == ["in-progress"]


async def test_twiml_is_fetched_and_the_fallback_stands_in(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    program.answers["/voice"] = [Response("no", status_code=503)]
    program.answers["/spare"] = [xml("<Response><Say>Hello.</Say><Redirect>next</Redirect></Response>")]
    program.answers["/next"] = [xml("<Response><Pause length='2'/><Play>https://a.example/b.mp3</Play></Response>")]
    urls = {"Twiml": None, "Url": f"{program.base}/voice", "FallbackUrl": f"{program.base}/spare"}
    call = await emulator.call(await emulator.place(TO, program, **urls))
    assert spoken(call) == [("carrier", "Hello."), ("carrier", "[https://a.example/b.mp3]")]
    voice = next(told.form for told in program.told if told.path == "/voice")
    assert voice.keys() == BASE
    assert voice["CallStatus"] == "in-progress"
    assert [alert["code"] for alert in await emulator.events("alert")] == [11200]


@pytest.mark.parametrize("twiml", ["<Response", "<Nothing/>", "x"])
async def test_broken_twiml_is_an_application_error_to_the_callee(emulator: Emulator, twiml: str) -> None:
    call = await emulator.call(await emulator.place(TO, Twiml=twiml))
    assert "application error" in call["transcript"][0]["text"]
    assert call["status"] == "completed"
    assert [alert["code"] for alert in await emulator.events("alert")] == [12100]


async def test_an_unknown_verb_is_noted_and_passed_over(emulator: Emulator) -> None:
    call = await emulator.call(await emulator.place(TO, Twiml="<Response><Sing/><Say>Hello.</Say></Response>"))
    assert spoken(call) == [("carrier", "Hello.")]
    assert [alert["code"] for alert in await emulator.events("alert")] == [12200]


async def test_the_time_limit_ends_a_call(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    call = await emulator.call(await emulator.place(TO, program, Twiml=program.connect(), TimeLimit=30))
    assert (call["ended_by"], call["status"]) == ("time-limit", "completed")
    assert 29 <= int(call["duration"]) <= 60


async def test_a_failing_callback_is_repeated_as_the_fragment_says(emulator: Emulator, program: Program) -> None:
    program.answers["/status"] = [Response(status_code=500), Response(status_code=500), Response(status_code=204)]
    rules = f"{program.base}/status#rc=2&rp=5xx,ct&ct=500&rt=4000"
    await emulator.call(await emulator.place(TO, StatusCallback=rules, StatusCallbackEvent=["completed"]))
    assert program.statuses() == ["completed"] * 3
    assert len({told.token for told in program.told}) == 1
    assert all(told.genuine for told in program.told)
    assert await emulator.events("alert") == []


async def test_without_rules_a_failing_callback_is_not_repeated(emulator: Emulator, program: Program) -> None:
    program.answers["/status"] = [Response(status_code=500)]
    await emulator.call(await emulator.place(TO, program, StatusCallbackEvent=["completed"]))
    assert program.statuses() == ["completed"]
    assert [alert["code"] for alert in await emulator.events("alert")] == [15003]


async def test_a_callback_to_nobody_is_tried_twice(emulator: Emulator) -> None:
    form: dict[str, Any] = {"StatusCallback": "http://127.0.0.1:1/status", "StatusCallbackEvent": ["completed"]}
    await emulator.call(await emulator.place(TO, **form))
    assert [event["answer"] for event in await emulator.events("callback")] == ["ct", "ct"]


async def test_a_callback_can_be_a_get_with_its_fields_in_the_signed_url(emulator: Emulator, program: Program) -> None:
    form: dict[str, Any] = {"StatusCallback": f"{program.base}/status?a=1", "StatusCallbackMethod": "GET"}
    await emulator.call(await emulator.place(TO, StatusCallbackEvent=["completed"], **form))
    (told,) = program.told
    assert (told.form, told.genuine) == ({}, True)
    (sent,) = await emulator.events("callback")
    assert sent["url"].startswith(f"{program.base}/status?a=1&AccountSid=AC")


async def test_a_hanging_callback_does_not_hold_up_the_call(emulator: Emulator, program: Program) -> None:
    program.delays["/status"] = 3
    form: dict[str, Any] = {
        "StatusCallback": f"{program.base}/status#rt=500",
        "StatusCallbackEvent": ["ringing", "completed"],
    }
    await emulator.call(await emulator.place(TO, **form))
    assert [event["answer"] for event in await emulator.events("callback")] == ["rt", "rt"]


async def test_a_redirected_callback_loses_its_form(emulator: Emulator, program: Program) -> None:
    program.answers["/status"] = [RedirectResponse("/elsewhere", 302)]
    await emulator.call(await emulator.place(TO, program, StatusCallbackEvent=["completed"]))
    assert [(told.path, bool(told.form)) for told in program.told] == [("/status", True), ("/elsewhere", False)]
    assert len(await emulator.events("violation")) == 1


async def test_calls_leave_the_queue_one_at_a_time(emulator: Emulator) -> None:
    await emulator.settings(cps=1, speed=4)
    answers = [(await emulator.post(TO)).json() for _ in range(2)]
    assert int(answers[1]["queue_time"]) > int(answers[0]["queue_time"])
    for answer in answers:
        await emulator.call(answer["sid"])
    dialled = [event["t"] for event in await emulator.events("dialled")]
    assert dialled[1] - dialled[0] > 0.3


async def test_calls_are_found_by_number_status_and_day(emulator: Emulator) -> None:
    ended = await emulator.place(TO)
    await emulator.call(ended)
    await emulator.call(await emulator.place("+12025550110"))
    today = datetime.now(UTC).date()

    async def found(**query: Any) -> list[str]:
        named = {name.replace("_after", ">").replace("_before", "<"): value for name, value in query.items()}
        answer = await emulator.http.get(f"{CALLS}.json", params=named)
        return [call["sid"] for call in answer.json()["calls"]]

    assert await found(To=TO) == [ended]
    assert await found(To=TO, From=FROM, StartTime_after=str(today)) == [ended]
    assert await found(To=TO, StartTime_after=str(today + timedelta(days=1))) == []
    assert await found(To=TO, StartTime_before=str(today - timedelta(days=1))) == []
    assert await found(Status="completed") == [ended]
    assert len(await found()) == 2


async def test_a_long_list_comes_in_pages(emulator: Emulator) -> None:
    sids = [await emulator.place(TO) for _ in range(5)]
    seen: list[str] = []
    following = f"{CALLS}.json?PageSize=2"
    while following:
        page = (await emulator.http.get(following)).json()
        seen += [call["sid"] for call in page["calls"]]
        following = page["next_page_uri"]
    assert seen == list(reversed(sids))


async def test_a_call_is_deleted_once_it_is_over(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    sid = await emulator.place(TO, Twiml=program.connect())
    assert (await emulator.http.delete(f"{CALLS}/{sid}.json")).json()["code"] == 20009
    await emulator.update(sid, Status="completed")
    await emulator.call(sid)
    assert (await emulator.http.delete(f"{CALLS}/{sid}.json")).status_code == 204
    assert (await emulator.http.get(f"{CALLS}/{sid}.json")).status_code == 404


async def test_a_recording_is_told_of_and_can_be_fetched(emulator: Emulator, program: Program) -> None:
    told = {"RecordingStatusCallback": f"{program.base}/recording"}
    events = {"RecordingStatusCallbackEvent": ["in-progress", "completed"]}
    twiml = "<Response><Pause length='20'/></Response>"
    sid = await emulator.place(TO, program, Record="true", Twiml=twiml, **told, **events)
    await emulator.call(sid)
    forms = [told.form for told in program.told if told.path == "/recording"]
    assert [form["RecordingStatus"] for form in forms] == ["in-progress", "completed"]
    assert (forms[1]["RecordingSource"], forms[1]["RecordingChannels"]) == ("OutboundAPI", "1")
    path = forms[1]["RecordingUrl"].removeprefix("https://api.twilio.com")
    media = await emulator.http.get(f"{path}.wav")
    with wave.open(io.BytesIO(media.content)) as sound:
        assert sound.getnframes() / sound.getframerate() == int(forms[1]["RecordingDuration"]) >= 20
    assert (await emulator.http.get(f"{path}.mp3")).content[:2] == b"\xff\xf3"
    assert (await emulator.http.get(f"{path}.wav", auth=("", ""))).status_code == 401
    listed = (await emulator.http.get(f"{CALLS}/{sid}/Recordings.json")).json()["recordings"]
    assert [recording["status"] for recording in listed] == ["completed"]
    assert program.told[-1].form["RecordingSid"] == listed[0]["sid"]


async def test_twiml_and_the_api_start_recordings_too(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent")
    start = f"<Start><Recording recordingStatusCallback='{program.base}/recording'/></Start>"
    sid = await emulator.place(TO, Twiml=program.connect().replace("<Response>", f"<Response>{start}"))
    await emulator.call(sid, until="in-progress")
    recording = (await emulator.http.post(f"{CALLS}/{sid}/Recordings.json")).json()
    stopped = await emulator.http.post(f"{CALLS}/{sid}/Recordings/{recording['sid']}.json", data={"Status": "stopped"})
    assert (stopped.json()["status"], recording["source"]) == ("completed", "StartCallRecordingAPI")
    await emulator.update(sid, Status="completed")
    await emulator.call(sid)
    assert [told.form["RecordingSource"] for told in program.told if told.path == "/recording"] == [
        "StartCallRecordingTwiML"
    ]


DETECTED = [
    ("+12025550100", "Enable", "human"),
    ("+12025550105", "Enable", "machine_start"),
    ("+12025550105", "DetectMessageEnd", "machine_end_beep"),
    ("+12025550106", "DetectMessageEnd", "machine_end_silence"),
    ("+12025550107", "Enable", "fax"),
    ("+12025550108", "Enable", "unknown"),
]


@pytest.mark.parametrize(("to", "mode", "answered_by"), DETECTED)
async def test_detection_tells_who_answered(
    emulator: Emulator, program: Program, to: str, mode: str, answered_by: str
) -> None:
    amd = {"MachineDetection": mode, "AsyncAmd": "true", "AsyncAmdStatusCallback": f"{program.base}/amd"}
    sid = await emulator.place(to, program, Twiml="<Response><Pause length='20'/></Response>", **amd)
    call = await emulator.call(sid)
    told = next(told.form for told in program.told if told.path == "/amd")
    assert told.keys() == {"AccountSid", "CallSid", "AnsweredBy", "MachineDetectionDuration"}
    assert (told["AnsweredBy"], call["answered_by"]) == (answered_by, answered_by)
    assert int(told["MachineDetectionDuration"]) >= 2000
    assert program.told[-1].form["AnsweredBy"] == answered_by


async def test_synchronous_detection_holds_the_twiml(emulator: Emulator, program: Program) -> None:
    program.answers["/voice"] = [xml(HANGUP)]
    voice = {"Twiml": None, "Url": f"{program.base}/voice", "MachineDetection": "Enable"}
    await emulator.call(await emulator.place("+12025550105", program, **voice))
    asked = next(told.form for told in program.told if told.path == "/voice")
    assert asked["AnsweredBy"] == "machine_start"


async def test_a_routed_host_is_signed_for_and_addressed_as_the_public_one(
    emulator: Emulator, program: Program
) -> None:
    await emulator.settings(routes={"phone.example.net": program.base.removeprefix("http://")})
    await emulator.call(await emulator.place(TO, StatusCallback="https://phone.example.net/status"))
    (sent,) = (await emulator.events("callback"))[-1:]
    assert (sent["url"], sent["answer"]) == ("https://phone.example.net/status", 204)
    assert not program.told[-1].genuine  # the harness checks against the plain URL, which is not what was signed


async def test_the_account_and_its_numbers_can_be_looked_up(emulator: Emulator) -> None:
    account = CALLS.removesuffix("/Calls")
    assert (await emulator.http.get(f"{account}.json")).json()["status"] == "active"
    numbers = (await emulator.http.get(f"{account}/IncomingPhoneNumbers.json", params={"PhoneNumber": FROM})).json()
    assert [number["phone_number"] for number in numbers["incoming_phone_numbers"]] == [FROM]
    assert (await emulator.http.get(f"{account}/OutgoingCallerIds.json")).json()["outgoing_caller_ids"] == []
