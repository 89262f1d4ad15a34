"""A language model by rule: no key, no network, the same words every time.

It says what the call is about, answers what it finds in the context, says so when it finds nothing, puts the questions
it was given, presses keys when a menu asks, and says goodbye. It is the default model, and the one to try CallMCP with.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import EndReason, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim, EndTheCall, NoteOptOut, Piece, PressKeys
from callmcp.conversation.optout import asks_not_to_be_called
from callmcp.conversation.outcome import Judgement
from callmcp.conversation.prompt import Brief

CALLING = "I am calling"
MATTER = f"{CALLING} about this:"
MORE = "Is there anything else?"
NOT_KNOWN = "I am sorry, I do not know that, and I would rather not guess."
SPOKEN_CONTEXT = 300  # characters of the context that are told at once; a person remembers no more

_MENU = re.compile(r"\bpress (?:the )?(\d|star|pound|hash)\b", re.IGNORECASE)
_OPTION = re.compile(
    r"(?P<before>[^.;,]*?),? *\bpress (?:the )?(?P<key>\d|star|pound|hash)\b(?P<after> (?:for|to) [^.;,]+)?",
    re.IGNORECASE,
)
_KEYS = {"star": "*", "pound": "#", "hash": "#"}
_PERSON = re.compile(
    r"\b(?:somebody|someone|person|operator|reception|agent|representative|staff|team)\b", re.IGNORECASE
)
_BYE = re.compile(r"\b(?:good ?bye|bye|that is all|that's all|nothing else)\b", re.IGNORECASE)
_NO_TIME = re.compile(
    r"\b(?:not interested|no interest|wrong number|leave (?:me|us) alone|bad time|not now|no time|am busy|i'm busy)\b",
    re.IGNORECASE,
)
_LEAVE_ALONE = re.compile(r"\bleave (?:me|us) alone\b", re.IGNORECASE)
_AI = re.compile(r"\b(?:robot|machine|real person|human|AI|computer)\b", re.IGNORECASE)
_WHO = re.compile(r"\bwho(?:'s| is| am i) (?:this|calling|speaking|there|it)\b", re.IGNORECASE)
_WHAT_ABOUT = re.compile(
    r"\b(?:help you|what(?:'s| is) (?:this|it) about|who(?:'s| is) (?:this|calling|speaking|there)|what do you want|"
    r"calling about|go ahead)\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\b(?:yes|yeah|yep|sure|of course|certainly|fine|all right|alright|okay|ok|works|confirmed|agreed|perfect)\b",
    re.IGNORECASE,
)
_NO = re.compile(r"\b(?:no|not possible|cannot|can't|won't|unfortunately|fully booked|impossible)\b", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"[\w']{3,}")
# fmt: off
_SMALL_WORDS = frozenset((
    "the", "and", "for", "you", "your", "our", "are", "was", "that", "this", "with", "have", "has", "can", "could",
    "what", "which", "who", "how", "when", "where", "why", "did", "does", "will", "would", "please", "tell", "know",
    "about", "from", "one", "they", "there", "name", "need", "want", "his", "her", "its", "say", "yes", "call",
))
# fmt: on


class ScriptedModel:
    """Implements LanguageModel. Keeps nothing between answers: what it says follows from the turns alone."""

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        heard = next((turn.text for turn in reversed(turns) if turn.speaker is Speaker.CALLEE), "")
        for applies, reply in _REPLIES:
            if applies(brief, heard, turns):
                for piece in reply(brief, heard, turns):
                    yield piece
                return

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:
        goal_met, summary = _judged(turns, ended)
        claims = [claim for question in brief.questions if (claim := _claim(question, turns)) is not None]
        return Judgement(goal_met=goal_met, summary=summary, claims=claims)


def _judged(turns: Sequence[Turn], ended: EndReason | None) -> tuple[GoalMet, str]:
    told = next((turn.index for turn in turns if _tells(turn)), len(turns))
    answers = [turn.text for turn in turns[told + 1 :] if turn.speaker is Speaker.CALLEE]
    said = " ".join(turn.text for turn in turns if turn.speaker is Speaker.CALLEE)
    agreed = next((text for text in answers if _agrees(text)), None)
    unanswered = any(NOT_KNOWN in turn.text for turn in turns if turn.speaker is Speaker.AGENT)
    if asks_not_to_be_called(said):
        return GoalMet.NO, "The callee asked not to be called again."
    if _NO_TIME.search(said):
        return GoalMet.NO, "The callee did not want to talk."
    if agreed and unanswered:
        return GoalMet.PARTLY, f'The callee agreed ("{agreed}") but asked something that the agent did not know.'
    if agreed:
        return GoalMet.YES, f'The callee agreed: "{agreed}"'
    if not answers and ended is EndReason.CALLEE_HUNG_UP:
        return GoalMet.NO, "The callee hung up before the agent had said what the call was about."
    if any(_NO.search(text) for text in answers):
        return GoalMet.NO, f'The callee declined: "{answers[0]}"'
    return GoalMet.UNKNOWN, "The call ended before the callee gave a clear answer."


def _claim(question: Question, turns: Sequence[Turn]) -> Claim | None:
    """What the callee said next after the question was put."""
    put = next((turn.index for turn in turns if _puts(turn, question)), len(turns))
    answer = next((turn for turn in turns[put + 1 :] if turn.speaker is Speaker.CALLEE), None)
    return None if answer is None else Claim(question.name, _value(question, answer.text), answer.index)


def _value(question: Question, text: str) -> object:
    """What is meant, if it can be told; else the words themselves, for the record to say what is wrong with them."""
    match question.type:
        case AnswerType.NUMBER:
            found = _NUMBER.search(text)
            return found[0].replace(",", "") if found else text
        case AnswerType.BOOLEAN:
            if _NO.match(text.strip()) or _agrees(text):
                return _agrees(text)
            return text
        case AnswerType.CHOICE:
            return next((choice for choice in question.choices if choice.casefold() in text.casefold()), text)
        case AnswerType.STRING:
            return text


def _puts(turn: Turn, question: Question) -> bool:
    return turn.speaker is Speaker.AGENT and " ".join(question.question.split()) in turn.text


def _open_question(brief: Brief, turns: Sequence[Turn]) -> Question | None:
    """The first question that was not put yet."""
    return next((q for q in brief.questions if not any(_puts(turn, q) for turn in turns)), None)


def spoken_context(context: str) -> str:
    """As many whole sentences of the context as are told at once."""
    told = ""
    for sentence in _sentences(context):
        if told and len(told) + len(sentence) > SPOKEN_CONTEXT:
            break
        told = f"{told} {sentence}".strip()
    return told if len(told) <= SPOKEN_CONTEXT else told[:SPOKEN_CONTEXT].rsplit(" ", 1)[0] + " …"


def _sentences(text: str) -> Sequence[str]:
    """Each with a full stop at its end."""
    found = (" ".join(sentence.split()) for sentence in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [sentence if sentence[-1] in ".!?:" else f"{sentence}." for sentence in found if sentence]


def _words(text: str) -> frozenset[str]:
    """What a text is about: its longer words, without a plural's s."""
    return frozenset(word.removesuffix("s") for word in _WORD.findall(text.lower()) if word not in _SMALL_WORDS)


