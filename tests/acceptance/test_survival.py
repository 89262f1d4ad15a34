"""Nothing is lost and nothing is dialled twice, whatever becomes of the processes: killed, stopped, frozen, in company.

Real processes on real databases. What takes the time here is our own promise of how soon a lost call is settled.
"""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import make_url

from tests import postgres
from tests.acceptance.mcp_client import Mcp, is_final, is_talking, until
from tests.acceptance.server import Server, callmcp, environment, running, serving

OWNER_SILENCE_SECONDS = 2
SETTLED_WITHIN_SECONDS = 8
KILLS = int(os.environ.get("CALLMCP_TEST_KILLS", "4"))


@dataclass
class Diary:
    """What clients know of their calls: the keys they sent, and for those that were answered the call."""

    asked: list[str] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    heard: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    finished: dict[str, dict[str, Any]] = field(default_factory=dict)


def test_a_killed_server_loses_no_call_and_dials_none_twice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"owner_silence_seconds": OWNER_SILENCE_SECONDS, "simulator_speed": 3}
    settings["log_level"] = "debug"  # what the simulator dials is told there
    key = callmcp("init", data=tmp_path, **settings).strip()
    diary = Diary()
    for kill in range(KILLS):
        chance = random.Random(kill)  # noqa: S311 - to be repeated, not to be secret
        with serving(tmp_path, name=f"killed-{kill}", **settings) as server, Mcp(server.base, key) as mcp:
            _repeat_all(mcp, diary)
            _place_until_killed(server, mcp, diary, chance)
    with serving(tmp_path, name="last", **settings) as server, Mcp(server.base, key) as mcp:
        _repeat_all(mcp, diary)
        records = {call["call_id"]: call for call in mcp.all_calls()}
        assert set(diary.placed.values()) == set(records)
        for call_id in records:
            _is_truthful(mcp.until(call_id, is_final, seconds=30), diary)
    dialled = Counter(re.findall(r'"call_id": "(call_\w+)"[^\n]*"event": "simulated_call_placed"', _logs(tmp_path)))
    assert dialled
    assert set(dialled.values()) == {1}
    assert "Traceback" not in _logs(tmp_path)


def _place_until_killed(server: Server, mcp: Mcp, diary: Diary, chance: random.Random) -> None:
    """Some clients place calls and one reads them until the server dies at a moment that only `chance` knows."""
    over = threading.Event()
    moments = [chance.uniform(0, 0.05) for _ in range(1000)]

    def place(number: int) -> None:
        while not over.is_set():
            key = f"{server.process.pid}-{number}-{len(diary.asked)}"
            diary.asked.append(key)
            try:
                diary.placed[key] = mcp.place(f"+120255501{number:02}", idempotency_key=key)["call_id"]
            except httpx.HTTPError:
                return
            over.wait(moments[len(diary.asked) % len(moments)])

    def read() -> None:
        while not over.is_set():
            for call_id in list(diary.placed.values())[-20:]:
                try:
                    call = mcp.get(call_id)
                except httpx.HTTPError:
                    return
                diary.heard[call_id] = call["transcript"]
                if is_final(call):
                    diary.finished[call_id] = call

    with ThreadPoolExecutor(6) as clients:
        tasks = [*(clients.submit(place, number) for number in (0, 0, 2, 5, 6)), clients.submit(read)]
        time.sleep(chance.choice([0.01, 0.1, 0.5, 1, 2]) * chance.uniform(0.5, 1.5))
        server.kill()
        over.set()
        for task in tasks:
            task.result()


def _repeat_all(mcp: Mcp, diary: Diary) -> None:
    """Every key again, whether it was answered or not: the call it named, or else a first one."""
    for key in diary.asked:
        number = key.split("-")[1]
        call = mcp.place(f"+120255501{int(number):02}", idempotency_key=key)
        if key in diary.placed:
            assert (call["call_id"], call["replayed"]) == (diary.placed[key], True)
        diary.placed[key] = call["call_id"]


def _is_truthful(call: dict[str, Any], diary: Diary) -> None:
    heard = diary.heard.get(call["call_id"], [])
    assert call["transcript"][: len(heard)] == heard
    if (finished := diary.finished.get(call["call_id"])) is not None:
        assert call == finished
    if call.get("end_reason") == "server-lost":
        assert call["status"] == "failed"
        assert call["error"]["code"] == "server_lost"
        assert call["outcome"]["goal_met"] in {"no", "unknown"}
        assert ("answered_at" in call) or call["outcome"]["goal_met"] == "no"
    else:
        assert call["status"] in {"completed", "no-answer"}


def _logs(data: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(data.glob("*.log")))


@dataclass(frozen=True)
class Pair:
    """Two servers on one database, and a key that both know."""

    one: Server
    other: Server
    key: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    data = tmp_path_factory.mktemp("pair")
    settings: dict[str, Any] = {"owner_silence_seconds": OWNER_SILENCE_SECONDS}
    with running(data, **settings) as one, serving(data, name="other", **settings) as other:
        yield Pair(one, other, one.first_key)


