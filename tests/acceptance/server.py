"""`callmcp serve` as its user runs it: a process of its own, on a real socket, with a fresh data folder.

Standard library only, so that scripts/conformance and scripts/bench start the server in the same way as the tests.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
READY_WITHIN_SECONDS = 30
STOPPED_WITHIN_SECONDS = 15  # the server promises 10


@dataclass(frozen=True)
class Server:
    base: str
    data: Path
    process: subprocess.Popen[bytes]
    started_in_seconds: float
    log: Path
    first_key: str = ""
    """The key that `callmcp init` made (calls:write agents:read), when it is this run that made it."""

    @property
    def endpoint(self) -> str:
        return f"{self.base}/mcp"

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def key(self, *scopes: str) -> str:
        """A new key of the default account."""
        options = [word for scope in scopes for word in ("--scope", scope)]
        return callmcp("keys", "create", "acceptance", *options, data=self.data).strip()

    def stop(self) -> None:
        """Stops it as an operator does. Raises RuntimeError unless it exits with 0."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(STOPPED_WITHIN_SECONDS) != 0:
            raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """Ends it at once, with no chance to tidy up."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(data: Path, *, interpreter: Sequence[str] = (sys.executable,), **settings: Any) -> Iterator[Server]:
    """The server on a free port, ready, with CALLMCP_… `settings`; stopped with SIGTERM, and exit 0 is expected.

    `interpreter` may be a Python under something else, such as a profiler. What the server logs goes to serve.log in
    `data`.
    """
    first_key = callmcp("init", data=data, **settings).strip()
    with serving(data, interpreter=interpreter, **settings) as server:
        yield replace(server, first_key=first_key)


@contextmanager
def serving(
    data: Path,
    *options: str,
    name: str = "serve",
    interpreter: Sequence[str] = (sys.executable,),
    **settings: Any,
) -> Iterator[Server]:
    """The same on what `data` holds already. It logs to `name`.log there, and a test may end it before we do."""
    log = data / f"{name}.log"
    command = [*interpreter, "-m", "callmcp", "serve", "--port", "0", "--data", str(data), *options]
    began = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=data, env=environment(settings), stdout=file, stderr=file)
    try:
        base = _ready(process, log, began + READY_WITHIN_SECONDS)
        server = Server(base, data, process, time.monotonic() - began, log)
        yield server
        if process.poll() is None:
            server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def callmcp(*words: str, data: Path, **settings: Any) -> str:
    """Runs one command and gives back its stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "callmcp", *words, "--data", str(data)],
        cwd=data,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"callmcp {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("CALLMCP_")}
    return own | {"PYTHONPATH": str(ROOT)} | {f"CALLMCP_{name.upper()}": str(value) for name, value in settings.items()}


def _ready(process: subprocess.Popen[bytes], log: Path, deadline: float) -> str:
    """Waits for the endpoint in the log and for its /readyz, and gives back the base URL."""
    while time.monotonic() < deadline and process.poll() is None:
        printed = re.search(r"(http://[^\s\"/]+)/mcp", log.read_text())
        if printed and answers(f"{printed[1]}/readyz"):
            return printed[1]
        time.sleep(0.02)
    raise RuntimeError(f"the server did not become ready:\n{log.read_text()[-4000:]}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 -- our own loopback address
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False
