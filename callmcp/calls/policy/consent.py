"""Calls to some places need the callee's consent, and a record of it."""

from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import is_among

RULE = "consent"


def check(facts: Facts) -> Verdict:
    if facts.request.consent is not None:
        return Verdict(rule=RULE)
    for level, limits in facts.limits.items():
        if limits.consent and is_among(facts.looks.region, limits.consent):
            reason = (
                "This call needs the callee's consent: give `consent` with its basis, when it was obtained and where "
                "it is kept. If there is none, do not call."
            )
            return Verdict(rule=RULE, code="consent_required", reason=reason, level=level)
    return Verdict(rule=RULE)
