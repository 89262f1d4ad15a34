"""What Twilio refuses, and what it accepts without doing what was meant."""

from typing import Any

import pytest

from tests.twilio_emulator.harness import CALLS, FROM, HANGUP, Emulator, Program
from tests.twilio_emulator.world import API_KEY

pytestmark = pytest.mark.anyio
TO = "+12025550100"

WRONG: list[tuple[dict[str, Any], int, int]] = [
    ({"To": None}, 400, 21201),
    ({"To": "12025550100"}, 400, 21211),
    ({"To": "+1 202 555 0100"}, 400, 21211),
    ({"From": None}, 400, 21213),
    ({"From": "somebody"}, 400, 21212),
    ({"From": "+12025550199"}, 400, 21210),
    ({"From": "+15005550001"}, 400, 21212),
    ({"To": "+15005550001"}, 400, 21217),
    ({"To": "+15005550002"}, 400, 21214),
    ({"To": "+15005550003"}, 400, 21215),
    ({"To": "+15005550004"}, 400, 21216),
    ({"Twiml": None}, 400, 21205),
    ({"Twiml": "x" * 4001}, 400, 32018),
    ({"Url": "ftp://example.net/voice"}, 400, 21205),
    ({"Url": "not a url"}, 400, 21205),
    ({"Url": "https://voice_host.example.net/"}, 400, 21205),
    ({"Url": "https://example.net/", "Method": "PUT"}, 400, 21209),
    ({"ApplicationSid": "AP1"}, 400, 21218),
    ({"StatusCallback": "https://status_host.example.net/"}, 400, 21609),
    ({"StatusCallback": "/status"}, 400, 21609),
    ({"Timeout": "601"}, 400, 21208),
    ({"Timeout": "soon"}, 400, 21208),
    ({"TimeLimit": "0"}, 400, 20001),
    ({"SendDigits": "12x"}, 400, 21206),
    ({"MachineDetection": "Always"}, 400, 20001),
    ({"MachineDetectionSpeechThreshold": "10"}, 400, 21234),
    ({"AsyncAmd": "True"}, 400, 20001),
]


@pytest.mark.parametrize(("form", "status", "code"), WRONG)
async def test_a_wrong_call_is_refused_with_twilios_code(
    emulator: Emulator, form: dict[str, Any], status: int, code: int
) -> None:
    whole = {"To": TO, "From": FROM, "Twiml": HANGUP} | form
    answer = await emulator.http.post(f"{CALLS}.json", data={k: v for k, v in whole.items() if v is not None})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["more_info"] == f"https://www.twilio.com/docs/errors/{code}"
    assert answer.json()["status"] == status
    assert (await emulator.summary())["dials"] == {}


@pytest.mark.parametrize("auth", [("AC" + "0" * 32, "12345"), (API_KEY, "wrong"), ("", "")])
async def test_wrong_credentials_are_refused(emulator: Emulator, auth: tuple[str, str]) -> None:
    answer = await emulator.http.get(f"{CALLS}.json", auth=auth)
    assert (answer.status_code, answer.json()["code"], answer.json()["message"]) == (401, 20003, "Authenticate")


async def test_an_api_key_is_as_good_as_the_token(emulator: Emulator) -> None:
    assert (await emulator.http.get(f"{CALLS}.json", auth=(API_KEY, "secret"))).status_code == 200


async def test_another_account_and_an_unknown_call_are_not_found(emulator: Emulator) -> None:
    paths = [CALLS.replace("AC0", "AC1") + ".json", f"{CALLS}/CA{'0' * 32}.json", "/2010-04-01/Nothing.json"]
    for path in paths:
        answer = await emulator.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, 20404)


async def test_a_trial_account_calls_verified_numbers_alone(emulator: Emulator) -> None:
    await emulator.settings(trial=True, verified=["+12025550110"])
    assert (await emulator.post(TO)).json()["code"] == 21219
    assert (await emulator.post("+12025550110")).status_code == 201


async def test_a_country_without_permission_is_refused(emulator: Emulator) -> None:
    await emulator.settings(forbidden_prefixes=["+234"])
    answer = await emulator.post("+2348012345678")
    assert answer.json()["code"] == 21215
    assert answer.json()["message"].startswith("Account not authorized to call +234")


async def test_test_credentials_make_no_call(emulator: Emulator, program: Program) -> None:
    await emulator.settings(test_credentials=True)
    sid = await emulator.place(TO, program)
    assert (await emulator.call(sid))["status"] == "queued"
    assert program.told == []
    answer = await emulator.http.get(f"{CALLS}/{sid}.json")
    assert (answer.status_code, answer.json()["code"]) == (403, 20008)


async def test_events_in_one_field_are_accepted_and_nothing_is_told(emulator: Emulator, program: Program) -> None:
    sid = await emulator.place(TO, program, StatusCallbackEvent="initiated ringing answered completed")
    assert (await emulator.call(sid))["status"] == "completed"
    assert program.told == []
    assert [alert["code"] for alert in await emulator.events("alert")] == [21626]
    assert len(await emulator.events("violation")) == 1


async def test_what_twilio_would_ignore_is_a_violation(emulator: Emulator) -> None:
    sid = await emulator.place(TO, Colour="red")
    await emulator.call(sid)
    assert [violation["text"] for violation in await emulator.events("violation")] == [
        "Colour is no parameter of Calls: Twilio ignores it"
    ]


async def test_a_clean_call_violates_nothing(emulator: Emulator, program: Program) -> None:
    await emulator.call(await emulator.place(TO, program))
    summary = await emulator.summary()
    assert summary["violations"] == []
    assert summary["alerts"] == []
    assert summary["dials"] == {TO: 1}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/_control/plans", b"{"),
        ("POST", "/_control/settings", b'{"colour": "red"}'),
        ("GET", "/_control/events?after=yesterday", b""),
    ],
)
async def test_the_control_api_says_what_is_wrong(emulator: Emulator, method: str, path: str, body: bytes) -> None:
    answer = await emulator.http.request(method, path, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]
