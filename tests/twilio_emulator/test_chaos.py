"""Each switch does what it says, and nothing else."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.twilio_emulator.chaos import Switch
from tests.twilio_emulator.harness import CALLS, HANGUP, Emulator, Program, spoken, xml

pytestmark = pytest.mark.anyio
TO = "+12025550100"
TOLD = ["initiated", "ringing", "in-progress", "completed"]


async def dials(emulator: Emulator) -> int:
    counts: dict[str, int] = (await emulator.summary())["dials"]
    return sum(counts.values())


def test_every_switch_is_tested_here() -> None:
    source = Path(__file__).read_text()
    assert [switch for switch in Switch if f'"{switch.value}"' not in source] == []


# The answer.

UNPROCESSED = [
    ("rate-limited", 429, 20429),
    ("error-500", 500, 20500),
    ("error-503", 503, 20503),
    ({"switch": "refuse", "code": 10004, "times": 1}, 429, 10004),
]


@pytest.mark.parametrize(("switch", "status", "code"), UNPROCESSED)
async def test_an_error_places_nothing_and_strikes_once(
    emulator: Emulator, switch: Any, status: int, code: int
) -> None:
    await emulator.plan(to=TO, callee="silent", chaos=[switch])
    answer = await emulator.post(TO)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await dials(emulator) == 0
    await emulator.call(await emulator.place(TO))
    assert await dials(emulator) == 1


async def test_an_error_can_strike_for_ever(emulator: Emulator) -> None:
    await emulator.plan(chaos=[{"switch": "rate-limited", "times": None}])
    assert [(await emulator.post(TO)).status_code for _ in range(3)] == [429] * 3


PROCESSED = [("error-500-processed", 500), ("html-502-processed", 502)]


@pytest.mark.parametrize(("switch", "status"), PROCESSED)
async def test_an_error_after_the_work_rings_all_the_same(
    emulator: Emulator, program: Program, switch: str, status: int
) -> None:
    await emulator.plan(chaos=[switch])
    assert (await emulator.post(TO, program)).status_code == status
    await emulator.http.get("/_control/idle", params={"wait": 5})
    assert program.statuses() == TOLD
    assert await dials(emulator) == 1


async def test_a_gateway_answers_html(emulator: Emulator) -> None:
    await emulator.plan(chaos=["html-502"])
    answer = await emulator.post(TO)
    assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert await dials(emulator) == 0


@pytest.mark.parametrize(("switch", "placed"), [("close", 0), ("reset-processed", 1)])
async def test_a_reset_is_a_reset(emulator: Emulator, program: Program, switch: str, placed: int) -> None:
    await emulator.plan(chaos=[switch])
    with pytest.raises(httpx.ReadError):
        await emulator.post(TO, program)
    assert await dials(emulator) == placed
    await emulator.http.get("/_control/idle", params={"wait": 5})
    assert program.statuses() == TOLD * placed


@pytest.mark.parametrize(("switch", "placed"), [("hang", 0), ("hang-processed", 1)])
async def test_a_hang_never_answers(emulator: Emulator, switch: str, placed: int) -> None:
    await emulator.plan(chaos=[switch])
    async with httpx.AsyncClient(base_url=emulator.http.base_url, auth=emulator.http.auth, timeout=0.3) as impatient:
        with pytest.raises(httpx.ReadTimeout):
            await impatient.post(f"{CALLS}.json", data={"To": TO, "From": "+15005550006", "Twiml": HANGUP})
    assert await dials(emulator) == placed


async def test_a_slow_201_comes_after_the_call(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "slow", "seconds": 0.5}])
    began = time.monotonic()
    await emulator.place(TO, program)
    assert time.monotonic() - began >= 0.5
    assert program.statuses() == TOLD


async def test_the_first_callback_can_come_before_the_201(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=["callback-first"])
    sid = await emulator.place(TO, program)
    assert program.statuses()[:1] == ["initiated"]
    kinds = [(e["kind"], e.get("event", e.get("on"))) for e in await emulator.events("", call=sid)]
    assert kinds.index(("callback", "initiated")) < kinds.index(("answer", "create"))


@pytest.mark.parametrize("on", ["fetch", "update", "list"])
async def test_other_requests_can_fail_too(emulator: Emulator, on: str) -> None:
    await emulator.plan(chaos=[{"switch": "error-500", "on": on, "times": 1}], to=TO, callee="silent")
    sid = await emulator.place(TO, Twiml="<Response><Pause length='900'/></Response>")
    ask: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
        "fetch": lambda: emulator.http.get(f"{CALLS}/{sid}.json"),
        "update": lambda: emulator.update(sid, Status="completed"),
        "list": lambda: emulator.http.get(f"{CALLS}.json", params={"To": TO}),
    }
    assert [(await ask[on]()).status_code for _ in range(2)] == [500, 200]


# The callbacks.


async def test_a_reordered_callback_comes_after_the_next(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "reorder", "event": "initiated"}])
    await emulator.call(await emulator.place(TO, program))
    assert program.statuses()[:2] == ["ringing", "initiated"]
    assert sorted(program.statuses()) == sorted(TOLD)
    order = {told.form["CallStatus"]: told.form["SequenceNumber"] for told in program.told}
    assert (order["initiated"], order["ringing"]) == ("0", "1")


async def test_all_callbacks_can_come_in_reverse(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=["reorder"])
    await emulator.call(await emulator.place(TO, program))
    assert program.statuses() == list(reversed(TOLD))


async def test_a_duplicate_has_the_same_token(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "duplicate", "event": "ringing"}])
    await emulator.call(await emulator.place(TO, program))
    assert sorted(program.statuses()) == sorted([*TOLD, "ringing"])
    tokens = [told.token for told in program.told if told.form["CallStatus"] == "ringing"]
    assert len(set(tokens)) == 1


async def test_a_dropped_callback_never_comes(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "drop", "event": "completed"}])
    call = await emulator.call(await emulator.place(TO, program))
    assert program.statuses() == TOLD[:3]
    assert call["status"] == "completed"


async def test_a_delayed_callback_comes_late(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "delay", "event": "initiated", "seconds": 150}])
    await emulator.call(await emulator.place(TO, program))
    assert program.statuses() == [*TOLD[1:], "initiated"]


async def test_a_forged_callback_claims_the_end_with_a_bad_signature(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "forge", "event": "ringing"}])
    await emulator.call(await emulator.place(TO, program))
    forged = [told for told in program.told if not told.genuine]
    assert [(told.form["CallStatus"], told.form["SequenceNumber"]) for told in forged] == [("completed", "1")]
    assert [told.form["CallStatus"] for told in program.told if told.genuine] == TOLD


async def test_a_genuine_callback_can_be_badly_signed(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=[{"switch": "bad-signature", "event": "ringing"}])
    await emulator.call(await emulator.place(TO, program))
    assert [told.form["CallStatus"] for told in program.told if not told.genuine] == ["ringing"]


# The call.


async def test_silence_after_the_201_is_total(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=["silent"])
    call = await emulator.call(await emulator.place(TO, program))
    assert (call["status"], program.told) == ("queued", [])
    listed = (await emulator.http.get(f"{CALLS}.json", params={"To": TO})).json()["calls"]
    assert [call["status"] for call in listed] == ["queued"]
    await emulator.update(call["sid"], Status="completed")
    assert (await emulator.http.get(f"{CALLS}/{call['sid']}.json")).json()["status"] == "canceled"


async def test_ringing_can_be_left_out(emulator: Emulator, program: Program) -> None:
    await emulator.plan(chaos=["no-ringing"])
    await emulator.call(await emulator.place(TO, program))
    assert program.statuses() == ["initiated", "in-progress", "completed"]


async def test_a_refused_relay_is_told_to_the_action(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(HANGUP)]
    await emulator.plan(chaos=["relay-refused"])
    await emulator.call(await emulator.place(TO, program, Twiml=program.connect()))
    assert program.handshakes == []
    form = next(told.form for told in program.told if told.path == "/action")
    assert (form["SessionStatus"], form["ErrorCode"]) == ("failed", "64102")


async def test_the_relay_is_cut_in_mid_sentence_once(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(program.connect()), xml(HANGUP)]
    steps: list[dict[str, Any]] = [{"do": "listen", "words": 5}, {"do": "hang-up"}]
    await emulator.plan(callee={"steps": steps}, chaos=[{"switch": "relay-cut", "words": 2, "times": 1}])
    call = await emulator.call(await emulator.place(TO, program, Twiml=program.connect()))
    assert spoken(call)[0] == ("agent", "Hello, this")
    assert call["transcript"][0]["interrupted"] is True
    form = next(told.form for told in program.told if told.path == "/action")
    assert (form["SessionStatus"], form["ErrorCode"], form["CallStatus"]) == ("failed", "64105", "in-progress")
    assert len(call["relays"]) == 2


async def test_an_unreachable_action_ends_a_failed_call(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="silent", chaos=["action-unreachable", {"switch": "relay-cut", "words": 2}])
    call = await emulator.call(await emulator.place(TO, program, Twiml=program.connect()))
    assert "/action" not in [told.path for told in program.told]
    assert "application error" in call["transcript"][-1]["text"]
    assert 11205 in [alert["code"] for alert in await emulator.events("alert")]


async def test_detection_can_report_after_the_end(emulator: Emulator, program: Program) -> None:
    await emulator.plan(callee="voicemail", chaos=["amd-after-hangup"])
    amd = {"MachineDetection": "Enable", "AsyncAmd": "true", "AsyncAmdStatusCallback": f"{program.base}/amd"}
    await emulator.call(await emulator.place(TO, program, **amd))
    assert [told.path for told in program.told][-2:] == ["/status", "/amd"]
    assert program.told[-1].form["AnsweredBy"] == "machine_start"
    assert program.told[-2].form["CallStatus"] == "completed"


# Plans.


async def test_a_plan_is_for_its_number_and_for_one_call(emulator: Emulator) -> None:
    await emulator.plan(to=TO, callee="busy")
    assert (await emulator.call(await emulator.place("+12025550155")))["status"] == "completed"
    assert (await emulator.call(await emulator.place(TO)))["status"] == "busy"
    assert (await emulator.call(await emulator.place(TO)))["status"] == "completed"


@pytest.mark.parametrize(
    "plan",
    [
        {"callee": "nobody"},
        {"callee": {"outcome": "explodes"}},
        {"callee": {"steps": [{"do": "dance"}]}},
        {"callee": {"steps": [{"do": "say", "words": 3}]}},
        {"chaos": ["everything"]},
        {"chaos": [{"switch": "drop", "colour": "red"}]},
        {"whom": TO},
        [],
    ],
)
async def test_a_wrong_plan_is_refused(emulator: Emulator, plan: Any) -> None:
    answer = await emulator.http.post("/_control/plans", json=plan)
    assert answer.status_code == 400
    assert answer.json()["error"]
