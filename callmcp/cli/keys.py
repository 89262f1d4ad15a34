"""callmcp keys: issue, list, change and revoke API keys."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show, show_all
from callmcp.cli.times import Moment
from callmcp.identity.model import DEFAULT_ACCOUNT, ApiKey, Scope, parse_scopes

if TYPE_CHECKING:
    from callmcp.app import Services

COLUMNS = ("key_id", "name", "account", "prefix", "scopes", "state", "expires_at", "last_used_at")


@click.group(cls=Group)
def keys() -> None:
    """Issue, list, change and revoke API keys."""


scope_option = click.option(
    "--scope", "scopes", multiple=True, metavar="SCOPE", help=f"One of {', '.join(Scope)}; may be given again."
)
agent_option = click.option(
    "--agent", "agent_ids", multiple=True, metavar="AGENT_ID", help="Only this voice agent; may be given again."
)
expires_option = click.option("--expires", type=Moment(), help="30d, 2026-12-31 or an RFC 3339 time.")


@keys.command()
@click.argument("name")
@scope_option
@agent_option
@account_option
@expires_option
@json_option
async def create(
    name: str,
    *,
    scopes: tuple[str, ...],
    agent_ids: tuple[str, ...],
    account: str,
    expires: datetime | None,
    as_json: bool,
) -> None:
    """Issue a key named NAME and print it, alone, on stdout. It is not shown again."""
    wanted = parse_scopes(scopes)
    async with opened() as services:
        if account == DEFAULT_ACCOUNT:
            await services.keys.default_account()
        principal = await operator(services, account)
        for agent_id in agent_ids:
            await services.agents.get(principal, agent_id)
        key, secret = await services.keys.create(
            name,
            account=await services.keys.account(account),
            scopes=wanted,
            agent_ids=agent_ids,
            expires_at=expires,
        )
    if as_json:
        show({**_view(key, account, None), "key": secret}, as_json=True)
    else:
        say(f"{key.id} for the account {account}, with {' '.join(sorted(key.scopes))}. Keep it: it is not shown again.")
        click.echo(secret)


@keys.command("list")
@click.option("--account", metavar="NAME", help="Only this account's.")
@json_option
async def list_(*, account: str | None, as_json: bool) -> None:
    """List keys, revoked ones too, oldest first."""
    async with opened() as services:
        names = {one.id: one.name for one in await services.keys.accounts()}
        found = await services.keys.list(await services.keys.account(account) if account else None)
        now = services.clock.now()
    show_all("keys", [_view(key, names[key.account_id], now) for key in found], COLUMNS, as_json=as_json)


@keys.command("show")
@click.argument("key_id")
@json_option
async def show_(key_id: str, *, as_json: bool) -> None:
    """Show a key, but for its secret, which is not stored."""
    async with opened() as services:
        show(await _found(services, await services.keys.get(key_id)), as_json=as_json)


@keys.command()
@click.argument("key_id")
@click.option("--name", help="A new name.")
@scope_option
@agent_option
@click.option("--all-agents", is_flag=True, help="No longer only some voice agents.")
@expires_option
@click.option("--never-expires", is_flag=True, help="It no longer expires.")
@json_option
async def update(
    key_id: str,
    *,
    name: str | None,
    scopes: tuple[str, ...],
    agent_ids: tuple[str, ...],
    all_agents: bool,
    expires: datetime | None,
    never_expires: bool,
    as_json: bool,
) -> None:
    """Change a key at once. Scopes and agents that are given replace the ones it has."""
    if agent_ids and all_agents:
        raise click.UsageError("--agent and --all-agents exclude each other.")
    if expires and never_expires:
        raise click.UsageError("--expires and --never-expires exclude each other.")
    async with opened() as services:
        names = {one.id: one.name for one in await services.keys.accounts()}
        principal = await operator(services, names[(await services.keys.get(key_id)).account_id])
        for agent_id in agent_ids:
            await services.agents.get(principal, agent_id)
        key = await services.keys.update(
            key_id,
            name=name,
            scopes=parse_scopes(scopes) if scopes else None,
            agent_ids=agent_ids if agent_ids or all_agents else None,
            expires_at=expires,
            never_expires=never_expires,
        )
        show(await _found(services, key), as_json=as_json)


@keys.command()
@click.argument("key_id")
@json_option
async def revoke(key_id: str, *, as_json: bool) -> None:
    """End a key at once and for good."""
    async with opened() as services:
        show(await _found(services, await services.keys.revoke(key_id)), as_json=as_json)


async def _found(services: "Services", key: ApiKey) -> dict[str, Any]:
    names = {one.id: one.name for one in await services.keys.accounts()}
    return _view(key, names[key.account_id], services.clock.now())


def _view(key: ApiKey, account: str, now: datetime | None) -> dict[str, Any]:
    state = "revoked" if key.revoked_at else "expired" if now and key.expires_at and key.expires_at <= now else "active"
    times = {name: getattr(key, name) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
    return {
        "key_id": key.id,
        "name": key.name,
        "account": account,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        **({"agent_ids": sorted(key.agent_ids)} if key.agent_ids else {}),  # left out: every agent of the account
        "state": state,
        **{name: at.isoformat(timespec="seconds").replace("+00:00", "Z") for name, at in times.items() if at},
    }
