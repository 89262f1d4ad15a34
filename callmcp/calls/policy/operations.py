"""Limits, the suppression list and the trail of who changed what: the verbs that every edge uses."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from callmcp.calls.cost import decimal
from callmcp.calls.model import Call, CallRequest, PhoneNumber
from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.calls.policy.facts import Facts, Verdict
from callmcp.calls.policy.limits import NO_LIMITS, Level, Limits, limits_definition
from callmcp.calls.policy.prices import Price, per_minute, priced
from callmcp.calls.policy.rules import verdicts
from callmcp.calls.ports import NumberPlan, PolicyStore
from callmcp.calls.refusals import Refusal
from callmcp.clock import Clock
from callmcp.errors import InvalidArguments, NotFound, Refused
from callmcp.identity.audit import AuditStore, Entry, Trail
from callmcp.identity.model import Principal, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What whoever runs the server lays down for all accounts. `strict_numbers`, `trusts_zone` and `currency` as in
    Facts. `per_minute` is what a minute costs where no price says otherwise; `approval_seconds` how long a call waits
    for a person's yes."""

    limits: Limits = NO_LIMITS
    currency: str = "USD"
    per_minute: int = 0
    approval_seconds: int = 3600
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
        return await self._facts(principal.account_id, principal.key_id, request)

    async def recheck(self, call: Call) -> Verdict | None:
        """What a rule says against a call that waited and is to be dialled now: the list, the hours and the limits may
        not be what they were. None: nothing."""
        request = CallRequest(
            agent_id=call.agent_id,
            to=PhoneNumber(call.to),
            recipient_timezone=call.recipient_timezone,
            consent=call.consent,
        )
        facts = await self._facts(call.account_id, call.key_id, request)
        refused = next((verdict for verdict in verdicts(facts) if not verdict.allowed), None)
        if refused is not None:
            await self._remember(call.account_id, call.key_id, call.agent_id, call.to, refused)
        return refused

    async def _facts(self, account_id: str, key_id: str, request: CallRequest) -> Facts:
        number = request.to.e164
        given = await self._store.laid_down(account_id, agent_id=request.agent_id, key_id=key_id, number=number)
        return Facts(
            request=request,
            now=self._clock.now(),
            looks=self._numbers.looks(request.to),
            limits={Level.DEPLOYMENT: self._deployment.limits, **given.limits},
            opt_out=given.opt_out,
            per_minute=per_minute(number, given.prices, self._deployment.per_minute),
            currency=self._deployment.currency,
            approval_seconds=self._deployment.approval_seconds,
            strict_numbers=self._deployment.strict_numbers,
            trusts_zone=self._deployment.trusts_zone,
        )

    async def refused(self, principal: Principal, agent_id: str, to: str, verdict: Verdict) -> Refused:
        """The refusal, remembered, to raise."""
        refusal = await self._remember(principal.account_id, principal.key_id, agent_id, to, verdict)
        words = f"{verdict.reason} (refusal {refusal.id}: the rule {refusal.rule}, laid down for the {refusal.level})"
        return Refused(words, code=refusal.code, retry_at=refusal.retry_at, refusal_id=refusal.id, rule=refusal.rule)

    async def number(self, principal: Principal, agent_id: str, text: str) -> PhoneNumber:
        """The number that somebody wants to call. Raises InvalidArguments for what is none and Refused, remembered, for
        the short number of an emergency service."""
        try:
            return PhoneNumber.parse(text)
        except Refused as refused:
            verdict = Verdict(rule="number", code=refused.code, reason=refused.message, level=Level.DEPLOYMENT)
            raise await self.refused(principal, agent_id, text, verdict) from None

    async def _remember(self, account_id: str, key_id: str, agent_id: str, to: str, verdict: Verdict) -> Refusal:
        refusal = Refusal(
            id=f"ref_{secrets.token_hex(8)}",
            account_id=account_id,
            key_id=key_id,
            agent_id=agent_id,
            to=to,
            rule=verdict.rule,
            level=verdict.level or Level.DEPLOYMENT,
            code=verdict.code or "refused",
            reason=verdict.reason,
            retry_at=verdict.retry_at,
            at=self._clock.now(),
        )
        await self._store.add_refusal(refusal)
        return refusal

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

    # Prices.

    async def prices(self, principal: Principal) -> Sequence[Price]:
        principal.require(Scope.AGENTS_READ)
        return await self._store.prices(principal.account_id)

    async def set_price(self, principal: Principal, of: str, amount: str) -> Price:
        """`amount` a minute, such as 0.014, in the deployment's currency. Raises InvalidArguments."""
        principal.require(Scope.ADMIN)
        price = priced(principal.account_id, of, amount)
        before = next((one for one in await self._store.prices(principal.account_id) if one.of == of), None)
        await self._store.set_price(price)
        await self._note_price(principal, of, before, price)
        return price

    async def remove_price(self, principal: Principal, of: str) -> None:
        """Raises NotFound."""
        principal.require(Scope.ADMIN)
        before = await self._store.remove_price(principal.account_id, of)
        if before is None:
            raise NotFound(f"There is no price of {of!r}.", code="price_not_found")
        await self._note_price(principal, of, before, None)

    async def _note_price(self, principal: Principal, of: str, before: Price | None, after: Price | None) -> None:
        await self._trail.note(
            principal.account_id,
            actor=principal.key_id,
            action="prices.remove" if after is None else "prices.set",
            subject=of,
            before=None if before is None else {"per_minute": decimal(before.per_minute)},
            after=None if after is None else {"per_minute": decimal(after.per_minute)},
        )

    # The trail.

    async def entries(self, principal: Principal, *, limit: int = 100) -> Sequence[Entry]:
        principal.require(Scope.ADMIN)
        return await self._audit.entries(principal.account_id, limit=limit)
