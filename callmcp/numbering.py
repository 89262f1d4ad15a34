"""NumberPlan on phonenumbers, Google's numbering metadata: kept current by others, and offline."""

from callmcp.calls.model import PhoneNumber


class PhoneNumbersPlan:
    def reaches_emergency_service(self, number: PhoneNumber) -> bool:
        """True when the national number is, or in its region dials through to, an emergency short number."""
        import phonenumbers  # noqa: PLC0415 - its metadata costs 50 ms of a start that may never place a call

        try:
            parsed = phonenumbers.parse(number.e164)
        except phonenumbers.NumberParseException:
            return False
        national = phonenumbers.national_significant_number(parsed)
        regions = phonenumbers.region_codes_for_country_code(parsed.country_code or 0)
        return any(phonenumbers.connects_to_emergency_number(national, region) for region in regions)
