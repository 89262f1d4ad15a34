"""The limits that hold where an operator laid none down: with a real carrier, against Twilio's emulator."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from callmcp.agents.operations import Agents
from callmcp.calls.events import FoundBusy
from callmcp.calls.model import Call, CallRequest, PhoneNumber
from callmcp.calls.operations import Calls
from callmcp.calls.policy.operations import Policy
from callmcp.clock import TestClock
from callmcp.deployment import deployment
from callmcp.errors import Refused
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys
from callmcp.llm.models import Models
from callmcp.numbering import PhoneNumbersPlan
from callmcp.settings import Settings
from callmcp.store.memory import MemoryStore
from callmcp.telephony.twilio.addresses import Addresses
from callmcp.telephony.twilio.client import TwilioTelephony
from tests.acceptance.mcp_client import Failed, Mcp
from tests.acceptance.server import Server, callmcp
from tests.acceptance.twilio import ACCOUNT, FROM, TOKEN, Twilio, ended, on_twilio, twilio

WESTERN, EASTERN, ABROAD = "+14152345678", "+12122345678", "+493023125000"


@pytest.fixture(scope="module")
def carrier() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def server(carrier: Twilio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As an operator has it who set nothing but what Twilio needs, and calls from a number of the United States."""
    number: dict[str, Any] = {"twilio_from": WESTERN.replace("2345678", "2345670")}
    with on_twilio(tmp_path_factory.mktemp("data"), carrier, limited=True, **number) as server:
        yield server


@pytest.fixture(scope="module")
def mcp(server: Server) -> Iterator[Mcp]:
    with Mcp(server.base, server.first_key) as mcp:
        yield mcp


@pytest.mark.parametrize(
    ("to", "code"),
    [
        (ABROAD, "region_not_allowed"),
        ("+18763456789", "region_not_allowed"),
        ("+11234567890", "invalid_number"),
        ("+19002345678", "number_kind_not_allowed"),
        ("+19115551234", "emergency_number"),
    ],
)
def test_what_harms_is_refused_and_never_dialled(carrier: Twilio, mcp: Mcp, to: str, code: str) -> None:
    with pytest.raises(Failed, match=code):
        mcp.place(to)
    assert carrier.dials(to) == 0


def test_hours_are_those_of_the_called_party(carrier: Twilio, mcp: Mcp) -> None:
    for to, zone in ((WESTERN, "America/Los_Angeles"), (EASTERN, "America/New_York")):
        awake = 8 <= datetime.now(UTC).astimezone(ZoneInfo(zone)).hour < 21
        checked = mcp.call("check_call", agent_id="agt_9f2a1c", to=to)
        assert checked["allowed"] is awake
        assert checked["local_times"].keys() == {zone}
        if awake:
            continue
        assert checked["next_allowed_at"] > datetime.now(UTC).isoformat()
        with pytest.raises(Failed, match="outside_hours"):
            mcp.place(to)
        assert carrier.dials(to) == 0


def test_a_number_is_called_once_at_a_time_and_left_alone_after_it(
    carrier: Twilio, tmp_path_factory: pytest.TempPathFactory
) -> None:
    always: dict[str, Any] = {"limit_hours": "00:00-24:00", "limit_regions": "*"}
    to = "+13122345678"
    with (
        on_twilio(tmp_path_factory.mktemp("always"), carrier, limited=True, **always) as server,
        Mcp(server.base, server.first_key) as mcp,
    ):
        carrier.plan(to=to, callee={"outcome": "busy", "rings": 2})
        call_id = mcp.place(to)["call_id"]
        with pytest.raises(Failed, match="destination_busy"):
            mcp.place(to)
        ended(mcp, call_id)
        with pytest.raises(Failed, match=r"destination_rate_limited.*\d{4}-\d\d-\d\dT"):
            mcp.place(to)
        assert len(callmcp("audit", "refusals", data=server.data).splitlines()) == 3
    assert carrier.dials(to) == 1


