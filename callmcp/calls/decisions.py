"""A person's yes or no to calls that wait for one: by a key, on the command line, or by a link that is good for one
call."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from callmcp.calls.approval import ApprovalState
from callmcp.calls.events import Approved, Disapproved
from callmcp.calls.model import Call, EndReason
from callmcp.calls.operations import Calls
from callmcp.calls.ports import CallStore
from callmcp.clock import Clock
from callmcp.errors import Conflict, NotFound
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope

BY_LINK = "link"


class Decisions:
    """The verbs of approval. A decision is stored; whichever process finds it first dials (`Calls.dial_approved`)."""

    def __init__(self, *, store: CallStore, calls: Calls, trail: Trail, clock: Clock) -> None:
        self._store = store
        self._calls = calls
        self._trail = trail
        self._clock = clock

    async def waiting(self, principal: Principal) -> Sequence[Call]:
        """The account's calls that wait, oldest first."""
        principal.require(Scope.ADMIN)
        return await self._store.waiting(principal.account_id)

    async def decide(self, principal: Principal, call_id: str, *, yes: bool) -> Call:
        """Raises NotFound, and Conflict when it has been decided or its time is up."""
        principal.require(Scope.ADMIN)
        call = await self._store.call(call_id)
        if call is None or call.account_id != principal.account_id or call.approval is None:
            raise _not_found(call_id)
        return await self._decide(call, yes=yes, by=principal.key_id)

    async def by_link(self, call_id: str, token: str) -> Call:
        """The call that a link is for. Raises NotFound, also for a link that was not made here."""
        call = await self._store.call(call_id)
        if call is None or call.approval is None or not _same(link_token(call), token):
            raise _not_found(call_id)
        return call

    async def decide_by_link(self, call_id: str, token: str, *, yes: bool) -> Call:
        """Raises NotFound and Conflict."""
        return await self._decide(await self.by_link(call_id, token), yes=yes, by=BY_LINK)

    async def _decide(self, call: Call, *, yes: bool, by: str) -> Call:
        now = self._clock.now()
        event = Approved(at=now, by=by) if yes else Disapproved(at=now, reason=EndReason.DECLINED, by=by)
        after = await self._calls.observe(call.id, event)
        approval = after.approval
        wanted = ApprovalState.APPROVED if yes else ApprovalState.DECLINED
        if approval is None or (approval.state, approval.decided_at, approval.decided_by) != (wanted, now, by):
            state = "expired" if approval is None or approval.decided_at is None else approval.state.value
            raise Conflict(f"Nothing was changed: the approval of {call.id} is {state}.", code="approval_decided")
        await self._trail.note(
            call.account_id,
            actor=by,
            action="approvals.approve" if yes else "approvals.decline",
            subject=call.id,
            before={"state": "requested"},
            after={"state": approval.state.value},
        )
        return after


def link_token(call: Call) -> str:
    """Signs exactly this call and its time: HMAC-SHA256 with the call's own secret, which nobody but this server knows
    before the call is dialled, and a decided call needs no link any more."""
    until = call.approval.expires_at.isoformat() if call.approval is not None else ""
    signed = f"approval {call.id} {call.fingerprint} {until}".encode()
    digest = hmac.new(call.token.encode(), signed, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _same(token: str, given: str) -> bool:
    return hmac.compare_digest(token.encode(), given.encode(errors="replace"))


def _not_found(call_id: str) -> NotFound:
    return NotFound(f"There is no call {call_id!r} here that waits for a yes.", code="approval_not_found")
