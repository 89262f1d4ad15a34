"""Twilio's REST API at its smallest: a local server that keeps what it is asked and answers what the test laid out."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "12345"
FROM = "+15005550006"
CALLS = f"/2010-04-01/Accounts/{ACCOUNT}/Calls"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    headers: Mapping[str, str]

    def values(self, name: str) -> list[str]:
        return [value for field_name, value in self.form if field_name == name]


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: str = ""
    kind: str = "application/json"

    @classmethod
    def json(cls, status: int, body: Any) -> "Answer":
        return cls(status, json.dumps(body))

    @classmethod
    def refusal(cls, status: int, code: object, message: str = "No.") -> "Answer":
        more = f"https://www.twilio.com/docs/errors/{code}"
        return cls.json(status, {"code": code, "message": message, "more_info": more, "status": status})

    def raw(self) -> bytes:
        body = self.body.encode()
        head = f"HTTP/1.1 {self.status} X\r\nContent-Type: {self.kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Silence:
    """The connection stays open and nothing is said."""


class Reset:
    """The connection is reset once the request was read."""


Reply = Answer | Silence | Reset


def resource(sid: str = "CA1", **fields: Any) -> dict[str, Any]:
    """A call as the API shows it (TWILIO.md section 1)."""
    return {"sid": sid, "account_sid": ACCOUNT, "status": "queued", "duration": None, "answered_by": None} | fields


def page(*calls: dict[str, Any]) -> Answer:
    return Answer.json(200, {"calls": list(calls), "page": 0, "page_size": 50, "next_page_uri": None})


def placed(asked: Asked) -> Reply:
    """What it answers when nothing else was laid out: calls are placed, those asked for are under way."""
    if asked.method == "POST" and asked.path == f"{CALLS}.json":
        return Answer.json(201, resource())
    if asked.path == f"{CALLS}.json":
        return page()
    return Answer.json(200, resource(asked.path.rpartition("/")[2].removesuffix(".json")))


@dataclass
class Api:
    """`replies` are given in turn, then `otherwise`."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    replies: deque[Reply] = field(default_factory=deque)
    otherwise: Callable[[Asked], Reply] = placed
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection was closed from the other side."""

    @property
    def dials(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == "POST" and asked.path == f"{CALLS}.json"]

    @property
    def hang_ups(self) -> list[str]:
        """The calls that were ended, by name."""
        ends = [asked for asked in self.asked if asked.values("Status") == ["completed"]]
        return [asked.path.removeprefix(f"{CALLS}/").removesuffix(".json") for asked in ends]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await _request(reader)
                self.asked.append(asked)
                reply = self.replies.popleft() if self.replies else self.otherwise(asked)
                if isinstance(reply, Reset):
                    writer.transport.abort()
                elif isinstance(reply, Answer):
                    writer.write(reply.raw())
                    await writer.drain()
        self.open.discard(writer)
        self.let_go.set()
        writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
    parts = urlsplit(target)
    form = parse_qsl(body, keep_blank_values=True)
    return Asked(method, parts.path, parse_qsl(parts.query, keep_blank_values=True), form, headers)


@asynccontextmanager
async def api() -> AsyncIterator[Api]:
    made = Api()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for writer in list(made.open):
            writer.transport.abort()
        await server.wait_closed()
