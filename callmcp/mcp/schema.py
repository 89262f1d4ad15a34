"""JSON Schemas (2020-12) of pydantic models in the dialect that every model API takes.

No `$ref`, no union with null, no exclusive bounds, no `format` but date-time, no `title` of pydantic's making, and
`properties` even when there are none: each of these has made some client drop a tool or a whole server.
"""

from typing import Any

from pydantic import BaseModel

_DROPPED = frozenset({"title", "$defs", "discriminator"})


def schema_of(model: type[BaseModel], *, output: bool = False) -> dict[str, Any]:
    """The schema of a model's input, or with `output` of what it is dumped to."""
    whole = model.model_json_schema(mode="serialization" if output else "validation")
    plain: dict[str, Any] = _plain(whole, whole.get("$defs", {}))
    plain.setdefault("properties", {})
    return plain


def _plain(node: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - a schema is any JSON value
    if isinstance(node, list):
        return [_plain(inner, definitions) for inner in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _plain({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            rest = {key: value for key, value in node.items() if key != "anyOf"}
            return _plain({**options[0], **rest}, definitions)
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _plain(inner, definitions) for name, inner in value.items()}
        elif key in _DROPPED or (key == "default" and value is None) or (key == "format" and value != "date-time"):
            continue
        else:
            plain[key] = _plain(value, definitions)
    return plain
