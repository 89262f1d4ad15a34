"""callmcp accounts: what keys, agents and calls belong to."""

from typing import Any

import click

from callmcp.cli.command import Group, json_option, opened
from callmcp.cli.printing import show, show_all
from callmcp.identity.model import Account

COLUMNS = ("account_id", "name", "created_at")


@click.group(cls=Group)
def accounts() -> None:
    """Make and list accounts.

    Keys, voice agents and calls belong to one account; nobody sees another's.
    """


@accounts.command()
@click.argument("name")
@json_option
async def create(name: str, *, as_json: bool) -> None:
    """Make an account named NAME."""
    async with opened() as services:
        show(_view(await services.keys.create_account(name)), as_json=as_json)


@accounts.command("list")
@json_option
async def list_(*, as_json: bool) -> None:
    """List all accounts, oldest first."""
    async with opened() as services:
        found = await services.keys.accounts()
    show_all("accounts", [_view(account) for account in found], COLUMNS, as_json=as_json)


def _view(account: Account) -> dict[str, Any]:
    from callmcp.wire import rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    return {"account_id": account.id, "name": account.name, "created_at": rfc3339(account.created_at)}
