"""What the README and the guides say is so: commands run, output is the output, links lead somewhere."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from callmcp.calls.state import LOST, SILENT, UNREPORTED
from callmcp.cli import main
from callmcp.cli.welcome import welcome
from callmcp.settings import PREFIX, Settings
from callmcp.telephony.simulator.callee import SCENARIOS
from callmcp.telephony.twilio.callbacks import RELAY_UNREACHABLE, TALK_LOST
from callmcp.telephony.twilio.errors import MEANINGS, NOT_REACHED
from tests.acceptance.server import Server, running
from tests.documents import (
    DOCUMENTS,
    ROOT,
    Command,
    anchors,
    code_spans,
    fences,
    links,
    scripts,
    sessions,
    table,
)

README = ROOT / "README.md"
TWILIO = ROOT / "docs" / "twilio.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SHOWN_BASE = "http://127.0.0.1:8765"
OTHERS = {"claude", "curl", "cloudflared", "codex", "gemini", "ngrok", "npx", "pip", "python"}
"""Programs of other makers, whose options nothing here can check."""

VARYING = re.compile(r"(?:call_[0-9a-f]{24}|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=duration_seconds: )\d+)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("data"), simulator_speed=20, give_up_seconds=20) as server:
        yield server


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if list(sessions(one))], ids=lambda one: one.name)
def test_a_session_prints_what_the_document_shows(document: Path, server: Server, tmp_path: Path) -> None:
    key = server.key("calls:write", "agents:read")
    for command in sessions(document):
        printed = run(command, server=server, key=key, folder=tmp_path)

        assert shows(command.shown, printed), f"{command.text}\n{printed}"


def run(command: Command, *, server: Server, key: str, folder: Path) -> str:
    """What a command prints, on a server of ours instead of the reader's."""
    words = shlex.split(command.text.replace(SHOWN_BASE, server.base).replace("YOUR_KEY", key))
    match Path(words[0]).name:
        case "run":
            return welcome(endpoint=f"{SHOWN_BASE}/mcp", data=Path("/home/me/callmcp/data"), key="cmcp_0123")
        case "curl":
            return curl(words[1:])
        case "callmcp":
            done = subprocess.run(
                [sys.executable, "-m", "callmcp", *words[1:]],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "CALLMCP_DATA": str(server.data),
                    "CALLMCP_SIMULATOR_SPEED": "20",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stdout
            return done.stdout
        case other:
            raise LookupError(f"nothing here runs {other}; a command that is not to be run belongs in an sh fence")


def curl(words: Sequence[str]) -> str:
    """What curl would print, wherever there is none. Knows the options that the documents use."""
    url, headers, body = "", {}, None
    rest = iter(words)
    for word in rest:
        match word:
            case "-s":
                pass
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                body = next(rest)
            case _ if word.startswith("http"):
                url = word
            case _:
                raise LookupError(f"curl {word}")
    return httpx.request("GET" if body is None else "POST", url, headers=headers, content=body, timeout=60).text


def shows(shown: Sequence[str], printed: str) -> bool:
    """Whether the lines that are shown are the ones printed: `…` alone stands for any lines, within one for any text;
    ids, times and durations may differ, and what comes after the last line shown may be left away only by a `…`."""
    pattern = ""
    for line in shown:
        if line == "…":
            pattern += r"(?:.*\n)*?"
        else:
            fixed = [VARYING.split(part) for part in line.split("…")]
            pattern += ".*".join(VARYING.pattern.join(map(re.escape, parts)) for parts in fixed) + r"\n"
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a"], "b\n"),
        (["a"], "a\nb\n"),
        (["a", "c"], "a\nb\nc\n"),
        (["…", "b"], "a\nbc\n"),
        (["a…c"], "a\nc\n"),
        (["duration_seconds: 7"], "duration_seconds: \n"),
    ],
)
def test_output_that_is_not_what_was_shown_is_told(shown: Sequence[str], printed: str) -> None:
    assert not shows(shown, printed)


COMMANDS = [(document, command) for document in DOCUMENTS for command in scripts(document)]


@pytest.mark.parametrize(("document", "command"), COMMANDS, ids=lambda value: getattr(value, "text", ""))
def test_a_command_that_is_shown_exists_with_its_options(document: Path, command: Command) -> None:
    words = shlex.split(command.text)
    while "=" in words[0]:
        assert is_setting(words.pop(0).partition("=")[0])
    program = Path(words[0])
    if program.parts[0] == "scripts":
        assert os.access(ROOT / program, os.X_OK)
    elif program.name == "callmcp":
        parsed(words[1:])
    else:
        assert program.name in OTHERS, f"{document.name}: {words[0]} is not a program known here"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_a_command_in_a_sentence_exists(document: Path) -> None:
    for span in code_spans(document):
        words = span.split()
        if Path(words[0]).name == "callmcp" and len(words) > 1:
            found: click.Command = main
            for word in words[1:]:
                assert isinstance(found, click.Group), span
                found = subcommand(found, word)


