"""How Twilio is asked: at most one call is placed whatever it answers, and what it means is told in our words.

Against a local server and over the library's own HTTP seam; what Twilio's answers look like: TWILIO.md sections 1, 2.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

import pytest

from callmcp.calls.events import Accepted, Answered, Asked, HungUp, Ringing
from callmcp.calls.model import Call, CallStatus, EndReason
from callmcp.calls.state import apply
from callmcp.clock import SystemClock
from callmcp.errors import CarrierError, CarrierRefused, CarrierUncertain
from callmcp.telephony.twilio import client, errors
from callmcp.telephony.twilio.addresses import Addresses
from callmcp.telephony.twilio.client import TwilioTelephony
from callmcp.telephony.twilio.errors import MEANINGS
from tests.contracts.values import a_call, an_agent
from tests.telephony.twilio.api import (
    ACCOUNT,
    CALLS,
    FROM,
    TOKEN,
    Answer,
    Api,
    Reply,
    Reset,
    Silence,
    api,
    page,
    resource,
)

pytestmark = pytest.mark.anyio
PUBLIC = "https://phone.example.net"
NOW = datetime(2026, 8, 30, 8, 34, 26, tzinfo=UTC)
HTML_502 = Answer(502, "<html><body>Bad Gateway</body></html>", "text/html")
BUSY = Answer.refusal(429, 20429)
CLOSED_PORT = "http://127.0.0.1:9"  # discard; nobody listens


class Watch(SystemClock):
    """Real time, in which pauses are counted and not waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def now(self) -> datetime:
        return NOW

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@dataclass
class Twilio:
    api: Api
    telephony: TwilioTelephony
    clock: Watch

    async def place(self, call: Call | None = None) -> str:
        return await self.telephony.place(call or a_call(), an_agent(), _nothing)

    async def failure(self, asking: Awaitable[Any] | None = None) -> CarrierError:
        with pytest.raises(CarrierError) as failed:
            await (asking or self.place())
        return failed.value


async def _nothing(*_: object) -> Call:
    raise AssertionError("a call that Twilio places is not observed by whoever asks for it")


def telephony(url: str, clock: SystemClock, **fields: Any) -> TwilioTelephony:
    own: dict[str, Any] = {"account_sid": ACCOUNT, "username": ACCOUNT, "password": TOKEN, "caller_id": FROM}
    return TwilioTelephony(**own | fields, addresses=Addresses(PUBLIC), clock=clock, api_url=url)


@pytest.fixture(scope="module")
async def one() -> AsyncIterator[Twilio]:
    async with api() as server:
        clock = Watch()
        asker = telephony(server.url, clock)
        yield Twilio(server, asker, clock)
        await asker.close()


@pytest.fixture
async def twilio(one: Twilio) -> Twilio:
    """One that has been asked nothing yet; to make a client takes a tenth of a second."""
    one.api.asked.clear()
    one.api.replies.clear()
    one.clock.pauses.clear()
    return one


# What is asked.


async def test_a_call_is_asked_for_with_all_that_makes_it_report(twilio: Twilio) -> None:
    call = a_call(to="+14155550100", from_number=FROM, max_duration_seconds=90, token="t0k")

    assert await twilio.place(call) == "CA1"

    (asked,) = twilio.api.dials
    assert asked.values("StatusCallbackEvent") == ["initiated", "ringing", "answered", "completed"]
    assert asked.values("To") == ["+14155550100"]
    assert asked.values("From") == [FROM]
    assert asked.values("TimeLimit") == ["90"]
    assert asked.values("MachineDetection") == ["Enable"]
    assert asked.values("AsyncAmd") == ["true"]
    (status_at,), (amd_at,) = asked.values("StatusCallback"), asked.values("AsyncAmdStatusCallback")
    assert status_at.startswith(f"{PUBLIC}/twilio/status/{call.id}/t0k#")
    assert amd_at.startswith(f"{PUBLIC}/twilio/amd/{call.id}/t0k#")
    (twiml,) = asked.values("Twiml")
    assert f'url="wss://phone.example.net/twilio/relay/{call.id}/t0k"' in twiml
    assert not asked.values("Url")
    assert all(name[0].isupper() for name, _ in asked.form)


async def test_an_agents_own_number_is_the_one_it_calls_from(twilio: Twilio) -> None:
    assert twilio.telephony.caller_id(an_agent(from_number="+15550100001")) == "+15550100001"
    assert twilio.telephony.caller_id(an_agent()) == FROM


