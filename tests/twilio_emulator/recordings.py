"""Recordings of calls. Nothing is recorded: the media is silence of the right length."""

import io
import wave

from tests.twilio_emulator.model import Call, Recording, Webhook
from tests.twilio_emulator.world import World

RATE = 8000
MP3_FRAME = bytes.fromhex("fff318c4") + bytes(140)  # MPEG-2 layer III, 24 kHz mono, 48 kbit/s: 24 ms of silence
MP3_FRAME_SECONDS = 0.024


def start(
    world: World,
    call: Call,
    source: str,
    callback: Webhook | None,
    events: frozenset[str],
    *,
    channels: str,
    track: str,
) -> Recording:
    recording = Recording(
        call_sid=call.sid,
        account_sid=call.account_sid,
        source=source,
        channels=2 if channels == "dual" else 1,
        track=track,
        callback=callback,
        events=events,
        began=world.pace.now(),
    )
    call.recordings.append(recording)
    world.recordings[recording.sid] = recording
    world.journal.note("recording", call.sid, recording=recording.sid, source=source)
    world.reports[call.sid].recording(recording, "in-progress")
    return recording


def stop(world: World, call: Call, recording: Recording) -> None:
    """Does nothing to one that is stopped."""
    if recording.status in ("in-progress", "paused"):
        recording.status = "completed"
        recording.seconds = max(1, round(world.pace.now() - recording.began))
        world.reports[call.sid].recording(recording, "completed")


def wav(recording: Recording) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(recording.channels)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(bytes(2 * recording.channels * RATE * (recording.seconds or 0)))
    return file.getvalue()


def mp3(recording: Recording) -> bytes:
    return MP3_FRAME * round((recording.seconds or 0) / MP3_FRAME_SECONDS)