@pytest.fixture
def one(pair: Pair) -> Iterator[Mcp]:
    with Mcp(pair.one.base, pair.key) as mcp:
        yield mcp


@pytest.fixture
def other(pair: Pair) -> Iterator[Mcp]:
    with Mcp(pair.other.base, pair.key) as mcp:
        yield mcp


def test_processes_side_by_side_leave_each_others_calls_alone(pair: Pair, one: Mcp, other: Mcp) -> None:
    place = [sys.executable, "-m", "callmcp", "calls", "place", "--json", "--to", "+12025550100"]
    place += ["--agent", "agt_9f2a1c", "--data", str(pair.one.data)]
    placing = subprocess.Popen(place, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    calls = [one.place(), other.place()]

    ended = [other.get(calls[0]["call_id"], wait_seconds=50), one.get(calls[1]["call_id"], wait_seconds=50)]
    ended.append(json.loads(placing.communicate(timeout=50)[0]))

    for call in ended:
        assert (call["status"], call["outcome"]["goal_met"]) == ("completed", "yes"), call
        assert call["duration_seconds"] > 2 * OWNER_SILENCE_SECONDS


def test_a_call_is_ended_within_a_second_from_a_process_that_does_not_carry_it(one: Mcp, other: Mcp) -> None:
    call_id = one.place("+12025550110")["call_id"]
    one.until(call_id, lambda call: call["status"] == "ringing", seconds=5)
    began = time.monotonic()

    call = other.call("end_call", call_id=call_id)

    assert (call["status"], call["end_reason"]) == ("canceled", "ended-by-caller")
    assert time.monotonic() - began < 1.5  # a second, and what two busy cores add


def test_who_waits_at_one_server_hears_soon_that_a_call_of_another_ended(one: Mcp, other: Mcp) -> None:
    call_id = one.place("+12025550110")["call_id"]
    with ThreadPoolExecutor(1) as waiting:
        waiter = waiting.submit(other.get, call_id, wait_seconds=50)
        one.until(call_id, lambda call: call["status"] == "ringing", seconds=5)
        one.call("end_call", call_id=call_id)
        began = time.monotonic()
        call = waiter.result(timeout=5)
    assert call["status"] == "canceled"
    assert time.monotonic() - began < 1.5


def test_a_revoked_key_is_refused_at_once_by_every_process(pair: Pair) -> None:
    made = json.loads(callmcp("keys", "create", "k", "--scope", "calls:read", "--json", data=pair.one.data))
    with Mcp(pair.one.base, made["key"]) as one, Mcp(pair.other.base, made["key"]) as other:
        statuses = [mcp.send("tools/call", {"name": "list_calls"}).status_code for mcp in (one, other)]
        callmcp("keys", "revoke", made["key_id"], data=pair.one.data)
        statuses += [mcp.send("tools/call", {"name": "list_calls"}).status_code for mcp in (one, other)]
    assert statuses == [200, 200, 401, 401]


def test_a_process_that_was_frozen_does_not_bring_back_a_call_that_was_settled(
    pair: Pair, one: Mcp, other: Mcp
) -> None:
    call_id = one.place()["call_id"]
    before = other.until(call_id, is_talking, seconds=10)
    pair.one.process.send_signal(signal.SIGSTOP)
    try:
        settled = other.until(call_id, is_final, seconds=SETTLED_WITHIN_SECONDS)
    finally:
        pair.one.process.send_signal(signal.SIGCONT)

    assert (settled["status"], settled["end_reason"]) == ("failed", "server-lost")
    assert settled["outcome"]["goal_met"] == "unknown"
    assert settled["transcript"][: len(before["transcript"])] == before["transcript"]
    over = one.place("+12025550101")["call_id"]  # the frozen one is at work again, longer than its call would last
    one.until(over, is_final, seconds=10)
    time.sleep(2)
    thawed = other.get(call_id)
    late = thawed.pop("transcript")[len(settled["transcript"]) :]
    settled.pop("transcript")
    assert thawed == settled
    assert all(turn["at"] <= settled["ended_at"] for turn in late)


def test_frozen_together_and_woken_in_any_order_nobody_is_taken_for_dead(pair: Pair, one: Mcp, other: Mcp) -> None:
    """What a suspended machine or a paused container is: the one that wakes first has seen no beat for long."""
    call_id = one.place("+12025550110")["call_id"]
    one.until(call_id, lambda call: call["status"] == "ringing", seconds=5)
    both = (pair.one.process, pair.other.process)
    for process in both:
        process.send_signal(signal.SIGSTOP)
    time.sleep(OWNER_SILENCE_SECONDS + 1)
    pair.other.process.send_signal(signal.SIGCONT)
    other.get(call_id)
    pair.one.process.send_signal(signal.SIGCONT)
    time.sleep(1)

    assert other.get(call_id)["status"] == "ringing"
    assert one.call("end_call", call_id=call_id)["status"] == "canceled"


def test_a_stop_answers_who_waits_settles_live_calls_and_exits_with_0_within_10_seconds(tmp_path: Path) -> None:
    with running(tmp_path) as server, Mcp(server.base, server.first_key) as mcp:
        call_id = mcp.place()["call_id"]
        mcp.until(call_id, is_talking, seconds=10)
        unfinished = httpx.Client(base_url=server.base)
        with ThreadPoolExecutor(3) as clients:
            waiter = clients.submit(mcp.get, call_id, wait_seconds=50)
            loris = clients.submit(_drip, server.port, 20)
            time.sleep(0.3)
            began = time.monotonic()
            server.stop()
            took = time.monotonic() - began
            answer = waiter.result(timeout=1)
            assert loris.result(timeout=5) < 10
        with pytest.raises(httpx.ConnectError):
            unfinished.get("/healthz")
    assert took < 10
    assert (answer["call_id"], answer["status"]) == (call_id, "in-progress")
    assert "get_call" in answer["next_step"]
    assert "Traceback" not in server.log.read_text()
    record = json.loads(callmcp("calls", "show", call_id, "--json", data=tmp_path))
    assert (record["status"], record["end_reason"]) == ("failed", "server-lost")
    assert record["outcome"]["goal_met"] == "unknown"
    assert record["transcript"]


def _drip(port: int, seconds: float) -> float:
    """Sends a body so slowly that it is never whole; how long the server bore it."""
    began = time.monotonic()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head)
        while time.monotonic() - began < seconds:
            try:
                connection.sendall(b" ")
            except OSError:
                break
            time.sleep(0.1)
    return time.monotonic() - began


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with postgres.database() as url:
        yield url


