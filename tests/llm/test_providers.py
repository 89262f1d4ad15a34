"""The APIs that are not OpenAI's chat completions, as far as we depend on what each makes of our requests.

A server on a real socket stands in for all of them. It keeps what it is sent and answers each API in its own form, with
a word and a tool. That the APIs take our schemas is only shown by asking them.
"""

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callmcp.calls.model import EndReason, GoalMet
from callmcp.conversation.events import EndTheCall, Piece
from callmcp.conversation.prompt import Brief
from callmcp.errors import Unavailable
from callmcp.llm.hosted import GO_ON, PICKED_UP
from callmcp.llm.models import Models
from tests.llm.test_hosted import DAY, said
from tests.telephony.twilio.serving import served

pytestmark = pytest.mark.anyio

KEY = "key-of-the-provider"
PROVIDERS = ["openai:gpt-5-mini", "anthropic:claude-haiku-4-5", "google:gemini-2.5-flash"]
ASKING = Brief(name="Ada", context="Book a table.", instructions="You are Ada.", questions=(DAY,))


@dataclass
class Providers:
    """`status` other than 200 is answered instead, with a body that quotes what was said."""

    url: str = ""
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        if self.status != 200:
            return JSONResponse({"error": {"message": f"{KEY} may not say {json.dumps(body)}"}}, self.status)
        tool = "report_outcome" if "report_outcome" in json.dumps(body) else "end_call"
        path = request.url.path
        if path.endswith("/messages"):
            return _events(_anthropic(tool))
        if path.endswith(":streamGenerateContent"):
            return _events([_google(tool)])
        if path.endswith(":generateContent"):
            return JSONResponse(_google(tool))
        if body["stream"]:
            return _events(_openai(tool))
        return JSONResponse(_response(_openai_call(tool)))


def _arguments(tool: str) -> dict[str, Any]:
    return {"goal_met": "partly", "summary": "Half.", "answers": []} if tool == "report_outcome" else {}


def _events(events: Sequence[dict[str, Any]]) -> Response:
    lines = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    text = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
    return Response(text, media_type="text/event-stream")


def _anthropic(tool: str) -> Sequence[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": usage}
    call = {"type": "tool_use", "id": "t", "name": tool, "input": {}}
    arguments = {"type": "input_json_delta", "partial_json": json.dumps(_arguments(tool))}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Bye."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_delta", "index": 1, "delta": arguments},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    ]


def _google(tool: str) -> dict[str, Any]:
    parts = [{"text": "Bye."}, {"functionCall": {"name": tool, "args": _arguments(tool)}}]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]}


def _openai(tool: str) -> Sequence[dict[str, Any]]:
    events: list[dict[str, Any]]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "in_progress", "content": []}
    at = {"item_id": "m", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    events = [
        {"type": "response.created", "response": _response()},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", **at, "part": part},
        {"type": "response.output_text.delta", **at, "delta": "Bye.", "logprobs": []},
        {"type": "response.output_text.done", **at, "text": "Bye.", "logprobs": []},
        {"type": "response.output_item.added", "output_index": 1, "item": _openai_call(tool) | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 1, "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 1, "item": _openai_call(tool)},
        {"type": "response.completed", "response": _response()},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _response(*output: dict[str, Any]) -> dict[str, Any]:
    head = {"id": "r", "object": "response", "created_at": 1, "model": "x", "status": "completed", "tools": []}
    return head | {"parallel_tool_calls": True, "tool_choice": "auto", "output": output}


def _openai_call(tool: str) -> dict[str, Any]:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": tool, "status": "completed"}
    return call | {"arguments": json.dumps(_arguments(tool))}


@pytest.fixture
async def providers() -> AsyncIterator[Providers]:
    providers = Providers()
    routes = [Route("/{path:path}", providers.answer, methods=["POST"])]
    async with served(lambda _: Starlette(routes=routes)) as providers.url:
        yield providers


@pytest.fixture(autouse=True)
def _environment(providers: Providers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{providers.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", providers.url)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", providers.url)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    for provider in ("OPENAI", "ANTHROPIC", "GOOGLE"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    models = Models(api_key="secret")
    yield models
    await models.close()


async def answer(models: Models, name: str) -> list[Piece]:
    model = await models.named(name)
    async with asyncio.timeout(20):
        return [piece async for piece in model.answer(ASKING, said("Hello.", "Yes?", "It is about"))]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_words_and_tools_come_from_each_provider(models: Models, providers: Providers, name: str) -> None:
    assert await answer(models, name) == ["Bye.", EndTheCall()]

    sent = json.dumps(providers.asked)
    assert [sent.count(text) for text in (PICKED_UP, "Hello.", "It is about", GO_ON, "You are Ada.")] == [1] * 5
    assert all(tool in sent for tool in ("end_call", "press_keys", "note_opt_out", "record_answer"))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_each_provider_gets_the_key_of_its_own_variable_and_no_other(
    models: Models, providers: Providers, name: str
) -> None:
    await answer(models, name)

    (headers,) = providers.headers
    assert KEY in (
        headers.get("authorization", "").removeprefix("Bearer "),
        headers.get("x-api-key"),
        headers.get("x-goog-api-key"),
    )
    assert "secret" not in json.dumps(headers)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_each_provider_must_judge_by_the_tool(models: Models, providers: Providers, name: str) -> None:
    model = await models.named(name)
    async with asyncio.timeout(20):
        judgement = await model.judge(ASKING, said("Hello.", "Yes?"), EndReason.AGENT_HUNG_UP)

    assert (judgement.goal_met, judgement.summary) == (GoalMet.PARTLY, "Half.")
    (asked,) = providers.asked
    forced = json.dumps(asked.get("tool_choice") or asked["toolConfig"])
    assert any(word in forced for word in ('"required"', '"any"', '"tool"', '"ANY"'))


async def test_models_that_think_are_asked_not_to(models: Models, providers: Providers) -> None:
    for name in PROVIDERS:
        await answer(models, name)

    openai, anthropic, google = providers.asked
    assert openai["reasoning"] == {"effort": "minimal"}
    assert "thinking" not in anthropic  # it does not, unless it is asked to
    assert google["generationConfig"]["thinkingConfig"] == {"thinking_budget": 0}


@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.parametrize("name", [*PROVIDERS, "endpoint"])
async def test_a_failure_is_told_by_its_kind_without_what_was_said_and_not_tried_again(
    models: Models, providers: Providers, name: str, status: int
) -> None:
    providers.status = status
    with pytest.raises(Unavailable) as failure:
        await answer(models, f"{providers.url}/v1#x" if name == "endpoint" else name)

    told = "".join(traceback.format_exception(failure.value))
    assert f"(status {status})" in told
    assert "You are Ada" not in told  # which the answer quotes, as it does all the rest
    assert KEY not in told
    assert len(providers.asked) == 1


async def test_what_the_environment_has_for_openai_goes_to_no_other_endpoint(
    models: Models, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "of-openai-1")
    monkeypatch.setenv("OPENAI_ORG_ID", "of-openai-2")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "of-openai-3")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer of-openai-4\nX-Gateway-Key: of-openai-5")

    providers.status = 500
    with pytest.raises(Unavailable):
        await answer(models, f"{providers.url}/v1#x")

    (headers,) = providers.headers
    assert headers["authorization"] == "Bearer secret"
    assert "of-openai" not in json.dumps(headers)
    assert KEY not in json.dumps(headers)
