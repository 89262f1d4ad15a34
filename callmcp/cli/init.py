"""callmcp init: what a fresh deployment needs before its first call."""

import contextlib
from typing import TYPE_CHECKING

import click

from callmcp.cli.command import Command, opened, operator
from callmcp.cli.printing import say
from callmcp.errors import Conflict
from callmcp.identity.model import DEFAULT_ACCOUNT, Scope

if TYPE_CHECKING:
    from callmcp.app import Services

DEMO_AGENT = "agt_9f2a1c"
FIRST_KEY_SCOPES = frozenset({Scope.CALLS_WRITE, Scope.AGENTS_READ})


@click.command(cls=Command)
async def init() -> None:
    """Make the database, a demo voice agent and a first API key.

    What is there already is left as it is. A key that is made is printed, alone, on stdout.
    """
    async with opened(new=True) as services:
        secret = await first_key(services)
    if secret is None:
        say("This deployment has keys already; make another with: callmcp keys create NAME --scope SCOPE")
    else:
        say(f"The first API key ({' '.join(sorted(FIRST_KEY_SCOPES))}). Keep it: it is not shown again.")
        click.echo(secret)


async def demo_agent(services: "Services") -> None:
    """Makes the default account and its demo agent, unless they are there or were deleted."""
    await services.keys.default_account()
    principal = await operator(services, DEFAULT_ACCOUNT)
    with contextlib.suppress(Conflict):
        await services.agents.create(
            principal,
            agent_id=DEMO_AGENT,
            name="Demo",
            greeting="Hello, I am the CallMCP demo assistant.",
            on_behalf_of="somebody who tries CallMCP",
            description="A voice agent to try things with. It says what the context of the call asks it to.",
            instructions="Be brief and friendly. Do what the context of the call asks for, then say goodbye.",
        )


async def first_key(services: "Services") -> str | None:
    """Makes the demo agent and, when the default account never had a key, one; its secret, or None."""
    await demo_agent(services)
    account = await services.keys.default_account()
    if await services.keys.list(account):
        return None
    _, secret = await services.keys.create("first key", account=account, scopes=FIRST_KEY_SCOPES)
    return secret
