"""What the rules cost a call: placing with all of them and with none, in a store with a long history, in one run."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from table import Aim, machine

from callmcp.agents.model import Agent
from callmcp.agents.operations import Agents
from callmcp.calls.events import HungUp
from callmcp.calls.model import Call, CallRequest, NumberLooks, PhoneNumber
from callmcp.calls.operations import Calls
from callmcp.calls.policy.facts import Facts
from callmcp.calls.policy.limits import Hours
from callmcp.calls.policy.operations import Deployment, Policy
from callmcp.calls.ports import Observe
from callmcp.clock import TestClock
from callmcp.deployment import SAFE_LIMITS, SAFE_PRICE
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys
from callmcp.llm.models import Models
from callmcp.numbering import PhoneNumbersPlan
from callmcp.store.sql import SqlStore

CALLS, OPT_OUTS = 1_000_000, 100_000
ROUNDS, A_ROUND = 10, 100
APART = 200  # seconds between a call and the next, past ones and new ones alike: 432 a day
COUNT = "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?) "
# The defaults with a real carrier, and a region and a prefix besides; hours that no call of this bench is outside of.
ALWAYS = Hours(start=0, end=24 * 60 - 1)
EVERY_RULE = Deployment(
    limits=replace(SAFE_LIMITS, regions=frozenset({"US"}), deny_prefixes=("+1900",), hours=ALWAYS),
    per_minute=SAFE_PRICE,
    strict_numbers=True,
)


ANY = NumberLooks(is_possible=True, is_valid=True, is_emergency=False)


class NoPolicy(Policy):
    """Asks nothing: placing as it would be without the rules."""

    async def facts(self, principal: Principal, request: CallRequest) -> Facts:  # noqa: ARG002
        return Facts(request=request, now=self._clock.now(), looks=ANY, limits={})


class Silent:
    """A carrier that takes every call and never says a word about it again: what is measured is placing."""

    name = "silent"
    carries = False

    def caller_id(self, agent: Agent) -> str:
        return agent.from_number or "+15550100000"

    async def place(self, call: Call, agent: Agent, observe: Observe) -> str:  # noqa: ARG002
        return call.id

    async def end(self, call: Call) -> None: ...

    async def status(self, call: Call) -> None: ...

    async def close(self) -> None: ...


def policy() -> bool:
    """Measures, prints, and says whether the aim is reached."""
    with tempfile.TemporaryDirectory() as folder:
        without, with_all = asyncio.run(_measure(Path(folder) / "callmcp.db"))
    print(f"{machine()} {CALLS:,} past calls, {OPT_OUTS:,} opt-outs, SQLite; one call after the other.\n")
    print("| | a call placed, ms, median | slowest tenth |\n|---|---:|---:|")
    for name, seconds in (("no rule", without), ("every rule", with_all)):
        tenth = statistics.quantiles(seconds, n=10)[8]
        print(f"| {name} | {statistics.median(seconds) * 1000:.3f} | {tenth * 1000:.3f} |")
    share = (statistics.median(with_all) / statistics.median(without) - 1) * 100
    aim = Aim("the rules add to make_call, %", share, below=10)
    print("\n| | measured | aim | |\n|---|---:|---:|---|", aim, sep="\n")
    return aim.reached


async def _measure(file: Path) -> tuple[list[float], list[float]]:
    clock = TestClock()
    store = SqlStore(f"sqlite:///{file}")
    await store.upgrade()
    await store.open()
    trail = Trail(store, clock)
    account = await Keys(store, trail, clock).default_account()
    owner = Principal(account_id=account.id, key_id="key_bench", scopes=frozenset({Scope.ADMIN}))
    agents = Agents(store, Models(), trail, clock)
    agent = await agents.create(owner, name="Ada", greeting="Hello.")
    carrier = Silent()

    def calls(policy: type[Policy]) -> Calls:
        rules = policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=EVERY_RULE)
        return Calls(store=store, agents=agents, telephony=carrier, policy=rules, clock=clock, owner="bench")

    first = CallRequest(agent_id=agent.id, to=PhoneNumber("+14152345678"))
    template = (await calls(NoPolicy).place(owner, first)).call
    await asyncio.to_thread(_age, file, template.id)
    measured: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for seconds, policy in zip(measured, (NoPolicy, Policy), strict=True):
            placing = calls(policy)
            for one in range(A_ROUND):
                to = PhoneNumber(f"+1415{2_000_000 + number * A_ROUND + one:07}")
                began = time.perf_counter()
                placed = await placing.place(owner, replace(first, to=to))
                seconds.append(time.perf_counter() - began)
                await placing.observe(placed.call.id, HungUp(at=clock.now()))
                await clock.advance(APART)
    await store.close()
    return measured


def _age(file: Path, template: str) -> None:
    """A million calls of the days before, made of one, and a list of numbers that nobody calls."""
    with closing(sqlite3.connect(file)) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(calls)")]
        changed = {
            "id": "'call_' || n",
            '"to"': "'+1' || (2120000000 + n)",
            "status": "'completed'",
            "created_at": f"created_at - n * {APART}000000",
        }
        columns = [f'"{name}"' for name in names]
        values = [changed.get(name, changed.get(f'"{name}"', f'"{name}"')) for name in names]
        aged = f"INSERT INTO calls ({', '.join(columns)}) SELECT {', '.join(values)} FROM calls, count WHERE id = ?"  # noqa: S608 -- our own column names
        database.execute(COUNT + aged, (CALLS, template))
        database.execute(
            COUNT + "INSERT INTO opt_outs SELECT account_id, '+1' || (3120000000 + n), 'import', '', NULL, 0 "
            "FROM calls, count WHERE id = ?",
            (OPT_OUTS, template),
        )
        database.commit()
