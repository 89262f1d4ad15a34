"""A person's yes, before a call is dialled."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ApprovalState(StrEnum):
    """`withdrawn`: whoever wanted the call ended it before anybody decided."""

    REQUESTED = "requested"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a call waits for. `decided_by` is a key's id, `operator`, or `link`; `claimed_by` the process that dials the
    call, once, after the yes."""

    state: ApprovalState
    expires_at: datetime
    decided_at: datetime | None = None
    decided_by: str | None = None
    claimed_by: str | None = None

    @property
    def waits(self) -> bool:
        """Nobody has decided, or nobody dials yet what was approved."""
        undecided = self.state is ApprovalState.REQUESTED
        return undecided or (self.state is ApprovalState.APPROVED and self.claimed_by is None)
