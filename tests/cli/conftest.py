"""The real commands on a real SQLite in a directory of the test's own: in this process, which is quick, or as a
process, where signals or standard input are what matters."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from callmcp.cli import main

PATIENCE = 60
"""Seconds after which a command hangs: generous, since the machine may be busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Callmcp = Callable[..., Done]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data of mine"


@pytest.fixture
def environment() -> dict[str, str]:
    """Simulated calls take a fifth of a second."""
    return {"CALLMCP_SIMULATOR_SPEED": "50"}


@pytest.fixture
def callmcp(data: Path, environment: dict[str, str]) -> Iterator[Callmcp]:
    """Runs a command to its end, with `--data`. Anything but an exit is a traceback, and fails the test."""

    def run(*args: str, **variables: str) -> Done:
        result = CliRunner(env={**environment, **variables}).invoke(main, ["--data", str(data), *args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield run
    structlog.reset_defaults()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def start(data: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Starts a command and lets it run; it is killed at the end of the test if it still does."""
    started: list[subprocess.Popen[str]] = []

    def run(*args: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "callmcp", "--data", str(data), *args],
            env={**os.environ, **environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
