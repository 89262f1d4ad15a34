"""What the emulator's own tests drive it with: its REST and control API, and a program that Twilio calls back."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError

from tests.twilio_emulator.app import listen
from tests.twilio_emulator.signature import signature
from tests.twilio_emulator.world import ACCOUNT

TOKEN = "12345"
FROM = "+15005550006"
WAIT = 8
CALLS = f"/2010-04-01/Accounts/{ACCOUNT}/Calls"
HANGUP = "<Response><Hangup/></Response>"


@dataclass
class Told:
    """A request that the program received."""

    path: str
    form: dict[str, str]
    token: str
    genuine: bool


Talk = Callable[[ServerConnection], Awaitable[None]]


async def says_hello(relay: ServerConnection) -> None:
    """The relay server of most tests: greets, answers each prompt, and ends after a goodbye."""
    async for raw in relay:
        frame = json.loads(raw)
        if frame["type"] == "setup":
            await say(relay, "Hello, this is an automated assistant.")
        if frame["type"] == "prompt" and frame["last"]:
            await say(relay, "Thank you.")


async def say(relay: ServerConnection, text: str, **fields: Any) -> None:
    words = text.split(" ")
    for n, word in enumerate(words):
        token = word if n == 0 else " " + word
        await relay.send(json.dumps({"type": "text", "token": token, "last": n == len(words) - 1} | fields))


@dataclass
class Program:
    """Notes all that it is told, and answers each path as `answers` says (204 otherwise)."""

    base: str = ""
    relay: str = ""
    told: list[Told] = field(default_factory=list)
    answers: dict[str, list[Response]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    talk: Talk = says_hello
    handshakes: list[dict[str, str]] = field(default_factory=list)

    def forget(self) -> None:
        fresh = Program(self.base, self.relay)
        self.__dict__.update(fresh.__dict__)

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator["Program"]:
        program = cls()
        app = Starlette(routes=[Route("/{path:path}", program._hear, methods=["GET", "POST"])])
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", loop="asyncio", ws="none"))
        listening = listen(0)
        serving = asyncio.create_task(server.serve([listening]))
        program.base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with serve(program._relayed, "127.0.0.1", 0) as relay:
            program.relay = f"ws://127.0.0.1:{next(iter(relay.sockets)).getsockname()[1]}"
            yield program
        server.should_exit = True
        await serving

    async def _hear(self, request: Request) -> Response:
        path = request.url.path
        form = parse_qsl((await request.body()).decode(), keep_blank_values=True)
        signed = signature(TOKEN, str(request.url), form)
        genuine = signed == request.headers["x-twilio-signature"]
        self.told.append(Told(path, dict(form), request.headers["i-twilio-idempotency-token"], genuine))
        await asyncio.sleep(self.delays.get(path, 0))
        answers = self.answers.get(path)
        if not answers:
            return Response(status_code=204)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def _relayed(self, relay: ServerConnection) -> None:
        assert relay.request is not None
        headers = {name.lower(): value for name, value in relay.request.headers.raw_items()}
        self.handshakes.append(headers | {"path": relay.request.path})
        with suppress(ConnectionClosedError):  # a cut is what some tests are about
            await self.talk(relay)

    def statuses(self, path: str = "/status") -> list[str]:
        return [told.form["CallStatus"] for told in self.told if told.path == path]

    def connect(self, attributes: str = "", inside: str = "", action: str = "/action") -> str:
        """TwiML that leads to this program's relay."""
        relay = f'<ConversationRelay url="{self.relay}/relay/t0k" {attributes}>{inside}</ConversationRelay>'
        return f'<Response><Connect action="{self.base}{action}">{relay}</Connect></Response>'


def xml(text: str) -> Response:
    return Response(text, media_type="text/xml")


@dataclass
class Emulator:
    http: httpx.AsyncClient

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str) -> AsyncIterator["Emulator"]:
        async with httpx.AsyncClient(base_url=url, auth=(ACCOUNT, TOKEN), timeout=WAIT, trust_env=False) as http:
            yield cls(http)

    async def reset(self) -> None:
        await self.http.post("/_control/reset")
        settings = {"trial": False, "verified": [], "test_credentials": False, "forbidden_prefixes": [], "routes": {}}
        await self.settings(**settings, speed=200, cps=1000, interrupt="clause")

    async def settings(self, **settings: Any) -> None:
        (await self.http.post("/_control/settings", json=settings)).raise_for_status()

    async def plan(self, **plan: Any) -> None:
        (await self.http.post("/_control/plans", json=plan)).raise_for_status()

    async def post(self, to: str, program: Program | None = None, **form: Any) -> httpx.Response:
        """Asks for a call that is told of to the program's /status, all four events unless said otherwise."""
        told = {} if program is None else {"StatusCallback": f"{program.base}/status"}
        events = {"StatusCallbackEvent": ["initiated", "ringing", "answered", "completed"]}
        given = {"To": to, "From": FROM, "Twiml": HANGUP} | told | events | form
        return await self.http.post(f"{CALLS}.json", data={k: v for k, v in given.items() if v is not None})

    async def place(self, to: str, program: Program | None = None, **form: Any) -> str:
        answer = await self.post(to, program, **form)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["sid"])

    async def update(self, sid: str, **form: Any) -> httpx.Response:
        return await self.http.post(f"{CALLS}/{sid}.json", data=form)

    async def call(self, sid: str, until: str = "") -> dict[str, Any]:
        """The call once it is over and everybody was told, or once it has a status."""
        answer = await self.http.get(f"/_control/calls/{sid}", params={"wait": WAIT, "until": until})
        call: dict[str, Any] = answer.json()
        assert call["settled"] or call["status"] == until, call
        return call

    async def events(self, kind: str, **query: Any) -> list[dict[str, Any]]:
        answer = await self.http.get("/_control/events", params={"kind": kind, **query})
        entries: list[dict[str, Any]] = answer.json()
        return entries

    async def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = (await self.http.get("/_control")).json()
        return summary

    async def frames(self, kind: str = "") -> list[dict[str, Any]]:
        """What the relay server was sent."""
        return [e["frame"] for e in await self.events("frame-out") if kind in ("", e["frame"]["type"])]


def spoken(call: dict[str, Any]) -> list[tuple[str, str]]:
    return [(turn["by"], turn["text"] or turn["digits"]) for turn in call["transcript"]]
