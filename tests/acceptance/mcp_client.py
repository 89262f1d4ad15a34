"""An MCP client as small as can be, for tests that look at what becomes of calls and not at the protocol."""

import json
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import httpx

T = TypeVar("T")
AGENT = "agt_9f2a1c"
FINAL = {"completed", "busy", "no-answer", "failed", "canceled"}


class Failed(Exception):
    """The tool's result was an error; its code is the text."""


class Mcp:
    """Speaks 2025-11-25 with one key. Threads may share it."""

    def __init__(self, base: str, key: str, *, timeout: float = 60) -> None:
        headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": "2025-11-25"}
        self.http = httpx.Client(base_url=base, headers=headers, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def send(self, method: str, params: dict[str, Any]) -> httpx.Response:
        return self.http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool returned. Raises Failed for an error result, httpx.HTTPError when no answer came."""
        response = self.send("tools/call", {"name": tool, "arguments": arguments})
        if response.status_code != 200:
            raise Failed(f"HTTP {response.status_code}: {response.text}")
        return structured(response.json())

    def place(self, to: str = "+12025550100", **arguments: Any) -> dict[str, Any]:
        return self.call("make_call", agent_id=AGENT, to=to, **arguments)

    def get(self, call_id: str, **arguments: Any) -> dict[str, Any]:
        return self.call("get_call", call_id=call_id, **arguments)

    def all_calls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        while not found or "next_cursor" in page:
            page = self.call("list_calls", limit=100, **({"cursor": page["next_cursor"]} if page else {}))
            found += page["calls"]
            if not found:
                break
        return found

    def until(self, call_id: str, holds: Callable[[dict[str, Any]], bool], *, seconds: float) -> dict[str, Any]:
        return until(lambda: self.get(call_id), holds, seconds=seconds)


def structured(answer: dict[str, Any]) -> dict[str, Any]:
    """A tool's result out of a JSON-RPC answer. Raises Failed."""
    if "error" in answer:
        raise Failed(json.dumps(answer["error"]))
    result: dict[str, Any] = answer["result"]
    if result.get("isError"):
        raise Failed(result["content"][0]["text"])
    record: dict[str, Any] = result["structuredContent"]
    return record


def until(look: Callable[[], T], holds: Callable[[T], bool], *, seconds: float) -> T:
    """What `look` returns once it `holds`."""
    deadline = time.monotonic() + seconds
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"after {seconds} s still {seen}"
        time.sleep(0.05)
    return seen


def is_final(call: dict[str, Any]) -> bool:
    return call["status"] in FINAL


def is_talking(call: dict[str, Any]) -> bool:
    return len(call["transcript"]) > 0
