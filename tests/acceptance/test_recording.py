"""A recorded call over Twilio, and who may hear it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.mcp_client import Mcp
from tests.acceptance.server import Server, callmcp
from tests.acceptance.test_twilio import TALKS, a_number
from tests.acceptance.twilio import TOKEN, Twilio, ended, on_twilio, twilio


@pytest.fixture(scope="module")
def carrier() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def server(carrier: Twilio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with on_twilio(tmp_path_factory.mktemp("data"), carrier) as server:
        callmcp("agents", "update", "agt_9f2a1c", "--recording", data=server.data)
        yield server


@pytest.fixture(scope="module")
def mcp(server: Server) -> Iterator[Mcp]:
    with Mcp(server.base, server.first_key) as mcp:
        yield mcp


def test_a_recorded_call_says_so_and_can_be_heard_by_who_may_read_it(carrier: Twilio, server: Server, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": TALKS})
    call_id = mcp.place(to)["call_id"]

    ended(mcp, call_id)
    record = mcp.until(call_id, lambda record: record["recording"]["status"] == "completed", seconds=10)

    assert "This call is recorded." in record["transcript"][0]["text"]
    assert record["recording"]["url"] == f"{server.base}/calls/{call_id}/recording"
    answer = mcp.http.get(record["recording"]["url"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
    assert len(answer.content) == int(answer.headers["content-length"]) > 1000
    assert answer.headers["cache-control"] == "private, no-store"
    assert carrier.url not in str(answer.headers) + str(record)
    assert TOKEN not in str(answer.headers)

    saved = server.data / "call.mp3"
    callmcp("calls", "recording", call_id, "--output", str(saved), data=server.data, **_twilio(carrier))
    assert saved.read_bytes() == answer.content


def _twilio(carrier: Twilio) -> dict[str, str]:
    from tests.acceptance.twilio import ACCOUNT, FROM  # noqa: PLC0415

    return {
        "carrier": "twilio",
        "twilio_account_sid": ACCOUNT,
        "twilio_auth_token": TOKEN,
        "twilio_from": FROM,
        "twilio_api_url": carrier.url,
    }


def test_nobody_else_hears_it(carrier: Twilio, server: Server, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": TALKS})
    call_id = mcp.place(to)["call_id"]
    ended(mcp, call_id)
    url = mcp.until(call_id, lambda r: r["recording"]["status"] == "completed", seconds=10)["recording"]["url"]
    data: Path = server.data
    callmcp("accounts", "create", "other", data=data)
    stranger = callmcp("keys", "create", "s", "--scope", "calls:read", "--account", "other", data=data).strip()
    of_agents = callmcp("keys", "create", "w", "--scope", "agents:read", data=data).strip()
    colleague = callmcp("keys", "create", "c", "--scope", "calls:read", data=data).strip()

    answers = {
        who: httpx.get(url, headers={"Authorization": f"Bearer {key}"} if key else {}, trust_env=False)
        for who, key in (
            ("nobody", ""),
            ("forger", "cmcp_x"),
            ("stranger", stranger),
            ("reader of agents", of_agents),
            ("colleague", colleague),
        )
    }

    assert {who: answer.status_code for who, answer in answers.items()} == {
        "nobody": 401,
        "forger": 401,
        "stranger": 404,
        "reader of agents": 403,
        "colleague": 200,
    }
    assert all("www-authenticate" in answers[who].headers for who in ("nobody", "forger", "reader of agents"))
    assert all(answers[who].json()["error"] for who in ("nobody", "forger", "stranger", "reader of agents"))


def test_a_call_that_is_not_recorded_says_why_there_is_nothing(carrier: Twilio, mcp: Mcp) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"outcome": "busy"})
    call_id = mcp.place(to)["call_id"]
    ended(mcp, call_id)

    answer = mcp.http.get(f"/calls/{call_id}/recording")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_recording")
    assert mcp.http.get("/calls/call_none/recording").json()["code"] == "call_not_found"
    assert mcp.http.post(f"/calls/{call_id}/recording").status_code == 405
