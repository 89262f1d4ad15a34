"""Who picks up, as data: the last two digits of +1 NPA 555 01XX choose what happens to a simulated call.

A scenario says how the carrier takes the call, how long it rings, and either what becomes of it unanswered or the
script of whoever answers. Everything is deterministic: the same number and context, the same call. Times are in
seconds of the simulated world.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import AnsweredBy, Call

PLAYED = "15"
MAGIC = re.compile(r"\+1[2-9][0-9]{2}55501([0-9]{2})")

# What a callee does, step by step. `line.py` carries it out.


@dataclass(frozen=True, slots=True)
class Listens:
    """To the agent's line until its end, or to so many `words` of it."""

    words: int | None = None


@dataclass(frozen=True, slots=True)
class Says:
    """Says this, also over the agent. With `words`, hangs up after so many of them."""

    text: str
    words: int | None = None


@dataclass(frozen=True, slots=True)
class HangsUp:
    pass


@dataclass(frozen=True, slots=True)
class IsTakenFor:
    """The carrier's detection says who or what answered."""

    answered_by: AnsweredBy


@dataclass(frozen=True, slots=True)
class OffersMenu:
    """Says the menu and waits for one of the `keys`; says it three times in all, and then hangs up."""

    text: str
    keys: str


@dataclass(frozen=True, slots=True)
class Presses:
    digit: str


@dataclass(frozen=True, slots=True)
class StaysSilent:
    """And on the line, whatever the agent says."""


@dataclass(frozen=True, slots=True)
class Improvises:
    """Says and does what a language model does in their place, until it hangs up."""


Step = Listens | Says | HangsUp | IsTakenFor | OffersMenu | Presses | StaysSilent | Improvises
Script = Callable[[Call], Sequence[Step]]
"""What the callee does in this call."""


class Unanswered(Enum):
    """What becomes of a call that nobody answers."""

    BUSY = auto()
    NO_ANSWER = auto()
    CARRIER_FAILED = auto()
    NEVER_HEARD_OF = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    code: str
    message: str
    carrier_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`digits` chooses it; `description` is the README's line for it; `then` is what follows the ringing."""

    digits: str
    description: str
    ringing: float = 2
    then: Script | Unanswered | Refusal


def cooperates(call: Call) -> Sequence[Step]:
    return (
        Listens(),
        Says("Hello. Yes, go ahead."),
        IsTakenFor(AnsweredBy.HUMAN),
        Listens(),
        Says(_agreement(call.context)),
        *_answers(call.questions),
        Listens(),
        Says("No, that is all. Goodbye."),
        Listens(),
        HangsUp(),
    )


_TO_VOICEMAIL = (
    Listens(words=3),
    Says("Hi, you have reached our voicemail. We cannot come to the phone. Please leave a message after the tone."),
    IsTakenFor(AnsweredBy.MACHINE),
)


def _voicemail(_: Call) -> Sequence[Step]:
    return (*_TO_VOICEMAIL, StaysSilent())


def _short_voicemail(_: Call) -> Sequence[Step]:
    return (*_TO_VOICEMAIL, Listens(words=4), HangsUp())


def _hangs_up(_: Call) -> Sequence[Step]:
    return (Listens(), Says("Hello? Who is this?"), IsTakenFor(AnsweredBy.HUMAN), Listens(words=11), HangsUp())


def _opts_out(_: Call) -> Sequence[Step]:
    return (
        Listens(),
        Says("Yes, hello?"),
        IsTakenFor(AnsweredBy.HUMAN),
        Listens(),
        Says("No, thank you. Please never call me again."),
        Listens(),
        HangsUp(),
    )


def _menu(call: Call) -> Sequence[Step]:
    return (
        Listens(words=2),
        OffersMenu("Welcome. For opening hours, press 1. To speak to somebody, press 2.", keys="12"),
        IsTakenFor(AnsweredBy.IVR),
        Says("Thank you for waiting. How can I help you?"),
        Listens(),
        Says(_agreement(call.context)),
        *_answers(call.questions),
        Listens(),
        Says("No, that is all. Goodbye."),
        Listens(),
        HangsUp(),
    )


def _is_silent(_: Call) -> Sequence[Step]:
    return (IsTakenFor(AnsweredBy.UNKNOWN), StaysSilent())


