"""From what a model makes of a talk to the outcome that stands in the record: nothing is believed unchecked.

Each answer is checked by itself. One that is missing, of the wrong type or without evidence gets an error of its own
and changes no other: a result that is empty because one field was bad has cost people whole calls (FIELD.md section 3).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import Answer, GoalMet, Outcome, Speaker, Turn, Value
from callmcp.conversation.events import Claim

MAX_SUMMARY = 1000
MAX_ANSWER = 1000
NOT_GIVEN = "the talk gave no answer to it"
_WORDS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a model makes of a talk."""

    goal_met: GoalMet
    summary: str
    claims: Sequence[Claim] = ()


def outcome_of(
    judgement: Judgement, *, questions: Sequence[Question], turns: Sequence[Turn], noted: Mapping[str, Claim]
) -> Outcome:
    """The outcome of a talk in which the callee spoke. `noted` are the answers that the agent took down while it
    talked; one of them stands in where the judgement has none that holds."""
    judged = {claim.name: claim for claim in judgement.claims}
    answers = []
    for question in questions:
        candidates = [claims[question.name] for claims in (judged, noted) if question.name in claims]
        checked = [_answer(question, claim, turns) for claim in candidates]
        sound = [answer for answer in checked if answer.error is None]
        valued = [answer for answer in checked if answer.value is not None]
        answers.append(next(iter((*sound, *valued, *checked)), Answer(name=question.name, error=NOT_GIVEN)))
    return Outcome(goal_met=judgement.goal_met, summary=judgement.summary[:MAX_SUMMARY], answers=tuple(answers))


def unjudged(questions: Sequence[Question], turns: Sequence[Turn], noted: Mapping[str, Claim]) -> Outcome:
    """The outcome when no model could say what it is. What was noted still counts."""
    summary = "There was a conversation, but its outcome could not be judged."
    judgement = Judgement(goal_met=GoalMet.UNKNOWN, summary=summary)
    return outcome_of(judgement, questions=questions, turns=turns, noted=noted)


def unspoken(questions: Sequence[Question], summary: str) -> Outcome:
    """The outcome of a talk in which the callee said nothing."""
    answers = tuple(Answer(name=question.name, error=NOT_GIVEN) for question in questions)
    return Outcome(goal_met=GoalMet.NO, summary=summary, answers=answers)


def _answer(question: Question, claim: Claim, turns: Sequence[Turn]) -> Answer:
    if claim.value is None or (isinstance(claim.value, str) and not claim.value.strip()):
        return Answer(name=question.name, error=NOT_GIVEN)
    value = _value(question, claim.value)
    if value is None:
        return Answer(name=question.name, error=_not_of_its_type(question, claim.value))
    evidence = claim.evidence
    if isinstance(evidence, bool) or not isinstance(evidence, int) or evidence < 0:
        return Answer(name=question.name, value=value, error="no turn was named as its evidence")
    if not any(turn.index == evidence and turn.speaker is Speaker.CALLEE for turn in turns):
        return Answer(
            name=question.name, value=value, error=f"turn {evidence}, named as its evidence, is not the callee's"
        )
    return Answer(name=question.name, value=value, evidence=evidence)


def _value(question: Question, value: object) -> Value | None:
    """The value as its type has it: models write numbers and booleans as text now and then. None: it is not one."""
    match question.type:
        case AnswerType.STRING:
            is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
            return str(value).strip()[:MAX_ANSWER] if is_text else None
        case AnswerType.NUMBER:
            return _number(value)
        case AnswerType.BOOLEAN:
            return value if isinstance(value, bool) else _WORDS.get(str(value).strip().casefold())
        case AnswerType.CHOICE:
            said = str(value).strip().casefold()
            return next((choice for choice in question.choices if choice.strip().casefold() == said), None)


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value if abs(value) < _EXACT else None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number) or abs(number) >= _EXACT:
        return None
    return int(number) if number.is_integer() else number


_EXACT = 2**53  # larger integers are not the same in every JSON reader


def _not_of_its_type(question: Question, value: object) -> str:
    shown = repr(value if not isinstance(value, str) else value[:100])[:120]
    if question.type is AnswerType.CHOICE:
        return f"{shown} is none of the choices: {', '.join(question.choices)}"
    return f"{shown} is not a {question.type.value}"
