"""What clients of every edge see: the public views and their words. What is not known is left out, never null."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.cost import Cost, decimal
from callmcp.calls.model import (
    AnsweredBy,
    Call,
    CallStatus,
    EndReason,
    GoalMet,
    Outcome,
    Recording,
    RecordingStatus,
    Speaker,
    Turn,
    Value,
)
from callmcp.calls.operations import Checked
from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.calls.policy.hours import zones_of
from callmcp.calls.policy.limits import Level

SHORT_CONTEXT = 200
RECORDING_PATH = "/calls/{call_id}/recording"
APPROVAL_PATH = "/calls/{call_id}/approval"


def rfc3339(at: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: 2026-12-01T09:30:00.000Z."""
    text = at.isoformat(timespec="milliseconds")
    return text[:-6] + "Z" if text.endswith("+00:00") else rfc3339(at.astimezone(UTC))


Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str), Field(json_schema_extra={"format": "date-time"})]


class View(BaseModel):
    model_config = ConfigDict(frozen=True)

    def dumped(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


class TurnView(View):
    index: int = Field(description="Counts from 0 within the call.")
    at: Time = Field(description="When it was said.")
    speaker: Speaker = Field(description="agent is our voice agent, callee is whoever answered.")
    text: str = Field(description="What the other side heard.")


class QuestionView(View):
    name: str = Field(description="What its answer is called.")
    question: str = Field(description="What the voice agent is to find out.")
    type: AnswerType = Field(description="What kind of answer it has.")
    choices: list[str] | None = Field(default=None, description="The answers there are, for a choice.")


class AnswerView(View):
    name: str = Field(description="The question's name.")
    # A union of types is what schemas cannot say without making some client drop the tool.
    value: Annotated[Value | None, WithJsonSchema({})] = Field(
        default=None, description="The answer, of the question's type; absent when there is none."
    )
    evidence: int | None = Field(default=None, description="Index of the turn of the transcript that says so.")
    error: str | None = Field(default=None, description="What is missing or wrong with this one answer.")


class OutcomeView(View):
    goal_met: GoalMet = Field(description="Whether what the call was for has been achieved.")
    summary: str = Field(description="One or two sentences on how it went.")
    answers: list[AnswerView] | None = Field(default=None, description="One for each question, in their order.")


class RecordingView(View):
    status: RecordingStatus = Field(
        description="requested, in-progress: wait. completed: it can be fetched. absent: there was nothing to record."
    )
    duration_seconds: int | None = Field(default=None, description="How long it is.")
    url: str | None = Field(
        default=None, description="Where it can be fetched, with a key that has calls:read; only when completed."
    )


class ErrorView(View):
    code: str = Field(description="Stable code to branch on.")
    message: str = Field(description="What went wrong and what can be done.")
    carrier_code: str | None = Field(default=None, description="The carrier's own code.")


class ConsentView(View):
    basis: str = Field(description="On what ground the callee agreed to be called.")
    obtained_at: Time = Field(description="When.")
    reference: str = Field(description="Where the proof is kept.")


class ApprovalView(View):
    state: ApprovalState = Field(
        description="requested: a person has to say yes before anything is dialled. approved, declined, expired; "
        "withdrawn: the call was ended before anybody decided."
    )
    expires_at: Time = Field(description="Until when it can be approved.")
    decided_at: Time | None = Field(default=None, description="When somebody decided.")


class CostView(View):
    currency: str = Field(description="ISO 4217.")
    amount: str = Field(description="In whole units, such as 0.14.")
    micros: int = Field(description="The same in millionths.")
    final: bool = Field(description="false: the most it may come to; the call is not over.")


class CallSummaryView(View):
    """A call as it stands in a list."""

    call_id: str = Field(description="Names the call in get_call and end_call.")
    status: CallStatus = Field(
        description="The state of the line. Final: completed, busy, no-answer, failed, canceled. "
        "unknown: the carrier may have dialled and has not said; wait, do not call again."
    )
    agent_id: str = Field(description="The voice agent that speaks.")
    agent_version: int = Field(description="The version of the voice agent that the call was placed with.")
    to: str = Field(description="The number called, E.164.")
    from_: str = Field(alias="from", description="The caller id shown to the callee, E.164.")
    direction: Literal["outbound"] = Field(default="outbound", description="Always outbound.")
    context: str = Field(description="What the call is for, as given.")
    metadata: dict[str, str] = Field(description="As given to make_call.")
    language: str = Field(description="What the voice agent speaks (BCP 47).")
    created_at: Time = Field(description="When make_call was accepted.")
    answered_at: Time | None = Field(default=None, description="When somebody or something picked up.")
    ended_at: Time | None = Field(default=None, description="When the call became final.")
    duration_seconds: int | None = Field(default=None, description="From answer to end, in whole seconds.")
    answered_by: AnsweredBy | None = Field(
        default=None, description="Who or what picked up. machine is voicemail: nobody was spoken to."
    )
    end_reason: EndReason | None = Field(default=None, description="Why the call is over.")
    outcome: OutcomeView | None = Field(default=None, description="Whether the goal was met, apart from the status.")
    opt_out: bool = Field(description="true: the callee asked not to be called again. Respect it.")
    disclosure_spoken: bool = Field(
        description="true: the callee has heard to its end that an AI speaks, and for whom."
    )
    voicemail_left: bool | None = Field(
        default=None, description="Whether a machine has heard voicemail_message to its end, when there is one."
    )
    recording: RecordingView | None = Field(default=None, description="The carrier's recording, if there is to be one.")
    error: ErrorView | None = Field(default=None, description="What went wrong, when the call failed.")
    consent: ConsentView | None = Field(default=None, description="As given to make_call.")
    recipient_timezone: str | None = Field(default=None, description="As given to make_call.")
    approval: ApprovalView | None = Field(default=None, description="The person's yes that the call needs, if it does.")
    cost: CostView | None = Field(default=None, description="By the operator's prices; absent: it costs nothing.")
    idempotency_key: str | None = Field(default=None, description="As given to make_call.")

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)


