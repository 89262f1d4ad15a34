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

from callmcp.agents.operations import Agents
from callmcp.calls.model import CallRequest, PhoneNumber
from callmcp.calls.operations import Calls
from callmcp.calls.policy.limits import Hours, Limits
from callmcp.calls.policy.operations import Deployment, Policy
from callmcp.clock import SystemClock
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys
from callmcp.llm.models import Models
from callmcp.numbering import PhoneNumbersPlan
from callmcp.store.sql import SqlStore
from callmcp.telephony.simulator.client import Simulator

CALLS, OPT_OUTS = 1_000_000, 100_000
ROUNDS, A_ROUND = 20, 100
EVERY_RULE = Deployment(
    limits=Limits(
        regions=frozenset({"US"}),
        deny_prefixes=("+1900",),
        hours=Hours.parse("00:00-23:59"),
        calls_per_minute=1_000_000,
        calls_per_hour=1_000_000,
        calls_per_day=1_000_000,
        calls_at_once=1_000_000,
        destination_per_day=1_000,
        destination_at_once=1_000,
        destination_pause_seconds=1,
    ),
    strict_numbers=True,
)


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
    clock = SystemClock()
    store = SqlStore(f"sqlite:///{file}")
    await store.upgrade()
    await store.open()
    trail = Trail(store, clock)
    account = await Keys(store, trail, clock).default_account()
    owner = Principal(account_id=account.id, key_id="key_bench", scopes=frozenset({Scope.ADMIN}))
    agents = Agents(store, Models(), trail, clock)
    agent = await agents.create(owner, name="Ada", greeting="Hello.")
    simulator = Simulator(clock=clock, models=Models(), caller_id="+15550100000")

    def calls(deployment: Deployment) -> Calls:
        rules = Policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=deployment)
        return Calls(store=store, agents=agents, telephony=simulator, policy=rules, clock=clock, owner="bench")

    first = CallRequest(agent_id=agent.id, to=PhoneNumber("+14152345678"))
    template = (await calls(Deployment()).place(owner, first)).call
    await asyncio.to_thread(_age, file, template.id)
    measured: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for seconds, deployment in zip(measured, (Deployment(), EVERY_RULE), strict=True):
            placing = calls(deployment)
            for one in range(A_ROUND):
                to = PhoneNumber(f"+1415{2_000_000 + number * A_ROUND + one:07}")
                began = time.perf_counter()
                await placing.place(owner, replace(first, to=to))
                seconds.append(time.perf_counter() - began)
    await simulator.close()
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
            "created_at": "created_at - 90000000000 - n * 1000000",
        }
        columns = [f'"{name}"' for name in names]
        values = [changed.get(name, changed.get(f'"{name}"', f'"{name}"')) for name in names]
        database.execute(
            "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?) "
            f"INSERT INTO calls ({', '.join(columns)}) SELECT {', '.join(values)} FROM calls, count WHERE id = ?",
            (CALLS, template),
        )
        database.execute(
            "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?) "
            "INSERT INTO opt_outs SELECT account_id, '+1' || (3120000000 + n), 'import', '', NULL, 0 "
            "FROM calls, count WHERE id = ?",
            (OPT_OUTS, template),
        )
        database.commit()
