"""callmcp audit: who changed what, and what was refused."""

import click

from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import show_all

COLUMNS = ("at", "actor", "action", "subject", "before", "after", "reason")
REFUSAL_COLUMNS = ("at", "refusal_id", "key_id", "agent_id", "to", "rule", "level", "code")


@click.group(cls=Group)
def audit() -> None:
    """Show who changed what, and which calls were refused."""


@audit.command("list")
@click.option("--limit", type=click.IntRange(1, 10000), default=100, show_default=True)
@account_option
@json_option
async def list_(*, limit: int, account: str, as_json: bool) -> None:
    """List changes, the newest first."""
    from callmcp.wire import rfc3339  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    async with opened() as services:
        found = await services.policy.entries(await operator(services, account), limit=limit)
    rows = [
        {
            "id": entry.id,
            "at": rfc3339(entry.at),
            "actor": entry.actor,
            "action": entry.action,
            "subject": entry.subject,
            "before": entry.before,
            "after": entry.after,
            "reason": entry.reason,
        }
        for entry in found
    ]
    show_all("entries", rows, COLUMNS, as_json=as_json)


@audit.command()
@click.option("--limit", type=click.IntRange(1, 10000), default=100, show_default=True)
@account_option
@json_option
async def refusals(*, limit: int, account: str, as_json: bool) -> None:
    """List calls that a rule did not allow, the newest first."""
    from callmcp.wire import rfc3339  # noqa: PLC0415

    async with opened() as services:
        found = await services.policy.refusals(await operator(services, account), limit=limit)
    rows = [
        {
            "refusal_id": one.id,
            "at": rfc3339(one.at),
            "key_id": one.key_id,
            "agent_id": one.agent_id,
            "to": one.to,
            "rule": one.rule,
            "level": one.level.value,
            "code": one.code,
            "reason": one.reason,
        }
        for one in found
    ]
    show_all("refusals", rows, REFUSAL_COLUMNS, as_json=as_json)
