"""NumberPlan on phonenumbers, Google's numbering metadata: kept current by others, and offline."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from callmcp.calls.model import NumberKind, NumberLooks, PhoneNumber

if TYPE_CHECKING:
    import phonenumbers

UNKNOWN_ZONE = "Etc/Unknown"
SATELLITE_CODES = frozenset({870, 881, 882, 883})
IMPOSSIBLE = NumberLooks(is_possible=False, is_valid=False, is_emergency=False)
# Numbers that a region dials for help or hands to its own services and the library does not flag: N11, the crisis line.
SERVICES = frozenset({"211", "311", "411", "511", "611", "711", "811", "911", "988"})
_NANP = 1
_KINDS = {
    "FIXED_LINE": NumberKind.FIXED,
    "MOBILE": NumberKind.MOBILE,
    "FIXED_LINE_OR_MOBILE": NumberKind.FIXED_OR_MOBILE,
    "TOLL_FREE": NumberKind.TOLL_FREE,
    "PREMIUM_RATE": NumberKind.PREMIUM,
    "SHARED_COST": NumberKind.SHARED_COST,
    "VOIP": NumberKind.VOIP,
    "PERSONAL_NUMBER": NumberKind.PERSONAL,
    "PAGER": NumberKind.PAGER,
    "UAN": NumberKind.SERVICE,
    "VOICEMAIL": NumberKind.SERVICE,
}


class PhoneNumbersPlan:
    def looks(self, number: PhoneNumber) -> NumberLooks:
        import phonenumbers  # noqa: PLC0415 - its metadata costs 50 ms of a start that may never place a call

        try:
            parsed = phonenumbers.parse(number.e164)
        except phonenumbers.NumberParseException:
            return IMPOSSIBLE
        # The kind and the region are searched for among the regions of a country code, 25 of them for +1: once each.
        kind, region = phonenumbers.number_type(parsed), phonenumbers.region_code_for_number(parsed)
        return NumberLooks(
            is_possible=phonenumbers.is_possible_number(parsed),
            is_valid=kind != phonenumbers.PhoneNumberType.UNKNOWN,
            is_emergency=_is_emergency(parsed, region),
            kind=_kind(parsed, kind),
            region=region,
            zones=tuple(zone for zone in _zones(parsed, kind) if zone != UNKNOWN_ZONE),
        )


def _zones(parsed: "phonenumbers.PhoneNumber", kind: int) -> Sequence[str]:
    import phonenumbers  # noqa: PLC0415
    from phonenumbers import timezone  # noqa: PLC0415

    if phonenumbers.is_number_type_geographical(kind, parsed.country_code or 0):
        return timezone.time_zones_for_geographical_number(parsed)
    return timezone.time_zones_for_number(parsed)


def _is_emergency(parsed: "phonenumbers.PhoneNumber", region: str | None) -> bool:
    """True when the national number is, or in its region dials through to, an emergency short number."""
    import phonenumbers  # noqa: PLC0415

    national = phonenumbers.national_significant_number(parsed)
    # A number that no region has, such as +1 911 555 1234, is judged as the country's main region would dial it.
    dials_as = region or phonenumbers.region_code_for_country_code(parsed.country_code or 0)
    return phonenumbers.connects_to_emergency_number(national, dials_as) or (
        parsed.country_code == _NANP and national in SERVICES
    )


def _kind(parsed: "phonenumbers.PhoneNumber", kind: int) -> NumberKind:
    import phonenumbers  # noqa: PLC0415

    if parsed.country_code in SATELLITE_CODES:
        return NumberKind.SATELLITE
    return _KINDS.get(phonenumbers.PhoneNumberType.to_string(kind), NumberKind.UNKNOWN)
