"""The catalog: what clients, model APIs and marketplaces need of it. MCP.md lists who breaks on what."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import mcp_types
import pytest

from callmcp.identity.model import Scope
from callmcp.mcp.catalog import Catalog, tool_definition
from callmcp.mcp.revisions import HANDSHAKE, REVISIONS, STATELESS
from callmcp.mcp.tools import TOOLS

DEFINITIONS = [tool_definition(tool) for tool in TOOLS]
each_tool = pytest.mark.parametrize("tool", DEFINITIONS, ids=[definition["name"] for definition in DEFINITIONS])


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    if isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in nodes(schema):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"].items()


@each_tool
def test_a_tool_reads_as_the_official_types_read_it(tool: dict[str, Any]) -> None:
    mcp_types.Tool.model_validate(tool)


@each_tool
def test_names_titles_and_descriptions_have_the_size_that_clients_show(tool: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", tool["name"])
    assert len(tool["title"]) > len(tool["name"])
    assert tool["annotations"]["title"] == tool["title"]
    assert 120 <= len(tool["description"]) <= 1600


@each_tool
def test_a_description_names_the_scope_and_a_sibling(tool: dict[str, Any]) -> None:
    assert re.search(r"Needs the scope (\S+)\.$", tool["description"])
    assert any(other["name"] in tool["description"] for other in DEFINITIONS if other is not tool)


def test_the_scope_shown_is_the_scope_enforced() -> None:
    for tool in TOOLS:
        assert tool.description.endswith(f"Needs the scope {tool.scope.value}.")
        assert tool.scope in Scope


@each_tool
def test_every_property_is_described(tool: dict[str, Any]) -> None:
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        for name, node in properties(schema):
            assert node.get("description"), name


@each_tool
def test_schemas_have_nothing_that_a_model_api_chokes_on(tool: dict[str, Any]) -> None:
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "properties" in schema
        for node in nodes(schema):
            assert not {"$ref", "$defs", "definitions", "oneOf", "anyOf", "allOf", "patternProperties"} & node.keys()
            assert not {"exclusiveMinimum", "exclusiveMaximum"} & node.keys()
            assert not isinstance(node.get("type"), list)
            assert node.get("type") != "null"
            assert node.get("format", "date-time") == "date-time"
            assert node.get("type") != "array" or "items" in node
            assert all(isinstance(entry, str) for entry in node.get("enum", []))
            assert node.get("default", "") is not None


@each_tool
def test_all_four_hints_are_stated(tool: dict[str, Any]) -> None:
    hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert all(isinstance(tool["annotations"][hint], bool) for hint in hints)


def test_the_hints_are_honest() -> None:
    by_name = {definition["name"]: definition["annotations"] for definition in DEFINITIONS}
    for reader in ("list_agents", "get_call", "list_calls"):
        assert by_name[reader] | {"title": ""} == {
            "title": "",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
    assert not by_name["make_call"]["readOnlyHint"]
    assert by_name["make_call"]["destructiveHint"]
    assert by_name["make_call"]["openWorldHint"]
    assert not by_name["make_call"]["idempotentHint"]
    assert by_name["end_call"]["idempotentHint"]


def test_a_harmless_read_tool_that_takes_no_arguments_comes_first() -> None:
    assert DEFINITIONS[0]["annotations"]["readOnlyHint"]
    assert "required" not in DEFINITIONS[0]["inputSchema"]


def test_make_call_begins_with_the_words_that_marketplaces_look_for() -> None:
    make_call = next(definition for definition in DEFINITIONS if definition["name"] == "make_call")
    assert make_call["description"].startswith("Initiate a real outbound phone call via an AI agent")
    assert "E.164" in make_call["inputSchema"]["properties"]["to"]["description"]
    assert make_call["inputSchema"]["required"] == ["agent_id", "to"]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=REVISIONS)
def test_pages_lead_from_the_first_tool_to_the_last(revision: Any) -> None:
    catalog = Catalog(page_size=2)
    cursor, names, page = None, [], {}
    for _ in range(10):
        encoded = catalog.page("tools/list", revision, cursor)
        assert encoded is not None
        page = json.loads(encoded)
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert names == [tool.name for tool in TOOLS]
    assert "nextCursor" not in page
    assert catalog.page("tools/list", revision, "nonsense") is None


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=REVISIONS)
def test_only_a_stateless_revision_gets_result_types_and_cache_hints(revision: Any) -> None:
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        page = json.loads(Catalog().page(method, revision, None) or b"")
        added = {"resultType", "ttlMs", "cacheScope", "_meta"}
        assert page.keys() & added == (added if revision.stateless else set())


@pytest.mark.parametrize("revision", HANDSHAKE.values(), ids=HANDSHAKE)
def test_initialize_reads_as_the_official_types_read_it(revision: Any) -> None:
    result = mcp_types.InitializeResult.model_validate_json(Catalog().initialize(revision))
    assert result.protocol_version == revision.version
    assert result.instructions
    assert not (result.capabilities.tools and result.capabilities.tools.list_changed)


@pytest.mark.parametrize("revision", STATELESS.values(), ids=STATELESS)
def test_discover_reads_as_the_official_types_read_it(revision: Any) -> None:
    raw = Catalog().discover(revision)
    result = mcp_types.DiscoverResult.model_validate_json(raw)
    assert result.supported_versions == list(STATELESS)
    assert json.loads(raw)["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "callmcp"


def test_nothing_in_the_catalog_is_null() -> None:
    catalog = Catalog()
    for revision in REVISIONS.values():
        assert b"null" not in (catalog.page("tools/list", revision, None) or b"")
