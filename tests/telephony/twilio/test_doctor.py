import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from callmcp.clock import SystemClock, TestClock
from callmcp.telephony.finding import Finding, Verdict
from callmcp.telephony.twilio.doctor import CHECKS, Deployment, examine
from callmcp.telephony.twilio.echo import Echo
from tests.acceptance.twilio import ACCOUNT, FROM, TOKEN, Twilio, twilio
from tests.telephony.twilio.serving import served

pytestmark = pytest.mark.anyio

API_KEY = ("SK00000000000000000000000000000001", "secret")
UNCHECKABLE = {"countries", "conversation relay"}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture
def carrier(emulator: Twilio) -> Twilio:
    settings(emulator, numbers=[FROM], verified=[], voiceless=[], trial=False, account_status="active")
    return emulator


def settings(carrier: Twilio, **changed: Any) -> None:
    carrier.http.post("/_control/settings", json=changed).raise_for_status()


def deployment(carrier: Twilio, **changed: Any) -> Deployment:
    """One whose public URL leads nowhere, which is not what most of these tests are about."""
    whole = Deployment(
        account_sid=ACCOUNT,
        tokens=(TOKEN,),
        api_key=None,
        numbers=(FROM,),
        public_url="http://127.0.0.1:1",
        api_url=carrier.url,
    )
    return replace(whole, **changed)


async def found_in(checked: Deployment, **how: Any) -> Mapping[str, Finding]:
    findings = await examine(checked, **({"clock": SystemClock()} | how))
    return {finding.check: finding for finding in findings}


def verdicts(found: Mapping[str, Finding]) -> Mapping[str, Verdict]:
    return {check: finding.verdict for check, finding in found.items()}


async def test_a_deployment_in_order_passes_everything_that_can_be_checked(carrier: Twilio) -> None:
    def ours(base: str) -> Starlette:
        return Starlette(routes=Echo(public_url=base, tokens=(TOKEN,)).routes())

    async with served(ours) as base:
        found = await found_in(deployment(carrier, public_url=base))

    assert tuple(found) == CHECKS
    assert verdicts(found) == {
        check: Verdict.NOT_CHECKED if check in UNCHECKABLE else Verdict.PASSED for check in CHECKS
    }


async def test_a_wrong_token_is_one_failure_and_hides_what_it_keeps_from_sight(carrier: Twilio) -> None:
    found = await found_in(deployment(carrier, tokens=("wrong",)))

    assert found["credentials"].verdict is Verdict.FAILED
    assert "20003" in found["credentials"].seen
    assert found["account"].verdict is found["caller id"].verdict is Verdict.NOT_CHECKED
    assert found["clock"].verdict is Verdict.PASSED, "Twilio tells the time also to those it does not know"
    assert "wrong" not in str(found)


async def test_while_a_token_is_rotated_the_valid_one_must_stand_first(carrier: Twilio) -> None:
    before = await found_in(deployment(carrier, tokens=(TOKEN, "the old one")))
    after = await found_in(deployment(carrier, tokens=("the old one", TOKEN)))

    assert before["credentials"].verdict is Verdict.PASSED
    assert "1 further token(s) are not valid and can go" in before["credentials"].seen
    assert after["credentials"].verdict is Verdict.FAILED
    assert after["credentials"].remedy == "Put token 2 of CALLMCP_TWILIO_AUTH_TOKEN first."


async def test_an_api_key_is_checked_when_there_is_one(carrier: Twilio) -> None:
    good = await found_in(deployment(carrier, api_key=API_KEY))
    bad = await found_in(deployment(carrier, api_key=(API_KEY[0], "a wrong one")))

    assert good["api key"].verdict is Verdict.PASSED
    assert bad["api key"].verdict is Verdict.FAILED
    assert bad["credentials"].verdict is Verdict.PASSED
    assert "a wrong one" not in str(bad)


