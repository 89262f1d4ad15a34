"""config/server.json is what the official registry asks for.

Source: the registry's server.schema.json of 2025-12-11 and its docs/reference/server-json.
"""

import json
import re
from typing import Any

import pytest

from callmcp import __version__
from callmcp.settings import CHECKOUT


@pytest.fixture
def published() -> dict[str, Any]:
    entry: dict[str, Any] = json.loads((CHECKOUT / "config" / "server.json").read_text(encoding="utf-8"))
    return entry


def test_the_entry_has_what_the_schema_requires_and_nothing_it_does_not_know(published: dict[str, Any]) -> None:
    assert published.keys() >= {"$schema", "name", "description", "version"}
    assert published.keys() <= {
        *("$schema", "name", "title", "description", "version", "websiteUrl", "repository", "icons"),
        *("packages", "remotes", "_meta"),
    }
    assert published["$schema"] == "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    assert published["repository"].keys() == {"url", "source"}


def test_the_names_have_the_form_and_length_that_the_schema_allows(published: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", published["name"])
    assert published["name"] == "io.github.callmcp/callmcp"
    assert 1 <= len(published["description"]) <= 100
    assert 1 <= len(published["title"]) <= 100


def test_the_version_is_the_packages(published: dict[str, Any]) -> None:
    assert published["version"] == __version__


def test_the_remote_is_a_template_whose_variables_are_all_described(published: dict[str, Any]) -> None:
    (remote,) = published["remotes"]

    assert remote["type"] == "streamable-http"
    assert re.fullmatch(r"https?://[^\s]+", remote["url"])
    assert remote["url"].endswith("/mcp")
    assert set(re.findall(r"{(\w+)}", remote["url"])) == remote["variables"].keys()
    assert all(variable["description"] for variable in remote["variables"].values())


def test_the_key_is_asked_for_as_a_secret(published: dict[str, Any]) -> None:
    (header,) = published["remotes"][0]["headers"]

    assert (header["name"], header["isRequired"], header["isSecret"]) == ("Authorization", True, True)
    assert header["value"] == "Bearer {api_key}"
    assert header["variables"]["api_key"]["isSecret"] is True


def test_no_secret_is_published(published: dict[str, Any]) -> None:
    assert not re.search(r"cmcp_[A-Za-z0-9]", json.dumps(published, ensure_ascii=False))
