"""Define, change, list and delete voice agents."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TypedDict, Unpack

from callmcp.agents.model import Agent, validated
from callmcp.agents.ports import AgentStore, ModelNames
from callmcp.agents.questions import Question
from callmcp.clock import Clock
from callmcp.errors import InvalidArguments, NotFound, Problem
from callmcp.identity.audit import Trail
from callmcp.identity.model import Principal, Scope

_NOT_IN_THE_TRAIL = frozenset({"id", "account_id", "version", "created_at", "updated_at", "deleted_at"})


class OptionalFields(TypedDict, total=False):
    """What an operator may leave out."""

    description: str
    instructions: str
    on_behalf_of: str
    disclosure: bool
    language: str
    voice: str | None
    tts_provider: str | None
    transcription_provider: str | None
    speech_model: str | None
    hints: tuple[str, ...]
    model: str
    fallbacks: tuple[str, ...]
    temperature: float | None
    from_number: str | None
    max_duration_seconds: int
    voicemail_message: str | None
    recording: bool
    questions: tuple[Question, ...]


class AgentFields(OptionalFields, total=False):
    """What an operator may change."""

    name: str
    greeting: str


class Agents:
    """The verbs on voice agents that every edge uses. Another account's agent is not found."""

    def __init__(self, store: AgentStore, models: ModelNames, trail: Trail, clock: Clock) -> None:
        self._store = store
        self._trail = trail
        self._models = models
        self._clock = clock

    async def create(
        self,
        principal: Principal,
        *,
        agent_id: str | None = None,
        name: str,
        greeting: str,
        **fields: Unpack[OptionalFields],
    ) -> Agent:
        """Raises InvalidArguments, or Conflict when `agent_id` is taken."""
        principal.require(Scope.AGENTS_WRITE)
        _require_for(principal, fields)
        now = self._clock.now()
        agent = Agent(
            id=agent_id or f"agt_{secrets.token_hex(6)}",
            account_id=principal.account_id,
            name=name,
            greeting=greeting,
            created_at=now,
            updated_at=now,
            **fields,
        )
        await self._store.add_agent(self._usable(validated(agent)))
        await self._note(principal, "agents.create", None, agent)
        return agent

    async def get(self, principal: Principal, agent_id: str) -> Agent:
        """Raises NotFound when there is none that this principal sees."""
        agent = await self._store.agent(agent_id)
        if (
            agent is None
            or agent.deleted_at is not None
            or agent.account_id != principal.account_id
            or not principal.sees(agent.id)
        ):
            raise NotFound(
                f"There is no voice agent {agent_id!r} here; list_agents shows the ones there are.",
                code="agent_not_found",
            )
        return agent

    async def version(self, agent_id: str, version: int) -> Agent | None:
        """The agent as it was in that version: what a call that was placed with it goes on with."""
        return await self._store.agent_version(agent_id, version)

    async def versions(self, principal: Principal, agent_id: str) -> Sequence[Agent]:
        """Every version there has been, the newest first. Raises NotFound."""
        await self.get(principal, agent_id)
        return await self._store.agent_versions(agent_id)

    async def list(self, principal: Principal) -> Sequence[Agent]:
        """All that this principal sees, oldest first."""
        principal.require(Scope.AGENTS_READ)
        return [agent for agent in await self._store.agents(principal.account_id) if principal.sees(agent.id)]

    async def update(self, principal: Principal, agent_id: str, **fields: Unpack[AgentFields]) -> Agent:
        """Changes what is given, as a new version. Raises NotFound, InvalidArguments, or Conflict on a lost race."""
        principal.require(Scope.AGENTS_WRITE)
        _require_for(principal, fields)
        agent = await self.get(principal, agent_id)
        changed = replace(agent, **fields, version=agent.version + 1, updated_at=self._clock.now())
        await self._store.save_agent(self._usable(validated(changed)))
        await self._note(principal, "agents.update", agent, changed)
        return changed

    async def delete(self, principal: Principal, agent_id: str) -> None:
        """Calls under way go on and their records stay; no new call can use it. Raises NotFound."""
        principal.require(Scope.AGENTS_WRITE)
        agent = await self.get(principal, agent_id)
        now = self._clock.now()
        await self._store.save_agent(replace(agent, version=agent.version + 1, updated_at=now, deleted_at=now))
        await self._note(principal, "agents.delete", agent, None)

    async def _note(self, principal: Principal, action: str, before: Agent | None, after: Agent | None) -> None:
        """What changed, and nothing else; the versions have the rest."""
        either = after or before
        if either is None:
            return
        names = [
            one.name
            for one in fields(Agent)
            if one.name not in _NOT_IN_THE_TRAIL
            and (before is None or after is None or getattr(before, one.name) != getattr(after, one.name))
        ]
        was, now = (None if one is None else {name: getattr(one, name) for name in names} for one in (before, after))
        await self._trail.note(
            either.account_id, actor=principal.key_id, action=action, subject=either.id, before=was, after=now
        )

    def _usable(self, agent: Agent) -> Agent:
        """The same agent. Raises InvalidArguments."""
        named = {"model": agent.model, **{f"fallbacks.{i}": name for i, name in enumerate(agent.fallbacks)}}
        why_not = {field: self._models.why_not(reference) for field, reference in named.items()}
        if problems := [Problem(field=field, message=why) for field, why in why_not.items() if why is not None]:
            raise InvalidArguments(problems)
        return agent


def _require_for(principal: Principal, given: Mapping[str, object]) -> None:
    """Who may define a voice agent may not let it off saying that it is one. Raises Forbidden."""
    if given.get("disclosure") is False:
        principal.require(Scope.ADMIN)
