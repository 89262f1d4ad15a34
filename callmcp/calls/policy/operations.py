"""Limits, the suppression list and the trail of who changed what: the verbs that every edge uses."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from callmcp.calls.model import CallRequest, PhoneNumber
from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import NO_LIMITS, Level, Limits, limits_definition
from callmcp.calls.ports import NumberPlan, PolicyStore
from callmcp.calls.refusals import Refusal
from callmcp.clock import Clock
from callmcp.errors import InvalidArguments, NotFound, Refused
from callmcp.identity.audit import AuditStore, Entry, Trail
from callmcp.identity.model import Principal, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What whoever runs the server lays down for all accounts. `strict_numbers` and `trusts_zone` as in Facts."""

    limits: Limits = NO_LIMITS
    strict_numbers: bool = False
    trusts_zone: bool = False


class Policy:
    """What may be called, for `Calls.place`, and what operators and clients change about that."""

    def __init__(
        self,
        *,
        store: PolicyStore,
        audit: AuditStore,
        numbers: NumberPlan,
        clock: Clock,
        deployment: Deployment,
    ) -> None:
        self._store = store
        self._audit = audit
        self._trail = Trail(audit, clock)
        self._numbers = numbers
        self._clock = clock
        self._deployment = deployment

    async def facts(self, principal: Principal, request: CallRequest) -> Facts:
        """All that the rules ask about, as of now."""
        given = await self._store.limits(principal.account_id, agent_id=request.agent_id, key_id=principal.key_id)
        return Facts(
            request=request,
            now=self._clock.now(),
            looks=self._numbers.looks(request.to),
            limits={Level.DEPLOYMENT: self._deployment.limits, **given},
            opt_out=await self._store.opt_out(principal.account_id, request.to.e164),
            strict_numbers=self._deployment.strict_numbers,
            trusts_zone=self._deployment.trusts_zone,
        )

    async def refused(self, principal: Principal, request: CallRequest, verdict: Verdict) -> Refused:
        """The refusal, remembered, to raise."""
        level = verdict.level or Level.DEPLOYMENT
        refusal = Refusal(
            id=f"ref_{secrets.token_hex(8)}",
            account_id=principal.account_id,
            key_id=principal.key_id,
            agent_id=request.agent_id,
            to=request.to.e164,
            rule=verdict.rule,
            level=level,
            code=verdict.code or "refused",
            reason=verdict.reason,
            retry_at=verdict.retry_at,
            at=self._clock.now(),
        )
        await self._store.add_refusal(refusal)
        words = f"{verdict.reason} (refusal {refusal.id}: the rule {refusal.rule}, laid down for the {level.value})"
        return Refused(words, code=refusal.code, retry_at=refusal.retry_at, refusal_id=refusal.id, rule=refusal.rule)

    async def refusals(self, principal: Principal, *, limit: int = 100) -> Sequence[Refusal]:
        principal.require(Scope.CALLS_READ)
        return await self._store.refusals(principal.account_id, limit=limit)

    # The suppression list.

    async def add_opt_out(
        self, principal: Principal, number: PhoneNumber, *, source: OptOutSource, reason: str = ""
    ) -> OptOut:
        """One that is on the list stays as it is."""
        principal.require(Scope.CALLS_WRITE)
        await self.add_opt_outs(principal, [number], source=source, reason=reason)
        found = await self._store.opt_out(principal.account_id, number.e164)
        if found is None:
            raise NotFound(f"{number} has just been taken off the list again.", code="opt_out_not_found")
        return found

    async def add_opt_outs(
        self, principal: Principal, numbers: Sequence[PhoneNumber], *, source: OptOutSource, reason: str = ""
    ) -> int:
        """How many were not on the list."""
        principal.require(Scope.CALLS_WRITE)
        now = self._clock.now()
        added = await self._store.add_opt_outs(
            [
                OptOut(
                    account_id=principal.account_id,
                    number=number.e164,
                    source=source,
                    reason=reason,
                    created_at=now,
                )
                for number in numbers
            ]
        )
        subject = numbers[0].e164 if len(numbers) == 1 else f"{len(numbers)} numbers"
        after = {"added": added, "source": source.value}
        await self._trail.note(
            principal.account_id,
            actor=principal.key_id,
            action="opt-outs.add",
            subject=subject,
            after=after,
            reason=reason,
        )
        return added

    async def remove_opt_out(self, principal: Principal, number: PhoneNumber, *, reason: str) -> OptOut:
        """Only an operator does, and says why. Raises NotFound, InvalidArguments without a reason."""
        principal.require(Scope.ADMIN)
        if not reason.strip():
            raise InvalidArguments.of("reason", "say why this number may be called again")
        found = await self._store.remove_opt_out(principal.account_id, number.e164)
        if found is None:
            raise NotFound(f"{number} is not on the list.", code="opt_out_not_found")
        before = {"source": found.source.value, "call_id": found.call_id}
        await self._trail.note(
            principal.account_id,
            actor=principal.key_id,
            action="opt-outs.remove",
            subject=number.e164,
            before=before,
            reason=reason,
        )
        return found

    async def opt_outs(self, principal: Principal, *, after: str = "", limit: int = 1000) -> Sequence[OptOut]:
        principal.require(Scope.CALLS_READ)
        return await self._store.opt_outs(principal.account_id, after=after, limit=limit)

    # Limits.

    async def limits(self, principal: Principal) -> Sequence[tuple[Level, str, Limits]]:
        """The deployment's, and every one of the account, its agents and its keys."""
        principal.require(Scope.AGENTS_READ)
        stored = await self._store.all_limits(principal.account_id)
        return [(Level.DEPLOYMENT, "", self._deployment.limits), *stored]

    async def set_limits(self, principal: Principal, level: Level, subject_id: str, limits: Limits | None) -> None:
        """None: there are none any more. A deployment's are settings."""
        principal.require(Scope.ADMIN)
        if level is Level.DEPLOYMENT:
            raise InvalidArguments.of("level", "the deployment's limits are settings; see config/callmcp.toml")
        before = {subject: one for _, subject, one in await self._store.all_limits(principal.account_id)}
        await self._store.set_limits(principal.account_id, level, subject_id, limits)
        was = before.get(subject_id)
        await self._trail.note(
            principal.account_id,
            actor=principal.key_id,
            action=f"limits.{level.value}",
            subject=subject_id,
            before=None if was is None else limits_definition(was),
            after=None if limits is None else limits_definition(limits),
        )

    # The trail.

    async def entries(self, principal: Principal, *, limit: int = 100) -> Sequence[Entry]:
        principal.require(Scope.ADMIN)
        return await self._audit.entries(principal.account_id, limit=limit)
