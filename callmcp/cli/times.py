"""Points in time as people type them."""

import re
from datetime import UTC, datetime, timedelta

import click

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(click.ParamType[datetime]):
    """`30d` (from now, or ago), a date (its first moment in UTC), or RFC 3339 with a zone. Gives an aware UTC time."""

    name = "time"

    def __init__(self, *, ago: bool = False) -> None:
        self._sign = -1 if ago else 1

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        try:
            if span := re.fullmatch(r"(\d{1,6})([mhdw])", text):
                return datetime.now(UTC) + self._sign * timedelta(**{UNITS[span[2]]: int(span[1])})
            if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
                return datetime.fromisoformat(text).replace(tzinfo=UTC)
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        return self.fail(f"{value!r} is not a time; give 30d, 12h, 2026-12-31 or 2026-12-31T09:00:00Z", param, ctx)
