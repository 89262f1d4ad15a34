"""Where Twilio reaches this server: what it may change, and that whoever else comes there changes nothing.

The routes with real signatures, over the real domain and a memory store; calls are ended at a local API.
"""

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from callmcp.agents.model import Agent
from callmcp.agents.operations import Agents
from callmcp.calls.events import Event, FellSilent, GivenUp, HungUp
from callmcp.calls.model import AnsweredBy, Call, CallStatus, EndReason
from callmcp.calls.operations import Calls
from callmcp.clock import TestClock
from callmcp.errors import Unavailable
from callmcp.llm.scripted import ScriptedModel
from callmcp.numbering import PhoneNumbersPlan
from callmcp.store.memory import MemoryStore
from callmcp.telephony.twilio.addresses import Addresses, Report
from callmcp.telephony.twilio.client import TwilioTelephony
from callmcp.telephony.twilio.inbox import Inbox, Refusal
from callmcp.telephony.twilio.routes import FORM_LIMIT, MAX_FIELDS, TwilioRoutes
from tests.contracts.values import a_call, an_agent
from tests.telephony.twilio.api import ACCOUNT, FROM, TOKEN, Api, api

pytestmark = pytest.mark.anyio
PUBLIC = "https://phone.example.net/callmcp"
NEW_TOKEN = "67890"
TO = "+14155550123"
SID = "CA00000000000000000000000000000001"
Form = list[tuple[str, str]]


class Shelf(MemoryStore):
    """One whose disk can be full."""

    full = False

    async def apply(self, call_id: str, *events: Event) -> Call:
        if self.full:
            raise Unavailable("The disk is full.")
        return await super().apply(call_id, *events)


@dataclass
class Desk:
    """The routes, and Twilio's side of them."""

    clock: TestClock
    store: Shelf
    api: Api
    calls: Calls
    inbox: Inbox
    agent: Agent
    app: Starlette
    http: httpx.AsyncClient

    async def call(self, *events: Event, **fields: Any) -> Call:
        now = self.clock.now()
        some: dict[str, Any] = {"agent_id": self.agent.id, "carrier": "twilio", "carrier_id": SID, "to": TO}
        call = a_call(**{**some, "created_at": now, "heard_from_at": now} | fields)
        call = replace(call, token=f"token-of-{call.id}")
        await self.store.add(call)
        return await self.store.apply(call.id, *events) if events else call

    async def now(self, call: Call) -> Call:
        found = await self.store.call(call.id)
        assert found is not None
        return found

    async def post(
        self, report: Report, call: Call, form: Mapping[str, str] | None = None, *, token: str = TOKEN
    ) -> httpx.Response:
        """A genuine report, as Twilio sends it."""
        fields = list((form or status("ringing")).items())
        return await self.send(report, call, fields, signature=sign(self.url(report, call), fields, token))

    async def send(
        self, report: Report, call: Call, form: Form | bytes, *, signature: str | None, **more: Any
    ) -> httpx.Response:
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        headers = [(b"Content-Type", b"application/x-www-form-urlencoded")]
        headers += [] if signature is None else [(b"X-Twilio-Signature", signature.encode("latin-1"))]
        return await self.http.request(more.get("method", "POST"), path(report, call), content=body, headers=headers)

    @staticmethod
    def url(report: Report, call: Call) -> str:
        return f"{PUBLIC}{path(report, call)}"

    async def hung_up(self) -> list[str]:
        """The calls that Twilio was told to end."""
        await self.calls.close()
        return self.api.hang_ups


def path(report: Report, call: Call) -> str:
    return f"/twilio/{report.value}/{call.id}/{call.token}"


def sign(url: str, form: Form = [], token: str = TOKEN) -> str:  # noqa: B006 - never changed
    """By Twilio's rule, written here once more."""
    signed = url + "".join(name + value for name, value in sorted(set(form)))
    return base64.b64encode(hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()).decode()


