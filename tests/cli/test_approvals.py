"""callmcp approvals and prices."""

import asyncio
import json
from pathlib import Path

import pytest

from callmcp.app import services
from callmcp.calls.model import CallRequest, PhoneNumber
from callmcp.identity.model import Principal, Scope
from callmcp.settings import load
from tests.cli.conftest import Callmcp


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def test_prices_are_set_listed_exported_imported_and_taken_away(callmcp: Callmcp, tmp_path: Path) -> None:
    for of, price in (("+1", "0.014"), ("+49", "0.05"), ("speech", "0.07"), ("+1", "0.02")):
        assert callmcp("prices", "set", of, price).returncode == 0
    exported = callmcp("prices", "export").stdout
    assert exported == "+1,0.02\n+49,0.05\nspeech,0.07\n"
    assert callmcp("prices", "remove", "+49").returncode == 0
    assert callmcp("prices", "remove", "+49").returncode == 1

    file = tmp_path / "prices.csv"
    file.write_text(f"prefix,per minute\n# ours\n\n{exported}")
    assert "3 prices set" in callmcp("prices", "import", str(file)).stderr

    rows = json.loads(callmcp("prices", "list", "--json").stdout)["prices"]
    assert rows[0] == {"of": "+1", "per_minute": "0.02", "currency": "USD"}
    assert [row["of"] for row in rows] == ["+1", "+49", "speech"]
    actions = [entry["action"] for entry in json.loads(callmcp("audit", "list", "--json").stdout)["entries"]]
    assert actions.count("prices.set") == 7
    assert actions.count("prices.remove") == 1


def test_a_file_with_a_wrong_price_sets_none_and_says_which_line(callmcp: Callmcp, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("+1,0.014\n+49\nGermany,1\n")

    done = callmcp("prices", "import", str(file))

    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert "line 3" in done.stderr
    assert callmcp("prices", "export").stdout == ""
    assert callmcp("prices", "set", "+1", "much").returncode == 2


async def placed(data: Path) -> list[str]:
    """As a server would that stops right after."""
    ids = []
    async with services(load(data=data)) as server:
        account = await server.keys.default_account()
        who = Principal(account_id=account.id, key_id="key_x", scopes=frozenset({Scope.ADMIN}))
        for number in range(3):
            request = CallRequest(agent_id="agt_9f2a1c", to=PhoneNumber(f"+1415555010{number}"))
            ids.append((await server.calls.place(who, request)).call.id)
    return ids


def test_what_waits_is_listed_with_its_link_and_decided(callmcp: Callmcp, data: Path) -> None:
    assert callmcp("limits", "set", "approval=true", "spend_per_day=12.50").returncode == 0
    limits = json.loads(callmcp("limits", "list", "--json").stdout)["limits"]
    assert limits[1]["limits"] == {"approval": True, "spend_per_day": "12.50"}
    ids = asyncio.run(placed(data))

    waiting = json.loads(callmcp("approvals", "list", "--json").stdout)["approvals"]
    assert [one["call_id"] for one in waiting] == ids
    assert callmcp("approvals", "link", ids[0]).stdout.strip() == waiting[0]["link"]
    assert f"/calls/{ids[0]}/approval?token=" in waiting[0]["link"]

    assert callmcp("approvals", "decline", ids[0]).returncode == 0
    assert callmcp("approvals", "decline", ids[0]).returncode == 1
    assert callmcp("approvals", "link", ids[0]).returncode == 1
    assert callmcp("approvals", "approve", "call_none").returncode == 1
    assert json.loads(callmcp("calls", "show", ids[0], "--json").stdout)["end_reason"] == "declined"
    assert callmcp("calls", "end", ids[1]).returncode == 0
    assert json.loads(callmcp("calls", "show", ids[1], "--json").stdout)["approval"]["state"] == "withdrawn"
    assert callmcp("limits", "set", "approval=", "spend_per_day=").returncode == 0
    assert json.loads(callmcp("limits", "list", "--json").stdout)["limits"][1]["limits"] == {}
    assert callmcp("limits", "set", "approval=perhaps").returncode == 2
