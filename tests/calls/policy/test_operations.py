"""Limits in force: through `Calls.place`, with a store, a clock and the simulator."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from callmcp.calls.model import Call, CallRequest, Consent, PhoneNumber
from callmcp.calls.optouts import OptOutSource
from callmcp.calls.policy.limits import Hours, Level, Limits, limits_of
from callmcp.calls.policy.operations import Deployment
from callmcp.errors import Forbidden, InvalidArguments, NotFound, Refused
from callmcp.identity.audit import Entry
from callmcp.identity.model import Principal, Scope
from tests import world as worlds
from tests.world import World

pytestmark = pytest.mark.anyio
SILENT, BERLIN, SAN_FRANCISCO = "+14155550111", "+493023125000", "+14152345678"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await worlds.build()
    yield world
    await world.simulator.close()


async def refused(world: World, to: str = SILENT, **fields: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await world.place(to, **fields)
    return caught.value


async def trail(world: World, of: str) -> list[Entry]:
    """The entries about this, newest first."""
    return [entry for entry in await world.policy.entries(world.owner) if entry.action.startswith(of)]


async def no_call(world: World) -> bool:
    from callmcp.calls.model import CallFilter  # noqa: PLC0415

    return not (await world.calls.list(world.owner, CallFilter())).calls


async def test_nothing_is_limited_where_nothing_was_laid_down(world: World) -> None:
    for _ in range(20):
        await world.place(SILENT)


async def test_a_refusal_dials_nothing_and_is_remembered_with_who_and_why(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, Limits(regions=frozenset({"DE"})))

    error = await refused(world)

    assert (error.code, error.rule) == ("region_not_allowed", "number")
    assert str(error.refusal_id) in error.message
    assert "agent" in error.message
    assert await no_call(world)
    (stored,) = await world.policy.refusals(world.owner)
    assert (stored.id, stored.key_id, stored.agent_id, stored.to) == (
        error.refusal_id,
        "key_owner",
        world.agent.id,
        SILENT,
    )
    assert (stored.level, stored.code) == (Level.AGENT, "region_not_allowed")
    assert await world.policy.refusals(world.stranger) == []


@pytest.mark.parametrize("level", [Level.ACCOUNT, Level.AGENT, Level.KEY])
async def test_a_limit_holds_for_what_it_was_laid_down_for(world: World, level: Level) -> None:
    subject = {Level.ACCOUNT: world.owner.account_id, Level.AGENT: world.agent.id, Level.KEY: "key_owner"}[level]
    await world.policy.set_limits(world.owner, level, subject, Limits(calls_per_minute=1))
    await world.place(SILENT)

    error = await refused(world)

    assert (error.code, error.retry_at) == ("rate_limited", world.clock.now() + timedelta(seconds=60))
    request = CallRequest(agent_id=world.agent.id, to=PhoneNumber(SILENT))
    if level is Level.KEY:
        await world.calls.place(world.colleague, request)
    else:
        with pytest.raises(Refused):
            await world.calls.place(world.colleague, request)
    await world.clock.advance(61)
    await world.place(SILENT)


async def test_of_several_levels_the_strictest_holds(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.ACCOUNT, world.owner.account_id, Limits(calls_per_hour=3))
    await world.policy.set_limits(world.owner, Level.KEY, "key_owner", Limits(calls_per_hour=2))
    for _ in range(2):
        await world.place(SILENT)

    assert "this key" in (await refused(world)).message


async def test_one_call_at_a_time_to_a_number_and_a_pause_after_it(world: World) -> None:
    limits = Limits(destination_at_once=1, destination_pause_seconds=300, destination_per_day=2)
    await world.policy.set_limits(world.owner, Level.ACCOUNT, world.owner.account_id, limits)
    first = await world.place("+14155550101")

    assert (await refused(world, "+14155550101")).code == "destination_busy"
    await world.place(SILENT)  # another number
    over, _, _ = await world.until_over(first)
    error = await refused(world, "+14155550101")
    assert over.ended_at is not None
    assert (error.code, error.retry_at) == ("destination_rate_limited", over.ended_at + timedelta(seconds=300))
    await world.clock.advance(301)
    await world.until_over(await world.place("+14155550101"))
    await world.clock.advance(301)
    assert (await refused(world, "+14155550101")).code == "destination_rate_limited"


async def test_who_opted_out_in_a_call_is_not_called_again_by_any_agent_or_key(world: World) -> None:
    await world.until_over(await world.place("+14155550106"))

    assert (await refused(world, "+14155550106")).code == "opted_out"
    request = CallRequest(agent_id=world.agent.id, to=PhoneNumber("+14155550106"))
    with pytest.raises(Refused, match="asked not to be called"):
        await world.calls.place(world.colleague, request)
    assert (await world.policy.opt_outs(world.owner))[0].source is OptOutSource.CALLEE
    assert await world.policy.opt_outs(world.stranger) == []


async def test_only_an_operator_takes_a_number_off_the_list_and_says_why(world: World) -> None:
    writer = Principal(account_id=world.owner.account_id, key_id="key_w", scopes=frozenset({Scope.CALLS_WRITE}))
    await world.policy.add_opt_out(writer, PhoneNumber(SILENT), source=OptOutSource.CLIENT, reason="By e-mail.")

    with pytest.raises(Forbidden):
        await world.policy.remove_opt_out(writer, PhoneNumber(SILENT), reason="Changed their mind.")
    with pytest.raises(InvalidArguments):
        await world.policy.remove_opt_out(world.owner, PhoneNumber(SILENT), reason=" ")
    with pytest.raises(NotFound):
        await world.policy.remove_opt_out(world.stranger, PhoneNumber(SILENT), reason="Mine.")
    assert (await refused(world)).code == "opted_out"
    await world.policy.remove_opt_out(world.owner, PhoneNumber(SILENT), reason="Changed their mind.")
    await world.place(SILENT)
    removed, added = await trail(world, "opt-outs")
    assert (removed.action, removed.actor, removed.reason) == (
        "opt-outs.remove",
        "key_owner",
        "Changed their mind.",
    )
    assert (added.action, added.actor, added.subject) == ("opt-outs.add", "key_w", SILENT)


async def test_every_change_of_limits_is_in_the_trail_with_what_was_before(world: World) -> None:
    account = world.owner.account_id
    await world.policy.set_limits(world.owner, Level.ACCOUNT, account, Limits(calls_per_day=5))
    await world.policy.set_limits(world.owner, Level.ACCOUNT, account, Limits(hours=Hours.parse("09:00-18:00")))
    await world.policy.set_limits(world.owner, Level.ACCOUNT, account, None)

    changes = [(entry.before, entry.after) for entry in await trail(world, "limits")]
    five, nine = json.dumps({"calls_per_day": 5}), json.dumps({"hours": "09:00-18:00"})
    assert changes == [(nine, None), (five, nine), (None, five)]
    with pytest.raises(InvalidArguments, match="settings"):
        await world.policy.set_limits(world.owner, Level.DEPLOYMENT, "", Limits())
    narrow = Principal(account_id=account, key_id="key_n", scopes=frozenset({Scope.AGENTS_WRITE}))
    with pytest.raises(Forbidden):
        await world.policy.set_limits(narrow, Level.ACCOUNT, account, None)


async def test_consent_is_asked_for_where_it_is_needed_and_kept_with_the_call(world: World) -> None:
    limits = Limits(consent=frozenset({"US"}))
    await world.policy.set_limits(world.owner, Level.ACCOUNT, world.owner.account_id, limits)
    consent = Consent(basis="asked for a call back", obtained_at=world.clock.now(), reference="ticket 7")

    assert (await refused(world)).code == "consent_required"
    await world.place(BERLIN)
    call = await world.place(SILENT, consent=consent)
    assert call.consent == consent
    assert (await world.record(call))[0].consent == consent


async def test_who_repeats_a_request_is_not_refused_for_the_first(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.KEY, "key_owner", Limits(calls_per_day=1))
    first = await world.place(SILENT, idempotency_key="k")

    assert (await world.place(SILENT, idempotency_key="k")).id == first.id
    assert (await refused(world, idempotency_key="other")).code == "rate_limited"
    await world.clock.advance(86401)
    await world.place(SILENT, idempotency_key="other")  # a refusal used up no key


# check_call.


async def check(world: World, to: str, **fields: Any) -> tuple[list[str], Any]:
    request = CallRequest(agent_id=world.agent.id, to=PhoneNumber(to), **fields)
    checked = await world.calls.check(world.owner, request)
    return [verdict.code for verdict in checked.verdicts if verdict.code is not None], checked.facts


async def test_a_check_tells_every_refusal_at_once_and_leaves_no_trace() -> None:
    limits = Limits(
        regions=frozenset({"DE"}),
        hours=Hours.parse("23:00-23:01"),
        consent=frozenset({"*"}),
        calls_per_day=1,
        destination_at_once=1,
    )
    world = await worlds.build(deployment=Deployment(limits=limits, strict_numbers=True))
    assert (await check(world, BERLIN))[0] == ["consent_required", "outside_hours"]
    consent = Consent(basis="x", obtained_at=world.clock.now(), reference="y")
    assert "region_not_allowed" in (await check(world, SAN_FRANCISCO, consent=consent))[0]
    assert "invalid_number" in (await check(world, "+11234567890"))[0]

    assert await world.policy.refusals(world.owner) == []
    assert await no_call(world)
    assert await trail(world, "opt-outs") == []
    await world.simulator.close()


async def test_a_check_says_what_placing_would_say(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.ACCOUNT, world.owner.account_id, Limits(calls_at_once=1))
    assert (await check(world, SILENT))[0] == []
    await world.place(SILENT)

    assert (await check(world, SILENT))[0] == [(await refused(world)).code] == ["too_many_calls_at_once"]
    with pytest.raises(NotFound):
        await world.calls.check(world.narrow, CallRequest(agent_id=world.agent.id, to=PhoneNumber(SILENT)))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"region": ["US"]}, "region"),
        ({"regions": ["USA"]}, "regions"),
        ({"regions": 5}, "regions"),
        ({"hours": "8-9"}, "hours"),
        ({"hours": 8}, "hours"),
        ({"region_hours": {"DE": "x"}}, "region_hours"),
        ({"region_hours": {"Germany": "08:00-20:00"}}, "region_hours"),
        ({"region_hours": ["DE"]}, "region_hours"),
        ({"deny_prefixes": ["0900"]}, "deny_prefixes"),
        ({"calls_per_day": -1}, "calls_per_day"),
        ({"calls_per_day": True}, "calls_per_day"),
        ({"calls_per_day": "many"}, "calls_per_day"),
    ],
)
def test_a_limit_that_is_none_says_what_is_wrong(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArguments) as wrong:
        limits_of(given)
    assert [problem.field for problem in wrong.value.problems] == [field]


async def test_processes_together_stay_within_a_limit(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.ACCOUNT, world.owner.account_id, Limits(calls_per_hour=5))
    others = [world.another_process(f"process-{number}") for number in range(2, 5)]
    placed: list[Call] = []
    for number in range(12):
        request = CallRequest(agent_id=world.agent.id, to=PhoneNumber(f"+1415555{number:02}11"))
        calls = [world.calls, *(other.calls for other in others)][number % 4]
        try:
            placed.append((await calls.place(world.owner, request)).call)
        except Refused as error:
            assert error.code == "rate_limited"
    assert len(placed) == 5


async def test_who_changes_an_agent_leaves_what_was_and_what_is(world: World) -> None:
    await world.agents.update(world.colleague, world.agent.id, name="Eve", recording=True)
    await world.agents.delete(world.owner, world.agent.id)

    deleted, updated, *_ = await trail(world, "agents")
    assert (updated.action, updated.actor, updated.subject) == ("agents.update", "key_colleague", world.agent.id)
    assert json.loads(updated.before or "") == {"name": "Ada", "recording": False}
    assert json.loads(updated.after or "") == {"name": "Eve", "recording": True}
    assert (deleted.action, deleted.actor, deleted.after) == ("agents.delete", "key_owner", None)
