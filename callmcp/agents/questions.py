"""What a call is to find out: questions whose answers come back as values and not as prose."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from callmcp.errors import Problem

MAX_QUESTIONS = 10
MAX_QUESTION = 500
MAX_CHOICES = 20
MAX_CHOICE = 100
QUESTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class AnswerType(StrEnum):
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`name` is what the answer is called in the record; `choices` are the answers there are, for a choice alone."""

    name: str
    question: str
    type: AnswerType = AnswerType.STRING
    choices: tuple[str, ...] = ()


def question_problems(questions: Sequence[Question]) -> Sequence[Problem]:
    """What is wrong with them, each with its place: `questions.0.name`."""
    problems = []
    if len(questions) > MAX_QUESTIONS:
        problems.append(Problem(field="questions", message=f"at most {MAX_QUESTIONS}, not {len(questions)}"))
    names = [question.name for question in questions]
    for index, question in enumerate(questions):
        place = f"questions.{index}"
        if not QUESTION_NAME.fullmatch(question.name):
            message = "a lowercase letter, then up to 39 lowercase letters, digits and _, such as delivery_day"
            problems.append(Problem(field=f"{place}.name", message=message))
        elif question.name in names[:index]:
            problems.append(Problem(field=f"{place}.name", message=f"{question.name} is the name of another question"))
        if not question.question.strip() or len(question.question) > MAX_QUESTION:
            problems.append(Problem(field=f"{place}.question", message=f"1 to {MAX_QUESTION} characters"))
        if (wrong := _choices_problem(question)) is not None:
            problems.append(Problem(field=f"{place}.choices", message=wrong))
    return problems


def _choices_problem(question: Question) -> str | None:
    choices = question.choices
    if question.type is not AnswerType.CHOICE:
        return f"only a question of type {AnswerType.CHOICE.value} has choices" if choices else None
    if not 2 <= len(choices) <= MAX_CHOICES:  # noqa: PLR2004 - one is no choice
        return f"2 to {MAX_CHOICES}, not {len(choices)}"
    if any(not choice.strip() or len(choice) > MAX_CHOICE for choice in choices):
        return f"each has 1 to {MAX_CHOICE} characters"
    if len({choice.strip().casefold() for choice in choices}) < len(choices):
        return "each must differ from the others in more than case"
    return None
