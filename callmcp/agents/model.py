"""The voice agents that operators define: who speaks on a call, and how."""

import re
from dataclasses import dataclass
from datetime import datetime

from callmcp.errors import InvalidArguments, Problem

AGENT_ID = re.compile(r"agt_[0-9a-f]{6,}")
MAX_DURATION_SECONDS = 4 * 60 * 60  # what carriers allow by default (Twilio: TimeLimit 14400)
MIN_DURATION_SECONDS = 5
DEFAULT_DURATION_SECONDS = 600
LIMITS = {"name": (1, 100), "description": (0, 1000), "instructions": (0, 20000), "greeting": (1, 1000)}
MODELS = frozenset({"scripted"})
E164 = re.compile(r"\+[1-9][0-9]{6,14}")
"""A telephone number (ITU-T E.164 section 6): +, a country code that does not begin with 0, 7 to 15 digits in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A voice agent of one account.

    `greeting` is the first thing it says, `instructions` is what a language model is told, `model` names the model
    (`scripted` needs no key and no network), `from_number` is the caller id it rings from (None: the deployment's).
    A call keeps the `version` it was placed with.
    """

    id: str
    account_id: str
    name: str
    description: str = ""
    instructions: str = ""
    greeting: str
    model: str = "scripted"
    from_number: str | None = None
    max_duration_seconds: int = DEFAULT_DURATION_SECONDS
    version: int = 1
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


def validated(agent: Agent) -> Agent:
    """The same agent. Raises InvalidArguments with a problem for each field that is not as it must be."""
    problems = [
        Problem(field=field, message=f"{least} to {most} characters, not {len(getattr(agent, field))}")
        for field, (least, most) in LIMITS.items()
        if not least <= len(getattr(agent, field)) <= most
    ]
    if not AGENT_ID.fullmatch(agent.id):
        problems.append(Problem(field="id", message="agt_ and six or more lowercase hex digits"))
    if agent.model not in MODELS:
        problems.append(Problem(field="model", message=f"it must be one of: {', '.join(sorted(MODELS))}"))
    if agent.from_number is not None and not E164.fullmatch(agent.from_number):
        problems.append(Problem(field="from_number", message="an E.164 number such as +15550100000"))
    if not MIN_DURATION_SECONDS <= agent.max_duration_seconds <= MAX_DURATION_SECONDS:
        problems.append(
            Problem(field="max_duration_seconds", message=f"{MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS}")
        )
    if problems:
        raise InvalidArguments(problems)
    return agent
