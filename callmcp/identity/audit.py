"""Who changed what, when: a trail that is only ever added to."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from callmcp.clock import Clock

Change = Mapping[str, object]


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


class Trail:
    """Where every verb that changes something leaves its entry."""

    def __init__(self, store: AuditStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note(
        self,
        account_id: str,
        *,
        actor: str,
        action: str,
        subject: str,
        before: Change | None = None,
        after: Change | None = None,
        reason: str = "",
    ) -> None:
        """`before` and `after` are plain JSON values of what changed, and nothing secret."""
        await self._store.add_entry(
            Entry(
                id=f"aud_{secrets.token_hex(8)}",
                account_id=account_id,
                at=self._clock.now(),
                actor=actor,
                action=action,
                subject=subject,
                before=None if before is None else json.dumps(before, default=str),
                after=None if after is None else json.dumps(after, default=str),
                reason=reason,
            )
        )
