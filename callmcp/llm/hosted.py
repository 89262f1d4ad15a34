"""Language models behind an API, through pydantic-ai: imported only when a voice agent names one.

Its `direct` interface is used, which streams one answer and nothing more. What an agent framework adds, tools that run
in a loop until there is a result, would keep somebody waiting on the phone.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from urllib.parse import urldefrag

import structlog
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, create_async_http_client, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from callmcp.agents.questions import QUESTION_NAME, Question
from callmcp.calls.model import EndReason, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim, EndTheCall, NoteAnswer, NoteOptOut, Piece, PressKeys
from callmcp.conversation.outcome import Judgement
from callmcp.conversation.prompt import JUDGE, Brief, to_judge
from callmcp.errors import BadConfiguration, Unavailable
from callmcp.llm.thinking import Aloud, aloud

log = structlog.get_logger()

MAX_DIGITS = 10
ROUNDS = 3  # of one answer in which the model only takes notes and says nothing
ANSWER_SECONDS = 30.0  # the session gives up long before
NO_KEY_NEEDED = "none"  # what the client insists on sending to an endpoint without a key
NO_TAGS = ("\0", "\0")  # the library knows the tags of thinking only when one is a piece of its own; thinking.py always
ONCE = ModelSettings(timeout=ANSWER_SECONDS, max_retries=0)  # and 5 seconds to connect, which the library sees to
AT_ONCE = ModelSettings(timeout=ANSWER_SECONDS, max_retries=0, thinking=False)
"""Somebody is holding a phone. Asked of providers only, whose models the library knows: any other endpoint may refuse a
request with a setting that is new to it."""
GO_ON = "(Your line broke off there. Go on from that point; do not say it again.)"
PICKED_UP = "(The call is answered.)"
NOTED = "noted"
IGNORED = "ignored: there is no such tool, or its arguments are not as it describes them"


class HostedModel:
    """Implements LanguageModel. Repeats no request: a voice agent has fallbacks, and a callee no time."""

    def __init__(self, model: Model, *, settings: ModelSettings, close: Callable[[], Awaitable[None]]) -> None:
        self._model = model
        self._settings = settings
        self.close = close

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        """Raises Unavailable when the model fails, at any point of its answer."""
        settings = self._settings.copy()
        if brief.temperature is not None:
            settings["temperature"] = brief.temperature
        messages = _messages(brief, turns)
        parameters = ModelRequestParameters(function_tools=_tools(brief.questions))
        for _ in range(ROUNDS):
            done = False
            spoken = Aloud()
            with _failures_by_kind():
                async with model_request_stream(
                    self._model,
                    messages,
                    model_settings=settings,
                    model_request_parameters=parameters,
                    instrument=False,
                ) as stream:
                    async for event in stream:
                        words = spoken.words(_words(event))
                        if words.strip() or (done and words):  # an answer begins with a word, not with space
                            done = True
                            yield words
                response = stream.get()
            if words := spoken.last():
                done = True
                yield words
            returns = []
            for call in response.tool_calls:
                piece = _piece(call, brief)
                if piece is not None:
                    done = done or isinstance(piece, EndTheCall | PressKeys)
                    yield piece
                returns.append(
                    ToolReturnPart(
                        tool_name=call.tool_name,
                        content=NOTED if piece is not None else IGNORED,
                        tool_call_id=call.tool_call_id,
                    )
                )
            if done or not returns:
                return
            # Notes alone are silence for the callee: the model is told what became of them, and speaks.
            messages += [response, ModelRequest(parts=returns, instructions=brief.instructions)]

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:
        """Raises Unavailable when the model fails, ValueError when its answer is no judgement."""
        with _failures_by_kind():
            response = await model_request(
                self._model,
                [ModelRequest(parts=[UserPromptPart(to_judge(brief, turns, ended))], instructions=JUDGE)],
                model_settings=self._settings,
                model_request_parameters=ModelRequestParameters(
                    output_mode="tool", output_tools=[_outcome_tool(brief.questions)], allow_text_output=False
                ),
                instrument=False,
            )
        return _judgement(response)


class _Endpoint(AsyncOpenAI):
    """The client for an endpoint that is not OpenAI's. What the environment has for OpenAI is not sent to it: that may
    be a key (OPENAI_ADMIN_KEY, or any header in OPENAI_CUSTOM_HEADERS), or tell who somebody is (OPENAI_ORG_ID)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.organization = self.project = self.admin_api_key = None
        self._custom_headers = {}


def open_model(reference: str, *, api_key: str | None) -> HostedModel:
    """The model of this name (agents.model.Agent.model); `api_key` is for endpoints by URL. Raises BadConfiguration."""
    if reference.startswith(("http://", "https://")):
        base_url, name = urldefrag(reference)
        client = _Endpoint(base_url=base_url, api_key=api_key or NO_KEY_NEEDED, http_client=create_async_http_client())
        profile = ModelProfile(thinking_tags=NO_TAGS)
        provider = OpenAICompatibleProvider("endpoint", openai_client=client, profile=profile)
        return HostedModel(OpenAIChatModel(name, provider=provider), settings=ONCE, close=client.close)
    try:
        model = infer_model(reference)
    except Exception as error:  # each provider's library has errors of its own for a key that is not there
        raise BadConfiguration(f"{reference}: {error}") from error

    async def close() -> None:
        async with model:  # leaving it is the library's way to close what it opened
            pass

    return HostedModel(model, settings=AT_ONCE, close=close)


