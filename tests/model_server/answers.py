"""What the model answers, as data: by its name, or as a plan says."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
ANSWER_FIELDS = {"say", "pace", "first", "tools", "then", "status", "when"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`say` in pieces, one every `pace` seconds, the first after `first`; then the `tools` are called, and `then` the
    answer stops, is cut off, hangs for ever, or goes on with what is not JSON. A `status` is answered instead of all
    that. `when`: only if this pattern is in the last thing the user said.
    """

    say: Sequence[str] = ()
    pace: float = 0
    first: float = 0
    tools: Sequence[Mapping[str, Any]] = ()
    then: Literal["stop", "cut", "stuck", "malformed", "endless"] = "stop"
    status: int = 200
    when: str = ""

    @classmethod
    def parse(cls, value: Json) -> "Answer":
        """Raises ValueError or TypeError."""
        if unknown := set(value) - ANSWER_FIELDS:
            raise ValueError(f"an answer has no {', '.join(sorted(unknown))}")
        say = value.get("say", ())
        answer = cls(**{**value, "say": [say] if isinstance(say, str) else list(say)})
        if answer.then not in ("stop", "cut", "stuck", "malformed", "endless"):
            raise ValueError("then is stop, cut, stuck, malformed or endless")
        re.compile(answer.when)
        return answer

    def arguments(self, index: int) -> str:
        """A tool's arguments as they are sent: a text goes as it is, also one that is not JSON."""
        given = self.tools[index].get("arguments", {})
        return given if isinstance(given, str) else json.dumps(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as far as an answer depends on it."""

    messages: Sequence[Json]
    tools: Mapping[str, Json] = field(default_factory=dict)  # the parameters of each, by name

    @property
    def heard(self) -> str:
        """The last thing the user said."""
        return next((str(m["content"]) for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def answered(self) -> int:
        """How often the model has spoken."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def outcome_tool(self) -> str | None:
        """The tool by which a talk is judged: the only one, with a goal in its schema."""
        if len(self.tools) != 1:
            return None
        name, parameters = next(iter(self.tools.items()))
        return name if "goal_met" in parameters.get("properties", {}) else None


def by_name(model: str, asked: Asked) -> Answer:
    """What the model of this name answers. One of no known name is `instant`."""
    if (tool := asked.outcome_tool) is not None and model not in BROKEN:
        return Answer(tools=[{"name": tool, "arguments": _outcome(asked)}])
    return MODELS.get(model, _instant)(asked)


def _instant(_: Asked) -> Answer:
    return Answer(say=["I see. ", "Is there anything else?"])


def _words(_: Asked) -> Answer:
    text = "I will tell you all about it, one word at a time, so that there is time to say something in between."
    return Answer(say=re.findall(r"\S+ ?", text), pace=0.1)


def _markup(_: Asked) -> Answer:
    return Answer(say=["**Fish & chips**, ", "`today` ", "for < 10 pounds."])


def _tools(asked: Asked) -> Answer:
    """Does what a voice agent should do, by rule."""
    heard = asked.heard
    menu = re.search(r"press (\d)", heard, re.IGNORECASE)
    if menu and "press_keys" in asked.tools:
        return Answer(tools=[{"name": "press_keys", "arguments": {"digits": menu[1]}}])
    if re.search(r"never call|not be called", heard, re.IGNORECASE):
        return Answer(say=["I am sorry. Goodbye."], tools=[{"name": "note_opt_out"}, {"name": "end_call"}])
    if re.search(r"goodbye|bye", heard, re.IGNORECASE):
        return Answer(say=["Thank you. Goodbye."], tools=[{"name": "end_call"}])
    if "record_answer" in asked.tools and asked.messages[-1]["role"] == "user" and asked.answered > 1:
        names = asked.tools["record_answer"]["properties"]["name"]["enum"]
        arguments = {"name": names[(asked.answered - 2) % len(names)], "value": heard}
        return Answer(tools=[{"name": "record_answer", "arguments": arguments}])
    return Answer(say=["Thank you. ", "And what else?"])


def _person(asked: Asked) -> Answer:
    """A callee: picks up, agrees, and says goodbye when it was spoken to three times."""
    if asked.answered < 1:
        return Answer(say=["Hello, Sam speaking. ", "What is it about?"])
    if asked.answered < 3:
        return Answer(say=["Yes, that is fine with me."])
    tools = [{"name": "end_call"}] if "end_call" in asked.tools else []
    return Answer(say=["No, that is all. Goodbye."], tools=tools)


def _outcome(asked: Asked) -> Json:
    """By the transcript in the request: met if anybody said yes, and each answer is the last thing the callee said."""
    turns = re.findall(r"^\[(\d+)\] (\w+): (.*)$", asked.heard, re.MULTILINE)
    callee = [(int(index), text) for index, speaker, text in turns if speaker == "callee"]
    index, text = callee[-1] if callee else (-1, "")
    names = next(iter(asked.tools.values()))["properties"]["answers"]["items"]["properties"]["name"].get("enum", [])
    agreed = any(re.search(r"\byes\b", said, re.IGNORECASE) for _, said in callee)
    return {
        "goal_met": "yes" if agreed else "unknown",
        "summary": "The model server judged this by rule.",
        "answers": [{"name": name, "value": text, "evidence": index} for name in names],
    }


MODELS: Mapping[str, Callable[[Asked], Answer]] = {
    "instant": _instant,
    "words": _words,
    "tools": _tools,
    "person": _person,
    "markup": _markup,
    "slow": lambda _: Answer(say=["That took a while."], first=8),
    "empty": lambda _: Answer(),
    "stuck": lambda _: Answer(then="stuck"),
    "endless": lambda _: Answer(say=["on ", "and "], pace=0.05, then="endless"),
    "cut": lambda _: Answer(say=["I was about to "], then="cut"),
    "malformed": lambda _: Answer(say=["Now comes "], then="malformed"),
    "bad-tool": lambda _: Answer(say=["One moment."], tools=[{"name": "press_keys", "arguments": '{"digits": '}]),
    "failing": lambda _: Answer(status=500),
    "rate-limited": lambda _: Answer(status=429),
    "unauthorized": lambda _: Answer(status=401),
}
BROKEN = frozenset({"stuck", "cut", "malformed", "failing", "rate-limited", "unauthorized"})
