"""How often. A quota is counted by the store, in the transaction that adds the call: exact, whoever else adds one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from callmcp.calls.policy.facts import Verdict
from callmcp.calls.policy.limits import Level, Limits

RULE = "rates"


class Counted(StrEnum):
    """Calls of the account that share this with the new one."""

    ACCOUNT = "account_id"
    AGENT = "agent_id"
    KEY = "key_id"
    DESTINATION = "to"


class Period(StrEnum):
    """What is counted: calls placed in the last so many seconds, calls that are not over, or the time since the end of
    the last one."""

    WINDOW = "window"
    LIVE = "live"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """At most `most` calls. A PAUSE has `seconds` alone."""

    level: Level
    counted: Counted
    period: Period
    most: int = 1
    seconds: int = 0
    code: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """`since`: of a window, when the oldest call that fills it was placed; of a pause, when the last call ended."""

    quota: Quota
    since: datetime | None = None


SUBJECT = {
    Level.DEPLOYMENT: Counted.ACCOUNT,
    Level.ACCOUNT: Counted.ACCOUNT,
    Level.AGENT: Counted.AGENT,
    Level.KEY: Counted.KEY,
}
_WINDOWS = (
    ("calls_per_minute", 60, "a minute"),
    ("calls_per_hour", 3600, "an hour"),
    ("calls_per_day", 86400, "a day"),
)


def quotas(limits: Mapping[Level, Limits]) -> Iterator[Quota]:
    """What must be counted before a call may be placed."""
    for level, here in limits.items():
        whose = f"this {level.value}" if level is not Level.DEPLOYMENT else "an account"
        for name, seconds, per in _WINDOWS:
            if most := getattr(here, name):
                words = f"{whose} may place {most} calls {per}"
                window: dict[str, Any] = {"period": Period.WINDOW, "seconds": seconds, "code": "rate_limited"}
                yield Quota(level=level, counted=SUBJECT[level], most=most, words=words, **window)
        if here.calls_at_once:
            words = f"{whose} may have {here.calls_at_once} calls at once"
            live: dict[str, Any] = {"period": Period.LIVE, "code": "too_many_calls_at_once"}
            yield Quota(level=level, counted=SUBJECT[level], most=here.calls_at_once, words=words, **live)
        yield from _of_destination(level, here)


def _of_destination(level: Level, here: Limits) -> Iterator[Quota]:
    to: dict[str, Any] = {"level": level, "counted": Counted.DESTINATION}
    if here.destination_at_once:
        words = "this number is being called already"
        yield Quota(**to, period=Period.LIVE, most=here.destination_at_once, code="destination_busy", words=words)
    if here.destination_per_day:
        words = f"a number may be called {here.destination_per_day} times a day"
        window: dict[str, Any] = {"period": Period.WINDOW, "seconds": 86400, "code": "destination_rate_limited"}
        yield Quota(**to, most=here.destination_per_day, words=words, **window)
    if here.destination_pause_seconds:
        words = f"a number is left alone for {here.destination_pause_seconds} seconds after a call"
        pause: dict[str, Any] = {"period": Period.PAUSE, "code": "destination_rate_limited"}
        yield Quota(**to, seconds=here.destination_pause_seconds, words=words, **pause)


def verdict(exhausted: Exhausted) -> Verdict:
    quota = exhausted.quota
    retry_at = exhausted.since + timedelta(seconds=quota.seconds) if exhausted.since is not None else None
    reason = f"Too often: {quota.words}."
    return Verdict(rule=RULE, code=quota.code, reason=reason, level=quota.level, retry_at=retry_at)
