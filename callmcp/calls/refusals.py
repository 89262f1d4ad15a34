"""A call that a rule did not allow. It is no call, but it is remembered: who runs the server wants to see what was tried."""

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