def test_a_callee_who_opts_out_is_not_dialled_again(carrier: Twilio, tmp_path_factory: pytest.TempPathFactory) -> None:
    to = "+13122345679"
    data = tmp_path_factory.mktemp("opted-out")
    steps = [{"do": "listen"}, {"do": "say", "text": "Never call me again."}, {"do": "listen"}, {"do": "stay"}]
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": steps})
    with on_twilio(data, carrier) as server, Mcp(server.base, server.first_key) as mcp:
        key = server.first_key
        assert ended(mcp, mcp.place(to)["call_id"])["opt_out"] is True
    with on_twilio(data, carrier, key=key) as server, Mcp(server.base, key) as mcp:  # and not by the next process
        with pytest.raises(Failed, match="opted_out"):
            mcp.place(to)
        assert to in callmcp("opt-outs", "export", data=data)
        callmcp("opt-outs", "remove", to, "--reason", "They changed their mind.", data=data)
        carrier.plan(to=to, callee={"outcome": "busy"})
        mcp.place(to)
    assert carrier.dials(to) == 2


ALWAYS: dict[str, Any] = {"limit_hours": "00:00-24:00", "limit_regions": "*", "limit_destination_pause_seconds": 0}


def test_a_call_that_needs_a_yes_is_dialled_after_it_and_once(
    carrier: Twilio, tmp_path_factory: pytest.TempPathFactory
) -> None:
    yes, no = "+13122345670", "+13122345671"
    data = tmp_path_factory.mktemp("approval")
    with (
        on_twilio(data, carrier, limited=True, limit_approval=True, **ALWAYS) as server,
        Mcp(server.base, server.first_key) as mcp,
        httpx.Client(base_url=server.base, trust_env=False) as browser,
    ):
        for to in (yes, no):
            carrier.plan(to=to, callee="busy")
            placed = mcp.place(to, idempotency_key=to)
            assert (placed["status"], placed["approval"]["state"]) == ("queued", "requested")
            assert "person" in placed["next_step"]
            assert mcp.place(to, idempotency_key=to)["replayed"]
        assert carrier.dials(yes) == carrier.dials(no) == 0

        waiting = json.loads(callmcp("approvals", "list", "--json", data=data))["approvals"]
        first = waiting[0]["link"]
        first = first[first.index("/calls/") :]  # the command was not told this server's address
        assert yes in browser.get(first).text
        assert "approved" in browser.post(first, data={"decision": "approve"}).text
        assert browser.post(first, data={"decision": "decline"}).status_code == 409
        callmcp("approvals", "decline", waiting[1]["call_id"], data=data)

        record = ended(mcp, waiting[0]["call_id"])
        assert (record["status"], record["approval"]["state"]) == ("busy", "approved")
        assert record["cost"] == {"currency": "USD", "amount": "0.00", "micros": 0, "final": True}
        record = ended(mcp, waiting[1]["call_id"])
        assert (record["status"], record["end_reason"]) == ("canceled", "declined")
    assert (carrier.dials(yes), carrier.dials(no)) == (1, 0)


