"""A call that a rule did not allow: no call, and remembered all the same, for operators to see what was tried."""

from dataclasses import dataclass
from datetime import datetime

from callmcp.calls.policy.limits import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    id: str
    account_id: str
    key_id: str
    agent_id: str
    to: str
    rule: str
    level: Level
    code: str
    reason: str
    retry_at: datetime | None
    at: datetime
