"""Twilio's own published example and vectors computed with its library (TWILIO.md section 4). The token is 12345."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.telephony.twilio.signature import Parameters, is_signed, sign

TOKEN = "12345"
EXAMPLE = [
    ("CallSid", "CA1234567890ABCDE"),
    ("Caller", "+14158675309"),
    ("Digits", "1234"),
    ("From", "+14158675309"),
    ("To", "+18005551212"),
]
STATUS = [
    ("CallSid", "CA00000000000000000000000000000001"),
    ("AccountSid", "AC00000000000000000000000000000000"),
    ("CallStatus", "completed"),
    ("CallDuration", "10"),
    ("Duration", "1"),
    ("SequenceNumber", "3"),
    ("CallbackSource", "call-progress-events"),
    ("Timestamp", "Sun, 30 Aug 2026 08:34:26 +0000"),
    ("Direction", "outbound-api"),
    ("From", "+15005550006"),
    ("To", "+15551230001"),
    ("ApiVersion", "2010-04-01"),
    ("SipResponseCode", "200"),
]
VECTORS: list[tuple[str, Parameters, str]] = [
    ("https://mycompany.com/myapp.php?foo=1&bar=2", EXAMPLE, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
    ("https://phone.example.net/twilio/status", STATUS, "Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y="),
    ("https://phone.example.net/twilio/status/", STATUS, "3U9wMxAkbL8QyQGwayoKsaVfXnA="),
    ("https://phone.example.net:443/twilio/status", STATUS, "0GQ8jrp9wPOFjQyTROBhObOKJNw="),
    ("https://phone.example.net:8443/twilio/status", STATUS, "KIzZTd3qD+3Ivyc5eNZZxRnCSmo="),
    ("https://phone.example.net/twilio/status?call=abc&attempt=2", STATUS, "wkNo+h+He55FA0LAX8bNF8oNkNk="),
    ("http://127.0.0.1:8080/twilio/status", STATUS, "34ZFk/qQ/9nUDamairhkQVKPlMU="),
    ("wss://phone.example.net/twilio/relay/abc", [], "XkK8/orUqOjakFYcVrF3tEY2Sak="),
    ("wss://phone.example.net/twilio/relay/abc/", [], "9fnf91i1RkJp1439yP0haNLDRG4="),
    ("wss://phone.example.net:443/twilio/relay/abc", [], "dc0wH0zOEH04rTg620G74oH+lqk="),
    (
        "https://mycompany.com/cb",
        [
            ("StatusCallbackEvent", "ringing"),
            ("StatusCallbackEvent", "answered"),
            ("StatusCallbackEvent", "ringing"),
            ("A", "x"),
        ],
        "M1YhhrOtNoZw9++EAR5d85JEhtk=",
    ),
    ("https://mycompany.com/cb", [("ToState", ""), ("A", "1")], "CtKOWxAnO0tzF8cc+o0d8X19JWo="),
    ("https://mycompany.com/cb", [("HandoffData", '{"reason":"café ☕"}')], "skbv0ZtuDHyQL9p0mrlVxTeGd2E="),
]


@pytest.mark.parametrize(("url", "parameters", "expected"), VECTORS)
def test_what_twilio_signs_we_sign_alike(url: str, parameters: Parameters, expected: str) -> None:
    assert sign(TOKEN, url, parameters) == expected
    assert is_signed(expected, tokens=[TOKEN], url=url, parameters=parameters)


def test_a_port_may_be_signed_or_not() -> None:
    without, explicit = "https://phone.example.net/twilio/status", "https://phone.example.net:443/twilio/status"
    assert is_signed("0GQ8jrp9wPOFjQyTROBhObOKJNw=", tokens=[TOKEN], url=without, parameters=STATUS)
    assert is_signed("Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y=", tokens=[TOKEN], url=explicit, parameters=STATUS)
    odd = "https://phone.example.net:8443/twilio/status"
    assert is_signed("Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y=", tokens=[TOKEN], url=odd, parameters=STATUS)
    ipv6 = "https://[::1]:8443/twilio/status"
    assert is_signed(sign(TOKEN, "https://[::1]/twilio/status"), tokens=[TOKEN], url=ipv6)


def test_the_scheme_is_part_of_what_is_signed() -> None:
    url = "wss://phone.example.net/twilio/relay/abc"
    assert not is_signed("mi2e9YmEbz+tkBsBl1rDtXZi068=", tokens=[TOKEN], url=url)  # signed as https


def test_two_tokens_are_good_while_one_is_rotated() -> None:
    url, parameters, expected = VECTORS[0]
    assert is_signed(expected, tokens=["another", TOKEN], url=url, parameters=parameters)
    assert not is_signed(expected, tokens=["another"], url=url, parameters=parameters)
    assert not is_signed(expected, tokens=[], url=url, parameters=parameters)


@pytest.mark.parametrize("signature", [None, "", "RSOYDt4T1cUTdK1PDd93/VVr8B8", "=", "é", "RSOY" * 1000])
def test_no_signature_and_a_wrong_one_are_refused(signature: str | None) -> None:
    url, parameters, _ = VECTORS[0]
    assert not is_signed(signature, tokens=[TOKEN], url=url, parameters=parameters)


PARAMETERS = st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=6)


@given(st.permutations(STATUS))
def test_the_order_of_the_fields_does_not_matter(parameters: list[tuple[str, str]]) -> None:
    url = "https://phone.example.net/twilio/status"
    assert is_signed("Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y=", tokens=[TOKEN], url=url, parameters=parameters)


@given(PARAMETERS, st.text(max_size=6), st.text(max_size=6))
def test_a_field_that_is_added_is_noticed(parameters: list[tuple[str, str]], name: str, value: str) -> None:
    url = "https://phone.example.net/x"
    signed = sign(TOKEN, url, parameters)
    more = [*parameters, (name, value)]
    same = "".join(map("".join, sorted(set(more)))) == "".join(map("".join, sorted(set(parameters))))
    assert is_signed(signed, tokens=[TOKEN], url=url, parameters=more) is same
