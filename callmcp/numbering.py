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
        # A number that no region has, such as +1 911 555 1234, is judged as the country's main region would dial it.
        region = phonenumbers.region_code_for_number(parsed) or phonenumbers.region_code_for_country_code(
            parsed.country_code or 0
        )
        return phonenumbers.connects_to_emergency_number(national, region)
