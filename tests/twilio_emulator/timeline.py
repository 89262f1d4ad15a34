"""The life of a call: queued, initiated, ringing, answered, its TwiML, its end. Seconds are emulated."""

import asyncio

from tests.twilio_emulator.callee import act
from tests.twilio_emulator.chaos import Switch, strike
from tests.twilio_emulator.execute import Execution
from tests.twilio_emulator.model import Call, Status
from tests.twilio_emulator.pace import wall
from tests.twilio_emulator.recordings import start, stop
from tests.twilio_emulator.reports import Reports
from tests.twilio_emulator.world import World

# Recorded: initiated 0.28 to 0.4 s after the 201, ringing 0.1 to 0.9 s later, completed 0.4 to 1.3 s after the end.
INITIATED = 0.3
RINGING = 0.15
COMPLETED = 0.4
UNANSWERED = {
    "busy": Status.BUSY,
    "no-answer": Status.NO_ANSWER,
    "failed": Status.FAILED,
    "canceled": Status.CANCELED,
}


async def live(world: World, call: Call) -> None:
    """From acceptance until everyone who asked was told of the end."""
    if strike(call.chaos, Switch.SILENT):
        call.settled = True
        world.journal.note("silent", call.sid)
        await call.over.wait()
        move(world, call, Status.CANCELED)
        return
    reports = world.reports[call.sid] = Reports(world, call)
    late = None
    try:
        if await _is_picked_up(world, call, reports):
            late = await _talk(world, call, reports)
        await world.pace.sleep(COMPLETED)
        reports.status("completed")
        await reports.delivered()
        call.told.set()
        if late is not None:
            await asyncio.wait({late})
            await reports.delivered()
    finally:
        call.initiated.set()
        call.settled = True
        world.journal.note("settled", call.sid, status=call.status.value, by=call.ended_by)


def move(world: World, call: Call, status: Status) -> None:
    call.status, call.updated = status, wall()
    if status.final:
        call.ended, call.ended_at = wall(), world.pace.now()
    world.journal.note("status", call.sid, status=status.value)


async def _is_picked_up(world: World, call: Call, reports: Reports) -> bool:
    """Dials and rings; when it does not come to a talk the call has its final status."""
    pace, callee = world.pace, call.callee
    if not await pace.unless(call.over, call.queue_ms / 1000 + INITIATED):
        move(world, call, Status.CANCELED)
        return False
    reports.status("initiated")
    world.journal.note("dialled", call.sid, to=call.order.to)
    if not await pace.unless(call.over, RINGING):
        move(world, call, Status.CANCELED)
        return False
    if callee.outcome in ("failed", "canceled"):
        whole = await pace.unless(call.over, callee.rings)
        move(world, call, UNANSWERED[callee.outcome] if whole else Status.CANCELED)
        return False
    if not strike(call.chaos, Switch.NO_RINGING):
        move(world, call, Status.RINGING)
        reports.status("ringing")
    never = callee.outcome == "no-answer"
    rings = call.order.ring_seconds if never else min(callee.rings, call.order.ring_seconds)
    if not await pace.unless(call.over, rings):
        move(world, call, Status.CANCELED)
        return False
    if never or callee.rings > call.order.ring_seconds:
        move(world, call, Status.NO_ANSWER)
        return False
    if callee.outcome == "busy":
        move(world, call, Status.BUSY)
        return False
    return True


async def _talk(world: World, call: Call, reports: Reports) -> asyncio.Task[None] | None:
    """All that is spoken. Gives back the detection, should chaos have it report after the end."""
    call.started, call.answered_at = wall(), world.pace.now()
    move(world, call, Status.IN_PROGRESS)
    late = strike(call.chaos, Switch.AMD_AFTER_HANGUP) is not None
    callee = world.spawn(act(call.callee.steps, call, world.pace))
    limit = world.spawn(_limit(world, call))
    detection = world.spawn(_detect(world, call, reports, late=late)) if call.order.amd else None
    execution = Execution(world, call)
    try:
        if call.order.record:
            order = call.order
            how = {"channels": order.recording_channels, "track": order.recording_track}
            start(world, call, "OutboundAPI", order.recording, order.recording_events, **how)
        if detection is not None and not call.order.amd_async:
            await asyncio.wait({detection})  # the callee hears silence meanwhile
        document = await execution.first()
        reports.status("answered")
        await execution.run(document)
        call.hang_up("twiml")
    finally:
        callee.cancel()
        limit.cancel()
        for recording in call.recordings:
            stop(world, call, recording)
    move(world, call, Status.COMPLETED)
    await execution.farewell()
    if detection is not None and not late:
        detection.cancel()
    return detection if late else None


async def _limit(world: World, call: Call) -> None:
    await world.pace.sleep(call.order.max_seconds)
    call.hang_up("time-limit")


async def _detect(world: World, call: Call, reports: Reports, *, late: bool) -> None:
    """Answering machine detection; a machine's end is that of its greeting when that was asked for."""
    callee, pace, line = call.callee, world.pace, call.line
    began = pace.now()
    if not await pace.unless(call.over, callee.amd_after) and not late:
        return
    answered_by = callee.amd
    if callee.amd == "machine":
        answered_by = "machine_start"
        if call.order.amd == "DetectMessageEnd":
            await line.until(lambda: call.over.is_set() or any(turn.by == "callee" for turn in line.turns))
            answered_by = "machine_end_beep" if callee.beep else "machine_end_silence"
    milliseconds = round((pace.now() - began) * 1000)
    if late and call.order.amd_async:
        await call.told.wait()
    call.answered_by = answered_by
    if call.order.amd_async:
        reports.amd(milliseconds)
