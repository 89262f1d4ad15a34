"""The emulator in a process of its own, and a tiny program of the kind it is made to test."""

import json
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.twilio_emulator.harness import Emulator, Program

READY_WITHIN_SECONDS = 20
STOPPED_WITHIN_SECONDS = 10
SPEED = 200


@pytest.fixture(scope="session")
def emulated() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.twilio_emulator", "--speed", str(SPEED), "--cps", "1000", "--loopback-ws"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], READY_WITHIN_SECONDS)[0], "it did not say that it is ready"
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(STOPPED_WITHIN_SECONDS) in (0, -15)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
async def emulating(emulated: str) -> AsyncIterator[Emulator]:
    async with Emulator.at(emulated) as emulator:
        yield emulator


@pytest.fixture(scope="session")
async def listening() -> AsyncIterator[Program]:
    async with Program.running() as program:
        yield program


@pytest.fixture
async def emulator(emulating: Emulator) -> AsyncIterator[Emulator]:
    await emulating.reset()
    yield emulating
    assert await emulating.events("fault") == [], "the emulator itself broke"


@pytest.fixture
def program(emulator: Emulator, listening: Program) -> Program:  # noqa: ARG001 -- what was on its way is stopped first
    listening.forget()
    return listening
