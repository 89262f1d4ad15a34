import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from callmcp import __version__
from callmcp.cli import COMMANDS, main
from tests.cli.conftest import PATIENCE, Callmcp


def test_help_names_every_command(callmcp: Callmcp) -> None:
    done = callmcp("--help")

    assert done.returncode == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_what_the_list_says_of_it(name: str) -> None:
    command = getattr(import_module(f"callmcp.cli.{name.replace('-', '_')}"), name.replace("-", "_"))

    assert isinstance(command, click.Command)
    assert (command.help or "").partition("\n")[0] == COMMANDS[name]


def test_help_loads_nothing_that_takes_time() -> None:
    heavy = "{'sqlalchemy', 'pydantic', 'starlette', 'uvicorn', 'structlog'}"
    commands = ", ".join(f"callmcp.cli.{name.replace('-', '_')}" for name in COMMANDS)

    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {commands}; print({heavy} & set(sys.modules))"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    assert done.stdout.strip() == "set()"


def test_the_version_is_told(callmcp: Callmcp) -> None:
    assert callmcp("--version").stdout.strip() == f"callmcp, version {__version__}"


def test_data_and_config_may_stand_before_and_after_the_command(callmcp: Callmcp, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("caller_id = 'nobody'\n")

    before = callmcp("--config", str(config), "keys", "list")
    after = callmcp("keys", "list", "--config", str(config))
    last = callmcp("keys", "list", "--data", str(tmp_path / "elsewhere"))

    for done in (before, after):
        assert done.returncode == 1
        assert done.stderr.startswith(f"callmcp: {config}, line 1: caller_id: must be in E.164")
    assert f"no database at {tmp_path / 'elsewhere' / 'callmcp.db'}" in last.stderr


def test_a_wrong_directory_is_an_error_and_not_an_empty_database(callmcp: Callmcp, data: Path) -> None:
    for args in (["keys", "list"], ["calls", "list"], ["keys", "create", "x", "--scope", "admin"], ["db", "current"]):
        done = callmcp(*args)

        assert done.returncode == 1
        assert "callmcp init" in done.stderr
        assert done.stdout == ""
    assert not data.exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"CALLMCP_CARRIER": "pigeon"},
        {"CALLMCP_CARRIER": "twilio"},
        {"CALLMCP_SIMULATOR_SPED": "2"},
        {"CALLMCP_DATABASE_URL": "postgresql://nobody:s3cret@127.0.0.1:1/nothing"},
        {"CALLMCP_DATABASE_URL": "sqlite:////proc/nowhere/callmcp.db"},
    ],
)
def test_a_foreseeable_fault_is_one_line(callmcp: Callmcp, variables: dict[str, str]) -> None:
    for args in (["init"], ["serve", "--port", "0"]):
        done = callmcp(*args, **variables)

        assert done.returncode == 1
        assert done.stderr.startswith("callmcp: ")
        assert done.stderr.count("\n") == 1
        assert "s3cret" not in done.stderr


def test_wrong_usage_has_exit_status_2(callmcp: Callmcp) -> None:
    for args in (["dance"], ["keys", "create"], ["keys", "create", "x"], ["calls", "place", "--agent", "agt_9f2a1c"]):
        assert callmcp(*args).returncode == 2


def test_every_command_has_a_help_of_its_own() -> None:
    with click.Context(main) as ctx:
        for name in COMMANDS:
            command = main.get_command(ctx, name)
            nested = command.commands.values() if isinstance(command, click.Group) else [command]
            for one in nested:
                assert one is not None
                assert one.help
                assert {"data", "config"} <= {parameter.name for parameter in one.params}
