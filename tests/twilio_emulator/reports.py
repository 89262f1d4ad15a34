"""What Twilio tells about a call: the fields of twilio.com/docs/voice/api/call-resource#statuscallback, and when."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial

from tests.twilio_emulator.chaos import Chaos, Switch, strike
from tests.twilio_emulator.model import VERSION, Call, Recording, Status, Webhook
from tests.twilio_emulator.pace import rfc2822, wall
from tests.twilio_emulator.webhooks import Answer, ask, in_turn
from tests.twilio_emulator.world import World

# What the SIP side says of each end, unless the callee's plan says otherwise.
SIP = {
    Status.COMPLETED: 200,
    Status.BUSY: 486,
    Status.NO_ANSWER: 487,
    Status.CANCELED: 487,
    Status.FAILED: 404,
}
EVENTS = {"initiated": "initiated", "ringing": "ringing", "answered": "in-progress"}


def fields(call: Call, status: str) -> list[tuple[str, str]]:
    """What every request about a call carries, the empty ones too."""
    order = call.order
    form = [
        ("AccountSid", call.account_sid),
        ("ApiVersion", VERSION),
        ("CallSid", call.sid),
        ("CallStatus", status),
        ("Direction", "outbound-api"),
    ]
    for role, number in (("From", order.from_), ("To", order.to), ("Caller", order.from_), ("Called", order.to)):
        country = "US" if number.startswith("+1") else ""
        form += [(role, number), (f"{role}City", ""), (f"{role}State", ""), (f"{role}Zip", "")]
        form.append((f"{role}Country", country))
    return form


class Reports:
    """The callbacks of one call, each on its way as a task of its own."""

    def __init__(self, world: World, call: Call) -> None:
        self._world, self._call = world, call
        self._last: asyncio.Task[None] | None = None
        self._held: asyncio.Event | None = None
        self._sent: list[asyncio.Task[None]] = []

    def status(self, event: str) -> None:
        """If it was asked for. `event` is initiated, ringing, answered or completed."""
        call, order = self._call, self._call.order
        if order.status is None or event not in order.events or self._world.settings.test_credentials:
            return
        form = fields(call, EVENTS.get(event, call.status.value))
        form += [
            ("Timestamp", rfc2822(wall()) or ""),
            ("CallbackSource", "call-progress-events"),
            ("SequenceNumber", str(call.sequence)),
        ]
        call.sequence += 1
        if event in ("ringing", "answered"):
            form.append(("StirStatus", "C"))
        if event == "completed":
            form += self._ending()
        self._post(order.status, form, event)

    def _ending(self) -> list[tuple[str, str]]:
        call = self._call
        seconds = call.seconds() or 0
        form = [
            ("SipResponseCode", str(call.callee.sip or SIP[call.status]) if call.answered_at is None else "200"),
            ("CallDuration", str(seconds)),
            ("Duration", str(math.ceil(seconds / 60))),
        ]
        if call.answered_by:
            form.append(("AnsweredBy", call.answered_by))
        if call.order.record and call.recordings:
            recording = call.recordings[0]
            form += [
                ("RecordingSid", recording.sid),
                ("RecordingUrl", f"https://api.twilio.com{recording.path}"),
                ("RecordingDuration", str(recording.seconds or 0)),
            ]
        return form

    def amd(self, milliseconds: int) -> None:
        order, call = self._call.order, self._call
        if order.amd_callback is None:
            self._world.journal.alert(21262, "AMD without AsyncAmdStatusCallback", call.sid)
            return
        form = [
            ("AccountSid", call.account_sid),
            ("CallSid", call.sid),
            ("AnsweredBy", call.answered_by or "unknown"),
            ("MachineDetectionDuration", str(milliseconds)),
        ]
        self._post(order.amd_callback, form, "amd")

    def recording(self, recording: Recording, status: str) -> None:
        if recording.callback is None or status not in recording.events:
            return
        form = [
            ("AccountSid", recording.account_sid),
            ("CallSid", recording.call_sid),
            ("RecordingSid", recording.sid),
            ("RecordingUrl", f"https://api.twilio.com{recording.path}"),
            ("RecordingStatus", status),
            ("RecordingChannels", str(recording.channels)),
            ("RecordingStartTime", rfc2822(recording.started) or ""),
            ("RecordingSource", recording.source),
            ("RecordingTrack", recording.track),
            ("ErrorCode", "0"),
        ]
        if recording.seconds is not None:
            form.append(("RecordingDuration", str(recording.seconds)))
        self._post(recording.callback, form, "recording")

    def _post(self, webhook: Webhook, form: list[tuple[str, str]], event: str) -> None:
        released, self._held = self._held, None
        late = strike(self._call.chaos, Switch.DELAY, event=event)
        if strike(self._call.chaos, Switch.REORDER, event=event):
            self._held = asyncio.Event()
        turn = self._turn(late, self._held, self._last)
        sending = partial(ask, self._world, self._call, webhook, form, event=event)
        task = self._world.spawn(self._deliver(turn, sending, released))
        if late is None and self._held is None:
            self._last = task  # what comes next waits for none that chaos holds back
        self._sent.append(task)

    async def _turn(self, late: Chaos | None, hold: asyncio.Event | None, before: asyncio.Task[None] | None) -> None:
        """Until it is this one's turn to leave."""
        if late is not None:
            await self._world.pace.sleep(late.seconds)
        elif hold is not None:
            await hold.wait()  # the end of the call releases the last
        else:
            await in_turn(before)

    async def _deliver(
        self, turn: Awaitable[None], sending: Callable[[], Awaitable[Answer | None]], release: asyncio.Event | None
    ) -> None:
        try:
            await turn
            await sending()
        finally:
            self._call.initiated.set()
            if release is not None:
                release.set()

    async def delivered(self) -> None:
        """Until all are on the other side, or given up."""
        if self._held is not None:
            self._held.set()
        while pending := [task for task in self._sent if not task.done()]:
            await asyncio.wait(pending)
