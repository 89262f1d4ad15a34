"""Whoever is not Twilio, or speaks of another call, changes nothing: he is refused, counted and logged."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from structlog.testing import capture_logs

from callmcp.calls.model import Call
from callmcp.telephony.twilio.addresses import Report
from callmcp.telephony.twilio.inbox import Refusal
from callmcp.telephony.twilio.routes import FORM_LIMIT
from tests.telephony.twilio.api import ACCOUNT, FROM, TOKEN
from tests.telephony.twilio.desk import PUBLIC, SID, TO, Desk, action, amd, path, sign, status

pytestmark = pytest.mark.anyio

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