class CallView(CallSummaryView):
    """The record of a call."""

    questions: list[QuestionView] | None = Field(
        default=None, description="What the call is to find out; outcome.answers has the answers."
    )
    voicemail_message: str | None = Field(default=None, description="What is left on a machine; absent: it hangs up.")
    transcript: list[TurnView] = Field(description="What was said, oldest first.")
    replayed: bool = Field(
        description="true: this idempotency key had placed the call before, and nothing was dialled now."
    )
    next_step: str = Field(description="What to do next, in a sentence.")


class CallsView(View):
    calls: list[CallSummaryView] = Field(
        description=f"Newest first, without transcripts; of context the first {SHORT_CONTEXT} characters."
    )
    next_cursor: str | None = Field(default=None, description="Pass as cursor for the next page; absent on the last.")


class VerdictView(View):
    rule: str = Field(description="Which rule.")
    allowed: bool = Field(description="Whether it lets the call through.")
    code: str | None = Field(default=None, description="Stable code of the refusal, as make_call would give it.")
    reason: str | None = Field(default=None, description="Why not, and what can be done.")
    level: Level | None = Field(default=None, description="Who laid the rule down.")
    retry_at: Time | None = Field(default=None, description="When asking again can help.")


class CheckView(View):
    allowed: bool = Field(description="Whether make_call with these arguments would be let through now.")
    to: str = Field(description="The number, E.164.")
    region: str | None = Field(default=None, description="Where the number belongs (ISO 3166).")
    local_times: dict[str, str] = Field(description="The time in each zone that the number may be in.")
    next_allowed_at: Time | None = Field(default=None, description="When the call is allowed, if time alone helps.")
    needs_approval: bool = Field(description="Whether a person has to say yes before make_call dials.")
    cost: CostView | None = Field(default=None, description="The most that the call may cost.")
    verdicts: list[VerdictView] = Field(description="What each rule says.")