def status(word: str, sid: str = SID, *, at: datetime | None = None, **more: str) -> dict[str, str]:
    stamp = {} if at is None else {"Timestamp": format_datetime(at)}
    some = {"AccountSid": ACCOUNT, "CallSid": sid, "CallStatus": word, "From": FROM, "To": TO, "ToCity": ""}
    return {**some, **stamp, **more}


def action(session: str, **more: str) -> dict[str, str]:
    return status("in-progress") | {"SessionStatus": session, "SessionId": "VX1", "SessionDuration": "9"} | more


def amd(answered_by: str) -> dict[str, str]:
    return {"AccountSid": ACCOUNT, "CallSid": SID, "AnsweredBy": answered_by, "MachineDetectionDuration": "2300"}


@dataclass(frozen=True)
class Carrier:
    clock: TestClock
    api: Api
    addresses: Addresses
    telephony: TwilioTelephony


@pytest.fixture(scope="module")
async def carrier() -> AsyncIterator[Carrier]:
    """To make a client takes a tenth of a second."""
    async with api() as server:
        clock, addresses = TestClock(), Addresses(PUBLIC)
        telephony = TwilioTelephony(
            account_sid=ACCOUNT,
            username=ACCOUNT,
            password=TOKEN,
            caller_id=FROM,
            addresses=addresses,
            clock=clock,
            api_url=server.url,
        )
        yield Carrier(clock, server, addresses, telephony)
        await telephony.close()


