"""callmcp stdio: the tools for a host on this machine that starts its servers itself."""

import click

from callmcp.cli.command import Command, account_option, opened, settings
from callmcp.cli.init import FIRST_KEY_SCOPES, demo_agent
from callmcp.identity.model import Principal, parse_scopes


@click.command(cls=Command)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    default=sorted(FIRST_KEY_SCOPES),
    show_default=True,
    help="What the host may do; may be given again.",
)
@click.option("--agent", "agent_ids", multiple=True, metavar="AGENT_ID", help="Only this voice agent.")
@account_option
async def stdio(*, scopes: tuple[str, ...], agent_ids: tuple[str, ...], account: str) -> None:
    """Serve MCP over standard input and output, for a host on this machine.

    Whoever can start this command may read the database anyway, so no key is asked for.
    """
    from callmcp import logs  # noqa: PLC0415 - see command.opened
    from callmcp.mcp.stdio import serve  # noqa: PLC0415

    allowed = parse_scopes(scopes)
    chosen = settings()
    logs.configure(chosen)
    async with opened(chosen, new=True) as services:
        await demo_agent(services)
        found = await services.keys.account(account)
        principal = Principal(account_id=found.id, key_id="stdio", scopes=allowed, agent_ids=frozenset(agent_ids))
        await serve(services, principal)
