"""What Twilio is told to do with an answered call: TwiML, through the library's own builder, which escapes everything.

The talk goes over ConversationRelay (twilio.com/docs/voice/conversationrelay): Twilio does the speech, we do the words.
"""

import math

from callmcp.agents.model import Agent
from callmcp.calls.model import Call
from callmcp.telephony.twilio.addresses import RETRIES, Addresses, Report

MAX_INLINE = 4000  # characters; Twilio refuses more with 32018


def converse(call: Call, agent: Agent, addresses: Addresses, *, resumed: bool = False, pause: float = 0) -> str:
    """Connects the call to our relay, after `pause` seconds. `resumed`: it was connected before.

    The greeting is ours to say, as the first text: so it is in the transcript."""
    from twilio.twiml.voice_response import Connect, VoiceResponse  # noqa: PLC0415 - 0.2 s that a start need not wait

    response = VoiceResponse()
    if pause:
        response.pause(length=math.ceil(pause))
    connect = Connect(action=addresses.of(call, Report.ACTION) + RETRIES, method="POST")
    connect.conversation_relay(
        url=addresses.of(call, Report.RELAY),
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
