"""Facts about a call, for the rules to be asked about."""

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from callmcp.calls.model import CallRequest, PhoneNumber
from callmcp.calls.policy.facts import Facts
from callmcp.calls.policy.limits import Level, Limits
from callmcp.numbering import PhoneNumbersPlan

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PLAN = PhoneNumbersPlan()


def facts(to: str, limits: Limits | None = None, *, level: Level = Level.DEPLOYMENT, **more: Any) -> Facts:
    request = CallRequest(
        agent_id="agt_000001",
        to=PhoneNumber(to),
        recipient_timezone=more.pop("zone", None),
        consent=more.pop("consent", None),
    )
    some: dict[str, Any] = {"now": NOON, "looks": PLAN.looks(request.to), "strict_numbers": True}
    return Facts(request=request, limits=MappingProxyType({level: limits or Limits()}), **some | more)
