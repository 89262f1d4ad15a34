"""Our server on a Twilio to test against, each a process of its own, and the questions the tests ask of both."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.mcp_client import FINAL, Mcp
from tests.acceptance.server import ROOT, Server, callmcp, environment, serving

ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "12345"
FROM = "+15005550006"
SPEED = 20
# These tests call made-up numbers, many of them, at any hour.
UNLIMITED = {
    "limit_regions": "*",
    "limit_hours": "00:00-24:00",
    "strict_numbers": "false",
    **{
        f"limit_{name}": 0
        for name in (
            *("calls_per_minute", "calls_per_hour", "calls_per_day", "calls_at_once"),
            *("destination_per_day", "destination_at_once", "destination_pause_seconds"),
            *("spend_per_day", "spend_per_month"),
        )
    },
}


@dataclass(frozen=True)
class Twilio:
    """The emulator, by its control API."""

    url: str
    http: httpx.Client

    def plan(self, **plan: Any) -> None:
        """What the next call, or with `to` the calls to a number, meet."""
        self._said(self.http.post("/_control/plans", json=plan))

    def dials(self, to: str) -> int:
        return int(self.state()["dials"].get(to, 0))

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._said(self.http.get("/_control"))
        return state

    def call_to(self, to: str, *, wait: float = 10) -> dict[str, Any]:
        """The call to this number, once it is over and all was told."""
        found = self._said(self.http.get("/_control/calls", params={"to": to, "wait": wait}))
        calls = found["calls"] if isinstance(found, dict) else found
        assert len(calls) == 1, calls
        call: dict[str, Any] = self._said(self.http.get(f"/_control/calls/{calls[0]['sid']}", params={"wait": wait}))
        return call

    @staticmethod
    def _said(response: httpx.Response) -> Any:
        assert response.status_code < 300, response.text
        return response.json() if response.content else None


@contextmanager
def twilio(*options: str) -> Iterator[Twilio]:
    command = [sys.executable, "-m", "tests.twilio_emulator", "--port", "0", "--speed", str(SPEED), "--loopback-ws"]
    with subprocess.Popen(
        [*command, *options], cwd=ROOT, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
                yield Twilio(url, http)
        finally:
            process.terminate()


@contextmanager
def on_twilio(
    data: Path,
    carrier: Twilio,
    *,
    port: int = 0,
    key: str = "",
    name: str = "serve",
    limited: bool = False,
    **settings: Any,
) -> Iterator[Server]:
    """`callmcp serve` on this Twilio, with patience to match its speed; with a `key`, on data that is there already;
    `limited` as an operator's is who set no limits. Two at once need a `name` each, for their logs."""
    own: dict[str, Any] = {
        "carrier": "twilio",
        "twilio_account_sid": ACCOUNT,
        "twilio_auth_token": TOKEN,
        "twilio_from": FROM,
        "twilio_api_url": carrier.url,
        "silence_seconds": 1.5,
        "give_up_seconds": 4,
        "quiet_seconds": 2,
        "queue_seconds": 4,
        "look_seconds": 0.5,
        **({} if limited else UNLIMITED),
    }
    settings = own | settings
    first_key = key or callmcp("init", data=data, **settings).strip()
    with serving(data, "--port", str(port), name=name, **settings) as server:
        yield replace(server, first_key=first_key)


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones: asked for one after the other, the system may name the same twice."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]


def ended(mcp: Mcp, call_id: str, *, seconds: float = 20) -> dict[str, Any]:
    return mcp.until(call_id, lambda record: record["status"] in FINAL, seconds=seconds)
