from dataclasses import replace
from datetime import UTC, datetime

import pytest

from callmcp.agents.model import Agent
from callmcp.conversation.prompt import DISCLOSURE, RULES, Brief, instructions, opening

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Agent(
    id="agt_000001", account_id="acct_1", name="Ada", greeting="Hello, Ada here.", created_at=NOW, updated_at=NOW
)


@pytest.mark.parametrize("greeting", ["Hello, Ada here.", "Hello from Dubai. ", "Said and done."])
def test_a_greeting_that_does_not_say_it_is_an_ai_is_followed_by_that(greeting: str) -> None:
    assert opening(replace(ADA, greeting=greeting)) == f"{greeting.strip()} {DISCLOSURE}"


@pytest.mark.parametrize("greeting", ["I am Ada, an AI.", "This is the A.I. of Example", "an Artificial Intelligence"])
def test_a_greeting_that_says_it_is_an_ai_is_left_alone(greeting: str) -> None:
    assert opening(replace(ADA, greeting=greeting)) == greeting


def test_a_model_is_told_who_it_is_why_it_calls_what_it_said_and_the_rules() -> None:
    told = instructions(Brief(agent=replace(ADA, instructions="Be brief."), context="Book a table."))

    for part in ("You are Ada", "Be brief.", "Book a table.", opening(ADA), RULES):
        assert part in told


def test_a_model_without_a_context_is_told_that_there_is_none() -> None:
    assert "Nothing more was said." in instructions(Brief(agent=ADA, context=""))