async def test_an_api_key_asks_in_the_accounts_name() -> None:
    async with api() as server:
        asker = telephony(server.url, Watch(), username="SK00000000000000000000000000000001", password="secret")
        await asker.place(a_call(), an_agent(), _nothing)
        await asker.close()
    assert server.dials[0].headers["authorization"] == "Basic U0swMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMTpzZWNyZXQ="


async def test_what_the_library_would_take_from_the_environment_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TWILIO_ACCOUNT_SID": "AC99999999999999999999999999999999",
        "TWILIO_AUTH_TOKEN": "stolen",
        "TWILIO_EDGE": "sydney",
        "TWILIO_REGION": "au1",
        "HTTP_PROXY": CLOSED_PORT,
        "ALL_PROXY": CLOSED_PORT,
    }.items():
        monkeypatch.setenv(name, value)
    async with api() as server:
        asker = telephony(server.url, Watch())
        await asker.place(a_call(), an_agent(), _nothing)
        await asker.close()
    assert os.environ["TWILIO_EDGE"]
    assert [asked.path for asked in server.asked] == [f"{CALLS}.json"]
    assert server.asked[0].headers["host"] == urlsplit(server.url).netloc
    assert server.asked[0].headers["authorization"].startswith("Basic QUMwMDAw")


async def test_one_connection_serves_many_questions_and_is_let_go_at_the_end() -> None:
    async with api() as server:
        asker = telephony(server.url, Watch())
        for _ in range(5):
            await asker.place(a_call(), an_agent(), _nothing)
        assert server.connections == 1
        await asker.close()
        async with asyncio.timeout(5):
            await server.let_go.wait()


# At most one call.

NOBODY_KNOWS: dict[str, Reply] = {
    "a 500": Answer.refusal(500, 20500),
    "a 500 without a body": Answer(500),
    "a 503": Answer.refusal(503, 20503),
    "a 502 of HTML": HTML_502,
    "a 504": Answer(504, "", "text/plain"),
    "a reset": Reset(),
    "a 201 of HTML": Answer(201, "<html>", "text/html"),
    "a 201 without a body": Answer(201),
    "a 201 of half a body": Answer(201, '{"sid": "CA1'),
    "a 201 of a list": Answer.json(201, []),
    "a 201 of null": Answer.json(201, None),
    "a 201 of a string": Answer.json(201, "CA1"),
    "a 201 of a number": Answer.json(201, 1),
    "a 201 without a sid": Answer.json(201, {}),
    "a 201 with a sid of null": Answer.json(201, {"sid": None}),
    "a 201 with a sid that is no string": Answer.json(201, {"sid": {"x": 1}}),
    "a 204": Answer(204),
    "a 500 whose code is no number": Answer.refusal(500, "E-17"),
    "a 500 of a list": Answer.json(500, []),
    "a 500 of a string": Answer.json(500, "no"),
}


@pytest.mark.parametrize("reply", NOBODY_KNOWS.values(), ids=NOBODY_KNOWS)
async def test_a_call_that_may_have_been_placed_is_asked_for_once_and_uncertain(twilio: Twilio, reply: Reply) -> None:
    twilio.api.replies.append(reply)

    assert isinstance(await twilio.failure(), CarrierUncertain)
    assert len(twilio.api.dials) == 1


async def test_an_answer_that_never_comes_is_waited_for_by_our_limit_and_not_asked_for_again(twilio: Twilio) -> None:
    asker = telephony(twilio.api.url, Watch(), answer_within=0.2)
    twilio.api.replies.append(Silence())

    async with asyncio.timeout(5):
        with pytest.raises(CarrierUncertain):
            await asker.place(a_call(), an_agent(), _nothing)
    assert len(twilio.api.dials) == 1
    await asker.close()


async def test_a_request_that_was_refused_for_haste_is_made_again_after_growing_pauses(twilio: Twilio) -> None:
    twilio.api.replies += [BUSY, Answer(429, "slow down", "text/plain")]

    assert await twilio.place() == "CA1"
    assert len(twilio.api.dials) == 3
    assert twilio.clock.pauses == [client.FIRST_PAUSE, client.FIRST_PAUSE * 2]


async def test_who_is_always_too_hasty_gives_up_and_nothing_was_placed(twilio: Twilio) -> None:
    twilio.api.replies += [BUSY] * 10

    failed = await twilio.failure()
    assert isinstance(failed, CarrierRefused)
    assert failed.code == "carrier_busy"
    assert len(twilio.api.dials) == client.TRIES


async def test_a_500_after_a_429_is_the_last_question(twilio: Twilio) -> None:
    twilio.api.replies += [BUSY, Answer.refusal(500, 20500)]

    assert isinstance(await twilio.failure(), CarrierUncertain)
    assert len(twilio.api.dials) == 2


