"""What a model makes of a talk is checked, an answer at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import Answer, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim
from callmcp.conversation.outcome import MAX_SUMMARY, NOT_GIVEN, Judgement, outcome_of, unjudged, unspoken

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = [
    Turn(index=index, at=NOW, speaker=(Speaker.AGENT, Speaker.CALLEE)[index % 2], text="Words.") for index in range(4)
]
WHO = Question(name="who", question="Who?")
GUESTS = Question(name="guests", question="How many?", type=AnswerType.NUMBER)
VEGAN = Question(name="vegan", question="Vegan?", type=AnswerType.BOOLEAN)
DAY = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
ALL = (WHO, GUESTS, VEGAN, DAY)


def answers(*claims: Claim, questions: Sequence[Question] = ALL, noted: Sequence[Claim] = ()) -> Sequence[Answer]:
    judgement = Judgement(goal_met=GoalMet.YES, summary="Fine.", claims=claims)
    return outcome_of(judgement, questions=questions, turns=TURNS, noted={claim.name: claim for claim in noted}).answers


def answer(question: Question, value: object, evidence: object = 1) -> Answer:
    (only,) = answers(Claim(question.name, value, evidence), questions=(question,))
    return only


@pytest.mark.parametrize(
    ("question", "given", "value"),
    [
        (WHO, " Lovelace ", "Lovelace"),
        (WHO, 7, "7"),
        (GUESTS, 4, 4),
        (GUESTS, "4", 4),
        (GUESTS, "4.0", 4),
        (GUESTS, 2.5, 2.5),
        (GUESTS, "-2.5", -2.5),
        (VEGAN, True, True),
        (VEGAN, "no", False),
        (VEGAN, "TRUE", True),
        (DAY, "friday", "Friday"),
        (DAY, " Sunday ", "Sunday"),
    ],
)
def test_a_value_is_read_as_its_questions_type(question: Question, given: object, value: object) -> None:
    assert answer(question, given) == Answer(name=question.name, value=value, evidence=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "given", "words"),
    [
        (WHO, ["Lovelace"], "is not a string"),
        (WHO, True, "is not a string"),
        (GUESTS, "four", "'four' is not a number"),
        (GUESTS, True, "is not a number"),
        (GUESTS, "nan", "is not a number"),
        (GUESTS, float("inf"), "is not a number"),
        (GUESTS, 2**60, "is not a number"),
        (GUESTS, {"n": 4}, "is not a number"),
        (VEGAN, "maybe", "'maybe' is not a boolean"),
        (VEGAN, 1, "is not a boolean"),
        (DAY, "Monday", "'Monday' is none of the choices: Friday, Sunday"),
        (DAY, 5, "is none of the choices"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_says_so(question: Question, given: object, words: str) -> None:
    found = answer(question, given)

    assert (found.value, found.evidence) == (None, None)
    assert words in str(found.error)


@pytest.mark.parametrize("given", [None, "", "  "])
def test_no_value_is_no_answer(given: object) -> None:
    assert answer(DAY, given) == Answer(name="day", error=NOT_GIVEN)


@pytest.mark.parametrize("evidence", [0, 2, 4, 99, -1, None, "1", True, 1.0])
def test_an_answer_without_a_turn_of_the_callee_to_show_keeps_its_value_and_says_so(evidence: object) -> None:
    found = answer(WHO, "Lovelace", evidence)

    assert (found.value, found.evidence) == ("Lovelace", None)
    assert "evidence" in str(found.error)


def test_questions_that_nobody_answered_have_an_error_each() -> None:
    assert answers() == tuple(Answer(name=question.name, error=NOT_GIVEN) for question in ALL)


def test_what_was_noted_stands_in_for_what_was_judged_badly() -> None:
    noted = [Claim("guests", "4", 1), Claim("day", "Friday", 1), Claim("who", "nobody", 99)]
    found = answers(Claim("guests", "many", 1), Claim("day", "Sunday", 3), questions=(GUESTS, DAY, WHO), noted=noted)

    assert found == (
        Answer(name="guests", value=4, evidence=1),
        Answer(name="day", value="Sunday", evidence=3),
        Answer(name="who", value="nobody", error="turn 99, named as its evidence, is not the callee's"),
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
claims = st.builds(Claim, st.sampled_from([*(question.name for question in ALL), "other", ""]), anything, anything)


@given(st.lists(claims, max_size=8), st.lists(claims, max_size=4))
def test_whatever_is_claimed_each_question_has_a_value_of_its_type_or_an_error(
    judged: list[Claim], noted: list[Claim]
) -> None:
    found = answers(*judged, noted=noted)

    assert [one.name for one in found] == [question.name for question in ALL]
    for one, types in zip(found, (str, int | float, bool, str), strict=True):
        assert one.value is not None or one.error
        assert one.value is None or isinstance(one.value, types)
        assert one.error is None or one.evidence is None
    assert found[3].value in {None, *DAY.choices}


@given(st.lists(claims, max_size=5))
def test_a_bad_answer_changes_no_other(others: list[Claim]) -> None:
    good = Claim("day", "Friday", 1)
    rest = [claim for claim in others if claim.name != "day"]

    assert answers(*rest, good)[3] == Answer(name="day", value="Friday", evidence=1)


def test_a_long_summary_is_cut_and_a_talk_that_nobody_judged_has_what_was_noted() -> None:
    judgement = Judgement(goal_met=GoalMet.NO, summary="x" * 5000)
    assert len(outcome_of(judgement, questions=(), turns=TURNS, noted={}).summary) == MAX_SUMMARY

    outcome = unjudged((DAY, WHO), TURNS, {"day": Claim("day", "Friday", 1)})
    assert outcome.goal_met is GoalMet.UNKNOWN
    assert outcome.answers == (Answer(name="day", value="Friday", evidence=1), Answer(name="who", error=NOT_GIVEN))


def test_who_said_nothing_met_no_goal_and_answered_nothing() -> None:
    outcome = unspoken((DAY,), "Silence.")

    assert (outcome.goal_met, outcome.answers) == (GoalMet.NO, (Answer(name="day", error=NOT_GIVEN),))
