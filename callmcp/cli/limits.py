"""callmcp limits: who may be called, when and how often, at each level."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from callmcp.calls.policy.limits import Level, Limits, limits_definition, limits_of
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show_json, show_lines
from callmcp.errors import InvalidArguments, NotFound
from callmcp.identity.model import Principal

if TYPE_CHECKING:
    from callmcp.app import Services

NAMES = tuple(one.name for one in fields(Limits))
_LISTS = frozenset({"regions", "allow_prefixes", "deny_prefixes", "consent"})


@click.group(cls=Group)
def limits() -> None:
    """Show and change who may be called, when and how often.

    All that apply to a call must allow it: those of the deployment, the account, the agent and the key.
    """


@limits.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List every limit, level by level."""
    async with opened() as services:
        found = await services.policy.limits(await operator(services, account))
    rows = [{"level": level.value, "of": subject, "limits": limits_definition(one)} for level, subject, one in found]
    if as_json:
        show_json({"limits": rows})
        return
    show_lines([f"{row['level']} {row['of']}".strip() + f": {json.dumps(row['limits'])}" for row in rows])


@limits.command("set")
@click.option("--agent", "agent_id", metavar="AGENT_ID", help="Of a voice agent.")
@click.option("--key", "key_id", metavar="KEY_ID", help="Of a key; without --agent and --key, of the account.")
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE...")
@account_option
async def set_(*, agent_id: str | None, key_id: str | None, assignments: Sequence[str], account: str) -> None:
    """Set limits; those that are not named stay. An empty value takes one away.

    Lists have commas: regions=US,CA. Amounts are in whole units of the currency: spend_per_day=12.50. A person must say
    yes to each call with approval=true. Hours are as hours=09:00-18:00, in some regions as region_hours=DE=09:00-20:00.
    """
    given = dict(map(_assignment, assignments))
    async with opened() as services:
        principal = await operator(services, account)
        level, subject = await _subject(services, principal, agent_id, key_id)
        present = {one: limits for _, one, limits in await services.policy.limits(principal)}
        changed = limits_definition(present.get(subject, Limits())) | given
        wanted = limits_of({name: value for name, value in changed.items() if value not in ("", [], {}, 0, False)})
        await services.policy.set_limits(principal, level, subject, wanted)
    say(f"{level.value} {subject}: {json.dumps(limits_definition(wanted))}")


@limits.command()
@click.option("--agent", "agent_id", metavar="AGENT_ID", help="Of a voice agent.")
@click.option("--key", "key_id", metavar="KEY_ID", help="Of a key; without --agent and --key, of the account.")
@account_option
async def clear(*, agent_id: str | None, key_id: str | None, account: str) -> None:
    """Take all limits of one level away. Those of the deployment are settings and stay."""
    async with opened() as services:
        principal = await operator(services, account)
        level, subject = await _subject(services, principal, agent_id, key_id)
        await services.policy.set_limits(principal, level, subject, None)
    say(f"{level.value} {subject} has no limits of its own any more.")


async def _subject(
    services: "Services", principal: Principal, agent_id: str | None, key_id: str | None
) -> tuple[Level, str]:
    """Raises NotFound when there is no such agent or key here."""
    if agent_id is not None and key_id is not None:
        raise InvalidArguments.of("--key", "give --agent or --key, not both")
    if agent_id is not None:
        return Level.AGENT, (await services.agents.get(principal, agent_id)).id
    if key_id is not None:
        keys = await services.store.keys(principal.account_id)
        if key_id not in {key.id for key in keys}:
            raise NotFound(f"There is no key {key_id!r} here.")
        return Level.KEY, key_id
    return Level.ACCOUNT, principal.account_id


def _assignment(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found or name not in NAMES:
        raise InvalidArguments.of(name or text, f"{text!r} is not NAME=VALUE; the names are {', '.join(NAMES)}")
    if name in _LISTS:
        return name, [part.strip() for part in value.split(",") if part.strip()]
    if name == "region_hours":
        return name, dict(part.strip().partition("=")[::2] for part in value.split(",") if part.strip())
    if name in {"hours", "spend_per_day", "spend_per_month"}:
        return name, value
    if name == "approval":
        if value not in {"true", "false", ""}:
            raise InvalidArguments.of(name, f"{value!r} is neither true nor false")
        return name, value == "true"
    if value and not value.isdigit():
        raise InvalidArguments.of(name, f"{value!r} is not a whole number")
    return name, int(value or 0)
