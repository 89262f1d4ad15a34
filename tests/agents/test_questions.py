"""Which questions can be put, and what is said of one that cannot."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callmcp.agents.questions import (
    MAX_CHOICE,
    MAX_CHOICES,
    MAX_QUESTION,
    MAX_QUESTIONS,
    QUESTION_NAME,
    AnswerType,
    Question,
    question_problems,
)

names = st.from_regex(QUESTION_NAME, fullmatch=True)
words = st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip()))
plain = st.builds(
    Question, name=names, question=words, type=st.sampled_from([t for t in AnswerType if t is not AnswerType.CHOICE])
)
choices = st.lists(words, min_size=2, max_size=MAX_CHOICES, unique_by=lambda choice: choice.strip().casefold()).map(
    tuple
)
chosen = st.builds(Question, name=names, question=words, type=st.just(AnswerType.CHOICE), choices=choices)
sound = st.lists(plain | chosen, max_size=MAX_QUESTIONS, unique_by=lambda question: question.name)
DAY = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))


def places(*questions: Question) -> list[str]:
    found = question_problems(questions)
    assert all(problem.message for problem in found)
    return [problem.field for problem in found]


@given(sound)
def test_questions_with_names_of_their_own_words_and_choices_are_taken(questions: list[Question]) -> None:
    assert places(*questions) == []


@pytest.mark.parametrize(
    ("question", "part"),
    [
        (replace(DAY, name=""), "name"),
        (replace(DAY, name="Day"), "name"),
        (replace(DAY, name="1st"), "name"),
        (replace(DAY, name="delivery day"), "name"),
        (replace(DAY, name="day\n"), "name"),
        (replace(DAY, name="täg"), "name"),
        (replace(DAY, name="d" * 41), "name"),
        (replace(DAY, question=""), "question"),
        (replace(DAY, question=" \n"), "question"),
        (replace(DAY, question="?" * (MAX_QUESTION + 1)), "question"),
        (replace(DAY, choices=()), "choices"),
        (replace(DAY, choices=("Friday",)), "choices"),
        (replace(DAY, choices=tuple(f"day {n}" for n in range(MAX_CHOICES + 1))), "choices"),
        (replace(DAY, choices=("Friday", " ")), "choices"),
        (replace(DAY, choices=("Friday", "d" * (MAX_CHOICE + 1))), "choices"),
        (replace(DAY, choices=("Friday", "FRIDAY ")), "choices"),
        (replace(DAY, type=AnswerType.STRING), "choices"),
        (replace(DAY, type=AnswerType.BOOLEAN), "choices"),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_place(question: Question, part: str) -> None:
    assert places(question) == [f"questions.0.{part}"]
    assert places(Question(name="who", question="Who?"), question) == [f"questions.1.{part}"]


@given(sound, st.integers(min_value=0), plain)
def test_one_bad_question_is_told_alone_wherever_it_stands(
    questions: list[Question], position: int, question: Question
) -> None:
    assume(len(questions) < MAX_QUESTIONS)
    place = position % (len(questions) + 1)
    bad = replace(question, name="No Name")

    assert places(*questions[:place], bad, *questions[place:]) == [f"questions.{place}.name"]


@given(st.lists(plain, min_size=2, max_size=MAX_QUESTIONS, unique_by=lambda question: question.name), st.data())
def test_the_second_of_two_with_one_name_is_the_wrong_one(questions: list[Question], data: st.DataObject) -> None:
    first, second = sorted(
        data.draw(st.lists(st.sampled_from(range(len(questions))), min_size=2, max_size=2, unique=True))
    )
    questions[second] = replace(questions[second], name=questions[first].name)

    assert places(*questions) == [f"questions.{second}.name"]


def test_there_is_an_end_to_questions() -> None:
    questions = [Question(name=f"q{number}", question="?") for number in range(MAX_QUESTIONS + 1)]

    assert places(*questions[:-1]) == []
    assert places(*questions) == ["questions"]
