"""callmcp opt-outs: who is never called again."""

from pathlib import Path

import click

from callmcp.calls.model import PhoneNumber
from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show, show_all
from callmcp.errors import InvalidArguments, Problem

COLUMNS = ("number", "source", "created_at", "reason")
PAGE = 1000


@click.group("opt-outs", cls=Group)
def opt_outs() -> None:
    """List, add and remove numbers that are never called again."""


@opt_outs.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List the numbers, in their order."""
    found: list[OptOut] = []
    async with opened() as services:
        principal = await operator(services, account)
        while page := await services.policy.opt_outs(principal, after=found[-1].number if found else "", limit=PAGE):
            found += page
    show_all("opt_outs", [_view(one) for one in found], COLUMNS, as_json=as_json)


@opt_outs.command()
@click.argument("number")
@click.option("--reason", default="", help="Why, in a few words.")
@account_option
@json_option
async def add(number: str, *, reason: str, account: str, as_json: bool) -> None:
    """Never call a number again."""
    wanted = PhoneNumber.parse(number)
    async with opened() as services:
        principal = await operator(services, account)
        added = await services.policy.add_opt_out(principal, wanted, source=OptOutSource.OPERATOR, reason=reason)
    show(_view(added), as_json=as_json)


@opt_outs.command()
@click.argument("number")
@click.option("--reason", required=True, help="Why it may be called again; kept in the audit trail.")
@account_option
async def remove(number: str, *, reason: str, account: str) -> None:
    """Let a number be called again."""
    wanted = PhoneNumber.parse(number)
    async with opened() as services:
        await services.policy.remove_opt_out(await operator(services, account), wanted, reason=reason)
    say(f"{wanted} may be called again.")


@opt_outs.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@account_option
async def import_(file: Path, *, account: str) -> None:
    """Add the numbers of a file, one a line; what follows a comma or a # is left alone."""
    numbers = _read(file)
    async with opened() as services:
        principal = await operator(services, account)
        added = await services.policy.add_opt_outs(principal, numbers, source=OptOutSource.IMPORT, reason=file.name)
    say(f"{added} added; {len(numbers) - added} were there already.")


@opt_outs.command()
@account_option
async def export(*, account: str) -> None:
    """Print the numbers, one a line, as `import` reads them."""
    async with opened() as services:
        principal = await operator(services, account)
        after = ""
        while page := await services.policy.opt_outs(principal, after=after, limit=PAGE):
            for one in page:
                click.echo(one.number)
            after = page[-1].number


def _read(file: Path) -> list[PhoneNumber]:
    """Raises InvalidArguments with a problem for each line that is no number; then none is added."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArguments.of("FILE", f"{file} cannot be read: {error}") from error
    numbers, problems = [], []
    for index, line in enumerate(lines, 1):
        text = line.partition("#")[0].partition(",")[0].strip().strip('"')
        if not text or (index == 1 and not text.startswith("+")):  # a heading
            continue
        try:
            numbers.append(PhoneNumber.parse(text))
        except InvalidArguments as error:
            problems.append(Problem(field=f"{file}, line {index}", message=error.problems[0].message))
    if problems:
        raise InvalidArguments(problems[:20])
    return numbers


def _view(opt_out: OptOut) -> dict[str, str]:
    from callmcp.wire import opt_out_view  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    call = {"call_id": opt_out.call_id} if opt_out.call_id else {}
    return {**opt_out_view(opt_out).dumped(), **call}
