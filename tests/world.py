"""One account with a voice agent, its keys, a stranger, and a carrier: all real parts, on a clock turned by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from callmcp.agents.model import Agent
from callmcp.agents.operations import Agents
from callmcp.calls.decisions import Decisions
from callmcp.calls.model import Call, CallRequest, CallStatus, PhoneNumber, Turn
from callmcp.calls.operations import Calls
from callmcp.calls.policy.operations import Deployment, Policy
from callmcp.clock import TestClock
from callmcp.conversation.ports import LanguageModel
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys
from callmcp.llm.models import Models
from callmcp.numbering import PhoneNumbersPlan
from callmcp.store import Store
from callmcp.store.memory import MemoryStore
from callmcp.telephony.simulator.client import Simulator

CALLER_ID = "+15550100000"
GREETING = "Hello from a clinic."
CONTEXT = "Remind Ms Lee of her appointment tomorrow at 9:30 and ask her to confirm."


@dataclass(frozen=True, kw_only=True)
class World:
    """`owner` and `colleague` are keys of one account, `narrow` is one that is limited to another agent of it."""

    clock: TestClock
    store: Store
    agents: Agents
    policy: Policy
    calls: Calls
    decisions: Decisions
    simulator: Simulator
    agent: Agent
    owner: Principal
    colleague: Principal
    narrow: Principal
    stranger: Principal

    def another_process(self, name: str = "process-2") -> "Process":
        simulator = Simulator(clock=self.clock, models=Models(), caller_id=CALLER_ID)
        return Process(
            calls=_calls(self.store, self.agents, simulator, self.policy, self.clock, owner=name), simulator=simulator
        )

    async def place(self, to: str = "+14155550100", **fields: Any) -> Call:
        some: dict[str, Any] = {"agent_id": self.agent.id, "context": CONTEXT}
        request = CallRequest(to=PhoneNumber.parse(to), **some | fields)
        return (await self.calls.place(self.owner, request)).call

    async def record(self, call: Call) -> tuple[Call, Sequence[Turn]]:
        return await self.calls.get(self.owner, call.id)

    async def until_over(
        self, call: Call, *, seconds: float = 120
    ) -> tuple[Call, Sequence[Turn], Sequence[CallStatus]]:
        """The call and its turns when it has ended, and the statuses it went through."""
        statuses = [call.status]
        deadline = self.clock.now() + timedelta(seconds=seconds)
        while True:
            now, turns = await self.record(call)
            if now.status is not statuses[-1]:
                statuses.append(now.status)
            if now.status.is_final:
                return now, turns, statuses
            assert self.clock.now() < deadline, f"still {now.status} after {seconds} s"
            await self.clock.advance(0.1)


@dataclass(frozen=True)
class OneModel:
    """Every reference names this model."""

    model: LanguageModel

    async def named(self, _: str) -> LanguageModel:
        return self.model


@dataclass(frozen=True, kw_only=True)
class Process:
    """Another process on the same store."""

    calls: Calls
    simulator: Simulator


def _policy(store: Store, clock: TestClock, deployment: Deployment) -> Policy:
    return Policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=deployment)


def _calls(
    store: Store, agents: Agents, simulator: Simulator, policy: Policy, clock: TestClock, *, owner: str
) -> Calls:
    return Calls(
        store=store,
        agents=agents,
        telephony=simulator,
        policy=policy,
        clock=clock,
        owner=owner,
        poll=0.01,
    )


async def build(
    *,
    model: LanguageModel | None = None,
    carrier: type[Simulator] = Simulator,
    store: Store | None = None,
    deployment: Deployment | None = None,
) -> World:
    clock = TestClock()
    store = store or MemoryStore()
    trail = Trail(store, clock)
    keys = Keys(store, trail, clock)
    account, other = await keys.default_account(), await keys.create_account("other")
    agents = Agents(store, Models(), trail, clock)
    everything = frozenset({Scope.ADMIN})
    owner = Principal(account_id=account.id, key_id="key_owner", scopes=everything)
    simulator = carrier(clock=clock, models=OneModel(model) if model else Models(), caller_id=CALLER_ID)
    policy = _policy(store, clock, deployment or Deployment())
    calls = _calls(store, agents, simulator, policy, clock, owner="process-1")
    second = await agents.create(owner, name="Bob", greeting="Hello, this is Bob.")
    return World(
        clock=clock,
        store=store,
        agents=agents,
        policy=policy,
        calls=calls,
        decisions=Decisions(store=store, calls=calls, trail=trail, clock=clock),
        simulator=simulator,
        agent=await agents.create(owner, name="Ada", greeting=GREETING),
        owner=owner,
        colleague=Principal(account_id=account.id, key_id="key_colleague", scopes=everything),
        narrow=Principal(
            account_id=account.id, key_id="key_narrow", scopes=everything, agent_ids=frozenset({second.id})
        ),
        stranger=Principal(account_id=other.id, key_id="key_stranger", scopes=everything),
    )
