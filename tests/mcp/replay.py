"""Replays cases.jsonl: requests that real clients were seen to send, and what must come back.

A line of that file is one case: `request` or `requests`, byte for byte but for the {PLACEHOLDERS}, `expect` as below,
`source` where it was seen, and `applies` when it holds only for some deployments. An expectation of a kind that is not
in a table here is an error, so that none is passed over.
"""

import base64
import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

ANSWER_WITHIN_SECONDS = 12

JsonMapping = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    requests: Sequence[JsonMapping]
    expect: JsonMapping
    applies: str | None
    compare: str | None
    side_effect: str | None

    @classmethod
    def parse(cls, line: str) -> "Case":
        raw = json.loads(line)
        expect = raw["expect"]
        beside = ("text", "applies", "compare", "side_effect")  # not about one answer
        return cls(
            id=raw["id"],
            requests=raw.get("requests") or [raw["request"]],
            expect={kind: wanted for kind, wanted in expect.items() if kind not in beside},
            applies=raw.get("applies") or expect.get("applies"),
            compare=expect.get("compare"),
            side_effect=expect.get("side_effect"),
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. `status` 0: nothing did, and `failure` says why."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0
    failure: str = ""

    @cached_property
    def document(self) -> Any:
        """The body's JSON, strictly, or None."""
        try:
            return json.loads(self.body, parse_constant=_refuse_constant)
        except ValueError:
            return None

    @property
    def error(self) -> JsonMapping | None:
        return self.document.get("error") if isinstance(self.document, dict) else None

    @property
    def result(self) -> Any:
        return self.document.get("result") if isinstance(self.document, dict) else None


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server, and what stands for the placeholders."""

    host: str
    port: int
    names: Mapping[str, str]

    def send(self, request: JsonMapping) -> Answer:
        method = request["method"]
        began = time.monotonic()
        try:
            with socket.create_connection((self.host, self.port), ANSWER_WITHIN_SECONDS) as connection:
                with contextlib.suppress(OSError):  # it may refuse a body without reading it, and has answered
                    connection.sendall(self.encode(request))
                response = HTTPResponse(connection, method=method)
                response.begin()
                body = response.read()
        except (OSError, HTTPException) as failure:
            return Answer(status=0, failure=repr(failure), seconds=time.monotonic() - began)
        headers = {name.lower(): ", ".join(response.headers.get_all(name, [])) for name in response.headers}
        return Answer(status=response.status, headers=headers, body=body, seconds=time.monotonic() - began)

    def encode(self, request: JsonMapping) -> bytes:
        headers = [(name, self._filled(value)) for name, value in request.get("headers", {}).items()]
        headers += [(name, self._filled(value)) for name, value in request.get("raw_headers", [])]
        body = self._body(request)
        names = {name.lower() for name, _ in headers}
        if "content-length" not in names and (body or request["method"] == "POST"):
            headers.append(("Content-Length", str(len(body))))
        lines = [f"{request['method']} {self._filled(request['path'])} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in headers]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body

    def _body(self, request: JsonMapping) -> bytes:
        if "body_b64" in request:
            return base64.b64decode(request["body_b64"])
        if "body_gen" in request:
            return _generated(request["body_gen"]).encode()
        return self._filled(request.get("body", "")).encode()

    def _filled(self, value: str | JsonMapping) -> str:
        text = value if isinstance(value, str) else _generated(value["gen"])
        return re.sub(r"\{([A-Z][A-Z0-9_]*)\}", lambda found: self.names.get(found[1], found[0]), text)


def load(path: Path) -> Sequence[Case]:
    return [Case.parse(line) for line in path.read_text(encoding="utf-8").splitlines()]


def replay(case: Case, target: Target) -> Sequence[str]:
    """Sends the case's requests and says what is not as expected."""
    if "steps" in case.expect:
        return [
            f"[{number}] {problem}"
            for number, (request, expect) in enumerate(zip(case.requests, case.expect["steps"], strict=True))
            for problem in check(target.send(request), expect)
        ]
    answers = [answer for request in case.requests for answer in _sent(target, request)]
    expect = {kind: wanted for kind, wanted in case.expect.items() if kind != "p99_seconds"}
    problems = [problem for answer in answers for problem in check(answer, expect)]
    if "p99_seconds" in case.expect:
        slow = sorted(answer.seconds for answer in answers)[int(0.99 * len(answers)) - 1]
        problems += [f"99 % took up to {slow:.1f} s"] * (slow > case.expect["p99_seconds"])
    if case.compare is not None:
        compared = [ALIKE[case.compare](answer) for answer in answers]
        problems += ["the answers differ"] * any(one != compared[0] for one in compared)
    return problems


def _sent(target: Target, request: JsonMapping) -> Sequence[Answer]:
    if "repeat" not in request:
        return [target.send(request)]
    with ThreadPoolExecutor(request["parallel"]) as pool:
        return list(pool.map(target.send, [request["request"]] * request["repeat"]))


ALIKE: Mapping[str, Callable[[Answer], Any]] = {
    "equal_bodies": lambda answer: answer.body,
    "equal_results": lambda answer: answer.result,
}


def check(answer: Answer, expect: JsonMapping) -> Sequence[str]:
    """What is not as expected of one answer."""
    seen = f"{answer.status} {answer.failure or answer.body[:200]!r}"
    problems = [problem for kind, wanted in expect.items() for problem in EXPECTATIONS[kind](answer, wanted)]
    return [f"{problem} ({seen})" for problem in problems]


def _status(answer: Answer, wanted: Sequence[int]) -> Iterator[str]:
    if answer.status not in wanted:
        yield f"the status is none of {wanted}"


def _has_result(answer: Answer, wanted: bool) -> Iterator[str]:  # noqa: FBT001 - a value of the file
    if (answer.result is not None) is not wanted:
        yield "there is no result"


def _error_code(answer: Answer, wanted: int | Sequence[int]) -> Iterator[str]:
    codes = [wanted] if isinstance(wanted, int) else wanted
    if answer.error is None or answer.error["code"] not in codes:
        yield f"the error is none of {codes}"


def _result_or_error_code(answer: Answer, wanted: Sequence[int]) -> Iterator[str]:
    if answer.result is None:
        yield from _error_code(answer, wanted)


def _id(answer: Answer, wanted: object) -> Iterator[str]:
    got = answer.document.get("id") if isinstance(answer.document, dict) else None
    if type(got) is not type(wanted) or got != wanted:
        yield f"the id is {got!r}, not {wanted!r}"


def _header(answer: Answer, wanted: Mapping[str, str]) -> Iterator[str]:
    """Contains the text, in any letter case; after a `~`, matches the expression."""
    for name, text in wanted.items():
        got = answer.headers.get(name, "")
        if not (re.search(text[1:], got) if text.startswith("~") else text.lower() in got.lower()):
            yield f"the header {name} is {got!r}"


def _header_absent(answer: Answer, unwanted: Sequence[str]) -> Iterator[str]:
    yield from (f"the header {name} is there" for name in unwanted if name in answer.headers)


def _header_if(answer: Answer, rule: JsonMapping) -> Iterator[str]:
    if rule["content-type"] in answer.headers.get("content-type", ""):
        yield from _header(answer, rule["then"])


def _body_empty(answer: Answer, _: object) -> Iterator[str]:
    if answer.body:
        yield "there is a body"


def _max_seconds(answer: Answer, most: float) -> Iterator[str]:
    if answer.seconds > most:
        yield f"it took {answer.seconds:.1f} s"


def _max_bytes(answer: Answer, most: int) -> Iterator[str]:
    if len(answer.body) > most:
        yield f"it has {len(answer.body)} bytes"


def _json(answer: Answer, rules: Sequence[Sequence[Any]]) -> Iterator[str]:
    for pointer, name, *wanted in rules:
        values = list(_pointed(answer.document, pointer.split("/")[1:]))
        if not values:
            yield f"there is no {pointer}"
        for value in values:
            if not RULES[name](value, *wanted):
                yield f"{pointer} is {str(value)[:100]}, against {name} {wanted}"


EXPECTATIONS: Mapping[str, Callable[[Answer, Any], Iterator[str]]] = {
    "status": _status,
    "result": _has_result,
    "jsonrpc_error": _error_code,
    "jsonrpc_error_or_result": _result_or_error_code,
    "id": _id,
    "header": _header,
    "header_absent": _header_absent,
    "header_if": _header_if,
    "body_empty": _body_empty,
    "max_seconds": _max_seconds,
    "max_bytes": _max_bytes,
    "json": _json,
}


def _is_a(value: object, name: str) -> bool:
    kinds = {"string": str, "object": dict, "boolean": bool, "integer": int, "array": list}
    return isinstance(value, kinds[name]) and not (name == "integer" and isinstance(value, bool))


def _no_key_anywhere(value: object, names: str) -> bool:
    return not any(set(node) & set(names.split(",")) for node in _nodes(value) if isinstance(node, dict))


def _no_null_unions(value: object) -> bool:
    def is_union(node: object) -> bool:
        if not isinstance(node, dict):
            return False
        members = [*(node.get("anyOf") or ()), *(node.get("oneOf") or ())]
        return isinstance(node.get("type"), list) or {"type": "null"} in members

    return not any(map(is_union, _nodes(value)))


def _arrays_have_items(value: object) -> bool:
    return not any(
        isinstance(node, dict) and node.get("type") == "array" and "items" not in node for node in _nodes(value)
    )


def _enum_strings_only(value: object) -> bool:
    enums = (node["enum"] for node in _nodes(value) if isinstance(node, dict) and "enum" in node)
    return all(isinstance(member, str) for enum in enums for member in enum)


RULES: Mapping[str, Callable[..., bool]] = {
    "==": lambda value, wanted: bool(value == wanted),
    ">=": lambda value, least: bool(value >= least),
    "in": lambda value, allowed: value in allowed,
    "type": _is_a,
    "strict_json": lambda value: value is not None,  # that `document` could be read
    "no_key_anywhere": _no_key_anywhere,
    "no_null_unions": _no_null_unions,
    "arrays_have_items": _arrays_have_items,
    "enum_strings_only": _enum_strings_only,
}


def _pointed(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """What a JSON pointer points at; `*` is every member."""
    if not path:
        yield value
    elif path[0] == "*":
        for member in value.values() if isinstance(value, dict) else value:
            yield from _pointed(member, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _pointed(value[path[0]], path[1:])


def _nodes(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _nodes(member)


def _generated(recipe: JsonMapping) -> str:
    count = recipe["count"]
    opened = recipe.get("prefix", "") + recipe["unit"] * count + recipe.get("suffix", "")
    return f"{opened}{recipe.get('close_unit', '') * count}{recipe.get('tail', '')}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