def parsed(words: Sequence[str]) -> None:
    """Fails for a command line that click would refuse."""
    found: click.Command = main
    rest = list(words)
    while isinstance(found, click.Group):
        found = subcommand(found, rest.pop(0))
    found.make_context(found.name, rest, obj={}).close()


def subcommand(group: click.Group, name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None, f"there is no {name} in {group.name}"
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_what_is_shown_as_json_or_toml_is(document: Path) -> None:
    for fence in fences(document, "json"):
        for server in json.loads(fence.text).get("mcpServers", {}).values():
            if Path(server.get("command", "")).name == "callmcp":
                parsed(server["args"])
    for fence in fences(document, "toml"):
        tomllib.loads(fence.text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_python_that_is_shown_compiles_and_a_client_of_it_runs(document: Path, server: Server) -> None:
    key = server.key("calls:write", "agents:read")
    for fence in fences(document, "python"):
        source = fence.text.replace(SHOWN_BASE, server.base).replace("YOUR_KEY", key)

        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)

        assert (done.stdout, done.stderr) == ("completed\n", "")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_a_link_leads_somewhere(document: Path) -> None:
    for link in links(document):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_a_setting_that_is_named_exists(document: Path) -> None:
    for name in re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*", document.read_text(encoding="utf-8")):
        assert is_setting(name) or name in {f"{PREFIX}X", f"{PREFIX}X_FILE"}, name


def is_setting(variable: str) -> bool:
    name = variable.removeprefix(PREFIX).lower()
    return variable.startswith(PREFIX) and (
        name in Settings.model_fields or name.removesuffix("_file") in Settings.model_fields
    )


def test_the_numbers_to_try_are_the_simulators() -> None:
    shown = [(digits, description) for digits, description, *_ in table(README, "XX")]

    assert shown == [(scenario.digits, scenario.description) for scenario in SCENARIOS.values()]


@pytest.mark.anyio
async def test_a_number_to_try_ends_as_the_readme_says(server: Server) -> None:
    key = server.key("calls:write", "agents:read")
    async with httpx.AsyncClient(base_url=server.base, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        rows = table(README, "XX")
        records = await asyncio.gather(*(record_of(http, row[0]) for row in rows))

    assert [[row[0], *outcome(record)] for row, record in zip(rows, records, strict=True)] == [
        [row[0], *row[2:]] for row in rows
    ]


async def record_of(http: httpx.AsyncClient, digits: str) -> Mapping[str, Any]:
    """The record of a call to the number with these digits, when it is over."""
    arguments = {"agent_id": "agt_9f2a1c", "to": f"+120255501{digits}", "context": "Ask for a table for two."}
    record = await tool(http, "make_call", arguments)
    for _ in range(5):
        if "ended_at" in record:
            break
        record = await tool(http, "get_call", {"call_id": record["call_id"], "wait_seconds": 50})
    return record


async def tool(http: httpx.AsyncClient, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    params = {"name": name, "arguments": arguments}
    answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    record: Mapping[str, Any] = answer.json()["result"]["structuredContent"]
    return record


def outcome(record: Mapping[str, Any]) -> Sequence[str]:
    return [
        record["status"],
        record.get("answered_by", "-"),
        record["end_reason"],
        record["outcome"]["goal_met"],
    ]


def test_the_guide_to_twilio_has_every_code_that_its_errors_get() -> None:
    shown = {row[0].strip("`") for row in table(TWILIO, "Code")}

    assert {meaning.code for meaning in (*MEANINGS.values(), NOT_REACHED)} <= shown
    assert {RELAY_UNREACHABLE.code, TALK_LOST.code, SILENT.code, UNREPORTED.code, LOST.code} <= shown


def test_every_dependency_and_no_other_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [project["project"]["dependencies"], *project["dependency-groups"].values()]
    needed = {re.split(r"[^\w-]", entry)[0] for group in groups for entry in group if isinstance(entry, str)}

    explained = [row[0].strip("`") for row in table(ARCHITECTURE, "Package")]

    assert sorted(explained) == sorted(needed)


def test_every_file_that_the_architecture_names_is_there() -> None:
    for span in code_spans(ARCHITECTURE):
        if re.fullmatch(r"(callmcp|tests|config|scripts)/[\w./-]+", span):
            assert (ROOT / span).exists(), span


def test_the_architecture_has_a_place_for_every_module() -> None:
    named = {span for span in code_spans(ARCHITECTURE) if span.startswith("callmcp/")}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "callmcp").rglob("*.py")}

    homeless = {
        module
        for module in modules - named
        if not module.endswith(("__init__.py", "__main__.py"))
        and not any(folder.endswith("/") and module.startswith(folder) for folder in named)
    }

    assert homeless == set()


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    enforced = next(contract["layers"] for contract in contracts if contract["type"] == "layers")

    (drawn,) = fences(ARCHITECTURE, "text")

    assert drawn.text.split("\n")[:-1] == enforced


def test_the_registry_finds_its_name_in_the_readme() -> None:
    entry = json.loads((ROOT / "config" / "server.json").read_text(encoding="utf-8"))

    assert f"<!-- mcp-name: {entry['name']} -->" in README.read_text(encoding="utf-8")
