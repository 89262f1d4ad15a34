"""The language model to test against, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.acceptance.server import ROOT, environment


@dataclass(frozen=True)
class ModelProcess:
    """`url` is its base URL, as a voice agent's `model` has it before the #."""

    url: str
    http: httpx.Client

    def named(self, model: str) -> str:
        return f"{self.url}#{model}"

    def plan(self, *answers: dict[str, Any], model: str | None = None, forever: bool = False) -> None:
        """What the next requests get, in order."""
        plan = {"answers": answers, "model": model, "forever": forever}
        assert self.http.post("/_control/plans", json=plan).is_success

    def requests(self, *, wait: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get("/_control/requests", params={"wait": wait}).json()["requests"]
        return found

    def refused(self) -> list[dict[str, Any]]:
        """The requests that OpenAI would have refused."""
        found: list[dict[str, Any]] = self.http.get("/_control").json()["refused"]
        return found

    def reset(self) -> None:
        self.http.post("/_control/reset")


@contextmanager
def model_server(*options: str) -> Iterator[ModelProcess]:
    command = [sys.executable, "-m", "tests.model_server", *options]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url.removesuffix("/v1"), timeout=40, trust_env=False) as http:
                yield ModelProcess(url, http)
        finally:
            process.terminate()