async def test_a_number_must_be_the_accounts_with_voice_or_verified(carrier: Twilio) -> None:
    verified, nobodys, voiceless = "+12025550101", "+12025550102", "+12025550103"
    settings(carrier, numbers=[FROM, voiceless], verified=[verified], voiceless=[voiceless])

    good = await found_in(deployment(carrier, numbers=(FROM, verified)))
    bad = await found_in(deployment(carrier, numbers=(FROM, nobodys, voiceless)))

    assert good["caller id"].verdict is Verdict.PASSED
    assert good["caller id"].seen == f"{FROM} is a number of the account; {verified} is a verified caller id"
    assert bad["caller id"].verdict is Verdict.FAILED
    assert FROM not in bad["caller id"].seen
    assert f"{nobodys} is neither" in bad["caller id"].seen
    assert f"{voiceless} is a number of the account that cannot make voice calls" in bad["caller id"].seen


async def test_a_trial_is_noted_and_a_suspended_account_fails(carrier: Twilio) -> None:
    settings(carrier, trial=True)
    trial = await found_in(deployment(carrier))
    settings(carrier, account_status="suspended")
    suspended = await found_in(deployment(carrier))

    assert trial["account"].verdict is Verdict.PASSED
    assert "only numbers verified beforehand" in trial["account"].seen
    assert suspended["account"].verdict is Verdict.FAILED
    assert suspended["account"].seen == "it is suspended"


@pytest.mark.parametrize(("seconds", "word"), [(120, "ahead of"), (-3600, "behind")])
async def test_a_clock_that_is_wrong_fails(carrier: Twilio, seconds: int, word: str) -> None:
    clock = TestClock(datetime.now(UTC) + timedelta(seconds=seconds))

    found = await found_in(deployment(carrier), clock=clock)

    assert found["clock"].verdict is Verdict.FAILED
    assert word in found["clock"].seen
    assert "NTP" in (found["clock"].remedy or "")


async def test_what_never_answers_is_waited_for_once_and_not_for_long(carrier: Twilio) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        nowhere = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()

        found = await found_in(deployment(carrier, api_url=nowhere, public_url=nowhere, api_key=API_KEY), seconds=0.3)

    assert time.monotonic() - began < 3
    assert [check for check, finding in found.items() if finding.verdict is Verdict.FAILED] == [
        "credentials",
        "public url",
        "websocket",
    ]
    assert found["credentials"].seen == "Twilio's API did not answer"


async def test_an_api_that_cannot_be_reached_or_is_ill_says_nothing_of_the_credentials(carrier: Twilio) -> None:
    def ill(_: str) -> Starlette:
        async def bad_gateway(_: object) -> Response:
            return HTMLResponse("<h1>502 Bad Gateway</h1>", 502)

        return Starlette(routes=[Route("/{path:path}", bad_gateway)])

    async with served(ill) as base:
        found = await found_in(deployment(carrier, api_url=base))
    assert found["credentials"].seen == "Twilio's API did not answer"
    gone = await found_in(deployment(carrier, api_url=base))
    assert gone["credentials"].seen == "Twilio's API cannot be reached"


async def test_an_answer_that_is_no_json_is_told_and_raises_nothing(carrier: Twilio) -> None:
    def strange(_: str) -> Starlette:
        async def page(_: object) -> Response:
            return HTMLResponse("<h1>Welcome</h1>")

        return Starlette(routes=[Route("/{path:path}", page)])

    async with served(strange) as base:
        found = await found_in(deployment(carrier, api_url=base, api_key=API_KEY))

    assert "could not be read" in found["credentials"].seen
    assert found["caller id"].verdict is Verdict.NOT_CHECKED


async def test_every_failure_and_everything_unchecked_has_a_remedy_of_one_sentence(carrier: Twilio) -> None:
    found = await found_in(deployment(carrier, tokens=("wrong",), numbers=("+12025550102",)))

    for finding in found.values():
        if finding.verdict is not Verdict.PASSED:
            assert finding.remedy is not None
            assert finding.remedy[0].isupper()
            assert finding.remedy.endswith(".")
