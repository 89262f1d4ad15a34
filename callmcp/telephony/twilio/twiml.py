"""What Twilio is told to do with an answered call: TwiML, through the library's own builder, which escapes everything.

The talk goes over ConversationRelay (twilio.com/docs/voice/conversationrelay): Twilio does the speech, we do the words.
"""

import math
from collections.abc import Sequence

from callmcp.agents.model import Agent
from callmcp.calls.model import Call
from callmcp.telephony.twilio.addresses import RETRIES, Addresses, Report

MAX_INLINE = 4000  # characters; Twilio refuses more with 32018


def converse(call: Call, agent: Agent, addresses: Addresses, *, resumed: bool = False, pause: float = 0) -> str:
    """Connects the call to our relay, after `pause` seconds, and has it recorded if it is to be. `resumed`: it was
    connected before, and what is recorded goes on.

    The greeting is ours to say, as the first text: so it is in the transcript. Hints that do not fit are left out.
    """
    hints = agent.hints
    while True:
        document = _converse(call, agent, hints, addresses, resumed=resumed, pause=pause)
        if len(document) <= MAX_INLINE or not hints:
            return document
        hints = hints[:-1]


def _converse(
    call: Call, agent: Agent, hints: Sequence[str], addresses: Addresses, *, resumed: bool, pause: float
) -> str:
    from twilio.twiml.voice_response import (  # noqa: PLC0415 - 0.2 s that a start need not wait
        Connect,
        Start,
        VoiceResponse,
    )

    response = VoiceResponse()
    if pause:
        response.pause(length=math.ceil(pause))
    if call.recording is not None and not resumed:
        # Record=true of the request is said to be ignored with ConversationRelay (TWILIO.md section 5).
        start = Start()
        start.recording(
            recording_status_callback=addresses.of(call, Report.RECORDING) + RETRIES,
            recording_status_callback_method="POST",
            recording_status_callback_event="in-progress completed absent",
            channels="dual",
        )
        response.append(start)
    connect = Connect(action=addresses.of(call, Report.ACTION) + RETRIES, method="POST")
    connect.conversation_relay(
        url=addresses.of(call, Report.RELAY),
        language=call.language,
        voice=agent.voice,
        tts_provider=agent.tts_provider,
        transcription_provider=agent.transcription_provider,
        speech_model=agent.speech_model,
        hints=",".join(hints) or None,
        dtmf_detection=True,
        interruptible="any",
        report_input_during_agent_speech="none",
        events="speaker-events tokens-played",
    )
    response.append(connect)
    return str(response)


def hang_up() -> str:
    from twilio.twiml.voice_response import VoiceResponse  # noqa: PLC0415

    response = VoiceResponse()
    response.hangup()
    return str(response)
