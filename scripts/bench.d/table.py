"""The table of docs/benchmarks.md: this server, a bare Starlette route and the official SDK's server in one run."""

import contextlib
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from granted import token
from load import AGENT, COOPERATES, PINNED, PYTHON, SILENT, Load, Rates, measure, post, request, structured, tool

from tests.acceptance.server import Server, running

CALLS = 300  # whole conversations that are placed at once


@dataclass(frozen=True)
class Aim:
    """What issue and docs promise of a figure: at least, or less than, a bound."""

    name: str
    value: float
    at_least: float | None = None
    below: float | None = None

    @property
    def reached(self) -> bool:
        return self.value >= self.at_least if self.at_least is not None else self.value < (self.below or 0)

    def __str__(self) -> str:
        bound = f">= {self.at_least:g}" if self.at_least is not None else f"< {self.below:g}"
        return f"| {self.name} | {self.value:.2f} | {bound} | {'PASS' if self.reached else 'MISS'} |"


def table(rounds: int, seconds: int, connections: int) -> bool:
    """Measures, prints, and says whether every aim is reached. Rounds are interleaved, medians are taken."""
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        start = second_start(folder(data, "start"))
        server = stack.enter_context(running(folder(data, "reads"), interpreter=PYTHON, simulator_speed=20))
        memory = resident_mb(server)
        key = server.key("calls:write", "agents:read")
        listing = request("tools/list")
        answer = post(Load(server.endpoint, listing, server.process.pid))
        (data / "answer.json").write_bytes(answer)
        (data / "tools.json").write_text(json.dumps(json.loads(answer)["result"]))
        starlette, starlette_pid = stack.enter_context(peer("constant.py", data / "answer.json"))
        sdk, sdk_pid = stack.enter_context(peer("sdk.py", data / "tools.json"))
        pid = server.process.pid
        record = finished_call(server, key)
        reading = tool("get_call", call_id=record["call_id"])
        loads = {  # what is compared stands side by side, so that the machine was as quick for one as for the other
            "Starlette, constant bytes": Load(starlette, listing, starlette_pid),
            "callmcp, tools/list": Load(server.endpoint, listing, pid),
            "SDK, tools/list": Load(sdk, listing, sdk_pid),
            "callmcp, get_call": Load(server.endpoint, reading, pid, key, checked=True),
            "callmcp, get_call with a token": Load(server.endpoint, reading, pid, token(server, key), checked=True),
            "SDK, no-op tools/call": Load(sdk, reading, sdk_pid, checked=True),
        }
        measured = {name: Rates() for name in [*loads, "callmcp, make_call"]}
        for number in range(rounds):
            for name, load in loads.items():
                measure(load, seconds, connections, measured[name])
            dial(folder(data, f"dials-{number}"), seconds, connections, measured["callmcp, make_call"])
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        talks = conversations(folder(data, "talks"))

    turns = len(record["transcript"])
    print(f"{machine()} {connections} connections, {rounds} rounds of {seconds} s, revision 2026-07-28.")
    print(f"tools/list answers {len(answer):,} bytes, get_call reads a call of {turns} turns.")
    print(f"Load average when it was done: {os.getloadavg()[0]:.1f}.\n")
    print("| | requests/s, median | each round | p99, ms | server CPU, µs a request |\n|---|---:|---|---:|---:|")
    for name, rates in measured.items():
        each = " ".join(f"{rate:,.0f}" for rate in rates.rounds)
        slowest, cpu = statistics.median(rates.p99_ms), statistics.median(rates.cpu_us)
        print(f"| {name} | {rates.median:,.0f} | {each} | {slowest:,.1f} | {cpu:,.0f} |")
    print(f"\n{CALLS} conversations placed at once: {talks:,.0f} whole calls/s.\n")

    listed, read, dialled = (measured[f"callmcp, {name}"] for name in ("tools/list", "get_call", "make_call"))
    with_token = measured["callmcp, get_call with a token"]
    noop = measured["SDK, no-op tools/call"]
    aims = [
        Aim("tools/list, times the SDK's", listed.times(measured["SDK, tools/list"]), at_least=8),
        Aim("tools/list, part of bare Starlette's", listed.times(measured["Starlette, constant bytes"]), at_least=0.6),
        Aim("get_call, times the SDK's no-op call", read.times(noop), at_least=2),
        Aim("get_call with a token, part of its rate with a key", with_token.times(read), at_least=0.85),
        Aim("make_call, times the SDK's no-op call", dialled.times(noop), at_least=1),
        Aim("resident memory after start, MB", memory, below=150),
        Aim("second start until ready, s", start, below=2),
    ]
    print("| | measured | aim | |\n|---|---:|---:|---|", *aims, sep="\n")
    return all(aim.reached for aim in aims)


def folder(data: Path, name: str) -> Path:
    made = data / name
    made.mkdir()
    return made


def second_start(data: Path) -> float:
    """Seconds from the command until ready, the database being there: the median of three."""
    seconds = []
    for _ in range(4):
        with running(data, interpreter=PYTHON) as server:
            seconds.append(server.started_in_seconds)
    return statistics.median(seconds[1:])


def dial(data: Path, seconds: int, connections: int, into: Rates) -> None:
    """One round of make_call, on a server of its own: no other round is slowed by settling these calls."""
    with running(data, interpreter=PYTHON) as server:
        key = server.key("calls:write", "agents:read")
        message = tool("make_call", agent_id=AGENT, to=SILENT, context="Ask for a table for two.")
        measure(Load(server.endpoint, message, server.process.pid, key, checked=True), seconds, connections, into)


def conversations(data: Path) -> float:
    """Whole calls a second: placed sixteen at a time, talked through without waiting, read until all have ended."""
    with running(data, interpreter=PYTHON, simulator_speed=1000) as server, ThreadPoolExecutor(16) as pool:
        key = server.key("calls:write", "agents:read")
        placing = Load(server.endpoint, tool("make_call", agent_id=AGENT, to=COOPERATES), server.process.pid, key)
        began = time.monotonic()
        for call in list(pool.map(structured, [placing] * CALLS)):
            ended(server, key, call["call_id"])
        return CALLS / (time.monotonic() - began)


def finished_call(server: Server, key: str) -> dict[str, Any]:
    """The record of a call that was talked through to its end."""
    placed = structured(
        Load(server.endpoint, tool("make_call", agent_id=AGENT, to=COOPERATES), server.process.pid, key)
    )
    return ended(server, key, placed["call_id"])


def ended(server: Server, key: str, call_id: str) -> dict[str, Any]:
    waiting = Load(server.endpoint, tool("get_call", call_id=call_id, wait_seconds=20), server.process.pid, key)
    for _ in range(10):
        record = structured(waiting)
        if "ended_at" in record:
            return record
    sys.exit(f"call {call_id} does not end")


@contextlib.contextmanager
def peer(program: str, file: Path) -> Iterator[tuple[str, int]]:
    """The endpoint and the process id of a server of this folder, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = str(Path(__file__).with_name(program))
    process = subprocess.Popen([*PYTHON, path, str(port), str(file)])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp", process.pid
    finally:
        process.terminate()
        process.wait(10)


def resident_mb(server: Server) -> float:
    """Resident memory as Linux counts it (VmRSS); not a number elsewhere."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
        if found:
            return int(found[1]) / 1024
    return float("nan")


def machine() -> str:
    cpu = platform.processor()
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        cpu = found[1] if found else cpu
    cores = "server and load generator on a core each" if PINNED else "server and load generator share the cores"
    python = f"Python {platform.python_version()} with uvloop and httptools"
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, {python}; {cores}."
