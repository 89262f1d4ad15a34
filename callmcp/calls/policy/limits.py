"""What operators lay down: limits at four levels, each by itself; the strictest holds because all of them hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import time
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from callmcp.calls.cost import amount, decimal
from callmcp.errors import InvalidArguments, Problem

EVERY_REGION = "*"
REGION = re.compile(r"[A-Z]{2}|\*")
PREFIX = re.compile(r"\+[1-9][0-9]{0,14}")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])")
# The law of one country, several regions of the numbering plan.
_GROUPS = ({"GB", "GG", "JE", "IM"},)


class Level(StrEnum):
    """Whose limit it is. A deployment's holds for each account by itself."""

    DEPLOYMENT = "deployment"
    ACCOUNT = "account"
    AGENT = "agent"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """A part of every day, in minutes since midnight: `end` is not in it any more, and is after `start`."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> "Hours":
        """From `08:00-21:00`. Raises ValueError."""
        found = _HOURS.fullmatch(text)
        numbers = [int(part) for part in found.groups()] if found else [0, 0, 0, 0]
        hours = cls(start=numbers[0] * 60 + numbers[1], end=numbers[2] * 60 + numbers[3])
        if not 0 <= hours.start < hours.end <= 24 * 60:
            raise ValueError(f"{text!r} is not hours such as 08:00-21:00, the first before the last")
        return hours

    @property
    def is_always(self) -> bool:
        return (self.start, self.end) == (0, 24 * 60)

    def __contains__(self, moment: time) -> bool:
        return self.start <= moment.hour * 60 + moment.minute < self.end

    def __str__(self) -> str:
        return f"{self.start // 60:02}:{self.start % 60:02}-{self.end // 60:02}:{self.end % 60:02}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one level. None, 0 and empty set none.

    `regions` (ISO 3166) are the only ones that may be called, `allow_prefixes` and `deny_prefixes` narrow that further;
    `hours` are at the called party, `region_hours` in place of them in some regions. The counts are of calls of this
    key, this agent or this account; those to one `destination` are of the whole account. Spending is in micro-units
    of the deployment's currency, by the days and months of UTC. With `approval` a person must say yes to each call.
    `consent` names the regions whose calls need it, `*` for all.
    """

    regions: frozenset[str] = frozenset()
    allow_prefixes: tuple[str, ...] = ()
    deny_prefixes: tuple[str, ...] = ()
    hours: Hours | None = None
    region_hours: Mapping[str, Hours] = field(default_factory=lambda: MappingProxyType({}))
    calls_per_minute: int = 0
    calls_per_hour: int = 0
    calls_per_day: int = 0
    calls_at_once: int = 0
    destination_per_day: int = 0
    destination_at_once: int = 0
    destination_pause_seconds: int = 0
    spend_per_day: int = 0
    spend_per_month: int = 0
    approval: bool = False
    consent: frozenset[str] = frozenset()


NO_LIMITS = Limits()
MOST = 1_000_000


_SETS = ("regions", "consent")
_PREFIXES = ("allow_prefixes", "deny_prefixes")
_AMOUNTS = ("spend_per_day", "spend_per_month")


def limits_definition(limits: Limits) -> dict[str, Any]:
    """As plain JSON values, without what sets no limit."""
    given: dict[str, Any] = {}
    for one in fields(limits):
        value = getattr(limits, one.name)
        if not value:
            continue
        if one.name == "hours":
            given[one.name] = str(value)
        elif one.name in _AMOUNTS:
            given[one.name] = decimal(value)
        elif one.name == "region_hours":
            given[one.name] = {region: str(hours) for region, hours in sorted(value.items())}
        else:
            given[one.name] = sorted(value) if one.name in {*_SETS, *_PREFIXES} else value
    return given


def limits_of(given: Mapping[str, Any]) -> Limits:
    """The other way round. Raises InvalidArguments, a problem for each that is not as it must be."""
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    known = {one.name for one in fields(Limits)}
    for name, value in given.items():
        if name not in known:
            problems.append(Problem(field=name, message=f"is not a limit; they are {', '.join(sorted(known))}"))
            continue
        try:
            values[name] = _checked(name, value)
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(Problem(field=name, message=str(error)))
    if problems:
        raise InvalidArguments(problems)
    return Limits(**values)


def _checked(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON is any value
    if name == "hours":
        return Hours.parse(value) if value else None
    if name == "region_hours":
        return MappingProxyType({_region(region): Hours.parse(hours) for region, hours in value.items()})
    if name in _SETS:
        return frozenset(_region(region) for region in value)
    if name in _PREFIXES:
        wrong = [prefix for prefix in value if not PREFIX.fullmatch(prefix)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not the beginning of a number such as +4930")
        return tuple(sorted(value))
    if name in _AMOUNTS:
        return amount(str(value))
    if name == "approval":
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ValueError(f"must be a whole number from 0, which sets no limit, to {MOST}")
    return value


def _region(text: str) -> str:
    if not REGION.fullmatch(text):
        raise ValueError(f"{text!r} is not a region such as US or DE (ISO 3166), or * for every one")
    return text


def is_among(region: str | None, regions: frozenset[str]) -> bool:
    """Whether a number's region is one of these: GB includes its islands, which the numbering plan tells apart."""
    if EVERY_REGION in regions or region in regions:
        return True
    return any(region in group and group & regions for group in _GROUPS)