def _asks(call: Call) -> Sequence[Step]:
    """And answers what it is asked, but for the first question."""
    return (
        Listens(),
        Says("Hello. Yes, go ahead."),
        IsTakenFor(AnsweredBy.HUMAN),
        Listens(),
        Says(_question(call.context)),
        Listens(),
        Says("All right, that is fine with me."),
        *((Listens(), Says("I could not tell you.")) if call.questions else ()),
        *_answers(call.questions[1:]),
        Listens(),
        Says("No, that is all. Goodbye."),
        Listens(),
        HangsUp(),
    )


def _is_played(_: Call) -> Sequence[Step]:
    return (IsTakenFor(AnsweredBy.HUMAN), Improvises())


def _answers(questions: Sequence[Question]) -> Iterator[Step]:
    for question in questions:
        yield Listens()
        yield Says(_answer(question))


def _answer(question: Question) -> str:
    match question.type:
        case AnswerType.NUMBER:
            return "That would be 4."
        case AnswerType.BOOLEAN:
            return "Yes, certainly."
        case AnswerType.CHOICE:
            return f"{question.choices[0]}, please."
        case AnswerType.STRING:
            return "Please put down Lovelace."


_WHEN = re.compile(
    r"\b(?:this |next )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tonight|tomorrow)"
    r"(?:,? (?:morning|afternoon|evening|night))?(?:,? (?:at )?\d{1,2}(?:[:.]\d\d)?(?: ?[ap]\.?m\b)?)?",
    re.IGNORECASE,
)
_QUESTIONS = (  # and the words that an answer to each would have
    ("One question first: what is the reference number on our last letter?", ("reference", "number", "last", "letter")),
    ("One question first: which floor is your office on?", ("floor", "office")),
    ("One question first: what did your colleague promise my brother?", ("colleague", "promise", "brother")),
)


def _agreement(context: str) -> str:
    when = _WHEN.search(context)
    return f"Yes, {when[0]} is fine with me." if when else "Yes, that is fine with me."


def _question(context: str) -> str:
    """One that this context does not answer."""
    told = context.lower()
    unrelated = (text for text, words in _QUESTIONS if not any(word in told for word in words))
    return next(unrelated, _QUESTIONS[-1][0])


SCENARIOS: Mapping[str, Scenario] = {
    scenario.digits: scenario
    for scenario in (
        Scenario(digits="00", description="a person who cooperates", then=cooperates),
        Scenario(digits="01", description="busy", ringing=0, then=Unanswered.BUSY),
        Scenario(digits="02", description="no answer", ringing=20, then=Unanswered.NO_ANSWER),
        Scenario(digits="03", description="carrier failure after ringing", then=Unanswered.CARRIER_FAILED),
        Scenario(digits="04", description="voicemail", ringing=4, then=_voicemail),
        Scenario(digits="05", description="hangs up in mid-sentence", then=_hangs_up),
        Scenario(digits="06", description="asks never to be called again", then=_opts_out),
        Scenario(digits="07", description="a phone menu that needs a key press", then=_menu),
        Scenario(digits="08", description="long silence", then=_is_silent),
        Scenario(digits="09", description="asks something the agent cannot know", then=_asks),
        Scenario(digits="10", description="rings for 30 s, then a person who cooperates", ringing=30, then=cooperates),
        Scenario(digits="11", description="accepted, and then silence for ever", then=Unanswered.NEVER_HEARD_OF),
        Scenario(
            digits="12",
            description="refused as invalid by the carrier",
            then=Refusal(
                code="invalid_number",
                message="The carrier says that this phone number does not exist. Check it before calling again.",
                carrier_code="21217",
            ),
        ),
        Scenario(
            digits="13",
            description="refused for the country",
            then=Refusal(
                code="country_not_allowed",
                message="The carrier account may not call this country. Its operator can allow it with the carrier.",
                carrier_code="21215",
            ),
        ),
        Scenario(digits="14", description="voicemail that cuts your message off", ringing=4, then=_short_voicemail),
        Scenario(digits=PLAYED, description="a person played by a language model", then=_is_played),
    )
}


def scenario_of(number: str) -> Scenario:
    """What happens when this E.164 number is called. A number outside +1 NPA 555 01XX is a person who cooperates."""
    magic = MAGIC.fullmatch(number)
    return SCENARIOS.get(magic[1] if magic else "00", SCENARIOS["00"])
