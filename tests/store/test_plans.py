"""No list of calls costs more than its page, however long the history: shown by SQLite's own account of each query."""

import itertools
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Select

from callmcp.store import calls
from callmcp.store.connection import engine_for

NARROWINGS = ({"status"}, {"agent_id"}, {"to"}, {"since"}, {"end", "end_id"})
CHOICES = [
    frozenset({"account_id", "limit"}.union(*chosen))
    for count in range(len(NARROWINGS) + 1)
    for chosen in itertools.combinations(NARROWINGS, count)
]


def plan(file: Path, names: frozenset[str]) -> list[str]:
    compiled = calls.listing(names).compile(dialect=engine_for(f"sqlite:///{file}").dialect)
    reader = sqlite3.connect(file)
    steps = reader.execute(f"EXPLAIN QUERY PLAN {compiled}", compiled.construct_params(dict.fromkeys(names, 1)))
    details = [str(row[3]) for row in steps]
    reader.close()
    return details


@pytest.mark.parametrize("names", CHOICES, ids=lambda names: "-".join(sorted(names)))
def test_a_list_goes_by_an_index_that_holds_its_order(file: Path, names: frozenset[str]) -> None:
    (step,) = plan(file, names)  # a second one would be the sorting of all that fits
    index = "agent_status" if {"agent_id", "status"} <= names else next(iter({"agent_id", "status"} & names), "account")
    expected = "ix_calls_to" if "to" in names else f"ix_calls_{index.removesuffix('_id')}"
    assert step.startswith(f"SEARCH calls USING INDEX {expected} (account_id=?")


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        (calls.CARRIED, "ix_calls_carried (owner=?)"),
        (calls.TO_END, "ix_calls_carried (owner=? AND end_requested_at>?)"),
        (calls.QUIET, "ix_calls_quiet (status=? AND heard_from_at<?)"),
    ],
)
def test_looking_for_live_calls_goes_by_an_index_of_live_calls(
    file: Path, statement: Select[tuple[object, ...]], how: str
) -> None:
    reader = sqlite3.connect(file)
    compiled = statement.compile(dialect=engine_for(f"sqlite:///{file}").dialect)
    values = compiled.construct_params(dict.fromkeys(("owner", "status", "since", "limit"), 1))
    steps = reader.execute(f"EXPLAIN QUERY PLAN {compiled}", values)
    assert str(next(steps)[3]) == f"SEARCH calls USING INDEX {how}"
    reader.close()
