"""callmcp approvals: calls that wait for a person's yes."""

from typing import Any

import click

from callmcp.calls.decisions import link_token
from callmcp.calls.model import Call
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show_all

COLUMNS = ("call_id", "to", "agent_id", "expires_at", "context")


@click.group(cls=Group)
def approvals() -> None:
    """List, approve and decline calls that wait for a person's yes.

    Which calls do is a limit: callmcp limits set approval=true, with --agent or --key for some only.
    """


@approvals.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List what waits, the oldest first. With --json also the link by which each can be decided."""
    async with opened() as services:
        found = await services.decisions.waiting(await operator(services, account))
        rows = [_row(call, services.settings.public_url) for call in found]
    show_all("approvals", rows, COLUMNS, as_json=as_json)


@approvals.command()
@click.argument("call_id")
@account_option
async def approve(call_id: str, *, account: str) -> None:
    """Say yes: the server dials the call at once."""
    async with opened() as services:
        call = await services.decisions.decide(await operator(services, account), call_id, yes=True)
    say(f"{call.id} is approved; the server that runs on this database dials {call.to}.")


@approvals.command()
@click.argument("call_id")
@account_option
async def decline(call_id: str, *, account: str) -> None:
    """Say no: the call is canceled."""
    async with opened() as services:
        call = await services.decisions.decide(await operator(services, account), call_id, yes=False)
    say(f"{call.id} is declined and will not be dialled.")


@approvals.command()
@click.argument("call_id")
@account_option
async def link(call_id: str, *, account: str) -> None:
    """Print a link to a page on which whoever has it can approve or decline this one call."""
    from callmcp.errors import NotFound  # noqa: PLC0415

    async with opened() as services:
        found = await services.decisions.waiting(await operator(services, account))
        call = next((one for one in found if one.id == call_id), None)
        if call is None:
            raise NotFound(f"There is no call {call_id!r} here that waits for a yes.")
        click.echo(_link(call, services.settings.public_url))


def _row(call: Call, base: str) -> dict[str, Any]:
    from callmcp.wire import rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    return {
        "call_id": call.id,
        "to": call.to,
        "agent_id": call.agent_id,
        "key_id": call.key_id,
        "state": call.approval.state.value if call.approval else None,
        "expires_at": rfc3339(call.approval.expires_at) if call.approval else None,
        "context": call.context,
        "link": _link(call, base),
    }


def _link(call: Call, base: str) -> str:
    from callmcp.wire import APPROVAL_PATH  # noqa: PLC0415

    return f"{base}{APPROVAL_PATH.format(call_id=call.id)}?token={link_token(call)}"
