"""Emergency services are never called, by anybody."""

from callmcp.calls.model import PhoneNumber, emergency_refused
from callmcp.calls.ports import NumberPlan


def check(number: PhoneNumber, plan: NumberPlan) -> None:
    """Raises Refused."""
    if plan.reaches_emergency_service(number):
        raise emergency_refused(number.e164)
