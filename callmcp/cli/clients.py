"""callmcp clients: OAuth clients that operators make, instead of their registering themselves."""

from typing import Any

import click

from callmcp.cli.command import Group, account_option, json_option, opened
from callmcp.cli.printing import say, show, show_all
from callmcp.identity.grants import OAuthClient
from callmcp.identity.model import Scope, parse_scopes

COLUMNS = ("client_id", "name", "scopes", "redirect_uris", "last_used_at")


@click.group(cls=Group)
def clients() -> None:
    """Make, list and remove OAuth clients.

    Most clients need none: they bring a metadata document or register themselves, and a person says yes.
    """


@clients.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help=f"What it may do by itself, without a person: one of {', '.join(s for s in Scope if s is not Scope.ADMIN)}; "
    "may be given again.",
)
@click.option(
    "--redirect-uri", "redirect_uris", multiple=True, metavar="URI", help="Where it may ask people; may be given again."
)
@click.option("--public", is_flag=True, help="It cannot keep a secret, so it gets none.")
@account_option
@json_option
async def add(
    name: str, *, scopes: tuple[str, ...], redirect_uris: tuple[str, ...], public: bool, account: str, as_json: bool
) -> None:
    """Make a client named NAME. Its secret is printed, alone, on stdout and not shown again."""
    wanted = parse_scopes(scopes) if scopes else frozenset()
    async with opened() as services:
        client, secret = await services.grants.add_client(
            name,
            account=await services.keys.account(account),
            scopes=wanted,
            redirect_uris=redirect_uris,
            public=public,
        )
    if as_json:
        show({**_view(client), **({} if secret is None else {"client_secret": secret})}, as_json=True)
        return
    say(f"{client.id} for the account {account}." + ("" if secret is None else " Its secret is not shown again:"))
    if secret is not None:
        click.echo(secret)


@clients.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List the clients that operators made, oldest first."""
    async with opened() as services:
        found = await services.grants.clients(await services.keys.account(account))
    show_all("clients", [_view(client) for client in found], COLUMNS, as_json=as_json)


@clients.command()
@click.argument("client_id")
@account_option
async def remove(client_id: str, *, account: str) -> None:
    """Remove a client; every token that it has ends at once."""
    async with opened() as services:
        await services.grants.remove_client(await services.keys.account(account), client_id)
    say(f"{client_id} is removed, and what it was granted is revoked.")


def _view(client: OAuthClient) -> dict[str, Any]:
    from callmcp.wire import rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    return {
        "client_id": client.id,
        "name": client.name,
        "scopes": sorted(client.scopes),
        "redirect_uris": list(client.redirect_uris),
        "public": client.secret_digest is None,
        "created_at": rfc3339(client.created_at),
        "last_used_at": client.last_used_at and rfc3339(client.last_used_at),
    }
