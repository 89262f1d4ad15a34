"""What is asked of the database about voice agents. Each function is one job of a lane."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select, update

from callmcp.agents.model import Agent
from callmcp.errors import Conflict
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.tables import (
    AGENT_VERSIONS,
    AGENTS,
    agent_columns,
    agent_value,
    agent_version_columns,
    agent_version_value,
)

_ADD = InsertNew(AGENTS)
_ADD_VERSION = InsertNew(AGENT_VERSIONS)
_AGENT = select(AGENTS).where(AGENTS.c.id == bindparam("agent_id"))
_VERSION = select(AGENT_VERSIONS).where(
    AGENT_VERSIONS.c.agent_id == bindparam("agent_id"), AGENT_VERSIONS.c.version == bindparam("version")
)
_VERSIONS = (
    select(AGENT_VERSIONS)
    .where(AGENT_VERSIONS.c.agent_id == bindparam("agent_id"))
    .order_by(AGENT_VERSIONS.c.version.desc())
)
_AGENTS = (
    select(AGENTS)
    .where(AGENTS.c.account_id == bindparam("account_id"), AGENTS.c.deleted_at.is_(None))
    .order_by(AGENTS.c.created_at, AGENTS.c.id)
)
_SAVE = (
    update(AGENTS)
    .where(AGENTS.c.id == bindparam("id"), AGENTS.c.version == bindparam("version") - 1)
    .values({column.name: bindparam(column.name) for column in AGENTS.c if column.name != "id"})
)


def add_agent(connection: Connection, agent: Agent) -> None:
    if not connection.run(_ADD, agent_columns(agent)):
        raise Conflict(f"The agent id {agent.id!r} is taken.", code="agent_exists")
    connection.run(_ADD_VERSION, agent_version_columns(agent))


def agent(connection: Connection, agent_id: str) -> Agent | None:
    row = connection.one(_AGENT, {"agent_id": agent_id})
    return None if row is None else agent_value(row)


def agents(connection: Connection, account_id: str) -> Sequence[Agent]:
    return [agent_value(row) for row in connection.all(_AGENTS, {"account_id": account_id})]


def save_agent(connection: Connection, agent: Agent) -> None:
    if not connection.run(_SAVE, agent_columns(agent)):
        raise Conflict(f"The agent {agent.id!r} was changed by somebody else meanwhile.", code="agent_changed")
    connection.run(_ADD_VERSION, agent_version_columns(agent))


def agent_version(connection: Connection, agent_id: str, version: int) -> Agent | None:
    row = connection.one(_VERSION, {"agent_id": agent_id, "version": version})
    return None if row is None else agent_version_value(row)


def agent_versions(connection: Connection, agent_id: str) -> Sequence[Agent]:
    return [agent_version_value(row) for row in connection.all(_VERSIONS, {"agent_id": agent_id})]
