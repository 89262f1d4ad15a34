"""Who picks up, as data: a script of steps, chosen by the last two digits of the number or sent to /_control/plans."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tests.twilio_emulator.line import Line, Moment
from tests.twilio_emulator.pace import Pace

SECONDS_A_CHARACTER = 0.055  # recorded: 49 characters in 2.6 s
BETWEEN_KEYS = 0.3
Outcome = Literal["answers", "busy", "no-answer", "failed", "canceled"]
OUTCOMES = ("answers", "busy", "no-answer", "failed", "canceled")
# The steps, and of each the fields it takes.
STEPS = {
    "connect": set[str](),  # until Twilio has connected the line to something, in no time that the callee would notice
    "listen": {"words", "for"},  # to the end of the agent's turn; to so many words of it; until a pattern was heard
    "wait": {"seconds"},
    "say": {"text"},  # also over the agent, which interrupts
    "press": {"digits"},
    "converse": {"replies", "otherwise", "turns"},  # a listen and a say for each of `turns` turns of the agent
    "hang-up": set[str](),
    "stay": set[str](),
}
Step = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """`amd` is what detection takes them for: human, machine, fax or unknown; `beep` ends a machine's greeting.

    `amd_after` is in emulated seconds from the answer, `sip` the SIP response of a call that is not answered.
    """

    outcome: Outcome = "answers"
    rings: float = 1.5
    amd: str = "human"
    amd_after: float = 3.0
    beep: bool = True
    sip: int | None = None
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def parse(cls, value: str | dict[str, Any]) -> "Callee":
        """A name from NAMED, or the fields. Raises ValueError or TypeError."""
        if isinstance(value, str):
            if value not in NAMED:
                raise ValueError(f"no callee is named {value!r}; there are {', '.join(NAMED)}")
            return NAMED[value]
        callee = cls(**value)
        if callee.outcome not in OUTCOMES:
            raise ValueError(f"outcome is one of {', '.join(OUTCOMES)}")
        for step in callee.steps:
            check(step)
        return callee


def check(step: Step) -> None:
    """Raises ValueError or AttributeError for what is no step."""
    if step.get("do") not in STEPS:
        raise ValueError(f"a step has a `do` from {', '.join(STEPS)}: {step!r}")
    if unknown := set(step) - {"do"} - STEPS[step["do"]]:
        raise ValueError(f"{step['do']} takes no {', '.join(sorted(unknown))}")


class Body(Protocol):
    """The call, as the callee's script drives it."""

    @property
    def line(self) -> Line: ...

    def hang_up(self, by: str) -> None: ...


async def act(steps: list[Step], body: Body, pace: Pace) -> None:
    """Carries out the script. It ends by itself only when there is nothing left to do; the callee then stays."""
    line = body.line
    since = line.now()
    for step in steps:
        match step["do"]:
            case "connect":
                await line.until(lambda: not line.pending)
            case "listen" if "words" in step:
                await line.until(lambda w=step["words"], s=since: line.words_since(s) >= w)  # type: ignore[misc]
            case "listen" if "for" in step:
                wanted = re.compile(step["for"], re.IGNORECASE)
                await line.until(lambda p=wanted, s=since: bool(p.search(line.heard_since(s))))  # type: ignore[misc]
            case "listen":
                await _turn(line, since)
            case "wait":
                await pace.sleep(float(step.get("seconds", 1)))
            case "say":
                since = await _say(step["text"], line, pace)
            case "press":
                since = await _press(step["digits"], line, pace)
            case "converse":
                since = await _converse(step, body, pace)
            case "hang-up":
                body.hang_up("callee")
            case _:
                return


async def _turn(line: Line, since: Moment) -> None:
    await line.until(lambda: line.finished_since(since) > 0 and not line.speaking)


