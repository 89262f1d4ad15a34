"""What the scripted model says and does, and what it makes of a talk."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import EndReason, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim, EndTheCall, NoteOptOut, Piece, PressKeys
from callmcp.conversation.prompt import Brief, opening
from callmcp.llm.scripted import NOT_KNOWN, ScriptedModel, spoken_context

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADA = Agent(
    id="agt_000001", account_id="acct_1", name="Ada", greeting="Hello, Ada here.", created_at=NOW, updated_at=NOW
)
CONTEXT = "Book a table for two on Friday at 7 pm under the name Lovelace. One guest is vegetarian."
TOLD = f"I am calling about this: {CONTEXT} Can you help me with that?"
UNKNOWN = f"{NOT_KNOWN} I will pass your question on."


def turns(*texts: str) -> Sequence[Turn]:
    """The opening, and then what callee and agent said in turn."""
    return [
        Turn(index=n, at=NOW, speaker=Speaker.CALLEE if n % 2 else Speaker.AGENT, text=text)
        for n, text in enumerate((opening(ADA, "en-US"), *texts))
    ]


async def answer(
    *texts: str, context: str = CONTEXT, questions: Sequence[Question] = ()
) -> tuple[str, Sequence[Piece]]:
    """The words, and the tools used."""
    brief = Brief(name="Ada", context=context, instructions="", questions=questions)
    pieces = [piece async for piece in ScriptedModel().answer(brief, turns(*texts))]
    return (
        "".join(piece for piece in pieces if isinstance(piece, str)),
        [piece for piece in pieces if not isinstance(piece, str)],
    )


DAY = Question(name="day", question="Which day suits you?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
GUESTS = Question(name="guests", question="How many are you?", type=AnswerType.NUMBER)
VEGAN = Question(name="vegan", question="Is anybody vegan?", type=AnswerType.BOOLEAN)
NAME = Question(name="name", question="What is your name?")
ALL = (DAY, GUESTS, VEGAN, NAME)


async def test_it_puts_its_questions_one_by_one_and_then_asks_for_more() -> None:
    talk = ["Hello?", TOLD, "Yes, that is fine."]
    for question in ALL:
        asked, _ = await answer(*talk, questions=ALL)
        assert asked == f"Thank you. {question.question}"
        talk += [asked, "Well, let me see. Friday."]

    assert "anything else" in (await answer(*talk, questions=ALL))[0]


@pytest.mark.parametrize(
    ("question", "said", "value"),
    [
        (DAY, "On Sunday, please.", "Sunday"),
        (DAY, "Next week.", "Next week."),
        (GUESTS, "We are 1,200.5 in all.", "1200.5"),
        (GUESTS, "Many.", "Many."),
        (VEGAN, "Yes, I am.", True),
        (VEGAN, "No, nobody.", False),
        (VEGAN, "Who knows.", "Who knows."),
        (NAME, "Lovelace.", "Lovelace."),
    ],
)
async def test_it_takes_an_answer_from_what_was_said_next(question: Question, said: str, value: object) -> None:
    talk = turns("Hello?", TOLD, "Yes.", f"Thank you. {question.question}", said)
    brief = Brief(name="Ada", context=CONTEXT, instructions="", questions=(question,))

    judgement = await ScriptedModel().judge(brief, talk, EndReason.AGENT_HUNG_UP)

    assert judgement.claims == [Claim(question.name, value, evidence=5)]


async def test_a_question_that_was_not_put_or_not_answered_has_no_answer() -> None:
    brief = Brief(name="Ada", context=CONTEXT, instructions="", questions=(DAY, NAME))
    talk = turns("Hello?", TOLD, "Yes.", f"Thank you. {DAY.question}")

    assert (await ScriptedModel().judge(brief, talk, EndReason.CALLEE_HUNG_UP)).claims == []


@pytest.mark.parametrize("heard", ["Hello?", "Yes?", "Good morning, Reception.", "What is this about?"])
async def test_it_tells_what_the_call_is_about(heard: str) -> None:
    assert await answer(heard) == (TOLD, [])


async def test_it_tells_again_when_it_is_asked_again() -> None:
    assert (await answer("Hello?", TOLD, "Sorry, what is this about?"))[0] == TOLD


async def test_it_says_its_name_when_it_is_asked_who_calls() -> None:
    assert (await answer("Who's calling?"))[0] == f"This is Ada. {TOLD}"


async def test_it_owns_up_to_being_an_ai() -> None:
    assert "I am an AI" in (await answer("Am I speaking to a robot?"))[0]


async def test_without_a_context_it_makes_nothing_up() -> None:
    words, tools = await answer("Hello?", context=" ")

    assert words.startswith("I am calling because I was asked to")
    assert tools == []


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Under which name?", "Book a table for two on Friday at 7 pm under the name Lovelace."),
        ("Are there any vegetarians?", "One guest is vegetarian."),
        ("Which day was that, Friday?", "Book a table for two on Friday at 7 pm under the name Lovelace."),
    ],
)
async def test_it_answers_from_the_context(question: str, found: str) -> None:
    assert await answer("Hello?", TOLD, question) == (f"What I have been told is this: {found}", [])


async def test_it_says_so_when_the_context_does_not_tell() -> None:
    words, tools = await answer("Hello?", TOLD, "What is your telephone number?")

    assert words.startswith(NOT_KNOWN)
    assert tools == []


async def test_it_thanks_and_asks_for_more_and_then_says_goodbye() -> None:
    thanks, _ = await answer("Hello?", TOLD, "Yes, that is fine.")
    assert thanks.startswith("Thank you, that is good to hear.")
    noted, _ = await answer("Hello?", TOLD, "We are closed on Fridays.")
    assert noted.startswith("Thank you for telling me.")
    words, tools = await answer("Hello?", TOLD, "Yes, that is fine.", thanks, "Good.")
    assert (words, tools) == ("Thank you for your time. Goodbye!", [EndTheCall()])


async def test_it_says_goodbye_to_who_says_goodbye() -> None:
    assert (await answer("Hello?", TOLD, "That is all, bye."))[1] == [EndTheCall()]


async def test_it_lets_go_of_who_does_not_want_to_talk() -> None:
    words, tools = await answer("Not interested.")
    assert (words, tools) == ("I understand. Sorry for the trouble, and goodbye.", [EndTheCall()])
    assert (await answer("Leave me alone!"))[1] == [NoteOptOut(), EndTheCall()]


@pytest.mark.parametrize(
    ("menu", "key"),
    [
        ("For opening hours, press 1. To book a table, press 2. To speak to somebody, press 3.", "2"),
        ("For opening hours, press 1. To speak to an operator, press 0.", "0"),
        ("Press 4 for invoices, press 5 for tables.", "5"),
        ("For sales press 1, for support press 2.", "1"),
        ("To leave the queue, press star.", "*"),
        ("To book a table, press the pound key. For all else, press 9.", "#"),
    ],
)
async def test_it_presses_the_key_that_leads_to_its_goal_or_to_a_person(menu: str, key: str) -> None:
    assert await answer(menu) == ("", [PressKeys(key)])


@pytest.mark.parametrize(
    ("talk", "ended", "met"),
    [
        (["Hello?", TOLD, "Yes, that is fine."], EndReason.AGENT_HUNG_UP, GoalMet.YES),
        (["Hello?", TOLD, "Which address?", UNKNOWN, "All right."], EndReason.AGENT_HUNG_UP, GoalMet.PARTLY),
        (["Hello?", TOLD, "No, that does not work for us."], EndReason.AGENT_HUNG_UP, GoalMet.NO),
        (["Hello?", TOLD, "Unfortunately we are fully booked."], EndReason.AGENT_HUNG_UP, GoalMet.NO),
        (["Not interested."], EndReason.AGENT_HUNG_UP, GoalMet.NO),
        (["Hello?", TOLD, "Yes, but never call me again."], EndReason.AGENT_HUNG_UP, GoalMet.NO),
        (["Yes, hello?"], EndReason.CALLEE_HUNG_UP, GoalMet.NO),
        (["Hello?", TOLD], EndReason.CALLEE_HUNG_UP, GoalMet.NO),
        (["Yes, hello?"], EndReason.MAX_DURATION, GoalMet.UNKNOWN),
        (["Hello?", TOLD, "Is that all right with you?"], None, GoalMet.UNKNOWN),
    ],
)
async def test_it_judges_by_what_was_said(talk: Sequence[str], ended: EndReason | None, met: GoalMet) -> None:
    outcome = await ScriptedModel().judge(Brief(name="Ada", context=CONTEXT, instructions=""), turns(*talk), ended)

    assert outcome.goal_met is met
    assert outcome.summary[-1] in '."!'


def test_of_a_long_context_whole_sentences_are_told() -> None:
    assert spoken_context("One thing.\nAnother thing\n\n  A  third?") == "One thing. Another thing. A third?"
    assert spoken_context("A sentence of some length. " * 100).count("length.") == 11
    assert spoken_context("word " * 1000).endswith("word …")
    assert len(spoken_context("word " * 1000)) < 310
    assert spoken_context(" ") == ""
