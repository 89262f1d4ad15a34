"""What holds for every account of a deployment: what its settings say, and where they are silent, what does no harm."""

from dataclasses import fields, replace

from callmcp.calls.cost import MICROS
from callmcp.calls.model import PhoneNumber
from callmcp.calls.policy.limits import NO_LIMITS, Hours, Limits
from callmcp.calls.policy.operations import Deployment
from callmcp.numbering import PhoneNumbersPlan
from callmcp.settings import Carrier, Settings

# What holds where nothing else was laid down: with a real carrier, what does no harm; the simulator rings nobody.
SAFE_LIMITS = Limits(
    hours=Hours(start=8 * 60, end=21 * 60),
    calls_per_minute=10,
    calls_per_hour=100,
    calls_per_day=500,
    calls_at_once=10,
    destination_per_day=3,
    destination_at_once=1,
    destination_pause_seconds=300,
    spend_per_day=25 * MICROS,
    spend_per_month=250 * MICROS,
)
SAFE_PRICE = MICROS // 4


def deployment(settings: Settings) -> Deployment:
    """What holds for every account: what is set, and for what is not, what does no harm with this carrier."""
    real = settings.carrier is not Carrier.SIMULATOR
    given = {
        name: getattr(settings, f"limit_{name}")
        for name in (one.name for one in fields(Limits))
        if getattr(settings, f"limit_{name}") is not None
    }
    limits = replace(SAFE_LIMITS if real else NO_LIMITS, **given)
    if real and settings.limit_regions is None:
        region = PhoneNumbersPlan().looks(PhoneNumber(settings.twilio_from or "")).region
        limits = replace(limits, regions=frozenset({region}) if region else frozenset())
    strict = settings.strict_numbers if settings.strict_numbers is not None else real
    price = settings.price_per_minute
    return Deployment(
        limits=limits,
        currency=settings.currency,
        per_minute=price if price is not None else SAFE_PRICE if real else 0,
        approval_seconds=settings.approval_seconds,
        strict_numbers=strict,
        trusts_zone=settings.trust_timezone,
    )
