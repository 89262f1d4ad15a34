"""Which numbers may be called at all, by the numbering plan and by the operator's lists."""

from callmcp.calls.model import NumberKind
from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import Level, is_among

RULE = "number"
NEVER = {
    NumberKind.PREMIUM: "costs whoever calls it extra",
    NumberKind.SHARED_COST: "costs whoever calls it extra",
    NumberKind.SATELLITE: "is a satellite phone's",
    NumberKind.PAGER: "is a pager's",
    NumberKind.PERSONAL: "follows somebody around at the caller's cost",
    NumberKind.SERVICE: "is a service number",
}


def emergency(facts: Facts) -> Verdict:
    if not facts.looks.is_emergency:
        return Verdict(rule=RULE)
    reason = (
        f"{facts.request.to} reaches an emergency service, and an AI agent never calls one. "
        "If there is an emergency, tell the person you work for to call it themselves."
    )
    return Verdict(rule=RULE, code="emergency_number", reason=reason, level=Level.DEPLOYMENT)


def plan(facts: Facts) -> Verdict:
    """Possible by the numbering plan, valid by it with a real carrier, and of a kind that people answer."""
    number, looks = facts.request.to, facts.looks
    if not looks.is_possible and facts.strict_numbers:
        reason = f"{number} cannot be a phone number: it is too short or too long for its country. Check it."
        return Verdict(rule=RULE, code="impossible_number", reason=reason, level=Level.DEPLOYMENT)
    if not looks.is_valid and facts.strict_numbers:
        reason = f"{number} is not a number that its country hands out. Check it with whoever gave it to you."
        return Verdict(rule=RULE, code="invalid_number", reason=reason, level=Level.DEPLOYMENT)
    if looks.kind in NEVER and facts.strict_numbers:
        reason = f"{number} {NEVER[looks.kind]}; such numbers are not called."
        return Verdict(rule=RULE, code="number_kind_not_allowed", reason=reason, level=Level.DEPLOYMENT)
    return Verdict(rule=RULE)


def lists(facts: Facts) -> Verdict:
    """The operator's regions and prefixes."""
    number, region = facts.request.to.e164, facts.looks.region
    for level, limits in facts.limits.items():
        if limits.regions and not is_among(region, limits.regions):
            allowed = ", ".join(sorted(limits.regions))
            reason = f"Numbers in {region or 'no known region'} may not be called here; allowed: {allowed}."
            return Verdict(rule=RULE, code="region_not_allowed", reason=reason, level=level)
        if limits.allow_prefixes and not number.startswith(limits.allow_prefixes):
            reason = f"Only numbers that begin with {', '.join(limits.allow_prefixes)} may be called here."
            return Verdict(rule=RULE, code="number_not_allowed", reason=reason, level=level)
        if limits.deny_prefixes and number.startswith(limits.deny_prefixes):
            reason = f"{number} is on this operator's list of numbers that are not called."
            return Verdict(rule=RULE, code="number_denied", reason=reason, level=level)
    return Verdict(rule=RULE)
