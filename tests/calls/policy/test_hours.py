"""Calling hours, in every zone that a number may be in, through the changes of the clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls.policy import hours
from callmcp.calls.policy.limits import Hours, Limits
from tests.calls.policy.facts import NOON, facts

DAY = Hours.parse("08:00-21:00")
WAKING = Limits(hours=DAY)
SAN_FRANCISCO, BERLIN, LONDON_MOBILE, TOLL_FREE = "+14152345678", "+493023125000", "+447911123456", "+18002345678"
NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize("text", ["", "8-21", "08:00", "21:00-08:00", "08:00-08:00", "08:00-24:01", "25:00-26:00"])
def test_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hours such as 08:00-21:00"):
        Hours.parse(text)


def test_a_number_is_called_by_its_own_clock() -> None:
    assert hours.check(facts(BERLIN, WAKING)).allowed  # 13:00
    refused = hours.check(facts(SAN_FRANCISCO, WAKING))  # 04:00
    assert (refused.code, refused.retry_at) == ("outside_hours", datetime(2026, 3, 2, 16, 0, tzinfo=UTC))
    assert "04:00" in refused.reason
    assert "08:00-21:00" in refused.reason


def test_every_place_where_the_number_may_be_must_be_awake() -> None:
    everywhere = facts(TOLL_FREE, WAKING, now=datetime(2026, 3, 2, 17, 0, tzinfo=UTC))
    assert len(everywhere.looks.zones) > 3
    refused = hours.check(everywhere)  # noon in New York, 07:00 in Honolulu
    assert refused.code == "outside_hours"
    assert refused.retry_at is not None
    assert refused.retry_at > everywhere.now


def test_a_number_of_no_known_zone_is_refused() -> None:
    refused = hours.check(facts("+8816123456789", WAKING))

    assert (refused.code, refused.retry_at) == ("unknown_timezone", None)


def test_a_zone_that_the_client_names_counts_if_it_can_be_so_or_is_trusted() -> None:
    assert hours.check(facts(SAN_FRANCISCO, WAKING, zone="America/Los_Angeles")).code == "outside_hours"
    refused = hours.check(facts(SAN_FRANCISCO, WAKING, zone="Europe/Berlin"))
    assert (refused.code, "America/Los_Angeles" in refused.reason) == ("timezone_not_plausible", True)
    assert hours.check(facts(SAN_FRANCISCO, WAKING, zone="Europe/Berlin", trusts_zone=True)).allowed
    assert hours.check(facts(SAN_FRANCISCO, WAKING, zone="Mars/Olympus", trusts_zone=True)).code == "unknown_timezone"


def test_a_region_can_have_hours_of_its_own() -> None:
    limits = Limits(hours=DAY, region_hours={"DE": Hours.parse("14:00-18:00"), "GB": Hours.parse("00:00-24:00")})

    assert hours.check(facts(BERLIN, limits)).retry_at == NOON + timedelta(hours=1)
    assert hours.check(facts(LONDON_MOBILE, limits, now=NOON.replace(hour=3))).allowed
    assert hours.check(facts(SAN_FRANCISCO, limits)).code == "outside_hours"


def test_without_hours_any_time_is_good() -> None:
    assert hours.check(facts("+8816123456789", Limits())).allowed
    assert hours.check(facts("+8816123456789", Limits(hours=Hours.parse("00:00-24:00")))).allowed


def test_every_minute_of_a_year_is_inside_exactly_when_the_clock_on_the_wall_is() -> None:
    """Through both changes of the clocks; and what is said of the next opening is true."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    end = datetime(2027, 1, 1, tzinfo=UTC)
    opens = None
    while moment < end:
        local = moment.astimezone(NEW_YORK)
        inside = 8 <= local.hour < 21
        assert hours._inside(moment, [NEW_YORK], DAY) is inside
        if inside:
            assert opens in {None, moment}, local
            opens = None
        elif opens is None:
            opens = hours.next_inside(moment, [NEW_YORK], DAY)
        moment += timedelta(minutes=1)


ZONES = (
    "America/New_York",
    "America/Los_Angeles",
    "Europe/London",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Apia",
)
minutes = st.integers(0, 365 * 24 * 60 - 1)
windows = st.tuples(st.integers(0, 1438), st.integers(1, 1440)).filter(lambda pair: pair[0] < pair[1])


@given(minutes, st.lists(st.sampled_from(ZONES), min_size=1, max_size=3, unique=True), windows)
def test_the_next_opening_is_inside_everywhere_and_nothing_before_it_is(
    minute: int, names: list[str], window: tuple[int, int]
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    zones = [ZoneInfo(name) for name in names]
    open_hours = Hours(start=window[0], end=window[1])

    opens = hours.next_inside(now, zones, open_hours)

    def inside(moment: datetime) -> bool:
        clocks = [moment.astimezone(zone) for zone in zones]
        return all(window[0] <= clock.hour * 60 + clock.minute < window[1] for clock in clocks)

    if opens is None:
        assert not any(inside(now + timedelta(minutes=step)) for step in range(0, 48 * 60, 5))
        return
    assert inside(opens)
    step = now
    while step < min(opens, now + timedelta(hours=30)):
        assert not inside(step)
        step += timedelta(minutes=7)
