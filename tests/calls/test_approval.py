"""A person's yes: a call that waits for one is dialled after it, once, and by nothing else."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.decisions import link_token
from callmcp.calls.events import Accepted, Approved, Claimed, Disapproved, Event
from callmcp.calls.model import Call, CallRequest, CallStatus, EndReason, PhoneNumber
from callmcp.calls.optouts import OptOutSource
from callmcp.calls.policy.limits import Hours, Level, Limits
from callmcp.calls.state import apply
from callmcp.errors import Conflict, Forbidden, NotFound
from callmcp.identity.model import Principal, Scope
from tests import world as worlds
from tests.calls.test_state import QUEUED, at
from tests.world import World

pytestmark = pytest.mark.anyio
NUMBER = "+14155550100"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Its voice agent's calls need a yes."""
    world = await worlds.build()
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, Limits(approval=True))
    yield world
    await world.simulator.close()


async def test_a_call_waits_and_is_dialled_once_after_the_yes(world: World) -> None:
    call = await world.place(NUMBER, idempotency_key="one")
    await world.calls.dial_approved()
    assert (call.status, call.waits, call.owner) == (CallStatus.QUEUED, True, None)
    assert call.approval is not None
    assert call.approval.expires_at == world.clock.now() + timedelta(hours=1)
    assert await world.place(NUMBER, idempotency_key="one") == call

    await world.clock.advance(600)
    approved = await world.decisions.decide(world.colleague, call.id, yes=True)
    assert approved.status is CallStatus.QUEUED
    for _ in range(3):
        await world.calls.dial_approved()
    over, turns, statuses = await world.until_over(approved)

    assert (over.status, over.end_reason) == (CallStatus.COMPLETED, EndReason.AGENT_HUNG_UP)
    assert statuses[:3] == [CallStatus.QUEUED, CallStatus.INITIATED, CallStatus.RINGING]
    assert turns
    assert over.approval is not None
    assert (over.approval.state, over.approval.decided_by) == (ApprovalState.APPROVED, "key_colleague")
    (entry,) = [one for one in await world.policy.entries(world.owner) if one.action.startswith("approvals")]
    assert (entry.actor, entry.action, entry.subject) == ("key_colleague", "approvals.approve", call.id)


async def test_another_process_can_dial_what_this_one_was_asked(world: World) -> None:
    call = await world.place(NUMBER)
    await world.decisions.decide(world.owner, call.id, yes=True)
    other = world.another_process()

    await other.calls.dial_approved()
    await world.calls.dial_approved()

    over, _, _ = await world.until_over(call)
    assert over.status is CallStatus.COMPLETED
    assert over.owner == "process-2"
    await other.simulator.close()


async def test_a_no_cancels_the_call_and_nothing_is_dialled(world: World) -> None:
    call = await world.place(NUMBER)

    declined = await world.decisions.decide(world.owner, call.id, yes=False)
    await world.calls.dial_approved()

    assert (declined.status, declined.end_reason) == (CallStatus.CANCELED, EndReason.DECLINED)
    assert (await world.record(call))[0] == declined
    with pytest.raises(Conflict, match="declined"):
        await world.decisions.decide(world.owner, call.id, yes=True)


async def test_a_call_that_nobody_decides_about_expires(world: World) -> None:
    call = await world.place(NUMBER)
    await world.clock.advance(3599)
    await world.calls.dial_approved()
    assert (await world.record(call))[0].waits

    await world.clock.advance(1)
    with pytest.raises(Conflict, match="expired"):
        await world.decisions.decide(world.owner, call.id, yes=True)
    await world.calls.dial_approved()

    expired, _ = await world.record(call)
    assert (expired.status, expired.end_reason) == (CallStatus.CANCELED, EndReason.EXPIRED)
    assert expired.approval is not None
    assert expired.approval.state is ApprovalState.EXPIRED


async def test_a_yes_in_the_last_moment_counts_and_one_that_nobody_was_there_to_hear_does_not(world: World) -> None:
    heard, unheard = await world.place(NUMBER), await world.place("+14155550101")
    await world.clock.advance(3599)
    await world.decisions.decide(world.owner, heard.id, yes=True)
    await world.clock.advance(30)
    await world.calls.dial_approved()
    assert (await world.record(unheard))[0].end_reason is EndReason.EXPIRED
    over, _, _ = await world.until_over(heard)
    assert over.status is CallStatus.COMPLETED

    late = await world.place(NUMBER)
    await world.decisions.decide(world.owner, late.id, yes=True)
    await world.clock.advance(3600)
    await world.calls.dial_approved()
    assert (await world.record(late))[0].end_reason is EndReason.EXPIRED


async def test_whoever_wants_the_call_can_withdraw_it(world: World) -> None:
    call = await world.place(NUMBER)

    ended = await world.calls.end(world.owner, call.id)

    assert (ended.status, ended.end_reason) == (CallStatus.CANCELED, EndReason.ENDED_BY_CALLER)
    assert ended.approval is not None
    assert ended.approval.state is ApprovalState.WITHDRAWN
    with pytest.raises(Conflict, match="withdrawn"):
        await world.decisions.decide(world.owner, call.id, yes=True)


async def test_who_opts_out_while_a_call_waits_is_not_dialled(world: World) -> None:
    call = await world.place(NUMBER)
    await world.policy.add_opt_out(world.owner, PhoneNumber(NUMBER), source=OptOutSource.OPERATOR)
    await world.decisions.decide(world.owner, call.id, yes=True)
    await world.calls.dial_approved()

    over, _, _ = await world.until_over(call)

    assert (over.status, over.end_reason) == (CallStatus.FAILED, EndReason.POLICY_REFUSED)
    assert over.error is not None
    assert over.error.code == "opted_out"
    (refusal,) = await world.policy.refusals(world.owner)
    assert (refusal.code, refusal.to) == ("opted_out", NUMBER)


