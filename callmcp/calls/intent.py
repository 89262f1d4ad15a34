"""What is stored of a call before its carrier hears of it."""

import hashlib
import json
import secrets
from dataclasses import asdict

from callmcp.agents.model import Agent
from callmcp.agents.questions import Question
from callmcp.calls.model import Call, CallRequest, Recording, RecordingStatus
from callmcp.calls.policy.facts import Facts
from callmcp.identity.model import Principal


def intent(
    principal: Principal, facts: Facts, agent: Agent, *, carrier: str, from_number: str, owner: str | None
) -> Call:
    """A call with a name of its own that nobody has dialled. `owner`: the process that is to carry it, if one does."""
    request, now, approval = facts.request, facts.now, facts.approval
    limits = (agent.max_duration_seconds, request.max_duration_seconds)
    max_seconds = min(limit for limit in limits if limit is not None)
    return Call(
        id=f"call_{secrets.token_hex(12)}",
        account_id=principal.account_id,
        key_id=principal.key_id,
        agent_id=agent.id,
        agent_version=agent.version,
        to=request.to.e164,
        from_number=from_number,
        context=request.context,
        metadata=request.metadata,
        max_duration_seconds=max_seconds,
        language=request.language or agent.language,
        voicemail_message=request.voicemail_message or agent.voicemail_message,
        questions=_questions(request, agent),
        recipient_timezone=request.recipient_timezone,
        consent=request.consent,
        approval=approval,
        cost=facts.cost(max_seconds),
        recording=Recording(status=RecordingStatus.REQUESTED) if agent.recording else None,
        idempotency_key=request.idempotency_key,
        fingerprint=fingerprint(request),
        carrier=carrier,
        token=secrets.token_urlsafe(18),
        owner=owner if approval is None else None,
        created_at=now,
        heard_from_at=now if approval is None else approval.expires_at,
    )


def fingerprint(request: CallRequest) -> str:
    """Identifies the arguments of a request, apart from its idempotency key. SHA-256 in hex."""
    metadata = sorted(request.metadata.items())
    arguments: list[object] = [
        request.agent_id,
        request.to.e164,
        request.context,
        request.max_duration_seconds,
        metadata,
    ]
    # Only when given: what was placed before there were these must still be known again.
    more = {
        "voicemail_message": request.voicemail_message,
        "questions": [asdict(question) for question in request.questions],
        "language": request.language,
        "recipient_timezone": request.recipient_timezone,
        "consent": request.consent and [request.consent.basis, request.consent.reference],
    }
    if given := {name: value for name, value in more.items() if value}:
        arguments.append(given)
    return hashlib.sha256(json.dumps(arguments).encode()).hexdigest()


def _questions(request: CallRequest, agent: Agent) -> tuple[Question, ...]:
    """The request's, then those of the agent that it does not put in its own words."""
    names = {question.name for question in request.questions}
    return (*request.questions, *(question for question in agent.questions if question.name not in names))
