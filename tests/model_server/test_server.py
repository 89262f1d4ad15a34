"""What the model server promises to those who test with it."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.model import ModelProcess, model_server

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def server() -> Iterator[ModelProcess]:
    with model_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _reset(server: ModelProcess) -> None:
    server.reset()


def ask(server: ModelProcess, **body: Any) -> Any:
    default = {"model": "instant", "messages": [{"role": "user", "content": "Hello?"}]}
    return server.http.post("/v1/chat/completions", json=default | body)


def streamed(server: ModelProcess, **body: Any) -> list[dict[str, Any]]:
    lines = [line for line in ask(server, stream=True, **body).text.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_it_imports_nothing_of_the_program_under_test() -> None:
    for path in HERE.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith("callmcp"), path.name
                assert not name.startswith("tests") or name.startswith("tests.model_server"), path.name


def test_a_stream_says_the_same_as_a_whole_answer(server: ModelProcess) -> None:
    whole = ask(server).json()["choices"][0]["message"]["content"]
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in streamed(server)]

    assert "".join(deltas) == whole == "I see. Is there anything else?"


def test_a_tools_arguments_come_in_pieces(server: ModelProcess) -> None:
    server.plan({"tools": [{"name": "press_keys", "arguments": {"digits": "12"}}]})
    tool = {"type": "function", "function": {"name": "press_keys", "parameters": {"type": "object"}}}

    calls = [c["choices"][0]["delta"].get("tool_calls", [{}])[0] for c in streamed(server, tools=[tool])]

    pieces = [call["function"]["arguments"] for call in calls if call]
    assert len(pieces) == 3
    assert json.loads("".join(pieces)) == {"digits": "12"}


TOOL = {"type": "function", "function": {"name": "a", "strict": True, "parameters": {"type": "object"}}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"model": 7}, "model"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [CALLED, {"role": "user", "content": "Hi"}]}, "messages[1]"),
        ({"messages": [CALLED]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "call_9"}]}, "messages[0].tool_call_id"),
        ({"tools": [TOOL]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tool_choice": {"function": {"name": "b"}}}, "tool_choice"),
        ({"temperature": 3}, "temperature"),
    ],
)
def test_what_openai_would_refuse_is_refused_and_remembered(
    server: ModelProcess, body: dict[str, Any], param: str
) -> None:
    answer = ask(server, **body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert [entry["param"] for entry in server.refused()] == [param]


def test_plans_are_followed_in_order_and_only_where_they_fit(server: ModelProcess) -> None:
    server.plan({"say": "One."}, {"say": "Two.", "when": "never said"}, model="instant")

    said = [
        ask(server, model=model).json()["choices"][0]["message"]["content"] for model in ("x", "instant", "instant")
    ]

    assert said == ["I see. Is there anything else?", "One.", "I see. Is there anything else?"]


def test_a_plan_that_is_none_is_refused(server: ModelProcess) -> None:
    assert server.http.post("/_control/plans", json={"answers": [{"shout": "x"}]}).status_code == 400


def test_every_model_that_the_readme_names_is_there(server: ModelProcess) -> None:
    table = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = {name for line in table for name in re.findall(r"`([a-z-]+)`", line.split("|")[1])}

    assert named == set(server.http.get("/_control").json()["models"])
