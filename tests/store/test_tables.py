"""A value, its row and its two functions have the same fields, so that none is lost on the way."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from sqlalchemy import Table

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import Call, Speaker, Turn
from callmcp.identity.model import Account, ApiKey
from callmcp.store import tables
from tests.contracts.values import NOON, a_call, a_key, an_account, an_agent

TURN = Turn(index=0, at=NOON, speaker=Speaker.AGENT, text="Hello.")

BORDERS: list[tuple[type[Any], Table, dict[str, Any], Callable[[Any], Any], object]] = [
    (Account, tables.ACCOUNTS, tables.account_columns(account := an_account()), tables.account_value, account),
    (ApiKey, tables.KEYS, tables.key_columns(key := a_key()), tables.key_value, key),
    (Agent, tables.AGENTS, tables.agent_columns(agent := an_agent()), tables.agent_value, agent),
    (Call, tables.CALLS, tables.call_columns(call := a_call()), tables.call_value, call),
    (Turn, tables.TURNS, tables.turn_columns("call_1", TURN), tables.turn_value, TURN),
]


@pytest.mark.parametrize(("kind", "table", "columns", "value_of", "value"), BORDERS, ids=lambda part: str(part)[:20])
def test_a_row_has_the_fields_of_its_value(
    kind: type[Any], table: Table, columns: dict[str, Any], value_of: Callable[[Any], Any], value: object
) -> None:
    names = [field.name for field in fields(kind)]
    if kind is Turn:
        names.insert(0, "call_id")  # a turn is known by its call
    assert [column.name for column in table.c] == names
    assert list(columns) == names
    assert value_of([columns[name] for name in names]) == value


DAY = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))


def test_a_version_has_every_field_of_its_agent() -> None:
    whole = replace(agent, hints=("Ada",), temperature=0.5, recording=True, questions=(DAY,), deleted_at=NOON)

    columns = tables.agent_version_columns(whole)

    assert list(columns) == [column.name for column in tables.AGENT_VERSIONS.c]
    assert list(json.loads(columns["definition"])) == [field.name for field in fields(Agent)]
    assert tables.agent_version_value(list(columns.values())) == whole


def test_a_field_that_came_later_has_its_default_in_an_older_version() -> None:
    columns = tables.agent_version_columns(replace(agent, recording=True, questions=(DAY,)))
    older = json.loads(columns["definition"])
    del older["recording"], older["questions"]

    assert tables.agent_version_value([agent.id, 1, json.dumps(older)]) == agent
