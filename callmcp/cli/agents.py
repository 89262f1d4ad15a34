"""callmcp agents: the voice agents, as options or as a TOML file."""

from pathlib import Path
from typing import Any

import click

from callmcp.agents.model import Agent
from callmcp.cli.agent_fields import FIELDS, fields_of, fields_options
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show, show_all
from callmcp.errors import InvalidArguments, NotFound, Problem

COLUMNS = ("agent_id", "name", "model", "max_duration_seconds", "version", "description")
OPERATORS_FIELDS = (
    "disclosure",
    "voice",
    "tts_provider",
    "transcription_provider",
    "speech_model",
    "hints",
    "fallbacks",
    "temperature",
    "from_number",
)
HISTORY_COLUMNS = ("version", "updated_at", "changed")


@click.group(cls=Group)
def agents() -> None:
    """Define, list, change and delete voice agents."""


@agents.command()
@click.option("--id", "agent_id", metavar="AGENT_ID", help="agt_ and six or more hex digits (default: made up).")
@fields_options
@account_option
@json_option
async def create(*, agent_id: str | None, account: str, as_json: bool, path: Path | None, **options: Any) -> None:
    """Define a voice agent."""
    fields = fields_of(path, options)
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
@click.option("--version", type=click.IntRange(min=1), help="As it was in this version (default: as it is).")
@account_option
@json_option
async def show_(agent_id: str, *, version: int | None, account: str, as_json: bool) -> None:
    """Show a voice agent."""
    async with opened() as services:
        principal = await operator(services, account)
        agent = await services.agents.get(principal, agent_id)
        if version is not None:
            versions = await services.agents.versions(principal, agent_id)
            agent = next((one for one in versions if one.version == version), agent)
    if version not in {None, agent.version}:
        raise NotFound(f"{agent_id} has no version {version}; `callmcp agents history` lists them.")
    show(_view(agent), as_json=as_json)


@agents.command()
@click.argument("agent_id")
@account_option
@json_option
async def history(agent_id: str, *, account: str, as_json: bool) -> None:
    """List the versions of a voice agent and what changed in each, newest first."""
    async with opened() as services:
        versions = await services.agents.versions(await operator(services, account), agent_id)
    before = [*versions[1:], None]
    rows = [
        {**_view(agent), "changed": _changed(agent, earlier)} for agent, earlier in zip(versions, before, strict=True)
    ]
    show_all("versions", rows, HISTORY_COLUMNS, as_json=as_json)


def _changed(agent: Agent, before: Agent | None) -> str:
    if before is None:
        return "created"
    if agent.deleted_at is not None:
        return "deleted"
    return ", ".join(name for name in FIELDS if getattr(agent, name) != getattr(before, name)) or "nothing"


@agents.command()
@click.argument("agent_id")
@fields_options
@account_option
@json_option
async def update(agent_id: str, *, account: str, as_json: bool, path: Path | None, **options: Any) -> None:
    """Change what is given. Calls under way go on as they began."""
    fields = fields_of(path, options)
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


def _view(agent: Agent) -> dict[str, Any]:
    """What clients see, and what only operators do."""
    from callmcp.wire import agent_view, rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    hidden = {name: getattr(agent, name) for name in OPERATORS_FIELDS}
    return {
        **agent_view(agent).dumped(),
        "instructions": agent.instructions,
        **{
            name: list(value) if isinstance(value, tuple) else value
            for name, value in hidden.items()
            if value not in (None, ())
        },
        "created_at": rfc3339(agent.created_at),
        "updated_at": rfc3339(agent.updated_at),
    }