class OptOutView(View):
    number: str = Field(description="The number that is not called again.")
    source: OptOutSource = Field(description="Who asked for it.")
    reason: str | None = Field(default=None, description="Why, if it was said.")
    created_at: Time = Field(description="Since when it is on the list.")


class AgentView(View):
    agent_id: str = Field(description="What make_call wants as agent_id.")
    name: str = Field(description="What operators call it.")
    description: str = Field(description="What it is for.")
    greeting: str = Field(description="What it says first, after that it is an AI.")
    on_behalf_of: str | None = Field(default=None, description="For whom it says that it calls.")
    language: str = Field(description="What it speaks unless make_call says otherwise (BCP 47).")
    voicemail_message: str | None = Field(
        default=None, description="What it leaves on a machine unless make_call says otherwise; absent: it hangs up."
    )
    recording: bool = Field(description="Whether its calls are recorded.")
    questions: list[QuestionView] | None = Field(
        default=None, description="What it asks on every call, besides those of make_call."
    )
    model: str = Field(description="The language model that speaks; scripted needs none.")
    max_duration_seconds: int = Field(description="The longest call it makes, in seconds.")
    version: int = Field(description="Counts the operator's changes; a call keeps the version it was placed with.")


class AgentsView(View):
    agents: list[AgentView] = Field(description="The voice agents that this key may use.")


def call_view(call: Call, turns: Sequence[Turn] = (), *, replayed: bool = False, base: str = "") -> CallView:
    """The record. `base`: the public URL of this server, which recordings are fetched from."""
    return CallView(
        **_summary(call, base),
        questions=_questions_view(call.questions),
        voicemail_message=call.voicemail_message,
        transcript=[TurnView(index=t.index, at=t.at, speaker=t.speaker, text=t.text) for t in turns],
        replayed=replayed,
        next_step=next_step(call, turns),
    )


def call_summary_view(call: Call, *, base: str = "") -> CallSummaryView:
    summary = _summary(call, base)
    if len(call.context) > SHORT_CONTEXT:
        summary["context"] = call.context[:SHORT_CONTEXT] + "…"
    return CallSummaryView(**summary)


def agent_view(agent: Agent) -> AgentView:
    return AgentView(
        agent_id=agent.id,
        name=agent.name,
        description=agent.description,
        greeting=agent.greeting,
        on_behalf_of=agent.on_behalf_of or None,
        language=agent.language,
        voicemail_message=agent.voicemail_message,
        recording=agent.recording,
        questions=_questions_view(agent.questions),
        model=agent.model,
        max_duration_seconds=agent.max_duration_seconds,
        version=agent.version,
    )


def check_view(checked: Checked) -> CheckView:
    facts, verdicts = checked.facts, checked.verdicts
    refused = [verdict for verdict in verdicts if not verdict.allowed]
    times = [verdict.retry_at for verdict in refused]
    known = [time for time in times if time is not None]
    zones, _ = zones_of(facts)
    return CheckView(
        allowed=not refused,
        to=facts.request.to.e164,
        region=facts.looks.region,
        local_times={str(zone): facts.now.astimezone(zone).isoformat(timespec="minutes") for zone in zones},
        next_allowed_at=max(known) if refused and len(known) == len(refused) else None,
        needs_approval=checked.approval is not None,
        cost=checked.cost and _cost_view(checked.cost),
        verdicts=[
            VerdictView(
                rule=verdict.rule,
                allowed=verdict.allowed,
                code=verdict.code,
                reason=verdict.reason or None,
                level=verdict.level,
                retry_at=verdict.retry_at,
            )
            for verdict in verdicts
        ],
    )


def opt_out_view(opt_out: OptOut) -> OptOutView:
    return OptOutView(
        number=opt_out.number, source=opt_out.source, reason=opt_out.reason or None, created_at=opt_out.created_at
    )


