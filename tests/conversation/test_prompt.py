from dataclasses import replace
from datetime import UTC, datetime

import pytest

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.conversation.phrases import ENGLISH, PHRASES
from callmcp.conversation.prompt import RULES, brief_of, disclosed, opening
from tests.contracts.values import a_call

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Agent(
    id="agt_000001", account_id="acct_1", name="Ada", greeting="Hello, Ada here.", created_at=NOW, updated_at=NOW
)


@pytest.mark.parametrize("greeting", ["Hello, Ada here.", "Hello from Dubai. ", "Said and done."])
def test_a_greeting_that_does_not_say_it_is_an_ai_is_followed_by_that(greeting: str) -> None:
    assert opening(replace(ADA, greeting=greeting), "en-US") == f"{greeting.strip()} {ENGLISH.disclosure}"


@pytest.mark.parametrize(
    "greeting",
    [
        "I am Ada, an AI.",
        "This is the A.I. of Example",
        "an Artificial Intelligence",
        "Hier ist die KI von Beispiel.",
        "Je suis une IA.",
        "Soy una inteligencia artificial.",
    ],
)
def test_a_greeting_that_says_it_is_an_ai_is_left_alone(greeting: str) -> None:
    assert opening(replace(ADA, greeting=greeting), "en-US") == greeting


@pytest.mark.parametrize("language", sorted(PHRASES))
def test_an_ai_says_so_in_the_language_of_the_call_and_says_it_once(language: str) -> None:
    said = disclosed("Ada.", f"{language}-XX")

    assert said == f"Ada. {PHRASES[language].disclosure}"
    assert disclosed(said, language) == said


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
