"""Gets what is not written here, pinned in clients/: the JavaScript packages with a Node, and the Python SDK 1.x.

Both go into git-ignored folders beside their lock files and are made again only when the lock changes. Standard
library only: scripts/conformance and scripts/bench use it before anything is installed.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENTS = Path(__file__).parent / "clients"
NODE_MODULES = CLIENTS / "node_modules"
NODE_LEAST = (22, 19)  # what the Inspector asks for; the conformance suite imports fs.globSync, new in 22


class Missing(Exception):
    """The machine lacks something that cannot be fetched. The message says what."""


def node() -> Path:
    """A Node of 22.19 or newer, with the packages of clients/package.json beside the client programs.

    The `node-<system>-<cpu>` package brings one; where npm has none (Apple's ARM) the machine's is used.
    vite, which only the Inspector's web pages need, is held at 8.3: 8.4 wants an optional package that some
    registries do not have, and `npm ci` refuses a lock without it.
    Raises Missing without npm, or without any such Node.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("npm is not on the PATH")
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    _made_from(CLIENTS / "package-lock.json", NODE_MODULES, install)
    cpu = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    fetched = NODE_MODULES / f"node-{sys.platform}-{cpu}" / "bin/node"
    if fetched.exists():
        return fetched
    own = shutil.which("node")
    found = re.findall(r"\d+", subprocess.check_output([own, "--version"], text=True)) if own else []
    if own is None or tuple(map(int, found[:2])) < NODE_LEAST:
        raise Missing(f"Node {'.'.join(map(str, NODE_LEAST))} or newer is not on the PATH")
    return Path(own)


def python_1() -> Path:
    """The interpreter of a virtual environment with the last 1.x of the official Python SDK."""
    home = CLIENTS / ".venv"
    interpreter = home / "bin/python"
    lock = CLIENTS / "python-1.lock"
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"]
    _made_from(lock, home, [sys.executable, "-m", "venv", "--clear", str(home)], [*pip, str(lock)])
    return interpreter


def _made_from(lock: Path, folder: Path, *commands: list[str]) -> None:
    """Runs the commands that fill `folder`, unless they have run to the end for this very lock."""
    stamp = folder / ".made-from"
    with _alone(lock):
        if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
            return
        for command in commands:
            done = subprocess.run(
                command, cwd=CLIENTS, capture_output=True, text=True, check=False, timeout=600, env=_environment()
            )
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        stamp.write_bytes(lock.read_bytes())


def _environment() -> dict[str, str]:
    # A pip that was told to install elsewhere, or is run from within another environment, must not follow that here.
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PIP_TARGET", "PIP_USER"}}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """The test suite and scripts/conformance may start at the same moment; one of them installs."""
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
