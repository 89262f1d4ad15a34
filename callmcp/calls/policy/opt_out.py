"""Who asked not to be called is not called: by no agent, with no key, ever."""

from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import Level

RULE = "opt-out"


def check(facts: Facts) -> Verdict:
    if facts.opt_out is None:
        return Verdict(rule=RULE)
    reason = f"{facts.request.to} asked not to be called again. Do not call it, and do not try another number for them."
    return Verdict(rule=RULE, code="opted_out", reason=reason, level=Level.ACCOUNT)