def _questions_view(questions: Sequence[Question]) -> list[QuestionView] | None:
    return [
        QuestionView(name=one.name, question=one.question, type=one.type, choices=list(one.choices) or None)
        for one in questions
    ] or None


def _outcome_view(outcome: Outcome) -> OutcomeView:
    answers = [AnswerView(name=a.name, value=a.value, evidence=a.evidence, error=a.error) for a in outcome.answers]
    return OutcomeView(goal_met=outcome.goal_met, summary=outcome.summary, answers=answers or None)


def _recording_view(call: Call, recording: Recording, base: str) -> RecordingView:
    url = f"{base}{RECORDING_PATH.format(call_id=call.id)}" if recording.status is RecordingStatus.COMPLETED else None
    return RecordingView(status=recording.status, duration_seconds=recording.duration_seconds, url=url)


def _approval_view(approval: Approval) -> ApprovalView:
    return ApprovalView(state=approval.state, expires_at=approval.expires_at, decided_at=approval.decided_at)


def _cost_view(cost: Cost) -> CostView:
    final = cost.settled is not None
    return CostView(currency=cost.currency, amount=decimal(cost.held), micros=cost.held, final=final)


def _summary(call: Call, base: str) -> dict[str, Any]:
    seconds = None
    if call.answered_at is not None and call.ended_at is not None:
        seconds = max(0, round((call.ended_at - call.answered_at).total_seconds()))
    return {
        "call_id": call.id,
        "status": call.status,
        "agent_id": call.agent_id,
        "agent_version": call.agent_version,
        "to": call.to,
        "from_": call.from_number,
        "context": call.context,
        "metadata": dict(call.metadata),
        "language": call.language,
        "created_at": call.created_at,
        "answered_at": call.answered_at,
        "ended_at": call.ended_at,
        "duration_seconds": seconds,
        "answered_by": call.answered_by,
        "end_reason": call.end_reason if call.status.is_final else None,
        "outcome": call.outcome and _outcome_view(call.outcome),
        "opt_out": call.opt_out,
        "disclosure_spoken": call.disclosure_spoken,
        "voicemail_left": None if call.voicemail_message is None else call.voicemail_left,
        "recording": call.recording and _recording_view(call, call.recording, base),
        "error": call.error
        and ErrorView(code=call.error.code, message=call.error.message, carrier_code=call.error.carrier_code),
        "consent": call.consent
        and ConsentView(
            basis=call.consent.basis, obtained_at=call.consent.obtained_at, reference=call.consent.reference
        ),
        "recipient_timezone": call.recipient_timezone,
        "approval": call.approval and _approval_view(call.approval),
        "cost": call.cost and _cost_view(call.cost),
        "idempotency_key": call.idempotency_key,
    }


