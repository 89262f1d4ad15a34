"""The command line. One file a command or group of commands; each is loaded when it is used, so that help is quick."""

from importlib import import_module

import click

from callmcp import __version__
from callmcp.cli.command import Group, locations

COMMANDS = {
    "serve": "Serve MCP over HTTP until told to stop.",
    "stdio": "Serve MCP over standard input and output, for a host on this machine.",
    "init": "Make the database, a demo voice agent and a first API key.",
    "keys": "Issue, list, change and revoke API keys.",
    "accounts": "Make and list accounts.",
    "agents": "Define, list, change and delete voice agents.",
    "calls": "List, show, end and place calls.",
    "opt-outs": "List, add and remove numbers that are never called again.",
    "limits": "Show and change who may be called, when and how often.",
    "approvals": "List, approve and decline calls that wait for a person's yes.",
    "clients": "Make, list and remove OAuth clients.",
    "oauth": "List and revoke what apps were granted; rotate the key that signs tokens.",
    "prices": "List, set, import and export what a minute costs.",
    "audit": "Show who changed what, and which calls were refused.",
    "db": "Bring the database up to date, or copy it.",
    "doctor": "Check settings, database and carrier, and say what to mend.",
}


class Root(Group):
    """Finds the command `x` in the module `callmcp.cli.x`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"callmcp.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Root,
    params=locations(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every setting is also a CALLMCP_… variable or a line of config/callmcp.toml; the variable wins.",
)
@click.version_option(__version__, prog_name="callmcp")
def main() -> None:
    """A server that lets an AI agent place a real outbound phone call."""
