"""Calls that went quiet, over a Twilio that can be asked or not."""

import pytest

from callmcp.calls.events import Answered, FellSilent, Leaving
from callmcp.calls.model import CallStatus, EndReason
from callmcp.calls.sweep import Patience, Sweep
from callmcp.telephony.twilio.addresses import Report
from tests.telephony.twilio.api import Answer, Asked, Reply, page, placed, resource
from tests.telephony.twilio.desk import SID, Desk, status

pytestmark = pytest.mark.anyio


def sweep_of(desk: Desk) -> Sweep:
    return Sweep(
        store=desk.store,
        calls=desk.calls,
        telephony=desk.telephony,
        clock=desk.clock,
        owner="process-1",
        patience=Patience(silence=15, give_up=120, quiet=15, look=0),
    )


async def test_a_call_that_cannot_be_ended_keeps_no_other_from_being_settled(desk: Desk) -> None:
    now = desk.clock.now()
    leaving = Leaving(at=now, reason=EndReason.MACHINE)
    stuck = [
        await desk.call(Answered(at=now), leaving, carrier_id="CA1"),
        await desk.call(leaving, carrier_id="CA2"),
    ]
    quiet = await desk.call(Answered(at=now), carrier_id="CA3")

    def reply(asked: Asked) -> Reply:
        if asked.values("Status"):
            return Answer.refusal(400, 20001)
        sid = asked.path.rpartition("/")[2].removesuffix(".json")
        return Answer.json(200, resource(sid, status="completed" if sid == "CA3" else "in-progress"))

    desk.api.otherwise = reply
    await desk.clock.advance(60)
    await sweep_of(desk).settle()
    desk.api.otherwise = placed

    assert set(desk.api.hang_ups) == {"CA1", "CA2"}
    assert [(await desk.now(call)).status for call in stuck] == [CallStatus.IN_PROGRESS] * 2
    assert (await desk.now(quiet)).status is CallStatus.COMPLETED


async def test_a_call_that_may_be_either_of_two_is_taken_for_neither_until_it_says_which(desk: Desk) -> None:
    first, second = [await desk.call(FellSilent(at=desk.clock.now()), carrier_id=None) for _ in range(2)]
    desk.api.otherwise = lambda asked: page(resource(SID)) if asked.path.endswith("Calls.json") else placed(asked)
    await desk.clock.advance(20)
    await sweep_of(desk).settle()
    assert [(await desk.now(call)).carrier_id for call in (first, second)] == [None, None]

    await desk.post(Report.STATUS, second, status("ringing"))
    await sweep_of(desk).settle()
    desk.api.otherwise = placed
    assert [(await desk.now(call)).carrier_id for call in (first, second)] == [None, SID]


async def test_a_call_that_was_lost_and_can_be_but_one_is_found(desk: Desk) -> None:
    call = await desk.call(FellSilent(at=desk.clock.now()), carrier_id=None)
    other = await desk.call(FellSilent(at=desk.clock.now()), carrier_id=None, to="+14155550777")
    desk.api.otherwise = lambda asked: page(resource(SID)) if ("To", call.to) in asked.query else page()
    await desk.clock.advance(20)
    await sweep_of(desk).settle()
    desk.api.otherwise = placed
    assert [(await desk.now(one)).carrier_id for one in (call, other)] == [SID, None]
