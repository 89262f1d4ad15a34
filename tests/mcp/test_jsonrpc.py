"""Strict in what is read: RFC 8259 and JSON-RPC 2.0, narrowed where readers differ."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.mcp import jsonrpc
from callmcp.mcp.jsonrpc import Malformed, Notification, Request, Response
from callmcp.mcp.revisions import Code

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_json_value_is_read_as_any_other_reader_reads_it(value: Any) -> None:
    assert jsonrpc.parse(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_either_json_or_refused_with_words(body: bytes) -> None:
    try:
        jsonrpc.parse(body)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b'{"a":1,"a":2}', "'a' is there twice"),
        (b'{"a":{"b":1,"b":1}}', "'b' is there twice"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b"[" * 100_000, "deeper than 64"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "deeper than 64"),
    ],
)
def test_what_readers_differ_about_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jsonrpc.parse(body)


def test_nesting_up_to_the_limit_is_read() -> None:
    assert jsonrpc.parse(b"[" * 64 + b"]" * 64)


def test_many_containers_side_by_side_are_not_deep() -> None:
    assert len(jsonrpc.parse(b"[" + b",".join([b"{}"] * 200) + b"]")) == 200


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert jsonrpc.parse(rb'{"\ud800": ["\udfff", "\ud83d\ude00"]}') == {"\ufffd": ["\ufffd", "\U0001f600"]}


@pytest.mark.parametrize("id_", ["", "a", "1", 0, -7, 1, 2**70])
def test_an_id_comes_back_as_it_was_sent_type_and_all(id_: str | int) -> None:
    message = jsonrpc.read({"jsonrpc": "2.0", "id": id_, "method": "ping"})
    assert isinstance(message, Request)
    for answer in (
        jsonrpc.result(message.id, b"{}"),
        jsonrpc.error(message.id, Code.INVALID_PARAMS, "no"),
    ):
        assert json.loads(answer)["id"] == id_
        assert type(json.loads(answer)["id"]) is type(id_)


@pytest.mark.parametrize(
    ("value", "code", "id_"),
    [
        (None, Code.INVALID_REQUEST, None),
        (1, Code.INVALID_REQUEST, None),
        ({}, Code.INVALID_REQUEST, None),
        ({"jsonrpc": "1.0", "id": 3, "method": "ping"}, Code.INVALID_REQUEST, 3),
        ({"jsonrpc": "2.0", "id": 3}, Code.INVALID_REQUEST, 3),
        ({"jsonrpc": "2.0", "id": 3, "method": 5}, Code.INVALID_REQUEST, 3),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, Code.INVALID_REQUEST, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, Code.INVALID_REQUEST, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, Code.INVALID_REQUEST, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, Code.INVALID_REQUEST, None),
        ({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": []}, Code.INVALID_PARAMS, 4),
        ({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": "x"}, Code.INVALID_PARAMS, 4),
    ],
)
def test_a_message_that_is_none_says_why_and_keeps_its_id(value: object, code: Code, id_: int | None) -> None:
    message = jsonrpc.read(value)
    assert isinstance(message, Malformed)
    assert (message.code, message.id) == (code, id_)
    assert message.message


def test_the_kinds_of_messages_are_told_apart() -> None:
    assert jsonrpc.read({"jsonrpc": "2.0", "method": "notifications/initialized"}) == Notification(
        "notifications/initialized"
    )
    assert jsonrpc.read({"jsonrpc": "2.0", "id": 1, "result": {}}) == Response()
    assert jsonrpc.read({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}) == Response()
    assert jsonrpc.read({"jsonrpc": "2.0", "id": 1, "method": "m", "params": None, "extra": 1}) == Request(1, "m", {})
