"""Who asked not to be called is not called: by no agent, with no key, ever."""

from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import Level

RULE = "opt-out"


def check(facts: Facts) -> Verdict:
    return Verdict(rule=RULE) if facts.opt_out is None else opted_out(facts.request.to.e164)


def opted_out(number: str) -> Verdict:
    """What is said of a number on the list."""
    reason = f"{number} asked not to be called again. Do not call it, and do not try another number for them."
    return Verdict(rule=RULE, code="opted_out", reason=reason, level=Level.ACCOUNT)
