"""What Twilio sends us about calls: who may send it, which call it is about, and what it does.

Nothing here knows HTTP beyond a path, a form and a signature; `routes.py` carries it. A report that does not hold up
changes nothing and is counted, by why it was refused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import structlog

from callmcp.calls.events import Accepted, Event
from callmcp.calls.model import Call
from callmcp.calls.operations import Calls
from callmcp.calls.ports import CallStore
from callmcp.clock import Clock
from callmcp.telephony.twilio import signature
from callmcp.telephony.twilio.addresses import Addresses, Report, is_of
from callmcp.telephony.twilio.callbacks import action_events, amd_events, recording_events, status_events
from callmcp.telephony.twilio.signature import Parameters

log = structlog.get_logger()


class Refusal(StrEnum):
    """Why a report was not taken."""

    FORGED = "forged"
    TRUNCATED = "truncated"
    OVERSIZED = "oversized"
    WRONG_CALL = "wrong-call"


class Refused(Exception):
    def __init__(self, why: Refusal) -> None:
        super().__init__(why.value)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A report as it came: what it is, which call its address names, and what Twilio signed."""

    report: Report
    call_id: str
    token: str
    signature: str | None
    parameters: Parameters = ()


class Inbox:
    """Takes in reports. `tokens`: the account's auth tokens, several while one is rotated."""

    def __init__(
        self,
        *,
        store: CallStore,
        calls: Calls,
        clock: Clock,
        addresses: Addresses,
        account_sid: str,
        tokens: Sequence[str],
    ) -> None:
        self._store = store
        self._calls = calls
        self._clock = clock
        self._addresses = addresses
        self._account_sid = account_sid
        self._tokens = tuple(tokens)
        self.refused: Counter[Refusal] = Counter()

    async def take(self, envelope: Envelope) -> Call:
        """The call after the report. Raises Refused, and Unavailable when it could not be stored: Twilio must send the
        report again."""
        call = await self.call_of(envelope)
        form = dict(envelope.parameters)
        if form.get("AccountSid") != self._account_sid or not form.get("CallSid"):
            raise self.refusal(Refusal.WRONG_CALL)
        if call.carrier_id is not None and call.carrier_id != form["CallSid"]:
            raise self.refusal(Refusal.WRONG_CALL)
        # Whatever it reports, it names the call: the status callbacks of one whose 201 was lost may be lost as well.
        named = Accepted(at=self._clock.now(), carrier_id=form["CallSid"])
        return await self._calls.observe(call.id, named, *self._events(envelope.report, form, call))

    async def call_of(self, envelope: Envelope) -> Call:
        """The call that a signed address belongs to. Raises Refused, Unavailable."""
        if not self._is_signed(envelope):
            raise self.refusal(Refusal.FORGED)
        call = await self._store.call(envelope.call_id)
        if call is None or not is_of(call, envelope.token):
            raise self.refusal(Refusal.WRONG_CALL)
        return call

    def refusal(self, why: Refusal) -> Refused:
        self.refused[why] += 1
        log.warning("report_refused", why=why.value, so_far=self.refused[why])
        return Refused(why)

    def _is_signed(self, envelope: Envelope) -> bool:
        url = self._addresses.named(envelope.report, envelope.call_id, envelope.token)
        return signature.is_signed(envelope.signature, tokens=self._tokens, url=url, parameters=envelope.parameters)

    def _events(self, report: Report, form: dict[str, str], call: Call) -> Sequence[Event]:
        now = self._clock.now()
        match report:
            case Report.STATUS:
                return status_events(form, now)
            case Report.AMD:
                return amd_events(form, call, now)
            case Report.RECORDING:
                return recording_events(form, now)
            case Report.ACTION:
                return action_events(form, now)
            case _:
                return []
