"""The life of a call, as the program is told of it and as the API shows it."""

import pytest

from tests.twilio_emulator.harness import HANGUP, Emulator, Program, spoken, xml

pytestmark = pytest.mark.anyio


async def test_a_conversation_is_told_in_order_and_heard_as_it_was_said(emulator: Emulator, program: Program) -> None:
    program.answers["/action"] = [xml(HANGUP)]
    await emulator.plan(
        callee={"steps": [{"do": "listen"}, {"do": "say", "text": "Fine."}, {"do": "listen"}, {"do": "hang-up"}]}
    )
    sid = await emulator.place("+12025550100", program, Twiml=program.connect())
    call = await emulator.call(sid)
    assert call["status"] == "completed"
    assert program.statuses() == ["initiated", "ringing", "in-progress", "completed"]
    assert [told.form["SequenceNumber"] for told in program.told if told.path == "/status"] == ["0", "1", "2", "3"]
    assert spoken(call) == [
        ("agent", "Hello, this is an automated assistant."),
        ("callee", "Fine."),
        ("agent", "Thank you."),
    ]
    assert all(told.genuine for told in program.told)
