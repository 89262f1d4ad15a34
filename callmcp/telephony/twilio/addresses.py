"""Where Twilio reaches this server about one call. Each kind of report has an address of its own, below the public URL.

Every address has the call's unguessable token in its path, and no query: the URL of a WebSocket may have none, and
whether Twilio signs one as written is not known (TWILIO.md section 15).
"""

import hmac
from dataclasses import dataclass
from enum import StrEnum

from callmcp.calls.model import Call

PREFIX = "/twilio"
# How often and how long Twilio tries; a fragment is never sent (twilio.com/docs/usage/webhooks, connection overrides).
RETRIES = "#rc=3&rp=ct,rt,5xx&ct=2000&rt=4000"


class Report(StrEnum):
    """What an address is for."""

    STATUS = "status"
    AMD = "amd"
    RECORDING = "recording"
    ACTION = "action"
    RELAY = "relay"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of all calls. `public_url`: scheme, host and perhaps a path, without a slash at its end."""

    public_url: str

    def of(self, call: Call, report: Report) -> str:
        """The address as Twilio is given it and as it signs it, for the relay with ws or wss as its scheme."""
        return self.named(report, call.id, call.token)

    def named(self, report: Report, call_id: str, token: str) -> str:
        """The same for what stands in an address that was asked for, be it of a call or not."""
        url = f"{self.public_url}{PREFIX}/{report.value}/{call_id}/{token}"
        return f"ws{url.removeprefix('http')}" if report is Report.RELAY else url


def is_of(call: Call, token: str) -> bool:
    return hmac.compare_digest(call.token.encode(), token.encode("utf-8", "replace"))
