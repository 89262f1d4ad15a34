"""What a check of a deployment comes to: `callmcp doctor` prints these, whichever part looked."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    PASSED = "pass"
    FAILED = "fail"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`seen` is what there is, `remedy` one sentence that an operator can act on. Neither holds a secret."""

    check: str
    verdict: Verdict
    seen: str
    remedy: str | None = None


def passed(check: str, seen: str) -> Finding:
    return Finding(check=check, verdict=Verdict.PASSED, seen=seen)


def failed(check: str, seen: str, remedy: str) -> Finding:
    return Finding(check=check, verdict=Verdict.FAILED, seen=seen, remedy=remedy)


def unchecked(check: str, seen: str, remedy: str) -> Finding:
    return Finding(check=check, verdict=Verdict.NOT_CHECKED, seen=seen, remedy=remedy)