def _tells(turn: Turn) -> bool:
    return turn.speaker is Speaker.AGENT and CALLING in turn.text


def _agrees(text: str) -> bool:
    return bool(_YES.search(text)) and not _NO.match(text.strip()) and not text.rstrip().endswith("?")


def _key(menu: str, context: str) -> str:
    """The key whose words have most in common with the context; else the one for a person; else the first."""
    options = [
        (_KEYS.get(found["key"].lower(), found["key"]), f"{found['before']} {found['after'] or ''}")
        for found in _OPTION.finditer(menu)
    ]
    about = _words(context)
    best = max(options, key=lambda option: len(_words(option[1]) & about))
    if _words(best[1]) & about:
        return best[0]
    return next((key for key, label in options if _PERSON.search(label)), options[0][0])


# The replies: the first that applies is said.


def _press(brief: Brief, heard: str, _: Sequence[Turn]) -> Sequence[Piece]:
    return [PressKeys(_key(heard, brief.context))]


def _give_up(_: Brief, heard: str, __: Sequence[Turn]) -> Sequence[Piece]:
    opt_out = [NoteOptOut()] if _LEAVE_ALONE.search(heard) else []
    return [*opt_out, "I understand. ", "Sorry for the trouble, and goodbye.", EndTheCall()]


def _tell(brief: Brief, heard: str, _: Sequence[Turn]) -> Sequence[Piece]:
    who = [f"This is {brief.name}. "] if _WHO.search(heard) else []
    if not brief.context.strip():
        return [*who, f"{CALLING} because I was asked to, ", "and was told no more. ", "What can I pass on for you?"]
    return [*who, f"{MATTER} ", f"{spoken_context(brief.context)} ", "Can you help me with that?"]


def _own_up(_: Brief, __: str, ___: Sequence[Turn]) -> Sequence[Piece]:
    return ["Yes, I am an AI assistant, ", "not a person. ", "Is it all right to go on?"]


def _look_up(brief: Brief, heard: str, _: Sequence[Turn]) -> Sequence[Piece]:
    asked = _words(heard)
    sentences = _sentences(brief.context)
    best = max(sentences, key=lambda sentence: len(_words(sentence) & asked), default="")
    if _words(best) & asked:
        return ["What I have been told is this: ", best]
    return [f"{NOT_KNOWN} ", "I will pass your question on. ", "Apart from that, is it all right?"]


def _put_next(brief: Brief, _: str, turns: Sequence[Turn]) -> Sequence[Piece]:
    question = _open_question(brief, turns)
    return [] if question is None else ["Thank you. ", " ".join(question.question.split())]


def _ask_for_more(_: Brief, heard: str, __: Sequence[Turn]) -> Sequence[Piece]:
    thanks = "Thank you, that is good to hear. " if _agrees(heard) else "Thank you for telling me. "
    return [thanks, "I will pass it on. ", MORE]


def _part(_: Brief, __: str, ___: Sequence[Turn]) -> Sequence[Piece]:
    return ["Thank you for your time. ", "Goodbye!", EndTheCall()]


_REPLIES: Sequence[
    tuple[Callable[[Brief, str, Sequence[Turn]], bool], Callable[[Brief, str, Sequence[Turn]], Sequence[Piece]]]
] = (
    (lambda _, heard, __: bool(_MENU.search(heard)), _press),
    (lambda _, heard, __: bool(_NO_TIME.search(heard)), _give_up),
    (lambda _, heard, __: bool(_AI.search(heard)) and "?" in heard, _own_up),
    (lambda _, __, turns: not any(_tells(turn) for turn in turns), _tell),
    (lambda _, heard, __: bool(_BYE.search(heard)), _part),
    (lambda _, heard, __: bool(_WHAT_ABOUT.search(heard)), _tell),
    (lambda _, heard, __: heard.rstrip().endswith("?"), _look_up),
    (lambda brief, _, turns: _open_question(brief, turns) is not None, _put_next),
    (lambda _, __, turns: any(MORE in turn.text for turn in turns), _part),
    (lambda _, __, ___: True, _ask_for_more),
)
