from dataclasses import replace
from datetime import UTC, datetime

import pytest

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import Recording, RecordingStatus
from callmcp.conversation.phrases import ENGLISH, PHRASES
from callmcp.conversation.prompt import RULES, brief_of, disclosure, opening, opening_of, voicemail_of
from tests.contracts.values import a_call

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Agent(
    id="agt_000001", account_id="acct_1", name="Ada", greeting="Hello, Ada here.", created_at=NOW, updated_at=NOW
)


@pytest.mark.parametrize("language", sorted(PHRASES))
@pytest.mark.parametrize("greeting", ["Hello, Ada here.", "I am Ada, an AI. ", "No AI here."])
def test_every_call_opens_with_that_an_ai_speaks_and_for_whom_whatever_greeting_was_written(
    language: str, greeting: str
) -> None:
    agent = replace(ADA, greeting=greeting, on_behalf_of="Example Clinic")
    said = opening(agent, f"{language}-XX")

    assert said == f"{disclosure(agent, language)} {greeting.strip()}"
    assert "Example Clinic." in disclosure(agent, language)
    assert disclosure(replace(agent, on_behalf_of=""), language).endswith("Ada.")


def test_an_agent_that_was_let_off_opens_with_its_greeting() -> None:
    assert opening(replace(ADA, disclosure=False), "en-US") == "Hello, Ada here."


def test_a_recorded_call_says_so_and_a_message_on_a_machine_says_that_an_ai_speaks() -> None:
    call = a_call(voicemail_message="Please call back.", recording=Recording(status=RecordingStatus.REQUESTED))

    assert opening_of(call, ADA).endswith(f"Hello, Ada here. {ENGLISH.recorded}")
    assert voicemail_of(call, ADA) == f"{disclosure(ADA, 'en')} Please call back."
    assert voicemail_of(a_call(), ADA) is None


def test_a_model_is_told_who_it_is_why_it_calls_what_it_said_and_the_rules() -> None:
    call = replace(a_call(), context="Book a table.", language="de-DE")
    told = brief_of(call, replace(ADA, instructions="Be brief.")).instructions

    for part in ("You are Ada", "Be brief.", "Book a table.", opening(ADA, "de-DE"), "de-DE", RULES):
        assert part in told


def test_a_model_without_a_context_is_told_that_there_is_none() -> None:
    assert "Nothing more was said." in brief_of(replace(a_call(), context=""), ADA).instructions


def test_a_model_is_told_what_to_find_out_and_what_the_answers_may_be() -> None:
    day = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
    guests = Question(name="guests", question="How many?", type=AnswerType.NUMBER)
    told = brief_of(replace(a_call(), questions=(day, guests)), ADA).instructions

    assert "- day (one of Friday, Sunday): Which day?" in told
    assert "- guests (number): How many?" in told
