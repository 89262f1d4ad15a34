"""What may come in from outside, and what is said about what may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.agents.model import Agent, validated
from callmcp.calls.model import EMERGENCY_SHORT_NUMBERS, CallRequest, PhoneNumber
from callmcp.clock import TestClock
from callmcp.errors import InvalidArguments, Refused


@pytest.mark.parametrize("text", ["+15551234567", "+14155550123", "+442071838750", "+123456789012345", "+2901234"])
def test_e164_is_taken(text: str) -> None:
    assert str(PhoneNumber.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("12345", "does not begin with +"),
        ("555-1234", "does not begin with +"),
        ("14155550123", "does not begin with +"),
        ("+1415-555-0123", "other than digits"),
        ("+1 415 555 0123", "other than digits"),
        ("+CALLME", "other than digits"),
        ("+14155550123x", "other than digits"),
        ("+\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668", "other than digits"),
        ("+", "other than digits"),
        ("+0123456789", "never begins with 0"),
        ("+1234567890123456", "16 digits and E.164 allows 15"),
        ("+12345", "only 5 digits"),
        ("+14155550123\n", "white space or a line break"),
        (" +14155550123", "white space or a line break"),
    ],
)
def test_what_is_not_e164_is_told_why_and_what_would_be(text: str, why: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        PhoneNumber.parse(text)

    (problem,) = refused.value.problems
    assert problem.field == "to"
    assert why in problem.message
    assert "+14155550123" in problem.message


@given(st.text(max_size=20))
def test_a_number_is_e164_or_a_clear_refusal(text: str) -> None:
    try:
        number = PhoneNumber.parse(text)
    except (InvalidArguments, Refused) as refused:
        assert refused.message
    else:
        assert number.e164 == text
        assert text.isascii()
        assert 8 <= len(text) <= 16


@pytest.mark.parametrize("text", [*sorted(EMERGENCY_SHORT_NUMBERS)[::7], "911", "+112"])
def test_short_emergency_numbers_are_refused_as_such(text: str) -> None:
    with pytest.raises(Refused) as refused:
        PhoneNumber.parse(text)

    assert refused.value.code == "emergency_number"


TO = PhoneNumber("+14155550100")


def test_a_request_at_its_limits_is_taken() -> None:
    CallRequest(
        agent_id="agt_000001",
        to=TO,
        context="x" * 8000,
        idempotency_key="k" * 255,
        metadata={f"{n:064}": "v" * 256 for n in range(16)},
    )


def test_each_thing_wrong_with_a_request_is_named() -> None:
    with pytest.raises(InvalidArguments) as refused:
        CallRequest(
            agent_id="agt_000001",
            to=TO,
            context="x" * 8001,
            idempotency_key="k" * 256,
            metadata={**{f"{n}": "" for n in range(16)}, "": "v" * 257},
        )

    assert [problem.field for problem in refused.value.problems] == [
        "context",
        "idempotency_key",
        "metadata",
        "metadata.",
    ]


def test_an_empty_idempotency_key_is_no_key() -> None:
    with pytest.raises(InvalidArguments) as refused:
        CallRequest(agent_id="agt_000001", to=TO, idempotency_key="")

    assert refused.value.problems[0].field == "idempotency_key"


@given(st.from_regex(r"\+\d{6,16}\n?", fullmatch=True))
def test_an_agent_rings_only_from_what_is_e164(text: str) -> None:
    now = TestClock().now()
    agent = Agent(
        id="agt_9f2a1c",
        account_id="acct_1",
        name="Ada",
        greeting="Hello",
        from_number=text,
        created_at=now,
        updated_at=now,
    )
    try:
        PhoneNumber.parse(text)
    except (InvalidArguments, Refused):
        with pytest.raises(InvalidArguments):
            validated(agent)
    else:
        assert validated(agent) is agent
