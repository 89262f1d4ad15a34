"""The vectors of Twilio's own library and documentation."""

import pytest

from tests.twilio_emulator.signature import body_sha256, signature

TOKEN = "12345"
DOCUMENTED = [
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
HOST = "phone.example.net"
MYCOMPANY = "https://mycompany.com/myapp.php?foo=1&bar=2"
SHA = "d5729c000e5de6b3a10698fec78d482db85d744f1be820d1382b6bda1cfb7795"
VECTORS = [
    (MYCOMPANY, DOCUMENTED, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
    (f"https://{HOST}/twilio/status", STATUS, "Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y="),
    (f"https://{HOST}/twilio/status#rc=3&rp=5xx", STATUS, "Q2r7QX8l1B+9LQAmJbzw3JJ8y8Y="),
    (f"https://{HOST}/twilio/status/", STATUS, "3U9wMxAkbL8QyQGwayoKsaVfXnA="),
    (f"https://{HOST}:443/twilio/status", STATUS, "0GQ8jrp9wPOFjQyTROBhObOKJNw="),
    (f"https://{HOST}:8443/twilio/status", STATUS, "KIzZTd3qD+3Ivyc5eNZZxRnCSmo="),
    (f"https://{HOST}/twilio/status?call=abc&attempt=2", STATUS, "wkNo+h+He55FA0LAX8bNF8oNkNk="),
    ("http://127.0.0.1:8080/twilio/status", STATUS, "34ZFk/qQ/9nUDamairhkQVKPlMU="),
    (f"wss://{HOST}/twilio/relay/abc", [], "XkK8/orUqOjakFYcVrF3tEY2Sak="),
    (f"wss://{HOST}/twilio/relay/abc/", [], "9fnf91i1RkJp1439yP0haNLDRG4="),
    (f"wss://{HOST}/twilio/relay/abc?token=t0k", [], "6zjyYadyl9nW0pOrctUcj7ZO6nU="),
    (f"wss://{HOST}/twilio/relay/abc", [("token", "t0k")], "uDfyrBoUO2I5y9STVcv7mjCz9is="),
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
    (f"{MYCOMPANY}&bodySHA256={SHA}", [], "cw/F1H7TQOSHvvwJMI1fx6+2WjA="),
]


@pytest.mark.parametrize(("url", "params", "expected"), VECTORS)
def test_a_request_is_signed_as_twilio_signs_it(url: str, params: list[tuple[str, str]], expected: str) -> None:
    assert signature(TOKEN, url, params) == expected


def test_another_algorithm_gives_the_signature_of_a_shared_key() -> None:
    assert signature(TOKEN, MYCOMPANY, DOCUMENTED, algorithm="sha256") == "033hgUJA9M/hXIZsYjwkerEP/DBm35nEri5FhCYjA5s="


def test_a_body_that_is_no_form_is_hashed() -> None:
    assert body_sha256(b'{"property":"value","boolean":true}') == SHA
