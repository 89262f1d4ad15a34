"""Many conversations at once over ConversationRelay: how long a callee waits for the first word of an answer.

Twilio's side is played from here: its REST API as far as a call needs it, and a WebSocket a call that speaks every few
seconds and reports the agent's words as heard. The model is the scripted one, which answers at once. Beside it stands a
WebSocket server that answers with the same words and does nothing else (talker.py).
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

import uvicorn
from load import AGENT, PYTHON, Load, structured, tool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from table import Aim, machine, resident_mb
from websockets.asyncio.client import connect

from tests.acceptance.server import Server, running
from tests.acceptance.twilio import UNLIMITED

ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "12345"  # noqa: S105 - of nobody
QUESTION = "Sorry, what is this about?"
WORDS = "I am calling about this: Ask for a table for two. Can you help me with that?"
EVERY_SECONDS = 5
LIMIT_MS = 15


@dataclass
class Twilio:
    """Twilio's REST API as far as placing a call needs it. `relays`: where each call connects when it is answered."""

    relays: dict[str, str] = field(default_factory=dict)
    _sids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def create(self, request: Request) -> JSONResponse:
        form = parse_qs((await request.body()).decode())
        relay = ET.fromstring(form["Twiml"][0]).find("Connect/ConversationRelay")  # noqa: S314 - our own
        sid = f"CA{next(self._sids):032x}"
        self.relays[sid] = "" if relay is None else str(relay.get("url"))
        return JSONResponse({"sid": sid, "status": "queued"}, 201)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        path = f"/2010-04-01/Accounts/{ACCOUNT}/Calls.json"
        app = Starlette(routes=[Route(path, self.create, methods=["POST"])])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
            task = asyncio.create_task(server.serve(sockets=[listener]))
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            server.should_exit = True
            await task


def relay(conversations: int, seconds: int) -> bool:
    """Measures, prints, and says whether the aim is reached."""
    with tempfile.TemporaryDirectory() as folder:
        ours, memory = asyncio.run(_ours(Path(folder), conversations, seconds))
    floor = asyncio.run(_floor(conversations, seconds))
    rate = conversations / EVERY_SECONDS
    print(f"{machine()} {conversations} conversations, {rate:.0f} turns a second, {seconds} s each.\n")
    print("| from a prompt sent to the first text received, ms | median | p99 | slowest |\n|---|---:|---:|---:|")
    for name, waits in (("callmcp, scripted model", ours), ("websockets, constant words", floor)):
        print(f"| {name} | {statistics.median(waits):.2f} | {_p99(waits):.2f} | {max(waits):.2f} |")
    beyond = _p99(ours) - _p99(floor)
    print(f"\np99 is {_p99(ours) / _p99(floor):.1f} times the floor's; a conversation holds {memory:.0f} kB.\n")
    aim = Aim("p99 beyond the floor's, ms", beyond, below=LIMIT_MS)
    print("| | measured | aim | |\n|---|---:|---:|---|", aim, sep="\n")
    return aim.reached


async def _ours(data: Path, conversations: int, seconds: int) -> tuple[list[float], float]:
    twilio = Twilio()
    async with twilio.serving() as api:
        settings = {
            "carrier": "twilio",
            "twilio_account_sid": ACCOUNT,
            "twilio_auth_token": TOKEN,
            "twilio_from": "+15005550006",
            "twilio_api_url": api,
            "silence_seconds": 3600,
            "quiet_seconds": 3600,
            **UNLIMITED,
        }
        opened = running(data, interpreter=PYTHON, **settings)
        server = await asyncio.to_thread(opened.__enter__)
        try:
            await asyncio.to_thread(_place, server, conversations)
            before = resident_mb(server)
            waits = await _converse([(url, sid) for sid, url in twilio.relays.items()], seconds)
            memory = (resident_mb(server) - before) * 1024 / conversations
        finally:
            await asyncio.to_thread(opened.__exit__, None, None, None)
    return waits, memory


def _place(server: Server, conversations: int) -> None:
    key = server.key("calls:write", "agents:read")
    for number in range(conversations):
        message = tool("make_call", agent_id=AGENT, to=f"+1202555{number:04}", context="Ask for a table for two.")
        structured(Load(server.endpoint, message, server.process.pid, key))


async def _floor(conversations: int, seconds: int) -> list[float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = str(Path(__file__).with_name("talker.py"))
    process = subprocess.Popen([*PYTHON, path, str(port), WORDS], stderr=subprocess.DEVNULL)  # noqa: ASYNC220 - it runs beside
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            await asyncio.sleep(0.05)
        return await _converse([(f"ws://127.0.0.1:{port}/", f"CA{n:032x}") for n in range(conversations)], seconds)
    finally:
        process.terminate()
        process.wait()


async def _converse(relays: list[tuple[str, str]], seconds: int) -> list[float]:
    """The callees' waits in milliseconds. They begin one after the other, so that they do not speak all at once."""
    waits: list[float] = []
    until = time.perf_counter() + seconds + EVERY_SECONDS
    async with asyncio.TaskGroup() as group:
        for number, (url, sid) in enumerate(relays):
            group.create_task(_callee(url, sid, EVERY_SECONDS * number / len(relays), until, waits))
    return waits


async def _callee(url: str, sid: str, begins: float, until: float, waits: list[float]) -> None:
    await asyncio.sleep(begins)
    signature = base64.b64encode(hmac.new(TOKEN.encode(), url.encode(), hashlib.sha1).digest()).decode()
    async with connect(url, additional_headers={"X-Twilio-Signature": signature}, proxy=None, compression=None) as line:
        setup = {"type": "setup", "sessionId": f"VX{sid[2:]}", "callSid": sid, "accountSid": ACCOUNT}
        await line.send(json.dumps(setup))
        await _hears(line)
        while time.perf_counter() < until:
            await asyncio.sleep(EVERY_SECONDS)
            asked = time.perf_counter()
            await line.send(json.dumps({"type": "prompt", "voicePrompt": QUESTION, "lang": "en", "last": True}))
            waits.append((await _hears(line) - asked) * 1000)


async def _hears(line: object) -> float:
    """The agent's line to its end, which is reported as heard. When its first word came."""
    first = 0.0
    said = ""
    while True:
        frame = json.loads(await line.recv())  # type: ignore[attr-defined]
        if frame["type"] != "text":
            raise SystemExit(f"the relay sent {frame}")
        first = first or time.perf_counter()
        said += frame["token"]
        if frame["last"]:
            for name, value in (("agentSpeaking", "on"), ("tokensPlayed", said), ("agentSpeaking", "off")):
                await line.send(json.dumps({"type": "info", "name": name, "value": value}))  # type: ignore[attr-defined]
            return first


def _p99(waits: list[float]) -> float:
    return statistics.quantiles(waits, n=100)[98]


if __name__ == "__main__":
    sys.exit(not relay(200, 60))
