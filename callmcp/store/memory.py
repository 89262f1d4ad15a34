"""Everything in dictionaries: for tests, and for a server that may forget. It keeps the contract of the databases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from callmcp.agents.model import Agent
from callmcp.calls.events import Event
from callmcp.calls.model import Call, CallFilter, CallStatus, Position, Turn
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy import money, rates
from callmcp.calls.policy.facts import LaidDown, Verdict
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.opt_out import opted_out
from callmcp.calls.policy.prices import Price, prices_for
from callmcp.calls.policy.rates import Exhausted, Period, Quota
from callmcp.calls.ports import NotAdded
from callmcp.calls.refusals import Refusal
from callmcp.errors import Conflict, NotFound
from callmcp.identity.audit import Entry
from callmcp.identity.model import Account, ApiKey
from callmcp.store.fold import fold, opt_out_in
from callmcp.store.memory_grants import MemoryGrants
from callmcp.store.text import storable


class MemoryStore(MemoryGrants):
    """A KeyStore, an AgentStore and a CallStore.

    No method lets the loop run in its middle, so each is as atomic as a transaction.
    """

    def __init__(self) -> None:
        super().__init__()
        self._accounts: dict[str, Account] = {}
        self._agents: dict[str, Agent] = {}
        self._agent_versions: dict[str, list[Agent]] = {}
        self._calls: dict[str, Call] = {}
        self._turns: dict[str, list[Turn]] = {}
        self._placed: dict[tuple[str, str], str] = {}
        self._beats: dict[str, int] = {}
        self._opt_outs: dict[tuple[str, str], OptOut] = {}
        self._limits: dict[tuple[str, Level, str], Limits] = {}
        self._prices: dict[tuple[str, str], Price] = {}
        self._refusals: list[Refusal] = []
        self._entries: list[Entry] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close: what is stored can be read until the store is gone."""

    async def ready(self) -> None:
        """It always is."""

    async def upgrade(self) -> None:
        """There is no schema."""

    async def add_account(self, account: Account) -> None:
        account = storable(account)
        if any(other.name == account.name for other in self._accounts.values()):
            raise Conflict(f"There is an account named {account.name!r} already.", code="account_exists")
        self._accounts[account.id] = account

    async def account_named(self, name: str) -> Account | None:
        name = storable(name)
        return next((account for account in self._accounts.values() if account.name == name), None)

    async def accounts(self) -> Sequence[Account]:
        return sorted(self._accounts.values(), key=_age)

    async def add_key(self, key: ApiKey) -> None:
        key = storable(key)
        if any(other.id == key.id or other.digest == key.digest for other in self._keys.values()):
            raise Conflict(f"There is a key {key.id!r} already.", code="key_exists")
        self._keys[key.id] = key

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        digest = storable(digest)
        return next((key for key in self._keys.values() if key.digest == digest), None)

    async def key(self, key_id: str) -> ApiKey | None:
        return self._keys.get(storable(key_id))

    async def keys(self, account_id: str | None = None) -> Sequence[ApiKey]:
        account_id = storable(account_id)
        found = (key for key in self._keys.values() if account_id is None or key.account_id == account_id)
        return sorted(found, key=_age)

    async def save_key(self, key: ApiKey) -> None:
        key = storable(key)
        stored = self._keys.get(key.id)
        if stored is None:
            raise NotFound(f"There is no key {key.id!r}.", code="key_not_found")
        self._keys[key.id] = replace(
            key, revoked_at=stored.revoked_at or key.revoked_at, last_used_at=stored.last_used_at
        )

    async def touch_key(self, key_id: str, at: datetime) -> None:
        key_id = storable(key_id)
        if key_id in self._keys:
            self._keys[key_id] = replace(self._keys[key_id], last_used_at=at)

    async def add_agent(self, agent: Agent) -> None:
        agent = storable(agent)
        if agent.id in self._agents:
            raise Conflict(f"The agent id {agent.id!r} is taken.", code="agent_exists")
        self._agents[agent.id] = agent
        self._agent_versions[agent.id] = [agent]

    async def agent(self, agent_id: str) -> Agent | None:
        return self._agents.get(storable(agent_id))

    async def agents(self, account_id: str) -> Sequence[Agent]:
        account_id = storable(account_id)
        found = (a for a in self._agents.values() if a.account_id == account_id and a.deleted_at is None)
        return sorted(found, key=_age)

    async def save_agent(self, agent: Agent) -> None:
        agent = storable(agent)
        stored = self._agents.get(agent.id)
        if stored is None or stored.version != agent.version - 1:
            raise Conflict(f"The agent {agent.id!r} was changed by somebody else meanwhile.", code="agent_changed")
        self._agents[agent.id] = agent
        self._agent_versions[agent.id].append(agent)

    async def agent_version(self, agent_id: str, version: int) -> Agent | None:
        return next((agent for agent in await self.agent_versions(agent_id) if agent.version == version), None)

    async def agent_versions(self, agent_id: str) -> Sequence[Agent]:
        return self._agent_versions.get(storable(agent_id), [])[::-1]

    async def add(self, call: Call, quotas: Sequence[Quota] = (), budgets: Sequence[Budget] = ()) -> Call:
        call = storable(call)
        if call.idempotency_key is not None:
            first = await self.call_by_key(call.account_id, call.idempotency_key)
            if first is not None:
                return first
        if (call.account_id, call.to) in self._opt_outs:
            raise NotAdded(opted_out(call.to))
        for refused in await self.counted(call, quotas, budgets):
            raise NotAdded(refused)
        if call.id in self._calls:
            raise Conflict(f"There is a call {call.id!r} already.", code="call_exists")
        if call.idempotency_key is not None:
            self._placed[call.account_id, call.idempotency_key] = call.id
        self._calls[call.id] = call
        self._turns[call.id] = []
        return call

    async def opt_out(self, account_id: str, number: str) -> OptOut | None:
        return self._opt_outs.get((account_id, number))

    async def opt_outs(self, account_id: str, *, after: str = "", limit: int = 1000) -> Sequence[OptOut]:
        found = [one for one in self._opt_outs.values() if one.account_id == account_id and one.number > after]
        return sorted(found, key=lambda one: one.number)[:limit]

    async def add_opt_outs(self, opt_outs: Sequence[OptOut]) -> int:
        before = len(self._opt_outs)
        for one in map(storable, opt_outs):
            self._opt_outs.setdefault((one.account_id, one.number), one)
        return len(self._opt_outs) - before

    async def remove_opt_out(self, account_id: str, number: str) -> OptOut | None:
        return self._opt_outs.pop((account_id, number), None)

    async def laid_down(self, account_id: str, *, agent_id: str, key_id: str, number: str) -> LaidDown:
        subjects = {Level.ACCOUNT: account_id, Level.AGENT: agent_id, Level.KEY: key_id}
        found = {level: self._limits.get((account_id, level, subject)) for level, subject in subjects.items()}
        wanted = set(prices_for(number))
        return LaidDown(
            limits={level: limits for level, limits in found.items() if limits is not None},
            opt_out=self._opt_outs.get((account_id, number)),
            prices={price.of: price.per_minute for price in await self.prices(account_id) if price.of in wanted},
        )

    async def prices(self, account_id: str) -> Sequence[Price]:
        return [price for (owner, _), price in sorted(self._prices.items()) if owner == account_id]

    async def set_price(self, price: Price) -> None:
        self._prices[price.account_id, price.of] = price

    async def remove_price(self, account_id: str, of: str) -> Price | None:
        return self._prices.pop((account_id, of), None)

    async def all_limits(self, account_id: str) -> Sequence[tuple[Level, str, Limits]]:
        found = [(level, subject, one) for (owner, level, subject), one in self._limits.items() if owner == account_id]
        return sorted(found, key=lambda one: one[:2])

    async def set_limits(self, account_id: str, level: Level, subject_id: str, limits: Limits | None) -> None:
        self._limits.pop((account_id, level, subject_id), None)
        if limits is not None:
            self._limits[account_id, level, subject_id] = limits

    async def counted(self, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]) -> Sequence[Verdict]:
        verdicts = [rates.verdict(found) for quota in quotas if (found := self._exhausted(call, quota)) is not None]
        if call.cost is not None:
            told = (money.verdict(budget, self._spent(call, budget), call.cost) for budget in budgets)
            verdicts += [verdict for verdict in told if not verdict.allowed]
        return verdicts

    def _spent(self, call: Call, budget: Budget) -> int:
        name = budget.counted.value
        return sum(
            other.cost.held
            for other in self._calls.values()
            if other.cost is not None
            and getattr(other, name) == getattr(call, name)
            and budget.since <= other.created_at.astimezone(UTC).date() < budget.until
        )

    def _exhausted(self, call: Call, quota: Quota) -> Exhausted | None:
        name = quota.counted.value
        shared = [
            other
            for other in self._calls.values()
            if other.account_id == call.account_id and getattr(other, name) == getattr(call, name)
        ]
        shared.sort(key=lambda other: other.created_at, reverse=True)
        length = timedelta(seconds=quota.seconds)
        if quota.period is Period.PAUSE:
            ended_at = shared[0].ended_at if shared else None
            over = ended_at is None or ended_at + length <= call.created_at
            return None if over else Exhausted(quota=quota, since=ended_at)
        if quota.period is Period.LIVE:
            live = [other for other in shared if not other.status.is_final]
            return Exhausted(quota=quota) if len(live) >= quota.most else None
        placed = [other for other in shared if other.created_at > call.created_at - length]
        return Exhausted(quota=quota, since=placed[quota.most - 1].created_at) if len(placed) >= quota.most else None

    async def add_refusal(self, refusal: Refusal) -> None:
        self._refusals.append(storable(refusal))

    async def refusals(self, account_id: str, *, limit: int = 100) -> Sequence[Refusal]:
        return [one for one in reversed(self._refusals) if one.account_id == account_id][:limit]

    async def add_entry(self, entry: Entry) -> None:
        self._entries.append(storable(entry))

    async def entries(self, account_id: str, *, limit: int = 100) -> Sequence[Entry]:
        return [one for one in reversed(self._entries) if one.account_id == account_id][:limit]

    async def call(self, call_id: str) -> Call | None:
        return self._calls.get(storable(call_id))

    async def call_by_key(self, account_id: str, idempotency_key: str) -> Call | None:
        call_id = self._placed.get((storable(account_id), storable(idempotency_key)))
        return None if call_id is None else self._calls[call_id]

    async def call_by_carrier_id(self, carrier: str, carrier_id: str) -> Call | None:
        wanted = (storable(carrier), storable(carrier_id))
        return next((call for call in self._calls.values() if (call.carrier, call.carrier_id) == wanted), None)

    async def record(self, call_id: str, *, after: int = -1) -> tuple[Call, Sequence[Turn]] | None:
        call_id = storable(call_id)
        if call_id not in self._calls:
            return None
        return self._calls[call_id], [turn for turn in self._turns[call_id] if turn.index > after]

    async def apply(self, call_id: str, *events: Event) -> Call:
        call_id = storable(call_id)
        if call_id not in self._calls:
            raise NotFound(f"There is no call {call_id!r}.", code="call_not_found")
        before = self._calls[call_id]
        call, turns = fold(before, [storable(event) for event in events])
        self._calls[call_id] = call
        if call.opt_out and not before.opt_out:
            await self.add_opt_outs([opt_out_in(call, events)])
        self._turns[call_id] += turns
        return call

    async def calls(
        self,
        account_id: str,
        wanted: CallFilter,
        *,
        agent_ids: frozenset[str],
        limit: int,
        after: Position | None = None,
    ) -> Sequence[Call]:
        account_id, wanted, agent_ids = storable(account_id), storable(wanted), storable(agent_ids)
        found = [
            call
            for call in self._calls.values()
            if call.account_id == account_id
            and (not agent_ids or call.agent_id in agent_ids)
            and _matches(call, wanted)
            and (after is None or _age(call) < _age(after))
        ]
        return sorted(found, key=_age, reverse=True)[:limit]

    async def carried_by(self, owner: str) -> Sequence[Call]:
        owner = storable(owner)
        return sorted((c for c in self._calls.values() if c.owner == owner and not c.status.is_final), key=_age)

    async def to_end(self, owner: str) -> Sequence[Call]:
        return [call for call in await self.carried_by(owner) if call.end_requested_at is not None]

    async def quiet(self, status: CallStatus, *, since: datetime, limit: int = 500) -> Sequence[Call]:
        found = [c for c in self._calls.values() if c.status is status and c.heard_from_at <= since]
        return sorted(found, key=lambda call: (call.heard_from_at, call.id))[:limit]

    async def waiting(self, account_id: str | None = None) -> Sequence[Call]:
        found = [c for c in self._calls.values() if c.waits and account_id in {None, c.account_id}]
        return sorted(found, key=_age)

    async def beat(self, owner: str) -> None:
        owner = storable(owner)
        self._beats[owner] = self._beats.get(owner, 0) + 1

    async def beats(self) -> Mapping[str, int]:
        return dict(self._beats)

    async def forget_owner(self, owner: str) -> None:
        self._beats.pop(storable(owner), None)


def _matches(call: Call, wanted: CallFilter) -> bool:
    return (
        (wanted.status is None or call.status is wanted.status)
        and (wanted.agent_id is None or call.agent_id == wanted.agent_id)
        and (wanted.to is None or call.to == wanted.to)
        and (wanted.since is None or call.created_at >= wanted.since)
        and (wanted.until is None or call.created_at < wanted.until)
    )


def _age(value: Account | ApiKey | Agent | Call | Position) -> tuple[datetime, str]:
    return value.created_at, value.id
