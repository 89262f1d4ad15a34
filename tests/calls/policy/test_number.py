import pytest

from callmcp.calls.policy import number
from callmcp.calls.policy.limits import Level, Limits
from tests.calls.policy.facts import facts

REAL = {"US": "+14152345678", "JM": "+18763456789", "GB": "+442079460018", "GG": "+441481222222", "DE": "+493023125000"}


@pytest.mark.parametrize("to", REAL.values())
def test_numbers_that_people_answer_may_be_called(to: str) -> None:
    assert number.plan(facts(to)).allowed
    assert number.emergency(facts(to)).allowed


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("+1415234567", "impossible_number"),
        ("+49301", "invalid_number"),
        ("+11234567890", "invalid_number"),
        ("+999123456789", "impossible_number"),
        ("+19002345678", "number_kind_not_allowed"),
        ("+15005550006", "number_kind_not_allowed"),
        ("+448439999999", "number_kind_not_allowed"),
        ("+447010123456", "number_kind_not_allowed"),
        ("+8816123456789", "number_kind_not_allowed"),
    ],
)
def test_numbers_that_nobody_should_call_are_refused_with_a_real_carrier(to: str, code: str) -> None:
    refused = number.plan(facts(to))

    assert (refused.code, refused.level) == (code, Level.DEPLOYMENT)
    assert to in refused.reason
    assert number.plan(facts(to, strict_numbers=False)).allowed  # the simulator rings nobody


@pytest.mark.parametrize("to", ["+1911", "+19115551234", "+1911911911911", "+44999"])
def test_emergency_services_are_refused_whatever_the_carrier(to: str) -> None:
    assert number.emergency(facts(to, strict_numbers=False)).code == "emergency_number"


def test_a_region_is_not_a_country_code() -> None:
    us = Limits(regions=frozenset({"US"}))

    assert number.lists(facts(REAL["US"], us)).allowed
    refused = number.lists(facts(REAL["JM"], us))  # +1 876 is Jamaica
    assert (refused.code, "JM" in refused.reason, "US" in refused.reason) == ("region_not_allowed", True, True)


def test_great_britain_includes_its_islands_and_every_region_includes_none() -> None:
    assert number.lists(facts(REAL["GG"], Limits(regions=frozenset({"GB"})))).allowed
    assert not number.lists(facts(REAL["DE"], Limits(regions=frozenset({"GB"})))).allowed
    everywhere = Limits(regions=frozenset({"*"}))
    assert all(number.lists(facts(to, everywhere)).allowed for to in (*REAL.values(), "+8816123456789"))
    assert not number.lists(facts("+8816123456789", Limits(regions=frozenset({"US"})))).allowed


@pytest.mark.parametrize("level", Level)
def test_prefixes_allow_and_deny_at_every_level(level: Level) -> None:
    berlin = Limits(allow_prefixes=("+4930",), deny_prefixes=("+49302312",))

    assert number.lists(facts("+493011112222", berlin, level=level)).allowed
    assert number.lists(facts(REAL["US"], berlin, level=level)).code == "number_not_allowed"
    refused = number.lists(facts(REAL["DE"], berlin, level=level))
    assert (refused.code, refused.level) == ("number_denied", level)