async def _say(text: str, line: Line, pace: Pace) -> Moment:
    """What is said before Twilio listens, or over an agent who may not be interrupted, is said to nobody."""
    listener = line.listener
    if listener and listener.speech_begins():
        await listener.hears(text)
        return line.now()
    await pace.sleep(len(text) * SECONDS_A_CHARACTER)
    since = line.now()
    line.callee_said(text)
    return since


async def _press(digits: str, line: Line, pace: Pace) -> Moment:
    since = line.now()
    for digit in digits:
        since = line.now()
        line.callee_pressed(digit)
        if line.listener:
            line.listener.digit(digit)
        await pace.sleep(BETWEEN_KEYS)
    return since


async def _converse(step: Step, body: Body, pace: Pace) -> Moment:
    line = body.line
    since = line.now()
    for _ in range(int(step.get("turns", 10))):
        await _turn(line, since)
        heard = line.heard_since(since)
        matching = (reply["say"] for reply in step["replies"] if re.search(reply["when"], heard, re.IGNORECASE))
        since = await _say(next(matching, step.get("otherwise", "Sorry?")), line, pace)
    return since


_CONNECT: Step = {"do": "connect"}
_LISTEN: Step = {"do": "listen"}
_HANG_UP: Step = {"do": "hang-up"}
_GREETING: Step = {"do": "say", "text": "Hi, you have reached Ada. Please leave a message after the tone."}
NAMED = {
    "talks": Callee(
        steps=[
            _LISTEN,
            {"do": "say", "text": "Yes, go ahead."},
            _LISTEN,
            {"do": "say", "text": "That works for me."},
            _LISTEN,
            {"do": "say", "text": "No, that is all. Goodbye."},
            {"do": "stay"},
        ]
    ),
    "greets": Callee(
        steps=[
            _CONNECT,
            {"do": "say", "text": "Hello?"},
            _LISTEN,
            {"do": "say", "text": "All right. Goodbye."},
            {"do": "stay"},
        ]
    ),
    "hangs-up": Callee(steps=[{"do": "listen", "words": 3}, _HANG_UP]),
    "interrupts": Callee(
        steps=[
            {"do": "listen", "words": 4},
            {"do": "say", "text": "Stop, who is this?"},
            _LISTEN,
            {"do": "say", "text": "I see. Goodbye."},
            {"do": "stay"},
        ]
    ),
    "presses": Callee(steps=[_LISTEN, {"do": "press", "digits": "12#"}, _LISTEN, _HANG_UP]),
    "silent": Callee(steps=[{"do": "stay"}]),
    "voicemail": Callee(amd="machine", amd_after=3.5, steps=[_CONNECT, _GREETING, {"do": "stay"}]),
    "voicemail-no-beep": Callee(amd="machine", amd_after=3.5, beep=False, steps=[_CONNECT, _GREETING, {"do": "stay"}]),
    "fax": Callee(amd="fax", amd_after=2.0, steps=[{"do": "stay"}]),
    "unclear": Callee(amd="unknown", amd_after=4.0, steps=[_LISTEN, {"do": "say", "text": "Mm."}, {"do": "stay"}]),
    "leaves-at-once": Callee(steps=[_HANG_UP]),
    "busy": Callee(outcome="busy", sip=486),
    "no-answer": Callee(outcome="no-answer", sip=487),
    "failed": Callee(outcome="failed", sip=404, rings=0.5),
    "canceled": Callee(outcome="canceled", sip=487, rings=0.5),
}
# The last two digits of a number. All others talk.
BY_DIGITS = {
    "00": "talks",
    "01": "hangs-up",
    "02": "interrupts",
    "03": "presses",
    "04": "silent",
    "05": "voicemail",
    "06": "voicemail-no-beep",
    "07": "fax",
    "08": "unclear",
    "09": "leaves-at-once",
    "10": "busy",
    "11": "no-answer",
    "12": "failed",
    "13": "canceled",
    "14": "greets",
}


def by_number(to: str) -> Callee:
    return NAMED[BY_DIGITS.get(to[-2:], "talks")]
