"""The rules in the order they are asked. What needs counting comes after, in the store (rates.py)."""

from collections.abc import Callable, Sequence

from callmcp.calls.policy import consent, hours, number, opt_out
from callmcp.calls.policy.facts import Facts, Verdict

RULES: Sequence[Callable[[Facts], Verdict]] = (
    number.emergency,
    number.plan,
    number.lists,
    opt_out.check,
    consent.check,
    hours.check,
)


def verdicts(facts: Facts) -> Sequence[Verdict]:
    """What each rule says."""
    return [rule(facts) for rule in RULES]
