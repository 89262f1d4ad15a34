"""The suppression list of an account: numbers that are never called again."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class OptOutSource(StrEnum):
    """Who put the number on the list."""

    CALLEE = "callee"
    CLIENT = "client"
    OPERATOR = "operator"
    IMPORT = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptOut:
    """`call_id` is the call in which the callee asked for it."""

    account_id: str
    number: str
    source: OptOutSource
    reason: str = ""
    call_id: str | None = None
    created_at: datetime
