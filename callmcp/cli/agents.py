"""callmcp agents: the voice agents, as options or as a TOML file."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_type_hints

import click

from callmcp.agents.model import Agent
from callmcp.agents.operations import AgentFields
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show, show_all
from callmcp.errors import InvalidArguments, Problem

COLUMNS = ("agent_id", "name", "model", "max_duration_seconds", "version", "description")
FIELDS = ("name", "greeting", "description", "instructions", "model", "from_number", "max_duration_seconds")
HELP = {
    "name": "What operators call it.",
    "greeting": "The first thing it says.",
    "description": "What it is for; clients see it.",
    "instructions": "What the language model is told.",
    "model": "The language model; scripted needs no key and no network.",
    "from_number": "The number it rings from; empty means the deployment's.",
    "max_duration_seconds": "The longest call, in seconds.",
}


@click.group(cls=Group)
def agents() -> None:
    """Define, list, change and delete voice agents."""


def fields_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each field, and `--file`, whose fields they change."""
    for field in reversed(FIELDS):
        kind = int if field == "max_duration_seconds" else str
        command = click.option(f"--{field.replace('_', '-')}", type=kind, help=HELP[field])(command)
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--file", "path", type=path, help="A TOML file of these fields; options win.")(command)


@agents.command()
@click.option("--id", "agent_id", metavar="AGENT_ID", help="agt_ and six or more hex digits (default: made up).")
@fields_options
@account_option
@json_option
async def create(*, agent_id: str | None, account: str, as_json: bool, path: Path | None, **options: Any) -> None:
    """Define a voice agent."""
    fields = _fields(path, options)
    if missing := [field for field in ("name", "greeting") if field not in fields]:
        raise InvalidArguments([Problem(field=f"--{field}", message="is needed") for field in missing])
    async with opened() as services:
        principal = await operator(services, account)
        show(_view(await services.agents.create(principal, agent_id=agent_id, **fields)), as_json=as_json)


@agents.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List voice agents, oldest first."""
    async with opened() as services:
        found = await services.agents.list(await operator(services, account))
    show_all("agents", [_view(agent) for agent in found], COLUMNS, as_json=as_json)


@agents.command("show")
@click.argument("agent_id")
@account_option
@json_option
async def show_(agent_id: str, *, account: str, as_json: bool) -> None:
    """Show a voice agent."""
    async with opened() as services:
        show(_view(await services.agents.get(await operator(services, account), agent_id)), as_json=as_json)


@agents.command()
@click.argument("agent_id")
@fields_options
@account_option
@json_option
async def update(agent_id: str, *, account: str, as_json: bool, path: Path | None, **options: Any) -> None:
    """Change what is given. Calls under way go on as they began."""
    fields = _fields(path, options)
    if not fields:
        raise click.UsageError("Nothing to change: give a field or --file.")
    async with opened() as services:
        principal = await operator(services, account)
        show(_view(await services.agents.update(principal, agent_id, **fields)), as_json=as_json)


@agents.command()
@click.argument("agent_id")
@account_option
async def delete(agent_id: str, *, account: str) -> None:
    """Delete a voice agent. Its calls' records stay."""
    async with opened() as services:
        await services.agents.delete(await operator(services, account), agent_id)
    say(f"Deleted {agent_id}.")


def _fields(path: Path | None, options: dict[str, Any]) -> AgentFields:
    """Raises InvalidArguments when the file is not as it must be."""
    fields = _read(path) if path is not None else {}
    fields |= {field: value for field, value in options.items() if value is not None}
    if fields.get("from_number") == "":
        fields["from_number"] = None
    return cast("AgentFields", fields)  # each field's name and type has been checked, here or by click


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArguments.of("--file", f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArguments.of("--file", f"{path} cannot be read as TOML: {error}") from error
    problems = [
        Problem(field=f"{path}: {name}", message=f"is not a field; the fields are {', '.join(FIELDS)}")
        for name in fields
        if name not in FIELDS
    ]
    problems += [
        Problem(field=f"{path}: {name}", message="must be a number" if _is_number(name) else "must be a text")
        for name, value in fields.items()
        if name in FIELDS and type(value) is not (int if _is_number(name) else str)
    ]
    if problems:
        raise InvalidArguments(problems)
    return fields


def _is_number(field: str) -> bool:
    return get_type_hints(AgentFields)[field] is int


def _view(agent: Agent) -> dict[str, Any]:
    """What clients see, and what only operators do."""
    from callmcp.wire import agent_view, rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    return {
        **agent_view(agent).dumped(),
        "instructions": agent.instructions,
        **({"from_number": agent.from_number} if agent.from_number else {}),
        "created_at": rfc3339(agent.created_at),
        "updated_at": rfc3339(agent.updated_at),
    }
