"""What every command shares: where its settings come from, how it opens the services, how it fails."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from callmcp.errors import BadConfiguration, CallMcpError, InvalidArguments
from callmcp.identity.model import DEFAULT_ACCOUNT, Principal, Scope

if TYPE_CHECKING:
    from callmcp.app import Services
    from callmcp.settings import Settings

SQLITE = "sqlite:///"


class Failed(click.ClickException):
    """A foreseeable fault: one line on stderr that says what to do, and exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"callmcp: {' '.join(self.message.split())}", file=file, err=file is None)


class Misused(Failed):
    """The same for arguments that are not as they must be."""

    exit_code = 2


class Command(click.Command):
    """A command that has `--data` and `--config`, may be a coroutine, and fails as `Failed` does."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params += locations()

    def invoke(self, ctx: click.Context) -> object:
        try:
            result = super().invoke(ctx)
            return asyncio.run(result) if inspect.iscoroutine(result) else result
        except InvalidArguments as error:
            raise Misused(error.message) from error
        except CallMcpError as error:
            raise Failed(error.message) from error


class Group(click.Group):
    command_class = Command


def locations() -> list[click.Parameter]:
    """`--data` and `--config`, which may stand before and after the command's name; the last one counts."""
    return [
        click.Option(
            ["--data"],
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Where the database is (default: ./data, or CALLMCP_DATA).",
            expose_value=False,
            callback=_remember,
        ),
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The settings file (default: config/callmcp.toml of a checkout).",
            expose_value=False,
            callback=_remember,
        ),
    ]


def _remember(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    given = ctx.ensure_object(dict)
    if value is not None:
        given[parameter.name] = value


account_option = click.option("--account", default=DEFAULT_ACCOUNT, show_default=True, metavar="NAME", help="Whose.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def settings(**overrides: object) -> "Settings":
    """The settings, with this command's options. Raises BadConfiguration."""
    from callmcp.settings import load  # noqa: PLC0415 - see `opened`

    given: dict[str, Path] = click.get_current_context().ensure_object(dict)
    return load(given.get("config"), data=given.get("data"), **overrides)


@contextlib.asynccontextmanager
async def opened(chosen: "Settings | None" = None, *, new: bool = False) -> AsyncIterator["Services"]:
    """Everything a command works with. `new` allows a database that is not there yet; without it a wrong `--data`
    is an error, not an empty database. Raises BadConfiguration and Unavailable.
    """
    # What this imports takes half a second, which `--help` and a mistyped option should not cost.
    from callmcp.app import services  # noqa: PLC0415

    if chosen is None:
        chosen = settings()
        log_quietly(chosen)
    if not new:
        must_exist(chosen)
    async with services(chosen) as everything:
        yield everything


def log_quietly(chosen: "Settings") -> None:
    """Warnings and worse; a command's own output says the rest."""
    from callmcp import logs  # noqa: PLC0415 - see `opened`
    from callmcp.settings import LogLevel  # noqa: PLC0415

    level = max(chosen.log_level, LogLevel.WARNING, key=list(LogLevel).index)
    logs.configure(chosen.model_copy(update={"log_level": level}))


def must_exist(chosen: "Settings") -> None:
    """Raises BadConfiguration when the SQLite database that the settings name is not there."""
    url = chosen.database_url
    path = Path(url.removeprefix(SQLITE).partition("?")[0])
    if url.startswith(SQLITE) and not path.is_file():
        raise BadConfiguration(
            f"There is no database at {path.absolute()}. Name the right directory with --data, or make one there "
            "with: callmcp init"
        )


async def operator(services: "Services", account: str) -> Principal:
    """Whoever may run commands on this machine may do everything for an account. Raises NotFound."""
    found = await services.keys.account(account)
    return Principal(account_id=found.id, key_id="operator", scopes=frozenset({Scope.ADMIN}))