_WAIT = "Call get_call with call_id {id} and wait_seconds 50, and again until the status is final."
_NEXT_BY_STATUS: Mapping[CallStatus, str] = {
    CallStatus.QUEUED: f"The call is on its way. {_WAIT}",
    CallStatus.INITIATED: f"The number is being dialled. {_WAIT}",
    CallStatus.RINGING: f"It is ringing. {_WAIT}",
    CallStatus.IN_PROGRESS: f"They are talking. {_WAIT}",
    CallStatus.UNKNOWN: "The carrier may have dialled and has not said. Do not place this call again: wait, and call "
    "get_call with call_id {id} and wait_seconds 50 until the status is final.",
    CallStatus.COMPLETED: "The call is over. Report what was said and the outcome. If the goal was not met and still "
    "matters, you may call again with make_call and a new idempotency key.",
    CallStatus.BUSY: "The line was busy and nobody was reached. If it still matters, call again later with make_call "
    "and a new idempotency key.",
    CallStatus.NO_ANSWER: "Nobody answered. If it still matters, call again later with make_call and a new "
    "idempotency key.",
    CallStatus.CANCELED: "The call was canceled before anybody answered. Place a new one with make_call if it is "
    "still wanted.",
    CallStatus.FAILED: "The call failed; error says why. Do not repeat it before that is mended.",
}
_NEXT_BY_REASON: Mapping[EndReason, str] = {
    EndReason.MACHINE: "A machine answered and nobody was spoken to. If it still matters, call again later with "
    "make_call and a new idempotency key.",
    EndReason.CARRIER_REFUSED: "The carrier refused the call and nobody was rung. The message of error says what can "
    "be done; do not repeat the call before it is.",
    EndReason.CARRIER_FAILED: "The carrier could not complete the call. If it still matters, try once more later with "
    "make_call and a new idempotency key.",
    EndReason.CARRIER_SILENT: "The carrier never said what became of the call, so somebody may have been reached. "
    "Ask the person you work for before placing another.",
    EndReason.DECLINED: "A person was asked and said no; nobody was called. Do not place this call again.",
    EndReason.POLICY_REFUSED: "When it was to be dialled a rule said no, and nobody was called; error says why.",
    EndReason.SERVER_LOST: "The call broke off when the server stopped. Read the transcript before you decide whether "
    "to call again with make_call and a new idempotency key.",
}
_MESSAGE_LEFT = (
    "A machine answered and the message was left on it; nobody was spoken to. Give them time to call back before you "
    "call again with make_call and a new idempotency key."
)
_WAITS = (
    "A person has to say yes before anything is dialled; you cannot. Tell whoever you work for, and call get_call with "
    "call_id {id} and wait_seconds 50 until the status is final. end_call withdraws it."
)
_NOT_APPROVED = (
    "Nobody said yes in time, and nobody was called. Ask the person you work for before you place it again with "
    "make_call and a new idempotency key."
)
_OPTED_OUT = " The callee asked not to be called again: do not call this number again."


def next_step(call: Call, turns: Sequence[Turn] = ()) -> str:
    """What the client should do next, in a sentence or two."""
    by_reason = _NEXT_BY_REASON.get(call.end_reason) if call.end_reason and call.status.is_final else None
    words = (by_reason or _NEXT_BY_STATUS[call.status]).format(id=call.id)
    if call.waits:
        words = _WAITS.format(id=call.id)
    if call.approval is not None and call.approval.state is ApprovalState.EXPIRED:
        words = _NOT_APPROVED
    if call.voicemail_left and call.status.is_final:
        words = _MESSAGE_LEFT
    if call.end_requested_at is not None and not call.status.is_final:
        words = f"Its end has been asked for. {_WAIT}".format(id=call.id)
    if turns and turns[-1].index < call.turn_count - 1:
        words = f"More was said: call get_call with call_id {call.id} and transcript_after {turns[-1].index}. {words}"
    return words + (_OPTED_OUT if call.opt_out else "")


def text_of(dumped: Mapping[str, Any]) -> str:
    """A dumped view as text that a model or a person can read by itself: every field, a line each."""
    return "\n".join(_lines(dumped, ""))


def _lines(dumped: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in dumped.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")] if value else [f"{indent}{name}: (none)"]
        elif isinstance(value, list):
            lines += (
                [f"{indent}{name}:", *(_item(entry, indent) for entry in value)]
                if value
                else [f"{indent}{name}: (none)"]
            )
        else:
            lines.append(f"{indent}{name}: {_word(value, indent)}")
    return lines


def _item(entry: Mapping[str, Any] | str, indent: str) -> str:
    if isinstance(entry, str):
        return f"{indent}- {_word(entry, indent)}"
    if entry.keys() == {"index", "at", "speaker", "text"}:
        said = _word(entry["text"], indent + "  ")
        return f"{indent}  [{entry['index']}] {entry['at']} {entry['speaker']}: {said}"
    return f"{indent}- " + "\n".join(_lines(entry, indent + "  ")).lstrip()


def _word(value: object, indent: str) -> str:
    """A value as one entry: its further lines are indented, so that nothing that was said can pass for a field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\r", "\n").replace("\n", f"\n{indent}    ")
