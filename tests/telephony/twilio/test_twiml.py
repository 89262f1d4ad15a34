import xml.etree.ElementTree as ET

from callmcp.telephony.twilio.addresses import RETRIES, Addresses, Report, is_of
from callmcp.telephony.twilio.twiml import MAX_INLINE, converse, hang_up
from tests.contracts.values import a_call, an_agent

CALL = a_call(token="tok-en_1")


def test_an_answered_call_is_connected_to_our_relay_and_back_to_our_action() -> None:
    twiml = converse(CALL, an_agent(), Addresses("https://calls.example.org/base"))
    connect = ET.fromstring(twiml).find("Connect")  # noqa: S314 - our own
    assert connect is not None
    relay = connect.find("ConversationRelay")
    assert relay is not None
    assert connect.get("action") == f"https://calls.example.org/base/twilio/action/{CALL.id}/tok-en_1{RETRIES}"
    assert relay.get("url") == f"wss://calls.example.org/base/twilio/relay/{CALL.id}/tok-en_1"
    assert "?" not in str(relay.get("url"))
    assert relay.get("welcomeGreeting") is None  # the greeting is ours, so that it is in the transcript
    assert "tokens-played" in str(relay.get("events"))
    assert len(twiml) < MAX_INLINE


def test_hanging_up_is_a_whole_document() -> None:
    assert [verb.tag for verb in ET.fromstring(hang_up())] == ["Hangup"]  # noqa: S314


def test_a_relay_without_tls_is_for_loopback() -> None:
    assert Addresses("http://127.0.0.1:8765").of(CALL, Report.RELAY).startswith("ws://127.0.0.1:8765/twilio/relay/")


def test_a_token_is_of_one_call_alone() -> None:
    assert is_of(CALL, "tok-en_1")
    assert not is_of(CALL, "tok-en_2")
    assert not is_of(CALL, "")
    assert not is_of(CALL, "é")


def test_a_call_whose_talk_is_handed_over_waits_for_the_next_process() -> None:
    twiml = converse(CALL, an_agent(), Addresses("https://calls.example.org"), resumed=True, pause=2.5)

    pause, connect = ET.fromstring(twiml)  # noqa: S314
    assert (pause.tag, pause.get("length"), connect.tag) == ("Pause", "3", "Connect")
