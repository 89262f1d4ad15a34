"""When the called party may be rung: by the clock where they may be, in every place where they may be.

A number tells where it was handed out, not where its phone is, and often only a handful of zones. Every one of them
must be inside the hours; a number of no known zone is never inside.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import Hours, Limits, is_among

RULE = "hours"
LOOK_AHEAD_DAYS = 8


def check(facts: Facts) -> Verdict:
    for level, limits in facts.limits.items():
        hours = hours_for(limits, facts.looks.region)
        if hours is None or hours.is_always:
            continue
        zones, problem = zones_of(facts)
        if problem is not None:
            return Verdict(rule=RULE, code=problem[0], reason=problem[1], level=level)
        if not _inside(facts.now, zones, hours):
            opens = next_inside(facts.now, zones, hours)
            clocks = ", ".join(sorted({f"{facts.now.astimezone(zone):%H:%M}" for zone in zones}))
            reason = f"It is {clocks} where {facts.request.to} may be, and calls are made from {hours} there."
            return Verdict(rule=RULE, code="outside_hours", reason=reason, level=level, retry_at=opens)
    return Verdict(rule=RULE)


def hours_for(limits: Limits, region: str | None) -> Hours | None:
    """The region's own hours, else those of all. None: at any time."""
    special = (hours for name, hours in limits.region_hours.items() if is_among(region, frozenset({name})))
    return next(special, limits.hours)


def zones_of(facts: Facts) -> tuple[Sequence[ZoneInfo], tuple[str, str] | None]:
    """The zones that the number may be in, or the one that the client names; or a code and words for why not."""
    named, known = facts.request.recipient_timezone, facts.looks.zones
    if named is None:
        if not known:
            words = "Nobody knows which time zone this number is in, so it is not known to be inside calling hours."
            return (), ("unknown_timezone", f"{words} Give recipient_timezone if this operator trusts it.")
        return [ZoneInfo(zone) for zone in known], None
    try:
        zone = ZoneInfo(named)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last two: a name that is a path, or a folder's
        return (), ("unknown_timezone", f"{named!r} is not a time zone such as Europe/Berlin.")
    if named in known or facts.trusts_zone:
        return [zone], None
    candidates = f" It may be in {', '.join(known)}." if known else ""
    return (), ("timezone_not_plausible", f"The number is not in {named}, as far as it tells.{candidates}")


def next_inside(now: datetime, zones: Sequence[ZoneInfo], hours: Hours) -> datetime | None:
    """The first moment from `now` at which all zones are inside. None: there is none within days."""
    starts = {now, *_openings(now, zones, hours)}
    return next((moment for moment in sorted(starts) if moment >= now and _inside(moment, zones, hours)), None)


def _openings(now: datetime, zones: Iterable[ZoneInfo], hours: Hours) -> Iterable[datetime]:
    """When each day's hours begin in each zone. An hour that a clock change skips begins with the hour after it."""
    opens = time(hours.start // 60, hours.start % 60)
    for zone in zones:
        today = now.astimezone(zone).date()
        for day in range(LOOK_AHEAD_DAYS):
            local = datetime.combine(today + timedelta(days=day), opens, zone)
            yield local.astimezone(UTC)
            yield local.replace(fold=1).astimezone(UTC)


def _inside(moment: datetime, zones: Iterable[ZoneInfo], hours: Hours) -> bool:
    return all(moment.astimezone(zone).time() in hours for zone in zones)
