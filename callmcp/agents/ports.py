"""What agents need of a store."""

from collections.abc import Sequence
from typing import Protocol

from callmcp.agents.model import Agent


class AgentStore(Protocol):
    async def add_agent(self, agent: Agent) -> None:
        """Raises Conflict when the id is taken."""

    async def agent(self, agent_id: str) -> Agent | None:
        """The agent, also a deleted one: a call that is under way goes on with it."""

    async def agents(self, account_id: str) -> Sequence[Agent]:
        """The account's agents that are not deleted, oldest first."""

    async def save_agent(self, agent: Agent) -> None:
        """Replaces what is stored under `agent.id`. Raises Conflict unless the stored version is one less."""
