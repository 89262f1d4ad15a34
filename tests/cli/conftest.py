"""The real command, on a real SQLite in a directory of the test's own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE = 60
"""Seconds after which a command hangs: generous, since the machine may be busy."""

Callmcp = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data of mine"


@pytest.fixture
def environment() -> dict[str, str]:
    """Simulated calls take a fifth of a second."""
    return {**os.environ, "CALLMCP_SIMULATOR_SPEED": "50", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def callmcp(data: Path, environment: dict[str, str]) -> Callmcp:
    """Runs a command to its end, with `--data`."""

    def run(*args: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "callmcp", "--data", str(data), *args],
            env={**environment, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run


@pytest.fixture
def start(data: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Starts a command and lets it run; it is killed at the end of the test if it still does."""
    started: list[subprocess.Popen[str]] = []

    def run(*args: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "callmcp", "--data", str(data), *args],
            env={**environment, **variables},
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