def test_on_postgresql_a_killed_server_loses_no_call(tmp_path: Path, postgres_url: str) -> None:
    settings: dict[str, Any] = {"database_url": postgres_url, "owner_silence_seconds": OWNER_SILENCE_SECONDS}
    key = callmcp("init", data=tmp_path, **settings).strip()
    with serving(tmp_path, name="killed", **settings) as server, Mcp(server.base, key) as mcp:
        calls = [mcp.place(idempotency_key=f"k{number}")["call_id"] for number in range(5)]
        mcp.until(calls[0], is_talking, seconds=10)
        server.kill()
    with serving(tmp_path, **settings) as server, Mcp(server.base, key) as mcp:
        again = [mcp.place(idempotency_key=f"k{number}") for number in range(5)]
        assert [(call["call_id"], call["replayed"]) for call in again] == [(call_id, True) for call_id in calls]
        for call_id in calls:
            ended = mcp.until(call_id, is_final, seconds=SETTLED_WITHIN_SECONDS)
            assert (ended["status"], ended["end_reason"]) == ("failed", "server-lost")
        with _away(postgres_url):
            began = time.monotonic()
            server.stop()  # also without its database
            assert time.monotonic() - began < 10
    assert "Traceback" not in _logs(tmp_path)


@contextlib.contextmanager
def _away(url: str) -> Iterator[None]:
    """The database breaks every connection it has and takes no new one."""
    name = make_url(url).database
    postgres.run(postgres.server(), f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
    try:
        ends = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
        postgres.run(postgres.server(), ends)
        yield
    finally:
        postgres.run(postgres.server(), f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")


def test_a_database_that_goes_away_and_comes_back_costs_no_call(tmp_path: Path, postgres_url: str) -> None:
    settings: dict[str, Any] = {"database_url": postgres_url, "owner_silence_seconds": OWNER_SILENCE_SECONDS}
    key = callmcp("init", data=tmp_path, **settings).strip()
    with (
        serving(tmp_path, name="one", **settings) as first,
        serving(tmp_path, name="other", **settings) as second,
        Mcp(first.base, key) as one,
        Mcp(second.base, key) as other,
    ):
        call_id = one.place()["call_id"]
        one.until(call_id, is_talking, seconds=10)
        with _away(postgres_url):
            until(lambda: one.http.get("/readyz").status_code, lambda status: status == 503, seconds=5)
            assert one.http.get("/healthz").status_code == 200
            failure = one.send("tools/call", {"name": "list_calls"})
            assert failure.status_code == 200
            assert failure.json()["result"]["isError"]
            assert "unavailable" in failure.json()["result"]["content"][0]["text"]
            time.sleep(OWNER_SILENCE_SECONDS + 0.5)
        until(lambda: one.http.get("/readyz").status_code, lambda status: status == 200, seconds=5)
        call = other.get(call_id, wait_seconds=50)
        assert (call["status"], call["outcome"]["goal_met"]) == ("completed", "yes"), call
        assert [turn["index"] for turn in call["transcript"]] == list(range(len(call["transcript"])))
    assert "Traceback" not in first.log.read_text() + second.log.read_text()
