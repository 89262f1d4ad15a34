"""callmcp limits, opt-outs and audit."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Callmcp

NUMBER = "+15550100001"


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def test_limits_are_set_changed_and_taken_away_at_each_level(callmcp: Callmcp) -> None:
    callmcp("limits", "set", "regions=US,CA", "calls_per_day=20", "hours=09:00-18:00", "region_hours=DE=10:00-16:00")
    callmcp("limits", "set", "calls_per_day=5", "hours=")
    callmcp("limits", "set", "--agent", "agt_9f2a1c", "calls_at_once=1")

    listed = json.loads(callmcp("limits", "list", "--json").stdout)["limits"]

    assert [(row["level"], row["limits"]) for row in listed] == [
        ("deployment", {}),
        ("account", {"regions": ["CA", "US"], "calls_per_day": 5, "region_hours": {"DE": "10:00-16:00"}}),
        ("agent", {"calls_at_once": 1}),
    ]
    assert callmcp("limits", "clear", "--agent", "agt_9f2a1c").returncode == 0
    assert "agt_9f2a1c" not in callmcp("limits", "list").stdout
    actions = [row["action"] for row in json.loads(callmcp("audit", "list", "--json").stdout)["entries"]]
    assert actions[0] == "limits.agent"
    assert actions.count("limits.account") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["calls_per_day"], "is not NAME=VALUE"),
        (["calls=5"], "the names are regions"),
        (["calls_per_day=many"], "is not a whole number"),
        (["regions=Germany"], "'Germany' is not a region"),
        (["hours=8-9"], "not hours such as 08:00-21:00"),
        (["--agent", "agt_ffffff", "calls_per_day=5"], "no voice agent"),
        (["--key", "key_none", "calls_per_day=5"], "no key"),
        (["--key", "a", "--agent", "b", "calls_per_day=5"], "not both"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_with_words(callmcp: Callmcp, words: list[str], said: str) -> None:
    done = callmcp("limits", "set", *words)

    assert done.returncode != 0
    assert said in done.stderr


def test_numbers_go_on_the_list_and_only_with_a_reason_off_it(callmcp: Callmcp) -> None:
    assert callmcp("opt-outs", "add", NUMBER, "--reason", "Asked by letter.").returncode == 0

    refused = callmcp("calls", "place", "--agent", "agt_9f2a1c", "--to", NUMBER)
    assert (refused.returncode, "opted" in refused.stderr or "asked not to be called" in refused.stderr) == (1, True)
    assert NUMBER in callmcp("opt-outs", "list").stdout
    assert callmcp("opt-outs", "remove", NUMBER).returncode == 2
    assert callmcp("opt-outs", "remove", NUMBER, "--reason", "Changed their mind.").returncode == 0
    assert callmcp("opt-outs", "remove", NUMBER, "--reason", "x").returncode == 1
    assert NUMBER not in callmcp("opt-outs", "list").stdout


def test_a_file_is_imported_whole_or_not_at_all_and_exported_again(callmcp: Callmcp, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("\ufeffnumber,since\n+15550100002,2025\n+15550100003 # wrote in\n\n")
    assert "2 added; 0 were" in callmcp("opt-outs", "import", str(file)).stderr
    assert "0 added; 2 were" in callmcp("opt-outs", "import", str(file)).stderr
    assert callmcp("opt-outs", "export").stdout.split() == ["+15550100002", "+15550100003"]

    file.write_text("+15550100004\n0800 123\n")
    done = callmcp("opt-outs", "import", str(file))
    assert (done.returncode, "line 2" in done.stderr) == (2, True)
    assert "+15550100004" not in callmcp("opt-outs", "export").stdout


def test_refused_calls_are_shown(callmcp: Callmcp) -> None:
    callmcp("limits", "set", "regions=DE")
    callmcp("calls", "place", "--agent", "agt_9f2a1c", "--to", NUMBER)

    (row,) = json.loads(callmcp("audit", "refusals", "--json").stdout)["refusals"]
    assert (row["to"], row["rule"], row["level"], row["code"]) == (NUMBER, "number", "account", "region_not_allowed")


def test_every_change_of_a_key_is_in_the_trail_and_no_secret_is(callmcp: Callmcp) -> None:
    secret = callmcp("keys", "create", "crm", "--scope", "calls:write").stdout.strip()
    keys = json.loads(callmcp("keys", "list", "--json").stdout)["keys"]
    key_id = next(row["key_id"] for row in keys if row["name"] == "crm")
    callmcp("keys", "update", key_id, "--scope", "calls:read")
    callmcp("keys", "revoke", key_id)

    shown = callmcp("audit", "list", "--json").stdout
    entries = [row for row in json.loads(shown)["entries"] if row["subject"] == key_id]
    assert [(row["actor"], row["action"]) for row in entries] == [
        ("operator", "keys.revoke"),
        ("operator", "keys.update"),
        ("operator", "keys.create"),
    ]
    assert json.loads(entries[1]["before"]) == {"scopes": ["calls:write"]}
    assert json.loads(entries[1]["after"]) == {"scopes": ["calls:read"]}
    assert secret not in shown


def test_nobody_changes_the_trail(data: Path) -> None:
    with closing(sqlite3.connect(data / "callmcp.db")) as database:
        for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added to"):
                database.execute(statement)
