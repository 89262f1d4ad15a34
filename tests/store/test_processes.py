"""Several processes on one database, and one that dies in the middle of its work."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from callmcp.calls.model import CallFilter
from callmcp.store.sql import SqlStore
from tests import postgres

pytestmark = pytest.mark.anyio

WORKER = """
import asyncio, sys
from callmcp.calls.events import Accepted, TurnSpoken
from callmcp.calls.model import Speaker
from callmcp.store.sql import SqlStore
from tests.contracts.values import NOON, a_call

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def place(store, number):
    call = a_call(id=f"call_{name}_{number}", idempotency_key=f"key {number}", owner=name)
    stored = await store.add(call)
    if stored.id == call.id:
        await store.apply(call.id, Accepted(at=NOON, carrier_id=f"CA {name} {number}"))
    await store.apply("call_shared", TurnSpoken(at=NOON, speaker=Speaker.AGENT, text=f"{name} {number}"))
    print(number, stored.id, flush=True)

async def main():
    store = SqlStore(url)
    await store.open()
    await store.upgrade()
    await store.add(a_call(id="call_shared", idempotency_key="shared"))
    for start in range(0, count, 10):
        await asyncio.gather(*(place(store, number) for number in range(start, start + 10)))
    await store.close()

asyncio.run(main())
"""


def worker(url: str, name: str, *, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, url, name, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )


async def check_shared(url: str, placed: dict[str, dict[int, str]], *, count: int) -> None:
    """Every key was placed once, both processes were told of the same call, and no turn was lost."""
    assert placed["a"] == placed["b"]
    assert sorted(placed["a"]) == list(range(count))
    store = SqlStore(url)
    await store.open()
    calls = await store.calls("acct_1", CallFilter(), agent_ids=frozenset(), limit=1000)
    assert {call.id for call in calls} == {*placed["a"].values(), "call_shared"}
    assert all(call.carrier_id for call in calls if call.id != "call_shared")
    found = await store.record("call_shared")
    assert found is not None
    assert [turn.index for turn in found[1]] == list(range(2 * count))
    assert {turn.text for turn in found[1]} == {f"{name} {number}" for name in "ab" for number in range(count)}
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_processes_with_the_same_keys_place_each_call_once_and_lose_no_turn(
    kind: str, tmp_path: Path
) -> None:
    async def run(url: str) -> None:
        processes = {name: worker(url, name, count=100) for name in "ab"}
        placed: dict[str, dict[int, str]] = {}
        for name, process in processes.items():
            told, errors = await asyncio.to_thread(process.communicate, timeout=30)
            assert (process.returncode, errors) == (0, "")
            placed[name] = {int(number): call_id for number, call_id in map(str.split, told.splitlines())}
        await check_shared(url, placed, count=100)

    if kind == "sqlite":
        await run(f"sqlite:///{tmp_path}/callmcp.db")
    else:
        with postgres.database() as url:
            await run(url)


@pytest.mark.parametrize("after", [1, 200])
async def test_a_process_killed_in_the_middle_loses_nothing_that_it_acknowledged(file: Path, after: int) -> None:
    url = f"sqlite:///{file}"
    process = worker(url, "a", count=100_000)
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    rest, _ = await asyncio.to_thread(process.communicate, timeout=10)
    lines = "".join(told) + rest
    acknowledged = [line.split()[1] for line in lines.splitlines(keepends=True) if line.endswith("\n")]
    assert len(acknowledged) >= after
    store = SqlStore(url)
    await store.open()
    await store.upgrade()
    await store.ready()
    stored = [await store.call(call_id) for call_id in acknowledged]
    assert all(call is not None and call.carrier_id for call in stored)
    found = await store.record("call_shared")
    assert found is not None
    assert {turn.text for turn in found[1]} >= {
        call_id.replace("call_", "").replace("_", " ") for call_id in acknowledged
    }
    assert [turn.index for turn in found[1]] == list(range(found[0].turn_count))
    await store.close()
    reader = sqlite3.connect(file)
    assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    reader.close()