@pytest.fixture
async def desk(carrier: Carrier) -> AsyncIterator[Desk]:
    clock, store = carrier.clock, Shelf()
    carrier.api.asked.clear()
    calls = Calls(
        store=store,
        agents=Agents(store, clock),
        telephony=carrier.telephony,
        numbers=PhoneNumbersPlan(),
        clock=clock,
        owner="process-1",
    )
    inbox = Inbox(
        store=store,
        calls=calls,
        clock=clock,
        addresses=carrier.addresses,
        account_sid=ACCOUNT,
        tokens=(TOKEN, NEW_TOKEN),
    )
    agent = an_agent()
    await store.add_agent(agent)
    routes = TwilioRoutes(inbox=inbox, calls=calls, agent_of=store.agent, model=ScriptedModel(), clock=clock)
    app = Starlette(routes=routes.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://inside", trust_env=False) as http:
        yield Desk(clock, store, carrier.api, calls, inbox, agent, app, http)
    await calls.close()


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


# What is not.

Attempt = tuple[Refusal, int]
FORGED, WRONG, TRUNCATED, OVERSIZED = (
    (Refusal.FORGED, 403),
    (Refusal.WRONG_CALL, 404),
    (Refusal.TRUNCATED, 400),
    (Refusal.OVERSIZED, 413),
)


async def attempt(desk: Desk, name: str, report: Report, call: Call, other: Call) -> httpx.Response:  # noqa: PLR0912
    """One way to tell this server something of `call` that Twilio did not say of it."""
    url, form = desk.url(report, call), list((status("completed") | amd("human") | action("failed")).items())
    good = sign(url, form)
    match name:
        case "signed with another secret":
            return await desk.send(report, call, form, signature=sign(url, form, "guess"))
        case "not signed":
            return await desk.send(report, call, form, signature=None)
        case "signed with nothing":
            return await desk.send(report, call, form, signature="")
        case "signed with no letters":
            return await desk.send(report, call, form, signature="\xe9\xff")
        case "signed for another address":
            return await desk.send(report, call, form, signature=sign(desk.url(report, other), form))
        case "signed for another kind of report":
            kind = Report.AMD if report is not Report.AMD else Report.STATUS
            return await desk.send(report, call, form, signature=sign(desk.url(kind, call), form))
        case "signed for the address that it arrives at inside":
            return await desk.send(report, call, form, signature=sign(f"http://inside{path(report, call)}", form))
        case "with a field more":
            return await desk.send(report, call, [*form, ("CallStatus", "busy")], signature=good)
        case "with a field less":
            return await desk.send(report, call, form[1:], signature=good)
        case "cut short":
            return await desk.send(report, call, urlencode(form).encode()[:-10], signature=good)
        case "of no body":
            return await desk.send(report, call, b"", signature=good)
        case "as JSON":
            return await desk.send(report, call, json.dumps(dict(form)).encode(), signature=good)
        case "for a call that there is not":
            nowhere = replace(call, id="call_000000000000000000000000")
            return await desk.post(report, nowhere, dict(form))
        case "with another call's token":
            return await desk.post(report, replace(call, token=other.token), dict(form))
        case "of another call of Twilio's":
            return await desk.post(report, call, dict(form) | {"CallSid": "CA2"})
        case "of another account":
            return await desk.post(report, call, dict(form) | {"AccountSid": "AC2"})
        case "of no account":
            return await desk.post(report, call, {"CallSid": SID, "CallStatus": "completed"})
        case "of no call":
            return await desk.post(report, call, {"AccountSid": ACCOUNT, "CallStatus": "completed"})
        case "not in UTF-8":
            return await desk.send(report, call, b"CallStatus=\xff\xfe", signature=good)
        case "not in UTF-8 when unquoted":
            return await desk.send(report, call, b"CallStatus=%ff%fe", signature=good)
        case "of ten thousand fields":
            return await desk.send(report, call, b"&".join(b"a=1" for _ in range(10_000)), signature=good)
        case "a byte too large":
            body = b"a=" + b"1" * (FORM_LIMIT - 1)
            return await desk.send(report, call, body, signature=sign(url, [("a", "1" * (FORM_LIMIT - 1))]))
        case _:
            raise AssertionError(name)


ATTEMPTS: Mapping[str, Attempt] = {
    "signed with another secret": FORGED,
    "not signed": FORGED,
    "signed with nothing": FORGED,
    "signed with no letters": FORGED,
    "signed for another address": FORGED,
    "signed for another kind of report": FORGED,
    "signed for the address that it arrives at inside": FORGED,
    "with a field more": FORGED,
    "with a field less": FORGED,
    "cut short": FORGED,
    "of no body": FORGED,
    "as JSON": FORGED,
    "for a call that there is not": WRONG,
    "with another call's token": WRONG,
    "of another call of Twilio's": WRONG,
    "of another account": WRONG,
    "of no account": WRONG,
    "of no call": WRONG,
    "not in UTF-8": TRUNCATED,
    "not in UTF-8 when unquoted": TRUNCATED,
    "of ten thousand fields": TRUNCATED,
    "a byte too large": OVERSIZED,
}


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_a_report_that_does_not_hold_up_changes_nothing_is_counted_and_logged_without_what_it_says(
    desk: Desk, name: str
) -> None:
    why, code = ATTEMPTS[name]
    call, other = await desk.call(), await desk.call(carrier_id="CA9")
    kinds = (Report.STATUS, Report.AMD, Report.RECORDING, Report.ACTION)
    for count, kind in enumerate(kinds, 1):
        with capture_logs() as logs:
            answer = await attempt(desk, name, kind, call, other)
        assert (answer.status_code, answer.content) == (code, b"")
        assert desk.inbox.refused == Counter({why: count})
        assert [log["event"] for log in logs] == ["report_refused"]
        assert not any(secret in repr(logs) for secret in (TO, TO[2:], FROM, SID, call.token, other.token, TOKEN))
    assert (await desk.now(call), await desk.now(other)) == (call, other)
    assert await desk.hung_up() == []


async def test_a_report_whose_sender_goes_away_in_its_middle_changes_nothing_and_is_counted(desk: Desk) -> None:
    call = await desk.call()
    parts: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"CallStatus=comp", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []
    scope = {"type": "http", "method": "POST", "path": path(Report.STATUS, call), "headers": [], "query_string": b""}

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await desk.app(scope, receive, send)
    assert desk.inbox.refused == Counter({Refusal.TRUNCATED: 1})
    assert await desk.now(call) == call


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
async def test_nothing_but_a_post_reports(desk: Desk, method: str) -> None:
    call = await desk.call()
    form = list(status("completed").items())
    good = sign(desk.url(Report.STATUS, call), form)
    assert (await desk.send(Report.STATUS, call, form, signature=good, method=method)).status_code == 405
    assert await desk.now(call) == call


@pytest.mark.parametrize("where", ["/twilio/voice/{}/{}", "/twilio/status/{}", "/twilio/status/{}/{}/", "/twilio", "/"])
async def test_there_are_no_other_addresses(desk: Desk, where: str) -> None:
    call = await desk.call()
    place = where.format(call.id, call.token)
    form = list(status("completed").items())
    headers = {"X-Twilio-Signature": sign(PUBLIC + place, form)}
    assert (await desk.http.post(place, data=dict(form), headers=headers)).status_code in {307, 404}
    assert await desk.now(call) == call


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
async def test_who_answered_is_still_learnt_after_the_end_and_changes_nothing_else(desk: Desk, word: str) -> None:
    call = await desk.call()
    for state in ("in-progress", "completed"):
        await desk.post(Report.STATUS, call, status(state))
    over = await desk.now(call)
    await desk.post(Report.AMD, call, amd(word))
    answered_by = AnsweredBy.HUMAN if word == "human" else AnsweredBy.MACHINE
    assert await desk.now(call) == replace(over, answered_by=answered_by)
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
        (action("failed", ErrorCode="64105"), EndReason.SERVER_LOST, "talk_lost", [SID]),
        (action("failed", ErrorCode="64102"), EndReason.CARRIER_FAILED, "relay_unreachable", [SID]),
        (action("failed", ErrorCode="39001"), EndReason.CARRIER_FAILED, "relay_unreachable", [SID]),
        (action("failed"), EndReason.SERVER_LOST, "talk_lost", [SID]),
        (action("puzzled"), None, None, []),
        (status("in-progress"), None, None, []),
    ],
)
async def test_twilio_is_told_to_hang_up_however_the_session_ended(
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


# The relay, over a real socket: what its client sees of a refusal is uvicorn's to say.


@dataclass
class Relay:
    desk: Desk
    base: str

    def connect(self, call: Call, *, signature: str | None = None, token: str = TOKEN) -> connect:
        url = f"wss{PUBLIC.removeprefix('https')}{path(Report.RELAY, call)}"
        headers = {"X-Twilio-Signature": sign(url, token=token) if signature is None else signature}
        headers = {name: value for name, value in headers.items() if value}
        return connect(f"{self.base}{path(Report.RELAY, call)}", additional_headers=headers, proxy=None)

    async def refused(self, call: Call, **how: str) -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with self.connect(call, **how):
                pass
        assert refused.value.response.status_code == 403


@pytest.fixture
async def relay(desk: Desk) -> AsyncIterator[Relay]:
    server = uvicorn.Server(uvicorn.Config(desk.app, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(5):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Relay(desk, f"ws://127.0.0.1:{port}")
    server.should_exit = True
    await asyncio.wait_for(serving, 5)


def setup(sid: str = SID, **more: Any) -> str:
    return json.dumps({"type": "setup", "sessionId": "VX1", "callSid": sid, "accountSid": ACCOUNT} | more)


async def closed(socket: ClientConnection) -> int:
    """The code that it was closed with."""
    with suppress(ConnectionClosed):
        async with asyncio.timeout(5):
            while True:
                await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


async def test_a_genuine_relay_begins_the_talk_and_answers_the_call(relay: Relay) -> None:
    call = await relay.desk.call(carrier_id=None)
    async with relay.connect(call) as socket, asyncio.timeout(5):
        await socket.send(setup())
        first = json.loads(await socket.recv())
    assert first["type"] == "text"
    now = await relay.desk.now(call)
    assert (now.status, now.carrier_id) == (CallStatus.IN_PROGRESS, SID)


@pytest.mark.parametrize("signature", [" ", "guess", sign(f"wss{PUBLIC.removeprefix('https')}/twilio/relay/x/y")])
async def test_a_relay_that_is_not_twilios_is_refused_before_it_is_open(relay: Relay, signature: str) -> None:
    call = await relay.desk.call()
    await relay.refused(call, signature=signature)
    assert relay.desk.inbox.refused == Counter({Refusal.FORGED: 1})
    assert await relay.desk.now(call) == call


async def test_the_https_address_is_not_what_twilio_signs_for_a_relay(relay: Relay) -> None:
    call = await relay.desk.call()
    await relay.refused(call, signature=sign(relay.desk.url(Report.RELAY, call)))
    assert relay.desk.inbox.refused == Counter({Refusal.FORGED: 1})


async def test_a_relay_of_another_call_or_of_one_that_is_over_or_has_no_agent_is_refused(relay: Relay) -> None:
    desk = relay.desk
    call, other = await desk.call(), await desk.call(carrier_id="CA2")
    over = await desk.call(HungUp(at=desk.clock.now()))
    orphan = await desk.call(agent_id="agt_ffffff")
    for wrong in (replace(call, token=other.token), replace(call, id="call_0"), over, orphan):
        await relay.refused(wrong)
    assert desk.inbox.refused == Counter({Refusal.WRONG_CALL: 4})
    assert [await desk.now(one) for one in (call, other, over, orphan)] == [call, other, over, orphan]


async def test_a_second_relay_of_a_call_is_refused_and_the_first_talks_on(relay: Relay) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket, asyncio.timeout(5):
        await socket.send(setup())
        await socket.recv()
        await relay.refused(call)
        await socket.send(json.dumps({"type": "info", "name": "agentSpeaking", "value": "on"}))
        await (await socket.ping())
    assert relay.desk.inbox.refused == Counter({Refusal.WRONG_CALL: 1})


FIRST_FRAMES = {
    "another call": setup("CA2"),
    "no call": setup(""),
    "no setup": json.dumps({"type": "prompt", "voicePrompt": "Hello", "last": True}),
    "no JSON": "hello",
    "nothing": "",
    "a list": "[]",
    "bytes": b"\x00\x01",
    "a large one": "x" * 2_000_000,
}


@pytest.mark.parametrize("frame", FIRST_FRAMES.values(), ids=FIRST_FRAMES)
async def test_a_relay_that_does_not_begin_as_the_calls_own_is_closed_and_changes_nothing(
    relay: Relay, frame: str | bytes
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        await socket.send(frame)
        assert await closed(socket) == 1008
    assert relay.desk.inbox.refused == Counter({Refusal.WRONG_CALL: 1})
    assert await relay.desk.now(call) == call


@pytest.mark.parametrize("how", ["politely", "rudely"])
async def test_a_relay_that_goes_away_before_it_begins_leaves_no_trace(
    relay: Relay, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        if how == "rudely":
            socket.transport.abort()
    async with asyncio.timeout(5):
        while not relay.desk.inbox.refused:  # noqa: ASYNC110 - the server learns of it in its own time
            await asyncio.sleep(0.005)
    assert await relay.desk.now(call) == call
    async with relay.connect(call) as socket, asyncio.timeout(5):  # and the call can be talked in after it
        await socket.send(setup())
        await socket.recv()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_store_that_is_away_refuses_a_relay_or_closes_it_without_a_trace(
    relay: Relay, caplog: pytest.LogCaptureFixture
) -> None:
    call = await relay.desk.call()
    async with relay.connect(call) as socket:
        relay.desk.store.full = True
        await socket.send(setup())
        assert await closed(socket) == 1011
    assert not [record for record in caplog.records if record.exc_info]
