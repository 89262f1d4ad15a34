import stat
from pathlib import Path

from tests.cli.conftest import Callmcp


def test_a_fresh_directory_gets_a_database_a_demo_agent_and_one_key(callmcp: Callmcp, data: Path) -> None:
    done = callmcp("init")

    assert done.returncode == 0
    (key,) = done.stdout.split()
    assert key.startswith("cmcp_")
    assert key not in done.stderr
    assert "agt_9f2a1c" in callmcp("agents", "list").stdout
    assert "agents:read calls:write" in callmcp("keys", "list").stdout
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "callmcp.db").stat().st_mode) == 0o600


def test_a_second_time_changes_nothing_and_says_how_to_make_another_key(callmcp: Callmcp) -> None:
    callmcp("init")
    callmcp("agents", "delete", "agt_9f2a1c")
    before = callmcp("keys", "list").stdout

    again = callmcp("init")

    assert (again.returncode, again.stdout) == (0, "")
    assert "callmcp keys create" in again.stderr
    assert callmcp("keys", "list").stdout == before
    assert "agt_9f2a1c" not in callmcp("agents", "list").stdout, "what an operator deleted stays deleted"
