"""The routes and what stands behind them, and Twilio's side of them: reports and their signatures."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlencode

import httpx
from starlette.applications import Starlette

from callmcp.agents.model import Agent
from callmcp.calls.events import Event
from callmcp.calls.model import Call
from callmcp.calls.operations import Calls
from callmcp.clock import TestClock
from callmcp.errors import Unavailable
from callmcp.store.memory import MemoryStore
from callmcp.telephony.twilio.addresses import Addresses, Report
from callmcp.telephony.twilio.client import TwilioTelephony
from callmcp.telephony.twilio.inbox import Inbox
from callmcp.telephony.twilio.routes import TwilioRoutes
from tests.contracts.values import a_call
from tests.telephony.twilio.api import ACCOUNT, FROM, TOKEN, Api

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
    telephony: TwilioTelephony
    calls: Calls
    inbox: Inbox
    agent: Agent
    routes: TwilioRoutes
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
