"""Twilio's error codes in our words: whose fault it is, what code ours has, and what to do.

The codes are Twilio's (twilio.com/docs/api/errors); the table holds those that placing a call can meet, and is open: a
code that is not here is told with Twilio's own words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from callmcp.errors import CarrierRefused

MAX_WORDS = 300


class Fault(StrEnum):
    """Who can mend it."""

    CALLER = "caller"  # whoever chose the number
    OPERATOR = "operator"  # whoever runs this server and pays the carrier
    CARRIER = "carrier"  # nobody here; the same request may work later


@dataclass(frozen=True, slots=True)
class Meaning:
    code: str
    fault: Fault
    words: str


_MEND = "Tell the person you work for that whoever runs this server has to mend it; do not try again before."
_CHECK = "Check the number with the person you work for."
_LATER = "Try again in a minute."

INVALID_NUMBER = Meaning("invalid_number", Fault.CALLER, f"The carrier says that the number is not valid. {_CHECK}")
UNREACHABLE = Meaning("number_unreachable", Fault.CALLER, f"The carrier has no way to this number. {_CHECK}")
BLOCKED = Meaning("number_blocked", Fault.CALLER, "The carrier blocks this number; do not try it again.")
COUNTRY = Meaning("country_not_allowed", Fault.OPERATOR, f"The carrier account may not call that country. {_MEND}")
UNVERIFIED = Meaning(
    "number_unverified", Fault.OPERATOR, f"A trial account may call only numbers verified beforehand. {_MEND}"
)
CALLER_ID = Meaning(
    "caller_id_not_allowed", Fault.OPERATOR, f"The carrier does not let us call from our number. {_MEND}"
)
CREDENTIALS = Meaning("carrier_credentials", Fault.OPERATOR, f"The carrier does not take our credentials. {_MEND}")
ACCOUNT = Meaning("carrier_account", Fault.OPERATOR, f"The carrier account is suspended or lacks a right. {_MEND}")
MISCONFIGURED = Meaning("carrier_misconfigured", Fault.OPERATOR, f"The carrier does not take our request. {_MEND}")
BUSY = Meaning("carrier_busy", Fault.CARRIER, f"The carrier is overloaded and did not place the call. {_LATER}")
CONCURRENCY = Meaning(
    "carrier_concurrency", Fault.CARRIER, "The carrier account has all the calls it may have. Try again when one ends."
)
NOT_REACHED = Meaning(
    "carrier_unreachable", Fault.CARRIER, f"The carrier could not be reached and did not get the request. {_LATER}"
)

MEANINGS: Mapping[int, Meaning] = {
    10001: ACCOUNT,
    10002: ACCOUNT,
    10004: CONCURRENCY,
    20003: CREDENTIALS,
    20005: ACCOUNT,
    20008: ACCOUNT,
    20403: ACCOUNT,
    20429: BUSY,
    21201: INVALID_NUMBER,
    21202: BLOCKED,
    21203: COUNTRY,
    21205: MISCONFIGURED,
    21210: CALLER_ID,
    21211: INVALID_NUMBER,
    21212: CALLER_ID,
    21213: CALLER_ID,
    21214: UNREACHABLE,
    21215: COUNTRY,
    21216: BLOCKED,
    21217: INVALID_NUMBER,
    21219: UNVERIFIED,
    21609: MISCONFIGURED,
    21626: MISCONFIGURED,
    32018: MISCONFIGURED,
}


BUSY_HTTP = {429: 20429}
"""HTTP statuses that say it all, whatever code comes with them."""


def refusal(code: int, words: str) -> CarrierRefused:
    """The error for a request that Twilio certainly did not do."""
    meaning = MEANINGS.get(code)
    if meaning is None:
        meaning = Meaning("carrier_refused", Fault.CARRIER, f"The carrier refused the call: {words[:MAX_WORDS]}")
    passing = meaning.fault is Fault.CARRIER and code in MEANINGS
    return CarrierRefused(meaning.words, code=meaning.code, carrier_code=str(code), passing=passing)
