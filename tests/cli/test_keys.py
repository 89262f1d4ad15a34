import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Callmcp


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def created(callmcp: Callmcp, *args: str) -> dict[str, Any]:
    done = callmcp("keys", "create", "bot", "--json", *args)
    assert done.returncode == 0, done.stderr
    key: dict[str, Any] = json.loads(done.stdout)
    return key


def test_a_new_key_is_alone_on_stdout_and_nowhere_else(callmcp: Callmcp) -> None:
    done = callmcp("keys", "create", "bot", "--scope", "calls:write", "--scope", "calls:read")

    assert done.stdout.startswith("cmcp_")
    assert done.stdout.count("\n") == 1
    key = done.stdout.strip()
    assert key not in done.stderr
    assert "key_" in done.stderr
    assert key not in callmcp("keys", "list", "--json").stdout


def test_a_key_is_shown_with_all_but_its_secret(callmcp: Callmcp) -> None:
    key = created(callmcp, "--scope", "calls:read", "--agent", "agt_9f2a1c", "--expires", "30d")

    shown = json.loads(callmcp("keys", "show", key["key_id"], "--json").stdout)

    secret = key.pop("key")
    assert shown == key
    assert secret.startswith(shown["prefix"])
    assert (shown["scopes"], shown["agent_ids"], shown["account"]) == (["calls:read"], ["agt_9f2a1c"], "default")
    expires = datetime.fromisoformat(shown["expires_at"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=5)
    assert "calls:read" in callmcp("keys", "show", key["key_id"]).stdout


@pytest.mark.parametrize(
    ("expires", "moment"),
    [
        ("2099-12-31", "2099-12-31T00:00:00Z"),
        ("2099-12-31T10:00:00+02:00", "2099-12-31T08:00:00Z"),
        ("2099-12-31T10:00:00Z", "2099-12-31T10:00:00Z"),
    ],
)
def test_an_expiry_is_a_date_or_rfc_3339(callmcp: Callmcp, expires: str, moment: str) -> None:
    assert created(callmcp, "--scope", "calls:read", "--expires", expires)["expires_at"] == moment


@pytest.mark.parametrize("expires", ["soon", "2099-12-31T10:00:00", "2020-01-01", "999999w", "30", "-1d", "2099-13-01"])
def test_an_expiry_that_is_no_time_to_come_is_refused(callmcp: Callmcp, expires: str) -> None:
    done = callmcp("keys", "create", "bot", "--scope", "calls:read", "--expires", expires)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scope", "calls:dance"], "calls:write"),
        ([], "at least one scope"),
        (["--scope", "admin", "--agent", "agt_000000"], "no voice agent 'agt_000000'"),
        (["--scope", "admin", "--account", "nobody's"], "no account named"),
    ],
)
def test_what_a_key_cannot_have_is_refused_with_words(callmcp: Callmcp, args: list[str], words: str) -> None:
    done = callmcp("keys", "create", "bot", *args)

    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert len(json.loads(callmcp("keys", "list", "--json").stdout)["keys"]) == 1


def test_a_key_can_be_changed(callmcp: Callmcp) -> None:
    key_id = created(callmcp, "--scope", "calls:read", "--agent", "agt_9f2a1c")["key_id"]

    callmcp("keys", "update", key_id, "--name", "robot", "--scope", "admin", "--all-agents", "--expires", "1h")

    shown = json.loads(callmcp("keys", "show", key_id, "--json").stdout)
    assert (shown["name"], shown["scopes"]) == ("robot", ["admin"])
    assert "agent_ids" not in shown, "left out: every agent"
    assert "expires_at" in shown


def test_an_expiry_can_be_taken_away_and_is_never_in_the_past(callmcp: Callmcp) -> None:
    key_id = created(callmcp, "--scope", "calls:read", "--expires", "30d")["key_id"]
    assert "EXPIRES_AT" in callmcp("keys", "list").stdout

    past = callmcp("keys", "update", key_id, "--expires", "2020-01-01")
    both = callmcp("keys", "update", key_id, "--expires", "1h", "--never-expires")
    assert (past.returncode, both.returncode) == (2, 2)
    assert "in the past" in past.stderr
    assert "expires_at" in json.loads(callmcp("keys", "show", key_id, "--json").stdout)

    changed = callmcp("keys", "update", key_id, "--never-expires", "--json")
    assert "expires_at" not in json.loads(changed.stdout)


def test_a_revoked_key_stays_listed_as_revoked(callmcp: Callmcp) -> None:
    key_id = created(callmcp, "--scope", "calls:read")["key_id"]

    done = callmcp("keys", "revoke", key_id, "--json")

    assert json.loads(done.stdout)["state"] == "revoked"
    (line,) = [line for line in callmcp("keys", "list").stdout.splitlines() if key_id in line]
    assert "revoked" in line
    assert callmcp("keys", "revoke", key_id).returncode == 0, "revoking twice is no fault"
    assert callmcp("keys", "revoke", "key_none").returncode == 1


def test_keys_belong_to_an_account(callmcp: Callmcp) -> None:
    account = json.loads(callmcp("accounts", "create", "acme", "--json").stdout)
    key = created(callmcp, "--scope", "calls:read", "--account", "acme")

    mine = json.loads(callmcp("keys", "list", "--account", "acme", "--json").stdout)["keys"]

    assert [one["key_id"] for one in mine] == [key["key_id"]]
    assert account["account_id"].startswith("acct_")
    assert "acme" in callmcp("accounts", "list").stdout
    taken = callmcp("accounts", "create", "acme")
    assert taken.returncode == 1
    stranger = callmcp("keys", "create", "x", "--scope", "admin", "--account", "acme", "--agent", "agt_9f2a1c")
    assert "no voice agent" in stranger.stderr
