"""Who changed what, when: a trail that is only ever added to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`actor` is the key that was used, or `operator` for the command line; `before` and `after` are JSON, without
    anything secret; `subject` is the id of what was changed."""

    id: str
    account_id: str
    at: datetime
    actor: str
    action: str
    subject: str
    before: str | None = None
    after: str | None = None
    reason: str = ""


class AuditStore(Protocol):
    async def add_entry(self, entry: Entry) -> None: ...

    async def entries(self, account_id: str, *, limit: int = 100) -> Sequence[Entry]:
        """The newest first."""
