"""The routes: chat completions, and the control API by which tests say what is answered and see what was asked."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.model_server import checks, wire
from tests.model_server.answers import MODELS, Answer, Asked, by_name

MAX_WAIT_SECONDS = 30


@dataclass
class Plan:
    """Answers to the next requests for `model`, or for any; each once, or the last for ever."""

    answers: list[Answer]
    model: str | None = None
    forever: bool = False


@dataclass
class ModelServer:
    """`key`: the API key that requests must bear, None for any."""

    key: str | None = None
    plans: list[Plan] = field(default_factory=list)
    journal: list[dict[str, Any]] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/_control", self.state),
                Route("/_control/plans", self.plan, methods=["POST"]),
                Route("/_control/requests", self.requests),
                Route("/_control/reset", self.reset, methods=["POST"]),
            ]
        )

    async def models(self, request: Request) -> Response:
        if (refusal := self._unauthorized(request)) is not None:
            return refusal
        data = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "tests"} for name in MODELS]
        return JSONResponse({"object": "list", "data": data})

    async def complete(self, request: Request) -> Response:
        if (refusal := self._unauthorized(request)) is not None:
            return refusal
        try:
            body = await request.json()
            asked = checks.asked(body)
        except ValueError:
            return JSONResponse(wire.error(400, "The body is not JSON."), 400)
        except checks.Invalid as invalid:
            await self._note({"refused": str(invalid), "param": invalid.param})
            return JSONResponse(wire.error(400, str(invalid), invalid.param), 400)
        answer = self._answer(body["model"], asked)
        entry = {
            "model": body["model"],
            "messages": body["messages"],
            "tools": sorted(asked.tools),
            "temperature": body.get("temperature"),
            "stream": bool(body.get("stream")),
            "state": "answering",
            "pieces": 0,
        }
        await self._note(entry)
        if answer.status != 200:
            await self._finish(entry, "refused")
            return JSONResponse(wire.error(answer.status, "The model server was told to fail."), answer.status)
        completion = wire.Completion(body["model"])
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return StreamingResponse(
                self._stream(completion, answer, entry, usage=usage), media_type="text/event-stream"
            )
        await asyncio.sleep(answer.first)
        if answer.then == "stuck":
            await asyncio.Event().wait()
        await self._finish(entry, "done")
        return JSONResponse(completion.whole(answer))

    async def _stream(
        self, completion: wire.Completion, answer: Answer, entry: dict[str, Any], *, usage: bool
    ) -> AsyncIterator[str]:
        state = "cancelled"  # unless it comes to its end: a client that goes away cancels this
        try:
            yield completion.chunk({"role": "assistant", "content": ""})
            await asyncio.sleep(answer.first)
            while True:
                for piece in answer.say:
                    yield completion.chunk({"content": piece})
                    entry["pieces"] += 1
                    await asyncio.sleep(answer.pace)
                if answer.then != "endless":
                    break
            if answer.then == "stuck":
                await asyncio.Event().wait()
            if answer.then == "malformed":
                yield "data: {this is not JSON\n\n"
            if answer.then == "cut":
                state = "cut"
                raise ConnectionError("the answer is cut off, as it was asked for")
            for chunk in completion.calls(answer):
                yield chunk
            yield completion.chunk({}, "tool_calls" if answer.tools else "stop")
            if usage:
                yield completion.usage(answer)
            yield "data: [DONE]\n\n"
            state = "done"
        finally:
            await asyncio.shield(self._finish(entry, state))

    def _unauthorized(self, request: Request) -> Response | None:
        if self.key is None or request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        return JSONResponse(wire.error(401, "Incorrect API key provided."), 401)

    def _answer(self, model: str, asked: Asked) -> Answer:
        """The next planned answer that fits, else the model's own."""
        for plan in self.plans:
            if plan.model not in (None, model) or not plan.answers:
                continue
            answer = plan.answers[0]
            if answer.when and not re.search(answer.when, asked.heard, re.IGNORECASE):
                continue
            if not (plan.forever and len(plan.answers) == 1):
                plan.answers.pop(0)
            return answer
        return by_name(model, asked)

    # Control.

    async def plan(self, request: Request) -> Response:
        body = await request.json()
        try:
            answers = [Answer.parse(answer) for answer in body["answers"]]
        except (ValueError, TypeError, KeyError) as fault:
            return JSONResponse({"error": str(fault)}, 400)
        self.plans.append(Plan(answers, body.get("model"), bool(body.get("forever"))))
        return JSONResponse({"plans": len(self.plans)})

    async def state(self, _: Request) -> Response:
        refused = [entry for entry in self.journal if "refused" in entry]
        return JSONResponse({"models": list(MODELS), "requests": len(self.journal), "refused": refused})

    async def requests(self, request: Request) -> Response:
        """What was asked, oldest first. `?wait=n`: not before there are n requests and all of them are over."""
        wanted = int(request.query_params.get("wait", 0))
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        async with self.changed:
            while len(self.journal) < wanted or (wanted and any(e.get("state") == "answering" for e in self.journal)):
                left = deadline - time.monotonic()
                try:
                    await asyncio.wait_for(self.changed.wait(), left)
                except TimeoutError:
                    break
        return JSONResponse({"requests": self.journal})

    async def reset(self, _: Request) -> Response:
        self.plans.clear()
        self.journal.clear()
        return JSONResponse({})

    async def _note(self, entry: dict[str, Any]) -> None:
        async with self.changed:
            self.journal.append(entry)
            self.changed.notify_all()

    async def _finish(self, entry: dict[str, Any], state: str) -> None:
        async with self.changed:
            entry["state"] = state
            self.changed.notify_all()
