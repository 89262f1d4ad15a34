"""What OpenAI would refuse in a request: a fault in what we send must not pass here and fail there."""

import re
from collections.abc import Mapping
from typing import Any

from tests.model_server.answers import Asked

ROLES = {"system", "developer", "user", "assistant", "tool"}
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Invalid(Exception):
    """`param` names the part of the request that is wrong."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def asked(body: Any) -> Asked:
    """Raises Invalid."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise Invalid("you must provide a model parameter", "model")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Invalid("messages is a list with at least one message", "messages")
    tools = _tools(body.get("tools"))
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in tools:
        raise Invalid("tool_choice names a tool that is not there", "tool_choice")
    if choice == "required" and not tools:
        raise Invalid("tool_choice is required and there are no tools", "tool_choice")
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        raise Invalid("temperature is 0 to 2", "temperature")
    _check_messages(messages)
    return Asked(messages=messages, tools=tools)


def _tools(given: Any) -> Mapping[str, dict[str, Any]]:
    tools = {}
    for index, tool in enumerate(given or []):
        function = tool.get("function", {}) if tool.get("type") == "function" else {}
        name, parameters = function.get("name", ""), function.get("parameters", {})
        if not TOOL_NAME.fullmatch(name):
            raise Invalid("a function has a name of letters, digits, _ and -", f"tools[{index}].function.name")
        if parameters.get("type") != "object":
            raise Invalid("parameters is a schema of type object", f"tools[{index}].function.parameters")
        if function.get("strict"):
            _check_strict(parameters, f"tools[{index}].function.parameters")
        tools[name] = parameters
    return tools


def _check_strict(schema: dict[str, Any], where: str) -> None:
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", [])) != set(properties):
            raise Invalid("a strict schema requires every property and allows no other", where)
        for name, inner in properties.items():
            _check_strict(inner, f"{where}.{name}")
    elif schema.get("type") == "array":
        _check_strict(schema.get("items", {}), f"{where}[]")
    elif "type" not in schema and "enum" not in schema and "anyOf" not in schema:
        raise Invalid("a strict schema has a type everywhere", where)


def _check_messages(messages: list[Any]) -> None:
    """Every tool call is answered at once, and only what was called is."""
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        if role not in ROLES:
            raise Invalid(f"role is one of {', '.join(sorted(ROLES))}", f"{where}.role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise Invalid("a tool's message answers a call of the message before", f"{where}.tool_call_id")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            raise Invalid("tool calls must be answered before anything else is said", where)
        calls = message.get("tool_calls") or []
        open_calls = {call["id"] for call in calls}
        if message.get("content") is None and not calls:
            raise Invalid("a message has content", f"{where}.content")
    if open_calls:
        raise Invalid("tool calls must be answered before anything else is said", "messages")