def why_not(reference: str) -> str | None:
    """Why there can be no model of this name, None when there can. A missing key is no reason here: the process that
    defines a voice agent is not the one that speaks."""
    if reference.startswith(("http://", "https://")):
        return None
    provider, _, _ = reference.partition(":")
    try:
        infer_provider_class(provider)
    except ValueError:
        return f"there is no provider {provider!r}; docs/models.md names some"
    except ImportError as error:
        return f"the provider {provider} needs a package that is not installed: {error}"
    return None


@contextmanager
def _failures_by_kind() -> Iterator[None]:
    """Whatever goes wrong at a model comes out as Unavailable, with the kind of the error and the status and no more: a
    provider's own words may quote the talk or a part of the key, and errors are logged."""
    try:
        yield
    except Exception as error:
        status = f" (status {error.status_code})" if isinstance(error, ModelHTTPError) else ""
        raise Unavailable(f"The language model failed: {type(error).__name__}{status}.") from None


def _messages(brief: Brief, turns: Sequence[Turn]) -> list[ModelMessage]:
    """The agent's turns as the model's own, the callee's as the user's. The first and the last are the user's, and the
    two take turns: templates of open models insist on that."""
    said = [
        (speaker, " ".join(turn.text for turn in theirs))
        for speaker, theirs in groupby(turns, key=lambda turn: turn.speaker)
    ]
    if not said or said[0][0] is Speaker.AGENT:
        said.insert(0, (Speaker.CALLEE, PICKED_UP))
    if said[-1][0] is Speaker.AGENT:
        said.append((Speaker.CALLEE, GO_ON))
    return [
        ModelRequest(parts=[UserPromptPart(text)], instructions=brief.instructions)
        if speaker is Speaker.CALLEE
        else ModelResponse(parts=[TextPart(text)])
        for speaker, text in said
    ]


def _words(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=words)) | PartDeltaEvent(delta=TextPartDelta(content_delta=words)):
            return words
        case _:
            return ""


# The tools. Their schemas are of the plainest kind, which every provider takes in its strict mode: each property
# required, none of several types. A value is a text, and is read as what the question wants of it.


def _tools(questions: Sequence[Question]) -> list[ToolDefinition]:
    tools = [
        _tool("end_call", "Hang up, once what you say in this answer has been heard. Say goodbye in the same answer."),
        _tool(
            "press_keys",
            "Press keys of the phone, once what you say in this answer has been heard: for a recorded menu.",
            digits=_text("0-9, *, # and w for a pause of half a second"),
        ),
        _tool("note_opt_out", "Note that the callee does not want to be called again."),
    ]
    if questions:
        names = [question.name for question in questions]
        tools.append(
            _tool(
                "record_answer",
                "Note the callee's answer to one of your questions, as soon as it was given.",
                name={"type": "string", "enum": names, "description": "which question"},
                value=_text("the answer, as short as can be: a number in digits, yes or no, one of the choices"),
            )
        )
    return tools


def _outcome_tool(questions: Sequence[Question]) -> ToolDefinition:
    names = [question.name for question in questions]
    answer = _object(
        name={"type": "string", "enum": names} if names else {"type": "string"},
        value=_text("the answer; empty when the callee gave none"),
        evidence={"type": "integer", "description": "the number of the callee's turn that says so; -1 for none"},
    )
    return _tool(
        "report_outcome",
        "Report what came of the call.",
        goal_met={"type": "string", "enum": [met.value for met in GoalMet]},
        summary=_text("one or two sentences on how it went"),
        answers={"type": "array", "items": answer, "description": "one for each question"},
    )


def _tool(tool: str, description: str, /, **properties: Any) -> ToolDefinition:
    return ToolDefinition(name=tool, description=description, parameters_json_schema=_object(**properties))


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _piece(call: ToolCallPart, brief: Brief) -> Piece | None:
    """None for a call that means nothing, which is left out: the talk goes on."""
    try:
        arguments = call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        arguments = {}
    match call.tool_name, arguments:
        case "end_call", _:
            return EndTheCall()
        case "note_opt_out", _:
            return NoteOptOut()
        case "press_keys", {"digits": str() | int() as digits}:
            pressed = "".join(digit for digit in str(digits) if digit in "0123456789*#w")
            return PressKeys(pressed) if pressed else None
        case "record_answer", {"name": str(name), "value": value} if any(q.name == name for q in brief.questions):
            return NoteAnswer(Claim(name, value))
        case name, _:
            log.warning("tool_call_ignored", tool=name if QUESTION_NAME.fullmatch(name) else "?")
            return None


def _judgement(response: ModelResponse) -> Judgement:
    given = _given(response)
    if not isinstance(given, dict) or (met := str(given.get("goal_met")).strip().casefold()) not in set(GoalMet):
        raise ValueError("the model did not say whether the goal was met")
    answers = given.get("answers")
    claims = [
        Claim(answer["name"], answer.get("value"), _index(answer.get("evidence")))
        for answer in (answers if isinstance(answers, list) else [])
        if isinstance(answer, dict) and isinstance(answer.get("name"), str)
    ]
    return Judgement(goal_met=GoalMet(met), summary=str(given.get("summary") or ""), claims=claims)


def _given(response: ModelResponse) -> object:
    """The arguments of the tool call, or the JSON in the text of a model that answers with that instead."""
    if response.tool_calls:
        return response.tool_calls[0].args_as_dict()
    text = aloud(response.text or "")
    begin, end = text.find("{"), text.rfind("}")
    return json.loads(text[begin : end + 1]) if 0 <= begin < end else None


def _index(evidence: object) -> object:
    """Some models write numbers as text, and copy the brackets of the transcript."""
    digits = evidence.strip(" []") if isinstance(evidence, str) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < MAX_DIGITS else evidence
