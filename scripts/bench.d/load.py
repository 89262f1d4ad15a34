"""What is asked of a server and how fast it answers: JSON-RPC messages, and wrk on a core of its own."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AGENT = "agt_9f2a1c"
COOPERATES = "+12025550100"
SILENT = "+12025550111"  # the carrier accepts and is never heard of again, so no talk is measured
REVISION = "2026-07-28"  # the official SDK is faster in this era than in the older one
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
PINNED = len(_CORES) > 1 and shutil.which("taskset") is not None
PYTHON = [*(["taskset", "-c", str(_CORES[0])] if PINNED else []), sys.executable]  # what servers run on
ON_LOAD_CORE = ["taskset", "-c", str(_CORES[1])] if PINNED else []


@dataclass(frozen=True)
class Load:
    """One message, posted to `url` again and again. `checked`: every answer is read, at some cost to wrk's speed."""

    url: str
    message: dict[str, Any]
    pid: int
    key: str | None = None
    checked: bool = False

    @property
    def headers(self) -> dict[str, str]:
        method, params = self.message["method"], self.message["params"]
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {"MCP-Protocol-Version": REVISION, "Mcp-Method": method}
        headers |= {"Mcp-Name": params["name"]} if "name" in params else {}
        return headers | ({"Authorization": f"Bearer {self.key}"} if self.key else {})


@dataclass
class Rates:
    """Of each round: requests a second, the slowest hundredth, and what a request costs the server's processor."""

    rounds: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def times(self, other: "Rates") -> float:
        """How many times as fast, compared round by round: a machine that was busy was so for both."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.rounds, other.rounds, strict=True))


def request(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


def tool(name: str, **arguments: object) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


def post(load: Load) -> bytes:
    """One request. An answer that is an error ends the run: a fast refusal is no result."""
    sent = urllib.request.Request(load.url, json.dumps(load.message).encode(), load.headers)  # noqa: S310 -- loopback
    with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310
        body: bytes = answer.read()
    answered = json.loads(body)
    if "result" not in answered or answered["result"].get("isError"):
        sys.exit(f"{load.url} refuses {json.dumps(load.message)}: {body.decode()}")
    return body


def structured(load: Load) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(post(load))["result"]["structuredContent"]
    return content


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process so far; not a number where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(load: Load, seconds: int, connections: int, into: Rates) -> None:
    """One round of wrk, after one request that shows that the answer is a result."""
    post(load)
    with tempfile.NamedTemporaryFile() as body:
        body.write(json.dumps(load.message).encode())
        body.flush()
        command = [*ON_LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
        command += ["-s", str(Path(__file__).with_name("post.lua")), load.url]
        command += ["--", body.name, "body" if load.checked else "status"]
        command += [f"{name}: {value}" for name, value in load.headers.items()]
        before = cpu_seconds(load.pid)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    if result is None or int(result[3]):
        sys.exit(f"{load.url} answered otherwise than with a result:\n{done.stdout}{done.stderr}")
    requests, microseconds, _, _, p99 = map(int, result.groups())
    into.cpu_us.append((cpu_seconds(load.pid) - before) / requests * 1e6)
    into.rounds.append(requests / (microseconds / 1e6))
    into.p99_ms.append(p99 / 1e3)