async def test_a_connection_that_was_never_made_is_tried_again_and_then_certainly_not_a_call() -> None:
    clock = Watch()
    asker = telephony(CLOSED_PORT, clock)
    with pytest.raises(CarrierRefused) as failed:
        await asker.place(a_call(), an_agent(), _nothing)
    await asker.close()
    assert failed.value.code == "carrier_unreachable"
    assert len(clock.pauses) == client.TRIES - 1


# What its errors mean.


@pytest.mark.parametrize("code", MEANINGS)
async def test_each_error_becomes_ours_with_twilios_code_beside_it(twilio: Twilio, code: int) -> None:
    twilio.api.replies += [Answer.refusal(400, code)] * client.TRIES

    failed = await twilio.failure()
    assert isinstance(failed, CarrierRefused)
    assert (failed.code, failed.message) == (MEANINGS[code].code, MEANINGS[code].words)
    assert failed.carrier_code == str(code)
    assert len(twilio.api.dials) == (client.TRIES if MEANINGS[code] is errors.BUSY else 1)


@pytest.mark.parametrize(
    ("reply", "code", "carrier_code"),
    [
        (Answer.refusal(401, 20003, "Authenticate"), "carrier_credentials", "20003"),
        (Answer.refusal(400, 99999, "Something new."), "carrier_refused", "99999"),
        (Answer(404, "<html>", "text/html"), "carrier_refused", "404"),
        (Answer(400), "carrier_refused", "400"),
        (Answer.json(400, []), "carrier_refused", "400"),
        (Answer.json(400, "no"), "carrier_refused", "400"),
        (Answer.json(400, None), "carrier_refused", "400"),
        (Answer.refusal(400, "E-17"), "carrier_refused", "400"),
        (Answer.refusal(400, None), "carrier_refused", "400"),
        (Answer.json(400, {"code": [], "message": {}}), "carrier_refused", "400"),
        (Answer(307), "carrier_refused", "307"),
        (
            Answer.json(400, {"type": "https://x", "title": "Bad", "status": 400, "code": 21217, "detail": "No."}),
            "invalid_number",
            "21217",
        ),
    ],
)
async def test_a_refusal_in_any_form_is_a_refusal(twilio: Twilio, reply: Answer, code: str, carrier_code: str) -> None:
    twilio.api.replies.append(reply)

    failed = await twilio.failure()
    assert isinstance(failed, CarrierRefused)
    assert (failed.code, failed.carrier_code) == (code, carrier_code)
    assert len(twilio.api.dials) == 1


# Ending.


async def test_a_call_is_ended_in_any_state(twilio: Twilio) -> None:
    await twilio.telephony.end(a_call(carrier_id="CA7"))
    assert twilio.api.hang_ups == ["CA7"]


async def test_a_call_that_has_no_name_yet_cannot_be_ended(twilio: Twilio) -> None:
    await twilio.telephony.end(a_call())
    assert twilio.api.asked == []


@pytest.mark.parametrize("reply", [Answer.refusal(404, 20404), Answer.refusal(400, 21220)])
async def test_ending_what_is_over_is_no_error(twilio: Twilio, reply: Answer) -> None:
    twilio.api.replies.append(reply)
    await twilio.telephony.end(a_call(carrier_id="CA7"))
    assert twilio.api.hang_ups == ["CA7"]


@pytest.mark.parametrize("reply", [HTML_502, Answer.refusal(500, 20500), Reset(), BUSY, Answer.json(200, [])])
async def test_ending_is_asked_for_again_until_it_is_done(twilio: Twilio, reply: Reply) -> None:
    twilio.api.replies += [reply, reply]
    await twilio.telephony.end(a_call(carrier_id="CA7"))
    assert twilio.api.hang_ups == ["CA7"] * 3


async def test_ending_that_is_never_done_is_an_error(twilio: Twilio) -> None:
    twilio.api.replies += [HTML_502] * 10
    assert isinstance(await twilio.failure(twilio.telephony.end(a_call(carrier_id="CA7"))), CarrierUncertain)
    assert len(twilio.api.asked) == client.TRIES


# Looking.


def another(*sids: str) -> Callable[[str], Awaitable[bool]]:
    async def is_another(sid: str) -> bool:
        return sid in sids

    return is_another


def made(seconds: float, sid: str = "CA1", **fields: Any) -> dict[str, Any]:
    """A call that Twilio made so long after ours was stored."""
    at = NOW + timedelta(seconds=seconds)
    return resource(sid, date_created=format_datetime(at), **fields)


LOST = a_call(to="+14155550100", from_number=FROM, created_at=NOW)


