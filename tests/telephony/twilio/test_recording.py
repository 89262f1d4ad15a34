"""Recording: what Twilio is told, what it reports, and the sound itself."""

import xml.etree.ElementTree as ET

import pytest

from callmcp.calls.model import Recording, RecordingStatus
from callmcp.telephony.twilio.addresses import RETRIES, Addresses, Report
from callmcp.telephony.twilio.twiml import MAX_INLINE, converse
from tests.contracts.values import a_call, an_agent
from tests.telephony.twilio.api import ACCOUNT
from tests.telephony.twilio.desk import SID, Desk

ADDRESSES = Addresses("https://calls.example.org")
REQUESTED = Recording(status=RecordingStatus.REQUESTED)
RECORDED = a_call(recording=REQUESTED)


def test_a_call_that_is_to_be_recorded_is_from_before_the_talk_and_once() -> None:
    start, connect = ET.fromstring(converse(RECORDED, an_agent(), ADDRESSES))  # noqa: S314 - our own
    recording = start.find("Recording")
    assert (start.tag, connect.tag) == ("Start", "Connect")
    assert recording is not None
    assert recording.get("recordingStatusCallback") == f"{ADDRESSES.of(RECORDED, Report.RECORDING)}{RETRIES}"
    assert recording.get("recordingStatusCallbackEvent") == "in-progress completed absent"

    again = converse(RECORDED, an_agent(), ADDRESSES, resumed=True)
    assert "Recording" not in again
    assert "Recording" not in converse(a_call(), an_agent(), ADDRESSES)


def test_the_agents_speech_is_what_twilio_is_told_and_what_it_leaves_open_twilio_chooses() -> None:
    agent = an_agent(
        voice="en-US-Journey-O", tts_provider="Google", transcription_provider="Deepgram", hints=("Ada", "C&A")
    )
    relay = ET.fromstring(converse(a_call(language="de-DE"), agent, ADDRESSES)).find("Connect/ConversationRelay")  # noqa: S314
    assert relay is not None
    assert (relay.get("language"), relay.get("voice"), relay.get("ttsProvider")) == (
        "de-DE",
        "en-US-Journey-O",
        "Google",
    )
    assert (relay.get("transcriptionProvider"), relay.get("hints")) == ("Deepgram", "Ada,C&A")
    assert relay.get("speechModel") is None


def test_hints_that_do_not_fit_are_left_out_and_the_call_is_placed() -> None:
    hints = tuple(f"name-{number}-{'x' * 80}" for number in range(100))
    twiml = converse(RECORDED, an_agent(hints=hints), ADDRESSES)
    relay = ET.fromstring(twiml).find("Connect/ConversationRelay")  # noqa: S314
    assert len(twiml) <= MAX_INLINE
    assert relay is not None
    assert str(relay.get("hints")).split(",") == list(hints)[: str(relay.get("hints")).count(",") + 1]


def report(status: str, **more: str) -> dict[str, str]:
    some = {"AccountSid": ACCOUNT, "CallSid": SID, "RecordingSid": "RE1", "RecordingStatus": status}
    return some | {"RecordingUrl": "https://api.twilio.com/…/RE1", "RecordingDuration": "12"} | more


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("form", "recording"),
    [
        (report("in-progress"), Recording(status=RecordingStatus.IN_PROGRESS, carrier_id="RE1", duration_seconds=12)),
        (report("completed"), Recording(status=RecordingStatus.COMPLETED, carrier_id="RE1", duration_seconds=12)),
        (report("absent", RecordingDuration=""), Recording(status=RecordingStatus.ABSENT, carrier_id="RE1")),
        (report("failed", RecordingDuration="-1"), Recording(status=RecordingStatus.FAILED, carrier_id="RE1")),
        (report("completed", RecordingSid=""), REQUESTED),
        (report("paused"), REQUESTED),
    ],
)
async def test_what_twilio_reports_of_a_recording_is_in_the_record(
    desk: Desk, form: dict[str, str], recording: Recording
) -> None:
    call = await desk.call(recording=REQUESTED)
    assert (await desk.post(Report.RECORDING, call, form)).status_code == 204
    assert (await desk.now(call)).recording == recording


async def test_a_recording_that_nobody_asked_for_is_not_kept(desk: Desk) -> None:
    call = await desk.call()
    await desk.post(Report.RECORDING, call, report("completed"))
    assert (await desk.now(call)).recording is None
