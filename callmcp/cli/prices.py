"""callmcp prices: what a minute costs."""

import csv
from pathlib import Path

import click

from callmcp.calls.cost import decimal
from callmcp.calls.policy.prices import Price, priced
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show_all
from callmcp.errors import InvalidArguments, Problem

COLUMNS = ("of", "per_minute")


@click.group(cls=Group)
def prices() -> None:
    """List, set, import and export what a minute costs.

    Of the line by the beginning of the number, the longest that fits; of `speech` and of `model` whatever the number.
    """


@prices.command("list")
@account_option
@json_option
async def list_(*, account: str, as_json: bool) -> None:
    """List the prices of this account; without one that fits a number the setting price_per_minute holds."""
    async with opened() as services:
        found = await services.policy.prices(await operator(services, account))
        currency = services.settings.currency
    rows = [{"of": one.of, "per_minute": decimal(one.per_minute), "currency": currency} for one in found]
    show_all("prices", rows, COLUMNS, as_json=as_json)


@prices.command("set")
@click.argument("of", metavar="PREFIX|speech|model")
@click.argument("per_minute")
@account_option
async def set_(of: str, per_minute: str, *, account: str) -> None:
    """Say what a minute costs, such as: callmcp prices set +1 0.014"""
    async with opened() as services:
        price = await services.policy.set_price(await operator(services, account), of, per_minute)
        say(f"A minute of {price.of} costs {decimal(price.per_minute)} {services.settings.currency}.")


@prices.command()
@click.argument("of", metavar="PREFIX|speech|model")
@account_option
async def remove(of: str, *, account: str) -> None:
    """Take a price away."""
    async with opened() as services:
        await services.policy.remove_price(await operator(services, account), of)
    say(f"{of} has no price any more.")


@prices.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@account_option
async def import_(file: Path, *, account: str) -> None:
    """Set the prices of a CSV file: PREFIX,PER_MINUTE a line, as `export` prints. Those not in it stay."""
    given = _read(file)
    async with opened() as services:
        principal = await operator(services, account)
        for price in given:
            await services.policy.set_price(principal, price.of, decimal(price.per_minute))
    say(f"{len(given)} prices set.")


@prices.command()
@account_option
async def export(*, account: str) -> None:
    """Print the prices as `import` reads them."""
    async with opened() as services:
        for one in await services.policy.prices(await operator(services, account)):
            click.echo(f"{one.of},{decimal(one.per_minute)}")


def _read(file: Path) -> list[Price]:
    """Raises InvalidArguments with a problem for each line that is no price; then none is set."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArguments.of("FILE", f"{file} cannot be read: {error}") from error
    found, problems = [], []
    for index, row in enumerate(csv.reader(lines), 1):
        texts = [text.strip() for text in row]
        if not any(texts) or texts[0].startswith("#") or (index == 1 and texts[0] in {"of", "prefix"}):
            continue
        try:
            found.append(priced("", *(texts if len(texts) == 2 else (texts[0], ""))))  # noqa: PLR2004 - PREFIX,PRICE
        except InvalidArguments as error:
            problems.append(Problem(field=f"{file}, line {index}", message=error.problems[0].message))
    if problems:
        raise InvalidArguments(problems[:20])
    return found