async def test_a_yes_that_comes_when_calling_hours_are_over_dials_nothing(world: World) -> None:
    limits = Limits(approval=True, hours=Hours.parse("08:00-17:00"))
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, limits)
    await world.clock.advance(12 * 3600)  # 16:00 in San Francisco, where this number is
    call = await world.place("+14152345678")
    await world.clock.advance(3599)
    await world.decisions.decide(world.owner, call.id, yes=True)
    await world.clock.advance(2)
    await world.calls.dial_approved()

    over, _, _ = await world.until_over(call)
    assert over.error is not None
    assert over.error.code == "outside_hours"


async def test_only_admins_of_the_account_decide(world: World) -> None:
    call = await world.place(NUMBER)
    writer = replace(world.owner, key_id="key_writer", scopes=frozenset({Scope.CALLS_WRITE, Scope.CALLS_READ}))

    for who, error in ((writer, Forbidden), (world.stranger, NotFound)):
        with pytest.raises(error):
            await world.decisions.decide(who, call.id, yes=True)
    with pytest.raises(Forbidden):
        await world.decisions.waiting(writer)
    assert await world.decisions.waiting(world.stranger) == []
    assert await world.decisions.waiting(world.colleague) == [call]
    with pytest.raises(NotFound):
        await world.decisions.decide(world.owner, "call_none", yes=True)


async def test_a_call_that_needs_no_yes_cannot_be_decided_about(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, None)
    call = await world.place(NUMBER)

    with pytest.raises(NotFound):
        await world.decisions.decide(world.owner, call.id, yes=False)


async def test_a_link_is_good_for_its_call_and_once(world: World) -> None:
    one, two = await world.place(NUMBER), await world.place("+14155550101")
    tokens = link_token(one), link_token(two)
    assert tokens[0] != tokens[1]

    for call, token in ((one, tokens[1]), (two, tokens[0]), (one, ""), (one, one.token)):
        with pytest.raises(NotFound):
            await world.decisions.decide_by_link(call.id, token, yes=True)
    approved = await world.decisions.decide_by_link(one.id, tokens[0], yes=True)
    assert approved.approval is not None
    assert approved.approval.decided_by == "link"
    with pytest.raises(Conflict):
        await world.decisions.decide_by_link(one.id, tokens[0], yes=False)
    assert (await world.record(two))[0].waits


async def test_any_level_can_ask_for_a_yes_and_a_check_says_so(world: World) -> None:
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, None)
    request = CallRequest(agent_id=world.agent.id, to=PhoneNumber(NUMBER))
    assert (await world.calls.check(world.owner, request)).approval is None

    await world.policy.set_limits(world.owner, Level.KEY, world.colleague.key_id, Limits(approval=True))
    assert (await world.calls.check(world.owner, request)).approval is None
    assert (await world.calls.check(world.colleague, request)).approval is not None
    assert not (await placed_by(world.owner, world, request)).waits
    assert (await placed_by(world.colleague, world, request)).waits


async def placed_by(who: Principal, world: World, request: CallRequest) -> Call:
    return (await world.calls.place(who, request)).call


async def test_a_call_that_waits_holds_its_slot(world: World) -> None:
    limits = Limits(approval=True, destination_at_once=1)
    await world.policy.set_limits(world.owner, Level.AGENT, world.agent.id, limits)
    request = CallRequest(agent_id=world.agent.id, to=PhoneNumber(NUMBER))
    await world.calls.place(world.owner, request)

    checked = await world.calls.check(world.owner, request)

    assert [verdict.code for verdict in checked.verdicts if verdict.code] == ["destination_busy"]


WAITING = replace(QUEUED, approval=Approval(state=ApprovalState.REQUESTED, expires_at=at(50)), heard_from_at=at(50))
decisions: st.SearchStrategy[Event] = st.integers(0, 99).flatmap(
    lambda second: st.sampled_from(
        (
            Approved(at=at(second), by="operator"),
            Disapproved(at=at(second), reason=EndReason.DECLINED, by="operator"),
            Disapproved(at=at(second), reason=EndReason.EXPIRED, by="process-1"),
            Disapproved(at=at(second), reason=EndReason.ENDED_BY_CALLER, by="key_1"),
            Claimed(at=at(second), by="process-1", carries=True),
            Claimed(at=at(second), by="process-2", carries=False),
        )
    )
)


@given(st.lists(decisions, max_size=8))
def test_whoever_decides_when_a_call_is_claimed_once_after_a_yes_in_time_or_never(events: Sequence[Event]) -> None:
    call, claims = WAITING, 0
    for event in events:
        before, call = call, apply(call, event)
        if before.approval and call.approval and call.approval.claimed_by != before.approval.claimed_by:
            claims += 1
            assert before.approval.state is ApprovalState.APPROVED
            assert before.approval.decided_at is not None
            assert before.approval.decided_at < WAITING.approval.expires_at  # type: ignore[union-attr]
            assert before.status is CallStatus.QUEUED
            assert call.heard_from_at == event.at
    assert claims <= 1
    assert (call.status is CallStatus.CANCELED) is (call.end_reason is not None)


def test_a_claimed_call_is_the_carriers_from_then_on() -> None:
    events = (
        Approved(at=at(1), by="x"),
        Claimed(at=at(2), by="p", carries=False),
        Accepted(at=at(3), carrier_id="CA1"),
    )

    call = reduce(apply, events, WAITING)

    assert (call.carrier_id, call.owner, call.waits) == ("CA1", None, False)
    assert apply(call, Disapproved(at=at(4), reason=EndReason.DECLINED, by="x")) is call