async def test_a_call_that_twilio_named_is_fetched_by_its_name(twilio: Twilio) -> None:
    twilio.api.replies.append(Answer.json(200, resource("CA7", status="in-progress")))

    told = await twilio.telephony.look(replace(LOST, carrier_id="CA7"), is_another=another())
    assert told == [Accepted(at=NOW, carrier_id="CA7"), Answered(at=NOW), Asked(at=NOW)]
    assert [asked.path for asked in twilio.api.asked] == [f"{CALLS}/CA7.json"]


async def test_a_call_that_is_over_is_told_with_its_times(twilio: Twilio) -> None:
    over = resource("CA7", status="completed", duration="10", end_time=format_datetime(NOW - timedelta(seconds=5)))
    twilio.api.replies.append(Answer.json(200, over))

    talked = replace(LOST, carrier_id="CA7", turn_count=1)
    told = await twilio.telephony.look(talked, is_another=another())
    assert told[1:] == [Answered(at=NOW - timedelta(seconds=15)), HungUp(at=NOW - timedelta(seconds=5))]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, EndReason.SERVER_LOST),
        ({"end_requested_at": NOW}, EndReason.ENDED_BY_CALLER),
        ({"end_reason": EndReason.CALLEE_HUNG_UP}, EndReason.CALLEE_HUNG_UP),
        ({"end_reason": EndReason.MACHINE}, EndReason.MACHINE),
    ],
)
async def test_a_call_that_was_answered_while_this_server_was_away_is_not_said_to_have_been_hung_up_by_the_callee(
    twilio: Twilio, known: dict[str, Any], reason: EndReason
) -> None:
    twilio.api.replies.append(Answer.json(200, resource("CA7", status="completed", duration="10")))
    call = replace(LOST, carrier_id="CA7", **known)

    over = reduce(apply, await twilio.telephony.look(call, is_another=another()), call)
    assert (over.status, over.end_reason) == (CallStatus.COMPLETED, reason)
    assert (over.error == client.NO_TALK) is (reason is EndReason.SERVER_LOST)


async def test_a_call_that_twilio_does_not_know_any_more_is_nothing(twilio: Twilio) -> None:
    twilio.api.replies.append(Answer.refusal(404, 20404))
    assert list(await twilio.telephony.look(replace(LOST, carrier_id="CA7"), is_another=another())) == []


async def test_a_lost_call_is_searched_for_by_both_its_numbers(twilio: Twilio) -> None:
    twilio.api.replies.append(page(made(1, status="ringing")))

    told = await twilio.telephony.look(LOST, is_another=another())
    assert told == [Accepted(at=NOW, carrier_id="CA1"), Ringing(at=NOW), Asked(at=NOW)]
    assert set(twilio.api.asked[0].query) >= {("To", "+14155550100"), ("From", FROM)}


@pytest.mark.parametrize(
    ("found", "others", "adopted"),
    [
        ([], (), None),
        ([made(0)], (), "CA1"),
        ([made(-4)], (), "CA1"),
        ([made(89)], (), "CA1"),
        ([made(-6)], (), None),
        ([made(91)], (), None),
        ([made(-3600), made(1, "CA2"), made(3600, "CA3")], (), "CA2"),
        ([made(1)], ("CA1",), None),
        ([made(1), made(2, "CA2")], ("CA1",), "CA2"),
        ([made(1), made(2, "CA2")], (), None),
        ([resource("CA1", date_created=None)], (), "CA1"),
        ([{"status": "queued"}], (), None),
    ],
)
async def test_only_the_one_call_that_must_be_ours_is_adopted(
    twilio: Twilio, found: list[dict[str, Any]], others: tuple[str, ...], adopted: str | None
) -> None:
    twilio.api.replies.append(page(*found))

    told = await twilio.telephony.look(LOST, is_another=another(*others))
    named = [event.carrier_id for event in told if isinstance(event, Accepted)]
    assert named == ([] if adopted is None else [adopted])


@pytest.mark.parametrize(
    "reply",
    [HTML_502, Answer.json(200, []), Answer.json(200, None), Answer.json(200, {"calls": [None]}), Answer(200), Reset()],
)
@pytest.mark.parametrize("carrier_id", [None, "CA7"])
async def test_who_cannot_be_asked_is_an_error_after_a_bounded_number_of_questions(
    twilio: Twilio, reply: Reply, carrier_id: str | None
) -> None:
    twilio.api.replies += [reply] * 10

    await twilio.failure(twilio.telephony.look(replace(LOST, carrier_id=carrier_id), is_another=another()))
    assert len(twilio.api.asked) == client.TRIES
