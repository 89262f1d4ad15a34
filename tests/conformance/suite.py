"""The official conformance suite against a running server. Standard library only.

The suite has no option for a header, so it talks to a proxy of ours that adds the Authorization header and leaves
Host and Origin as they are. What a tools-only server cannot pass is in baseline-<revision>.yaml, with the reasons.
"""

import http.client
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance import peers

SUITE = peers.NODE_MODULES / "@modelcontextprotocol/conformance/dist/index.js"
BASELINES = Path(__file__).parent
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True)
class Run:
    """One run of the suite. Its exit code is 0 only when all pass but the baseline, and no baseline entry is stale."""

    name: str
    options: Sequence[str]


def required(revision: str) -> Run:
    baseline = BASELINES / f"baseline-{revision}.yaml"
    return Run(revision, ["--requirements", revision, "--expected-failures", str(baseline)])


RUNS = [
    required("2025-11-25"),
    required("2026-07-28"),
    # Not scored by the suite yet ("pending"), but nothing in it needs a fixture.
    Run("2026-07-28 headers", ["--scenario", "http-header-validation", "--spec-version", "2026-07-28"]),
]


@dataclass(frozen=True)
class Report:
    passed: bool
    text: str

    @property
    def summary(self) -> str:
        """The part of the suite's own words that says which scenarios passed and what was unexpected."""
        _, _, summary = self.text.rpartition("=== SUMMARY ===")
        return summary.strip() or self.text.strip()


def conforms(run: Run, endpoint: str) -> Report:
    """Raises peers.Missing without a Node to run the suite on."""
    with tempfile.TemporaryDirectory() as out:
        command = [str(peers.node()), str(SUITE), "server", "--url", endpoint, "-o", out, *run.options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return Report(done.returncode == 0, re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr))


@contextmanager
def keyed(endpoint: str, key: str) -> Iterator[str]:
    """The same endpoint at an address where every request without credentials gets this key."""
    target = urlsplit(endpoint)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with closing(http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)) as upstream:
                self.answer(upstream, body)

        def answer(self, upstream: http.client.HTTPConnection, body: bytes) -> None:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    upstream.putheader(name, value)
            if "authorization" not in self.headers:
                upstream.putheader("Authorization", f"Bearer {key}")
            upstream.endheaders(body)
            answer = upstream.getresponse()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")  # the end of a stream is the end of the connection
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # a scenario may leave in the middle of an answer
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

        do_GET = do_POST = do_DELETE = do_OPTIONS = do_HEAD = forward  # noqa: N815 -- http.server looks for these

        def log_message(self, *_: object) -> None:
            """Says nothing: the suite reports what matters."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}{target.path}"
        proxy.shutdown()
