"""How commands print records: for people, or as JSON. What a command is asked for goes to stdout, words about it to
stderr, so that output can be piped."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")

Record = Mapping[str, Any]


def say(words: str) -> None:
    """Words for whoever runs the command, beside what it prints."""
    click.echo(_safe(words), err=True)


def show(record: Record, *, as_json: bool) -> None:
    """One record, every field."""
    from callmcp.wire import text_of  # noqa: PLC0415 - pydantic, for the commands that print records only

    if as_json:
        click.echo(_json(record))
    else:
        words = {name: " ".join(value) if _is_words(value) else value for name, value in record.items()}
        click.echo(_safe(text_of(words)))


def show_json(value: object) -> None:
    click.echo(_json(value))


def show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(_safe(line))


def show_all(name: str, records: Sequence[Record], columns: Sequence[str], *, as_json: bool) -> None:
    """A table of some columns, or as JSON `{name: [every field]}`."""
    if as_json:
        click.echo(_json({name: list(records)}))
        return
    rows = [[_cell(record.get(column)) for column in columns] for record in records]
    rows.insert(0, [column.upper() for column in columns])
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if not records:
        say(f"(no {name})")


def _is_words(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _cell(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
    return _safe(text).replace("\n", " ")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _safe(text: str) -> str:
    """What a callee said must not move the cursor of the terminal it is shown on."""
    return _CONTROL.sub("�", text)
