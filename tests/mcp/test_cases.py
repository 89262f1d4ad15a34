"""Requests that real clients were seen to send, against the server as its user runs it, on a real socket."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.acceptance.server import Server, running
from tests.mcp.replay import Answer, Case, Target, check, load, replay

CASES = load(Path(__file__).with_name("cases.jsonl"))
LEFT_OUT = {
    "if mounting is documented": "callmcp is a server of its own, not a part to mount",
    "only if streams are offered": "every answer is one JSON document",
}
REPLAYED = [case for case in CASES if case.applies not in LEFT_OUT]
PLACED = {None: {0, 1}, "none": {0}, "one": {1}}
"""How many calls a case may place, by its `side_effect`; one that says nothing is no licence to dial twice."""

READ_TOOL = "list_calls"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str | None, Server]]:
    """By what a case applies to."""
    with (
        running(tmp_path_factory.mktemp("data"), simulator_speed=1000) as with_oauth,
        running(tmp_path_factory.mktemp("data"), simulator_speed=1000, oauth="off") as with_keys_alone,
    ):
        yield {None: with_oauth, "OAuth enabled": with_oauth, "OAuth disabled": with_keys_alone}


@pytest.fixture(scope="module")
def targets(servers: Mapping[str | None, Server]) -> Mapping[str | None, Target]:
    return {applies: target(server) for applies, server in servers.items()}


def target(server: Server) -> Target:
    key = ECKey.generate_key("P-256", {"kid": "theirs"})
    claims = {"iss": "https://as.example.com", "aud": "https://other.example.com/mcp", "exp": 4102444800, "sub": "x"}
    at = urlsplit(server.base)
    assert at.hostname is not None
    assert at.port is not None
    names = {
        "KEY": server.key("calls:write", "agents:read"),
        "ROKEY": server.key("calls:read"),
        "RO_TOOL": READ_TOOL,
        "RO_TOOL_UPPER": READ_TOOL.upper(),
        "RO_TOOL_B64": base64.b64encode(READ_TOOL.encode()).decode(),
        "W_TOOL": "make_call",
        "W_ARGS": json.dumps({"agent_id": "agt_9f2a1c", "to": "+12025550100"}),
        "OK_ORIGIN": "http://localhost:6274",
        "FOREIGN_JWT": jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "theirs"}, claims, key),
    }
    return Target(host=at.hostname, port=at.port, names=names)


@pytest.mark.parametrize("case", REPLAYED, ids=lambda case: case.id)
def test_a_request_seen_in_the_wild_is_answered_as_it_must_be(
    case: Case, servers: Mapping[str | None, Server], targets: Mapping[str | None, Target]
) -> None:
    server, target = servers[case.applies], targets[case.applies]
    before = calls(target)

    assert replay(case, target) == []

    assert len(calls(target) - before) in PLACED[case.side_effect]
    assert '"level": "error"' not in (server.data / "serve.log").read_text()


def test_only_cases_about_what_is_not_here_are_left_out() -> None:
    left_out = {case.id: case.applies for case in CASES if case.applies in LEFT_OUT}

    assert left_out == {
        "ops-lifespan": "if mounting is documented",
        "ops-keepalive": "only if streams are offered",
    }
    assert (len(CASES), len(REPLAYED)) == (75, 73)
    assert {case.applies for case in REPLAYED} == {None, "OAuth enabled", "OAuth disabled"}


GOOD = Answer(
    status=200,
    headers={"content-type": "application/json", "x-session": "1"},
    body=b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","n":1}]}}',
)
ERROR = Answer(status=400, body=b'{"jsonrpc":"2.0","id":"1","error":{"code":-32600,"message":"no"}}', seconds=4)


@pytest.mark.parametrize(
    ("answer", "expect"),
    [
        (GOOD, {"status": [401, 403]}),
        (ERROR, {"result": True}),
        (GOOD, {"jsonrpc_error": -32600}),
        (ERROR, {"jsonrpc_error": [-32602]}),
        (ERROR, {"jsonrpc_error_or_result": [-32602]}),
        (ERROR, {"id": 1}),
        (GOOD, {"id": True}),
        (GOOD, {"header": {"allow": "POST"}}),
        (GOOD, {"header": {"content-type": "~^text/"}}),
        (GOOD, {"header_absent": ["x-session"]}),
        (GOOD, {"header_if": {"content-type": "json", "then": {"x-accel-buffering": "no"}}}),
        (GOOD, {"body_empty": True}),
        (ERROR, {"max_seconds": 3}),
        (GOOD, {"max_bytes": 10}),
        (GOOD, {"json": [["/result/prompts", "type", "array"]]}),
        (GOOD, {"json": [["/result/tools/*/name", "==", "b"]]}),
        (GOOD, {"json": [["/result/tools/*/name", "in", ["b"]]]}),
        (GOOD, {"json": [["/result/tools/*/n", ">=", 2]]}),
        (GOOD, {"json": [["/result/tools/*/n", "type", "string"]]}),
        (GOOD, {"json": [["/result", "no_key_anywhere", "$ref,n"]]}),
        (Answer(status=200, body=b'{"a":NaN}'), {"json": [["", "strict_json"]]}),
        (Answer(status=200, body=b'{"anyOf":[{"type":"null"}]}'), {"json": [["", "no_null_unions"]]}),
        (Answer(status=200, body=b'{"a":{"type":["string","null"]}}'), {"json": [["", "no_null_unions"]]}),
        (Answer(status=200, body=b'{"type":"array"}'), {"json": [["", "arrays_have_items"]]}),
        (Answer(status=200, body=b'{"enum":["a",1]}'), {"json": [["", "enum_strings_only"]]}),
    ],
    ids=str,
)
def test_an_answer_that_is_not_as_expected_is_told(answer: Answer, expect: dict[str, Any]) -> None:
    assert check(answer, expect) != []


def calls(target: Target) -> set[str]:
    """The ids of the newest calls."""
    params = {"name": "list_calls", "arguments": {"limit": 100}}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params})
    headers = {"Content-Type": "application/json", "Authorization": "Bearer {KEY}"}
    answer = target.send({"method": "POST", "path": "/mcp", "headers": headers, "body": body})
    return {call["call_id"] for call in answer.result["structuredContent"]["calls"]}
