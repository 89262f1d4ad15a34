"""What clients send that should not be sent. Never a 5xx or a traceback, and whoever behaves is served meanwhile."""

import base64
import contextlib
import json
import re
import resource
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.acceptance.mcp_client import AGENT, Failed, Mcp, is_final, until
from tests.acceptance.server import Server, callmcp, environment, running, serving

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
SOON = 2.0  # seconds that two busy cores may need for what takes milliseconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("hostile"), simulator_speed=20) as server:
        yield server
        log = server.log.read_text()
        assert "Traceback" not in log, log[-4000:]
        assert '"level": "error"' not in log


@pytest.fixture
def mcp(server: Server) -> Iterator[Mcp]:
    with Mcp(server.base, server.first_key) as mcp:
        yield mcp


@pytest.fixture(autouse=True)
def _still_serves(server: Server) -> Iterator[None]:
    yield
    with Mcp(server.base, server.first_key, timeout=10) as mcp:
        began = time.monotonic()
        assert mcp.call("list_agents")["agents"]
        assert time.monotonic() - began < SOON


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


def exchange(server: Server, data: bytes, *, half_close: bool = False, seconds: float = 10) -> Answer | None:
    """Sends these bytes and reads one response; None when the server closed the connection without any."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return response(connection)


def response(connection: socket.socket) -> Answer | None:
    received = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionError:
            piece = b""
        received += piece
        head, found, body = received.partition(b"\r\n\r\n")
        if found and (length := re.search(rb"content-length: (\d+)", head.lower())) and len(body) >= int(length[1]):
            return Answer(int(head.split()[1]), body[: int(length[1])])
        if not piece:
            return None


def post(body: bytes, *headers: bytes, host: bytes = b"localhost") -> bytes:
    lines = [b"POST /mcp HTTP/1.1", b"Host: " + host, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def tool(name: str, **arguments: Any) -> bytes:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.dumps(call).encode()


def authorized(server: Server) -> bytes:
    return f"Authorization: Bearer {server.first_key}".encode()


UNUSUAL = {
    "an offer of HTTP/2, as Java's client makes": post(
        LIST, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk"
    ),
    "a head of 30 kB": post(LIST, b"X-Big: " + b"a" * 30_000),
    "header values that are no text": post(LIST, b"X-Bad: \xff\xfe\xed\xa0\x80"),
    "chunks with trailers": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x;a=b\r\n%b\r\n0\r\nX-Trailer: y\r\n\r\n" % (len(LIST), LIST),
    "an absolute URL": b"POST http://localhost/mcp" + post(LIST)[9:],
    "a foreign session": post(LIST, b"Mcp-Session-Id: \xe2\x82\xac", b"Last-Event-ID: 1"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_only_unusual_is_served(server: Server, name: str) -> None:
    answer = exchange(server, UNUSUAL[name])
    assert answer is not None
    assert answer.status == 200
    assert b"make_call" in answer.body


REFUSED = {
    "a path of no characters": (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a path of encoded nonsense": (b"GET /%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "no path": (b"GET ? HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a port beyond all": (b"GET http://localhost:99999/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a tunnel": (b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 300, 400),
    "null bytes": (b"\0" * 1000, 400),
    "a Host that is not ours": (post(LIST, host=b"evil.example"), 403),
    "half an IPv6 Host": (post(LIST, host=b"[::1"), 403),
    "an empty Host": (post(LIST, host=b""), 403),
    "a foreign Origin": (post(LIST, b"Origin: https://evil.example"), 403),
    "an Origin of no address": (post(LIST, b"Origin: http://\xe2\x84\x80"), 403),
    "an Origin null": (post(LIST, b"Origin: null"), 403),
    "two lengths": (post(LIST, b"Content-Length: 3"), 400),
    "a length and chunks": (post(b"0\r\n\r\n", b"Transfer-Encoding: chunked"), 400),
    "a negative length": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\nabcde", 400),
    "a length in superscript": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\nab", 400),
    "an endless length": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{}", 413),
    "an impossible length": (b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999999\r\n\r\n", 400),
    "chunks of junk": (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc", 400),
    "a key of 30 kB": (post(tool("list_agents"), b"Authorization: Bearer " + b"a" * 30_000), 401),
    "a key of no characters": (post(tool("list_agents"), b"Authorization: Bearer \xff\xfe"), 401),
    "two different keys": (post(tool("list_agents"), b"Authorization: Bearer a", b"X-API-Key: b"), 401),
    "a revision of no characters": (post(LIST, b"MCP-Protocol-Version: \xff"), 400),
    "a head without an end": (b"GET / HTTP/1.1\r\nX: " + b"a" * 500_000, 400),
    "headers without an end": (b"GET / HTTP/1.1\r\n" + b"X: aaaaaaaaaaaaaaaaaa\r\n" * 25_000, 400),
    "a body of 1 MiB and more": (post(b'"' + b"a" * 1_048_576 + b'"'), 413),
    "braces, 100,000 deep": (post(b'{"a":' * 100_000), 400),
    "brackets, a million deep": (post(b"[" * 1_000_000), 400),
    "65 levels": (post(b"[" * 65 + b"]" * 65), 400),
    "UTF-16": (post(LIST.decode().encode("utf-16")), 400),
    "a byte order mark": (post(b"\xef\xbb\xbf" + LIST), 400),
    "a lone surrogate in bytes": (post(b'"\xed\xa0\x80"'), 400),
    "100,000 digits": (post(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 100_000)), 400),
    "a number beyond a double": (post(LIST.replace(b"tools/list", b'ping","params":{"x":1e999},"a":"')), 400),
    "NaN": (post(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}'), 400),
    "100,000 keys and one of them twice": (
        post(b"{" + b",".join(b'"%05x":0' % n for n in range(90_000)) + b',"15f8f":0}'),
        400,
    ),
    "a batch of 1,000": (post(b"[" + b",".join([LIST] * 1000) + b"]"), 400),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_malformed_is_refused_at_once(server: Server, name: str) -> None:
    data, status = REFUSED[name]
    began = time.monotonic()
    answer = exchange(server, data)
    assert time.monotonic() - began < SOON
    assert answer is not None
    assert answer.status == status
    if answer.body.startswith(b"{"):
        json.loads(answer.body, parse_constant=pytest.fail)


def test_a_client_that_closes_its_side_after_the_request_is_answered(server: Server) -> None:
    answer = exchange(server, post(tool("list_agents"), authorized(server)), half_close=True)
    assert answer is not None
    assert (answer.status, b"agt_9f2a1c" in answer.body) == (200, True)


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    requests = b"".join(post(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % n) for n in range(50))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(requests)
        received = b""
        while received.count(b'"result":{}') < 50:
            received += connection.recv(65536)
    assert [int(n) for n in re.findall(rb'"id":(\d+)', received)] == list(range(50))


def test_two_hundred_connections_that_never_finish_keep_nobody_out(server: Server, mcp: Mcp) -> None:
    unfinished = [b"", b"POST /mcp HTTP/1.1\r\nHost: loc", post(LIST)[:-10], b"POST /mcp HTTP/1.1\r\n"]
    with contextlib.ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            connection.sendall(unfinished[number % len(unfinished)])
        with ThreadPoolExecutor(20) as clients:
            began = time.monotonic()
            done = list(clients.map(lambda _: mcp.call("list_agents"), range(100)))
    assert len(done) == 100
    assert time.monotonic() - began < 10


def test_two_hundred_calls_at_once_are_all_placed(server: Server) -> None:
    def place(number: int) -> str:
        answer = exchange(
            server,
            post(
                tool("make_call", agent_id=AGENT, to="+12025550101", idempotency_key=f"n{number}"), authorized(server)
            ),
            seconds=30,
        )
        assert answer is not None
        call_id: str = json.loads(answer.body)["result"]["structuredContent"]["call_id"]
        return call_id

    with ThreadPoolExecutor(200) as clients:
        assert len(set(clients.map(place, range(200)))) == 200


def test_a_call_whose_client_went_away_is_placed_and_settles(server: Server, mcp: Mcp) -> None:
    for number in range(20):
        body = tool("make_call", agent_id=AGENT, to="+12025550101", idempotency_key=f"gone{number}")
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(post(body, authorized(server)))
            time.sleep(0.002 * number)
            # A reset, which unlike an orderly close nobody can take for a client that only has nothing more to say.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for number in range(20):
        call = mcp.place("+12025550101", idempotency_key=f"gone{number}")
        assert mcp.until(call["call_id"], is_final, seconds=10)["status"] == "busy"
    keys = [call.get("idempotency_key") for call in mcp.all_calls()]
    assert all(keys.count(f"gone{number}") == 1 for number in range(20))


def test_a_waiter_that_went_away_holds_up_nobody(server: Server, mcp: Mcp) -> None:
    call_id = mcp.place("+12025550111")["call_id"]
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(post(tool("get_call", call_id=call_id, wait_seconds=50), authorized(server)))
    assert mcp.call("end_call", call_id=call_id)["status"] == "canceled"


HOSTILE_TEXTS = [
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "\U0010ffff",
    "\u202e\u2066",
    "a" * 100_000,
    "a" * 1_000_000,
    "(a+)+$" + "a" * 5000 + "!",
    "+" + "1" * 5000,
    " " * 5000,
    "'; DROP TABLE calls; --",
    "{{7*7}}${7*7}%s%n{0}",
    "../../etc/passwd",
    "\r\nX-Injected: 1",
    "",
]
HOSTILE_VALUES: list[Any] = [
    *HOSTILE_TEXTS,
    10**300,
    -(10**300),
    1e308,
    -0.0,
    0.5,
    True,
    None,
    [],
    {},
    [[[]]],
    {"": ""},
]
ARGUMENTS = {
    "list_agents": ["", "x" * 1000],
    "make_call": ["agent_id", "to", "context", "idempotency_key", "max_duration_seconds", "metadata"],
    "get_call": ["call_id", "wait_seconds", "transcript_after"],
    "list_calls": ["status", "agent_id", "to", "since", "until", "limit", "cursor"],
    "end_call": ["call_id"],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_takes_or_refuses_every_value(server: Server, name: str) -> None:
    good: dict[str, Any] = {"agent_id": AGENT, "to": "+12025550101"} if name == "make_call" else {}
    for argument in ARGUMENTS[name]:
        values = [*HOSTILE_VALUES, *([{text: text} for text in HOSTILE_TEXTS] if argument == "metadata" else [])]
        for value in values:
            answer = exchange(server, post(tool(name, **{**good, argument: value}), authorized(server)))
            assert answer is not None, (name, argument, value)
            assert answer.status in {200, 413}, (argument, repr(value)[:50], answer)
            result = json.loads(answer.body, parse_constant=pytest.fail)
            assert "-32603" not in str(result.get("error")), result


@pytest.mark.parametrize(
    "cursor", [b"null", b"[]", b"[1,2]", b"\xff", b'"x"', b'["9999-12-31T23:59:59-23:59","x"]', b"[" * 100]
)
def test_a_cursor_that_we_did_not_make_is_refused(mcp: Mcp, cursor: bytes) -> None:
    with pytest.raises(Failed, match="cursor"):
        mcp.call("list_calls", cursor=base64.urlsafe_b64encode(cursor).decode())


def test_times_at_the_edges_of_the_calendar_are_compared_and_not_computed_with(mcp: Mcp) -> None:
    for since in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "1969-12-31T23:59:59Z"):
        assert "calls" in mcp.call("list_calls", since=since)
        assert "calls" in mcp.call("list_calls", until=since)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "server/discover", "resources/read", "prompts/get",
     "logging/setLevel", "notifications/initialized", "notifications/cancelled", "tasks/get", "completion/complete"]
) | st.text(max_size=20)  # fmt: skip
PARAMS = st.dictionaries(
    st.sampled_from(["name", "arguments", "cursor", "uri", "_meta", "protocolVersion", "level", "requestId"]), JSON
)
CALLS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(list(ARGUMENTS)),
        "arguments": st.dictionaries(st.sampled_from(sorted({n for names in ARGUMENTS.values() for n in names})), JSON),
    }
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON, "method": METHODS | JSON},
    optional={"id": st.integers() | st.text(max_size=10) | JSON, "params": CALLS | PARAMS | JSON},
)
VERSIONS = st.sampled_from([b"2025-03-26", b"2025-06-18", b"2025-11-25", b"2026-07-28", b"", b"1999-01-01"])
VALUE = st.binary(max_size=30).map(lambda raw: bytes(byte for byte in raw if byte >= 0x20 and byte != 0x7F))
HEADERS = st.dictionaries(
    st.sampled_from(
        [b"Accept", b"Content-Type", b"MCP-Protocol-Version", b"Mcp-Method", b"Mcp-Name", b"Mcp-Session-Id", b"Origin",
         b"Authorization", b"X-API-Key", b"Last-Event-ID", b"Cookie", b"X-Forwarded-For", b"Accept-Encoding"]
    ),
    VALUE | VERSIONS,
    max_size=5,
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.one_of(MESSAGES, st.lists(MESSAGES, max_size=3), JSON).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=200),
    headers=HEADERS,
    keyed=st.booleans(),
)
def test_no_message_and_no_header_makes_the_server_fail(
    server: Server, body: bytes, headers: dict[bytes, bytes], *, keyed: bool
) -> None:
    lines = [b"%b: %b" % field for field in headers.items()]
    if keyed:
        lines.append(authorized(server))
    answer = exchange(server, post(body, *lines))
    assert answer is not None
    assert answer.status < 500
    if answer.body.startswith((b"{", b"[")):
        answered = json.loads(answer.body, parse_constant=pytest.fail)
        for one in answered if isinstance(answered, list) else [answered]:
            assert one["jsonrpc"] == "2.0"
            assert one.get("error", {}).get("code") != -32603


def test_a_backup_taken_under_writes_is_whole_and_has_every_call_placed_before(server: Server, mcp: Mcp) -> None:
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            mcp.place("+12025550101")

    before = {call["call_id"] for call in mcp.all_calls()}
    copy = server.data / "copy" / "callmcp.db"
    copy.parent.mkdir()
    with ThreadPoolExecutor(3) as writers:
        tasks = [writers.submit(write) for _ in range(3)]
        try:
            callmcp("db", "backup", str(copy), data=server.data)
        finally:
            over.set()
        for task in tasks:
            task.result()
    with contextlib.closing(sqlite3.connect(copy)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        copied = {row[0] for row in database.execute("SELECT id FROM calls")}
    assert before <= copied


def test_a_full_disk_is_told_dials_nothing_and_leaves_no_damage(tmp_path: Path) -> None:
    with running(tmp_path, simulator_speed=20) as server, Mcp(server.base, server.first_key) as mcp:
        first = mcp.place("+12025550101")["call_id"]
        mcp.until(first, is_final, seconds=5)
        full = max(path.stat().st_size for path in tmp_path.glob("callmcp.db*"))
        assert server.log.stat().st_size < full
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, limit[1]))
        until(lambda: mcp.http.get("/readyz").status_code, lambda status: status == 503, seconds=10)
        assert "reason" in mcp.http.get("/readyz").json()
        assert mcp.http.get("/healthz").status_code == 200
        with pytest.raises(Failed, match="unavailable"):
            mcp.place("+12025550101", idempotency_key="full")
        assert mcp.get(first)["status"] == "busy"  # what can be read is read
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        until(lambda: mcp.http.get("/readyz").status_code, lambda status: status == 200, seconds=10)
        call = mcp.place("+12025550101", idempotency_key="full")
        assert call["replayed"] is False
        assert "Traceback" not in server.log.read_text()
    with contextlib.closing(sqlite3.connect(tmp_path / "callmcp.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (2,)


def test_a_database_of_a_later_version_makes_a_server_unready_and_no_other_start(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with contextlib.closing(sqlite3.connect(tmp_path / "callmcp.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.commit()
        with Mcp(server.base, server.first_key) as mcp:
            answer = mcp.http.get("/readyz")
        assert (answer.status_code, "9999" in answer.json()["reason"]) == (503, True)
    words = fails("serve", "--port", "0", "--data", str(tmp_path))
    assert "later" in words
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda data: (data / "callmcp.db").write_bytes(b"not a database" * 1000), "not a database"),
        (lambda data: (data / "callmcp.db").mkdir(), "unable to open|cannot be"),
        (lambda data: (data.rmdir(), data.write_text("a file")), "cannot be made"),
    ],
    ids=["a file of something else", "a directory in its place", "a file as the directory"],
)
def test_a_database_that_cannot_be_one_is_told_in_a_line(tmp_path: Path, prepare: Any, said: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    prepare(data)
    assert re.search(said, fails("serve", "--port", "0", "--data", str(data)))


def test_a_taken_port_is_told_in_a_line(server: Server, tmp_path: Path) -> None:
    words = fails("serve", "--port", str(server.port), "--data", str(tmp_path))
    assert f"port {server.port} of 127.0.0.1 is taken" in words


def test_two_first_starts_at_once_on_an_empty_folder_both_serve(tmp_path: Path) -> None:
    def start(name: str) -> list[str]:
        with serving(tmp_path, "--init", name=name) as server:
            both.wait(timeout=60)
            key = re.search(r"cmcp_[\w-]+", server.log.read_text())
            if key is not None:
                keys.append(key[0])
            both.wait(timeout=60)
            with Mcp(server.base, keys[0]) as mcp:
                return [agent["agent_id"] for agent in mcp.call("list_agents")["agents"]]

    keys: list[str] = []
    both = threading.Barrier(2)
    with ThreadPoolExecutor(2) as starters:
        assert list(starters.map(start, ["one", "other"])) == [[AGENT], [AGENT]]


def fails(*words: str) -> str:
    """What a command that must fail says: one line on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "callmcp", *words],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode not in {0, -9}, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("callmcp: ")
    return done.stderr
