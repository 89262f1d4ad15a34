import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callmcp.settings import CHECKOUT

SCRIPTS = [*sorted((CHECKOUT / "scripts").glob("*")), CHECKOUT / ".ci" / "run"]
SHELL = [path for path in SCRIPTS if path.is_file() and path.read_bytes().startswith(b"#!/bin/sh\n")]


def run(*args: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in args],
        env={**os.environ, **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with what scripts/venv reads, in a directory with a space in its name."""
    root = tmp_path / "my checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("scripts/venv", "scripts/run", "pyproject.toml", "requirements.lock"):
        shutil.copy(CHECKOUT / name, root / name)
    return root


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with the standard tools, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "cat", "cmp", "mv", "printf"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_a_script_can_be_run_and_is_plain_sh(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert run("sh", "-n", script).returncode == 0


def test_the_scripts_that_the_readme_names_are_there() -> None:
    assert {"run", "test", "check", "check-long"} <= {path.name for path in SHELL}


def test_without_a_new_enough_python_it_says_what_is_needed(checkout: Path, tools: Path) -> None:
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # what the question for 3.11 gets from an older one
    old.chmod(0o755)

    done = run(checkout / "scripts" / "run", PATH=str(tools))

    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert not (checkout / ".venv").exists()


def test_what_is_installed_already_is_left_alone_and_a_changed_lock_is_not(checkout: Path, tools: Path) -> None:
    venv = checkout / ".venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\ncase "$1" in -c) exec "{sys.executable}" "$@" ;; *) echo "$*" >&2 ;; esac\n')
    python.chmod(0o755)

    first = run(checkout / "scripts" / "venv", "requirements.lock", PATH=str(tools))
    second = run(checkout / "scripts" / "venv", "requirements.lock", PATH=str(tools))
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    third = run(checkout / "scripts" / "venv", "requirements.lock", PATH=str(tools))

    assert "--require-hashes" in first.stderr
    assert f"--no-build-isolation --editable {checkout}" in first.stderr
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert third.stderr == first.stderr


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_has_versions_and_hashes_and_no_address(name: str) -> None:
    lines = (CHECKOUT / name).read_text(encoding="utf-8").splitlines()

    assert not [line for line in lines if "://" in line or "index" in line.partition("==")[0].split("-")]
    assert all("==" in line or line.startswith("    --hash=sha256:") for line in lines if not line.startswith("#"))
