"""callmcp oauth: what people granted to apps, and the key that signs tokens."""

from typing import Any

import click

from callmcp.cli.command import Group, account_option, json_option, opened
from callmcp.cli.printing import say, show_all
from callmcp.identity.grants import Grant

COLUMNS = ("grant_id", "client", "key_id", "scopes", "agent_ids", "created_at")


@click.group(cls=Group)
def oauth() -> None:
    """List and revoke what apps were granted; rotate the key that signs tokens."""


@oauth.command()
@account_option
@json_option
async def grants(*, account: str, as_json: bool) -> None:
    """List what holds: which app may do what, and with whose key that was allowed. Oldest first."""
    async with opened() as services:
        found = await services.grants.grants(await services.keys.account(account))
    show_all("grants", [_view(grant) for grant in found], COLUMNS, as_json=as_json)


@oauth.command()
@click.argument("grant_id")
@account_option
async def revoke(grant_id: str, *, account: str) -> None:
    """Take back what was granted; every token of it ends at once."""
    async with opened() as services:
        await services.grants.revoke(await services.keys.account(account), grant_id)
    say(f"{grant_id} is revoked.")


@oauth.command()
async def rotate() -> None:
    """Sign with a new key from now on. Tokens that the old one signed stay good until they expire, within an hour; to
    end those at once, revoke what was granted."""
    async with opened() as services:
        from callmcp.auth.oauth.tokens import SigningKeys  # noqa: PLC0415 - a library that only this needs

        name = await SigningKeys(services.store, services.clock).rotate()
        account = await services.keys.default_account()
        await services.grants.rotated(account, name)
    say(f"Tokens are signed with the key {name} from now on.")


def _view(grant: Grant) -> dict[str, Any]:
    from callmcp.wire import rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    return {
        "grant_id": grant.id,
        "client": grant.client_name,
        "client_id": grant.client_id,
        "key_id": grant.key_id,
        "scopes": sorted(grant.scopes),
        "agent_ids": sorted(grant.agent_ids) or ["all"],
        "created_at": rfc3339(grant.created_at),
    }
