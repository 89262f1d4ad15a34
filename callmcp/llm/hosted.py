"""Language models behind an API, through pydantic-ai: imported only when a voice agent names one.

Its `direct` interface is used, which streams one answer and nothing more. What an agent framework adds, tools that run
in a loop until there is a result, would keep somebody waiting on the phone.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urldefrag

import structlog
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
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
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from callmcp.agents.questions import QUESTION_NAME, Question
from callmcp.calls.model import EndReason, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim, EndTheCall, NoteAnswer, NoteOptOut, Piece, PressKeys
from callmcp.conversation.outcome import Judgement
from callmcp.conversation.prompt import JUDGE, Brief, to_judge
from callmcp.errors import BadConfiguration

log = structlog.get_logger()

ROUNDS = 3  # of one answer in which the model only takes notes and says nothing
ANSWER_SECONDS = 30.0  # the session gives up long before
NO_KEY_NEEDED = "none"  # what the client insists on sending to an endpoint without a key
GO_ON = "(Your line broke off there. Go on from that point; do not say it again.)"
PICKED_UP = "(The call is answered.)"


class HostedModel:
    """Implements LanguageModel. Repeats no request: a voice agent has fallbacks, and a callee no time."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def answer(self, brief: Brief, turns: Sequence[Turn]) -> AsyncIterator[Piece]:
        messages = _messages(brief, turns)
        parameters = ModelRequestParameters(function_tools=_tools(brief.questions))
        for _ in range(ROUNDS):
            done = False
            async with model_request_stream(
                self._model,
                messages,
                model_settings=_settings(brief),
                model_request_parameters=parameters,
                instrument=False,
            ) as stream:
                async for event in stream:
                    if words := _words(event):
                        done = True
                        yield words
            response = stream.get()
            for call in response.tool_calls:
                piece = _piece(call, brief)
                if piece is not None:
                    done = done or isinstance(piece, EndTheCall | PressKeys)
                    yield piece
            if done or not response.tool_calls:
                return
            # Notes alone are silence for the callee: the model is told that they are taken, and speaks.
            noted = [
                ToolReturnPart(tool_name=call.tool_name, content="noted", tool_call_id=call.tool_call_id)
                for call in response.tool_calls
            ]
            messages += [response, ModelRequest(parts=noted, instructions=brief.instructions)]

    async def judge(self, brief: Brief, turns: Sequence[Turn], ended: EndReason | None) -> Judgement:
        """Raises ValueError when the model's answer is no judgement."""
        response = await model_request(
            self._model,
            [ModelRequest(parts=[UserPromptPart(to_judge(brief, turns, ended))], instructions=JUDGE)],
            model_settings=ModelSettings(timeout=ANSWER_SECONDS, max_retries=0),
            model_request_parameters=ModelRequestParameters(
                output_mode="tool", output_tools=[_outcome_tool(brief.questions)], allow_text_output=False
            ),
            instrument=False,
        )
        return _judgement(response)

    async def close(self) -> None:
        """Lets go of its connections."""
        async with self._model:  # leaving it is the library's way to close what it opened
            pass


def open_model(reference: str, *, api_key: str | None) -> HostedModel:
    """The model of this name (agents.model.Agent.model); `api_key` is for endpoints by URL. Raises BadConfiguration."""
    if reference.startswith(("http://", "https://")):
        base_url, name = urldefrag(reference)
        provider = OpenAICompatibleProvider("endpoint", base_url=base_url, api_key=api_key or NO_KEY_NEEDED)
        return HostedModel(OpenAIChatModel(name, provider=provider))
    try:
        return HostedModel(infer_model(reference))
    except (UserError, ImportError, ValueError) as error:
        raise BadConfiguration(f"{reference}: {error}") from error


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


def _settings(brief: Brief) -> ModelSettings:
    settings = ModelSettings(timeout=ANSWER_SECONDS, max_retries=0)
    if brief.temperature is not None:
        settings["temperature"] = brief.temperature
    return settings


def _messages(brief: Brief, turns: Sequence[Turn]) -> list[ModelMessage]:
    """The agent's turns as the model's own, the callee's as the user's; the first and the last are the user's."""
    said: list[tuple[Speaker, str]] = [(turn.speaker, turn.text) for turn in turns]
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
    if not isinstance(given, dict) or given.get("goal_met") not in set(GoalMet):
        raise ValueError("the model did not say whether the goal was met")
    answers = given.get("answers")
    claims = [
        Claim(answer["name"], answer.get("value"), answer.get("evidence"))
        for answer in (answers if isinstance(answers, list) else [])
        if isinstance(answer, dict) and isinstance(answer.get("name"), str)
    ]
    return Judgement(goal_met=GoalMet(given["goal_met"]), summary=str(given.get("summary") or ""), claims=claims)


def _given(response: ModelResponse) -> object:
    """The arguments of the tool call, or the JSON in the text of a model that answers with that instead."""
    if response.tool_calls:
        return response.tool_calls[0].args_as_dict()
    text = response.text or ""
    begin, end = text.find("{"), text.rfind("}")
    return json.loads(text[begin : end + 1]) if 0 <= begin < end else None
