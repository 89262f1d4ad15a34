"""What can go wrong, as data: a switch each, thrown for one number or for the next call."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Switch(StrEnum):
    # The answer to a request. Those not PROCESSED do nothing else; the others do what was asked first.
    RATE_LIMITED = "rate-limited"
    ERROR_500 = "error-500"
    ERROR_500_PROCESSED = "error-500-processed"
    ERROR_503 = "error-503"
    HTML_502 = "html-502"
    HTML_502_PROCESSED = "html-502-processed"
    CLOSE = "close"  # the connection is reset before anything is processed
    RESET_PROCESSED = "reset-processed"
    HANG = "hang"  # accepted and never answered
    HANG_PROCESSED = "hang-processed"
    SLOW = "slow"  # processed at once, answered after so many real `seconds`
    REFUSE = "refuse"  # with this `code`
    CALLBACK_FIRST = "callback-first"  # the first callback is answered before the 201 goes out

    # A callback. `event` says which: initiated, ringing, answered, completed, amd, recording, action, twiml, or *.
    REORDER = "reorder"  # held until the next one was answered
    DUPLICATE = "duplicate"  # twice, with the same idempotency token
    DROP = "drop"
    DELAY = "delay"  # by so many emulated `seconds`
    FORGE = "forge"  # before it comes one that says `completed`, badly signed
    BAD_SIGNATURE = "bad-signature"  # the genuine one is badly signed

    # The call itself.
    SILENT = "silent"  # 201, and then nothing ever happens
    NO_RINGING = "no-ringing"
    RELAY_REFUSED = "relay-refused"
    RELAY_CUT = "relay-cut"  # the socket is cut after so many `words` of the agent
    ACTION_UNREACHABLE = "action-unreachable"
    AMD_AFTER_HANGUP = "amd-after-hangup"


ANSWERS = frozenset(list(Switch)[: list(Switch).index(Switch.REORDER)])
UNPROCESSED = frozenset(
    {
        Switch.RATE_LIMITED,
        Switch.ERROR_500,
        Switch.ERROR_503,
        Switch.HTML_502,
        Switch.CLOSE,
        Switch.HANG,
        Switch.REFUSE,
    }
)


@dataclass(slots=True, kw_only=True)
class Chaos:
    """`times` is how often it still strikes, None for ever; `on` is create, fetch, list or update."""

    switch: Switch
    on: str = "create"
    event: str = "*"
    times: int | None = None
    seconds: float = 1.0
    words: int = 3
    code: int = 20001

    @classmethod
    def parse(cls, value: str | dict[str, Any]) -> "Chaos":
        """From "drop" or {"switch": "drop", "event": "ringing"}. An answer strikes once unless `times` says otherwise.

        Raises ValueError or TypeError.
        """
        given = {"switch": value} if isinstance(value, str) else dict(value)
        switch = Switch(given.pop("switch"))
        return cls(**({"times": 1} if switch in ANSWERS else {}) | given, switch=switch)


def strike(chaos: list[Chaos], *switches: Switch, on: str = "create", event: str = "") -> Chaos | None:
    """The first of these switches that is thrown here; one with `times` is one time nearer to its end."""
    for one in chaos:
        here = one.switch in switches and (one.switch not in ANSWERS or one.on == on) and one.event in ("*", event)
        if here and one.times != 0:
            if one.times is not None:
                one.times -= 1
            return one
    return None
