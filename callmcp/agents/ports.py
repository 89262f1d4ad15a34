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

    async def agent_version(self, agent_id: str, version: int) -> Agent | None:
        """The agent as it was in that version."""

    async def agent_versions(self, agent_id: str) -> Sequence[Agent]:
        """Every version there has been, the newest first."""

    async def save_agent(self, agent: Agent) -> None:
        """The agent is so from now on; what it was stays as its version before. Raises Conflict unless that is one less
        than the new one."""


class ModelNames(Protocol):
    def why_not(self, reference: str) -> str | None:
        """Why no voice agent can speak with this language model here, and what to do; None when one can."""
