"""JSON-RPC 2.0 messages: strict in what is read, exact in what is written. No I/O, nothing of MCP but its id rules."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic_core import PydanticSerializationError, to_json

from callmcp.mcp.revisions import Code

Id = str | int
MAX_NESTING = 64
MAX_BATCH = 20
MAX_DIGITS = 1000  # of an integer; Python itself refuses more than 4300, in words for programmers
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Request:
    id: Id
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    method: str


@dataclass(frozen=True, slots=True)
class Response:
    """An answer from the client; this server never asks, so there is nothing to do with one."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A message that cannot be answered as what it meant to be. `id` is its own when that much could be read."""

    code: Code
    message: str
    id: Id | None = None


Message = Request | Notification | Response | Malformed


def parse(body: bytes) -> Any:  # noqa: ANN401 - JSON is any value
    """The JSON value in `body` (RFC 8259). Raises ValueError with a sentence that says what is wrong.

    Refused, since readers differ about them: bytes that are not UTF-8, a byte order mark, NaN and Infinity, numbers
    beyond a double's range, a key twice in one object, nesting deeper than 64.
    """
    try:
        value = _STRICT.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"the body is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_NESTING} levels") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos}") from None
    if body.count(b"[") + body.count(b"{") > MAX_NESTING and _deeper_than(value, MAX_NESTING):
        raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")
    return _without_lone_surrogates(value) if _SURROGATE_ESCAPE.search(body) else value


def read(value: object) -> Message:
    """The message that a parsed JSON value is (JSON-RPC 2.0 section 4; MCP narrows ids to strings and integers)."""
    if not isinstance(value, dict):
        return Malformed(Code.INVALID_REQUEST, "A message must be a JSON object.")
    message: dict[str, Any] = value
    id_ = message.get("id")
    known_id = id_ if isinstance(id_, str | int) and not isinstance(id_, bool) else None
    if message.get("jsonrpc") != "2.0":
        return Malformed(Code.INVALID_REQUEST, 'The member "jsonrpc" must be "2.0".', known_id)
    if "method" not in message and ("result" in message or "error" in message):
        return Response()
    method = message.get("method")
    if not isinstance(method, str):
        return Malformed(Code.INVALID_REQUEST, 'The member "method" must be a string.', known_id)
    if "id" not in message:
        return Notification(method)
    if known_id is None:
        return Malformed(Code.INVALID_REQUEST, 'The member "id" must be a string or an integer.')
    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return Malformed(Code.INVALID_PARAMS, 'The member "params" must be an object.', known_id)
    return Request(known_id, method, params)


def result(id_: Id, encoded: bytes) -> bytes:
    """A response carrying a result that is already JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encoded_id(id_), encoded)


def error(id_: Id | None, code: Code, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """An error response; `id_` None when the request's could not be read."""
    fault: dict[str, Any] = {"code": int(code), "message": message}
    if data is not None:
        fault["data"] = data
    return encode({"jsonrpc": "2.0", "id": id_, "error": fault})


def batch(responses: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(responses)


def encode(value: object) -> bytes:
    try:
        return to_json(value)  # a third of the time of json.dumps
    except PydanticSerializationError:  # half a surrogate pair
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _encoded_id(id_: Id) -> bytes:
    return b"%d" % id_ if isinstance(id_, int) else encode(id_)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        # Counted: to look each key up in the list of all took six minutes for the keys that fit into one body.
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:80]!r} is there twice in one object")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number may have at most {MAX_DIGITS} digits")
    return int(digits)


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_float, parse_int=_int)


def _deeper_than(value: object, levels: int) -> bool:
    containers = [value]
    for _ in range(levels):
        containers = [
            inner
            for outer in containers
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not containers:
            return False
    return True


def _without_lone_surrogates(value: Any) -> Any:  # noqa: ANN401 - JSON is any value
    """Half a surrogate pair is no character and cannot be stored or sent on; it becomes U+FFFD."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_LONE_SURROGATE.sub("\ufffd", key): _without_lone_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_lone_surrogates(inner) for inner in value]
    return value