def test_what_is_spent_and_may_still_be_spent_is_never_more_than_the_budget(
    carrier: Twilio, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A minute costs 0.25 where nothing else was laid down; a call of up to 60 seconds reserves two minutes."""
    one, two = "+13122345672", "+13122345673"
    with (
        on_twilio(
            tmp_path_factory.mktemp("money"), carrier, limited=True, limit_spend_per_day="0.9", **ALWAYS
        ) as server,
        Mcp(server.base, server.first_key) as mcp,
    ):
        steps = [{"do": "listen"}, {"do": "say", "text": "Goodbye."}, {"do": "listen"}, {"do": "stay"}]
        carrier.plan(to=one, callee={"rings": 1, "amd": "human", "steps": steps})
        checked = mcp.call("check_call", agent_id="agt_9f2a1c", to=one, max_duration_seconds=60)
        assert checked["cost"] == {"currency": "USD", "amount": "0.50", "micros": 500_000, "final": False}
        placed = mcp.place(one, max_duration_seconds=60)
        assert placed["cost"]["micros"] == 500_000

        with pytest.raises(Failed, match=r"over_budget.*0\.50 is spent or reserved"):
            mcp.place(two, max_duration_seconds=60)
        record = ended(mcp, placed["call_id"])
        assert record["cost"] == {"currency": "USD", "amount": "0.25", "micros": 250_000, "final": True}
        carrier.plan(to=two, callee="busy")
        ended(mcp, mcp.place(two, max_duration_seconds=60)["call_id"])
    assert (carrier.dials(one), carrier.dials(two)) == (1, 1)


@pytest.mark.anyio
async def test_days_of_a_client_that_never_stops_stay_within_every_default(carrier: Twilio) -> None:
    """On a clock turned by hand, over the night in which California's clocks change (2026-03-08). The emulator is a
    carrier of its own: what it was asked to dial is what was dialled."""
    clock, store = TestClock(datetime(2026, 3, 7, 6, 0, tzinfo=UTC)), MemoryStore()
    trail = Trail(store, clock)
    account = await Keys(store, trail, clock).default_account()
    owner = Principal(account_id=account.id, key_id="key_loop", scopes=frozenset({Scope.ADMIN}))
    agents = Agents(store, Models(), trail, clock)
    agent = await agents.create(owner, name="Ada", greeting="Hello.")
    telephony = TwilioTelephony(
        account_sid=ACCOUNT,
        username=ACCOUNT,
        password=TOKEN,
        caller_id=FROM,
        addresses=Addresses("https://calls.example.org"),
        clock=clock,
        api_url=carrier.url,
    )
    defaults = Settings(
        carrier="twilio", twilio_account_sid=ACCOUNT, twilio_auth_token=(TOKEN,), twilio_from="+14152345670",
        public_url="https://calls.example.org",
    )  # fmt: skip
    policy = Policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=deployment(defaults))
    calls = Calls(store=store, agents=agents, telephony=telephony, policy=policy, clock=clock, owner="process-1")
    dialled: list[tuple[datetime, str]] = []

    async def attempt(to: str) -> Call | Refused:
        try:
            placed = await calls.place(owner, CallRequest(agent_id=agent.id, to=PhoneNumber(to)))
        except Refused as refused:
            return refused
        dialled.append((clock.now(), to))
        return placed.call

    stubborn, promised = "+14152345601", "+14152345602"
    retry_at = clock.now()
    for _ in range(3 * 24 * 12):  # one asks every five minutes, one when it was told to
        call = await attempt(stubborn)
        if isinstance(call, Call):
            await calls.observe(call.id, FoundBusy(at=clock.now()))
        if clock.now() >= retry_at:
            told = await attempt(promised)
            if isinstance(told, Call):
                await calls.observe(told.id, FoundBusy(at=clock.now()))
            else:
                assert told.retry_at is not None
                retry_at = told.retry_at
        await clock.advance(300)

    for to in (stubborn, promised):
        times = [at for at, number in dialled if number == to]
        local = [at.astimezone(ZoneInfo("America/Los_Angeles")) for at in times]
        assert {at.date().day for at in local} >= {7, 8, 9}
        assert all(8 <= at.hour < 21 for at in local)
        assert all(second - first >= timedelta(seconds=300) for first, second in pairwise(times))
        assert all(fourth - first >= timedelta(days=1) for first, fourth in zip(times, times[3:], strict=False))
        assert carrier.dials(to) == len(times) >= 7

    while not isinstance(await attempt("+14152345603"), Call):
        await clock.advance(300)  # until the morning
    burst = [await attempt(f"+1415234{number}") for number in range(5610, 5625)]
    codes = [one.code for one in burst if isinstance(one, Refused)]
    assert codes == ["over_budget"] * 7  # the tenth call at once would be one too many as well
    assert sum(carrier.dials(f"+1415234{number}") for number in range(5610, 5625)) == 8
    await calls.close()
    await telephony.close()
