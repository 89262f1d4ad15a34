"""The rows, and beside each its two functions: value to columns, columns to value.

Columns hold only what both databases and their drivers take as it is, so that a row needs no work between the driver
and these functions: text, integers, booleans. Times are microseconds since 1970 in UTC: exact, and they sort. Enums
are their words, small structures are JSON text.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, Index, String, Table, text
from sqlmodel import Field, SQLModel

from callmcp.agents.model import Agent
from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.approval import Approval, ApprovalState
from callmcp.calls.cost import Cost
from callmcp.calls.model import (
    LIVE,
    Answer,
    AnsweredBy,
    Call,
    CallError,
    CallStatus,
    Consent,
    EndReason,
    GoalMet,
    Outcome,
    Recording,
    RecordingStatus,
    Speaker,
    Turn,
)
from callmcp.identity.model import Account, ApiKey, Scope

S = TypeVar("S")
T = TypeVar("T")

Columns = dict[str, Any]
Row = Sequence[Any]

IS_LIVE = text("status IN ({})".format(", ".join(f"'{status}'" for status in sorted(LIVE))))
"""Literal, not bound: SQLite uses a partial index only for a query that repeats the index's own condition."""

MAY_WAIT = text("status = 'queued' AND approval IS NOT NULL")
"""Literal for the same reason."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


class AccountRow(SQLModel, table=True):
    __tablename__ = "accounts"

    id: str = Field(primary_key=True)
    name: str = Field(unique=True)
    created_at: int = Field(sa_type=BigInteger)


def account_columns(account: Account) -> Columns:
    return {"id": account.id, "name": account.name, "created_at": micros(account.created_at)}


def account_value(row: Row) -> Account:
    account_id, name, created_at = row
    return Account(id=account_id, name=name, created_at=moment(created_at))


class KeyRow(SQLModel, table=True):
    __tablename__ = "api_keys"

    id: str = Field(primary_key=True)
    account_id: str = Field(index=True)
    name: str
    prefix: str
    digest: str = Field(unique=True)
    scopes: str
    agent_ids: str
    created_at: int = Field(sa_type=BigInteger)
    expires_at: int | None = Field(default=None, sa_type=BigInteger)
    revoked_at: int | None = Field(default=None, sa_type=BigInteger)
    last_used_at: int | None = Field(default=None, sa_type=BigInteger)


def key_columns(key: ApiKey) -> Columns:
    return {
        "id": key.id,
        "account_id": key.account_id,
        "name": key.name,
        "prefix": key.prefix,
        "digest": key.digest,
        "scopes": json.dumps(sorted(key.scopes)),
        "agent_ids": json.dumps(sorted(key.agent_ids)),
        "created_at": micros(key.created_at),
        "expires_at": or_none(micros, key.expires_at),
        "revoked_at": or_none(micros, key.revoked_at),
        "last_used_at": or_none(micros, key.last_used_at),
    }


def key_value(row: Row) -> ApiKey:
    (key_id, account_id, name, prefix, digest, scopes, agent_ids, created_at, expires_at, revoked_at, used_at) = row
    return ApiKey(
        id=key_id,
        account_id=account_id,
        name=name,
        prefix=prefix,
        digest=digest,
        scopes=frozenset(map(Scope, json.loads(scopes))),
        agent_ids=frozenset(json.loads(agent_ids)),
        created_at=moment(created_at),
        expires_at=or_none(moment, expires_at),
        revoked_at=or_none(moment, revoked_at),
        last_used_at=or_none(moment, used_at),
    )


class AgentRow(SQLModel, table=True):
    __tablename__ = "agents"
    __table_args__ = (Index("ix_agents_account", "account_id", "created_at", "id"),)

    id: str = Field(primary_key=True)
    account_id: str
    name: str
    description: str
    instructions: str
    greeting: str
    on_behalf_of: str
    disclosure: bool
    language: str
    voice: str | None
    tts_provider: str | None
    transcription_provider: str | None
    speech_model: str | None
    hints: str
    model: str
    fallbacks: str
    temperature: float | None
    from_number: str | None
    max_duration_seconds: int
    voicemail_message: str | None
    recording: bool
    questions: str
    version: int
    created_at: int = Field(sa_type=BigInteger)
    updated_at: int = Field(sa_type=BigInteger)
    deleted_at: int | None = Field(default=None, sa_type=BigInteger)


class AgentVersionRow(SQLModel, table=True):
    """An agent as it was: JSON of its columns, since nothing is looked for in it. Never changed once written."""

    __tablename__ = "agent_versions"

    agent_id: str = Field(primary_key=True, foreign_key="agents.id", ondelete="CASCADE")
    version: int = Field(primary_key=True)
    definition: str


_AGENT_FIELDS = tuple(field.name for field in fields(Agent))


def agent_columns(agent: Agent) -> Columns:
    columns: Columns = {}
    for name in _AGENT_FIELDS:
        value = getattr(agent, name)
        columns[name] = value if value is None or name not in _AGENT_WRITERS else _AGENT_WRITERS[name](value)
    return columns


def agent_value(row: Row) -> Agent:
    return Agent(**{name: _agent_field(name, value) for name, value in zip(_AGENT_FIELDS, row, strict=True)})


def agent_version_columns(agent: Agent) -> Columns:
    return {"agent_id": agent.id, "version": agent.version, "definition": json.dumps(agent_columns(agent))}


def agent_version_value(row: Row) -> Agent:
    """A field that there was not yet when it was written has its default."""
    _, _, definition = row
    return Agent(**{name: _agent_field(name, value) for name, value in json.loads(definition).items()})


def _agent_field(name: str, column: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    return column if column is None or name not in _AGENT_READERS else _AGENT_READERS[name](column)


def _json_list(texts: Collection[str]) -> str:
    return json.dumps(list(texts))


def _texts(column: str) -> tuple[str, ...]:
    return tuple(json.loads(column))


def _json_questions(questions: Collection[Question]) -> str:
    return json.dumps([asdict(question) for question in questions]) if questions else "[]"


def _questions(column: str) -> tuple[Question, ...]:
    if column == "[]":
        return ()
    return tuple(
        Question(
            name=one["name"], question=one["question"], type=AnswerType(one["type"]), choices=tuple(one["choices"])
        )
        for one in json.loads(column)
    )


_AGENT_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "hints": _json_list,
    "fallbacks": _json_list,
    "questions": _json_questions,
    "created_at": micros,
    "updated_at": micros,
    "deleted_at": micros,
}
_AGENT_READERS: Mapping[str, Callable[[Any], Any]] = {
    "hints": _texts,
    "fallbacks": _texts,
    "disclosure": bool,
    "recording": bool,
    "questions": _questions,
    "created_at": moment,
    "updated_at": moment,
    "deleted_at": moment,
}


class CallRow(SQLModel, table=True):
    """The indexes are for lists of one account's calls, newest first, that cost their page whatever the history.

    Each narrows by what a list can be narrowed by. `to` and something else goes by `to`: a number is called a few
    times, not a million.
    """

    __tablename__ = "calls"
    __table_args__ = (
        Index("ix_calls_account", "account_id", "created_at", "id"),
        Index("ix_calls_agent", "account_id", "agent_id", "created_at", "id"),
        Index("ix_calls_status", "account_id", "status", "created_at", "id"),
        Index("ix_calls_agent_status", "account_id", "agent_id", "status", "created_at", "id"),
        Index("ix_calls_to", "account_id", "to", "created_at", "id"),
        Index("ix_calls_key", "account_id", "key_id", "created_at"),
        Index("ix_calls_live", "account_id", "created_at", sqlite_where=IS_LIVE, postgresql_where=IS_LIVE),
        Index("ix_calls_carried", "owner", "end_requested_at", sqlite_where=IS_LIVE, postgresql_where=IS_LIVE),
        Index("ix_calls_quiet", "status", "heard_from_at", sqlite_where=IS_LIVE, postgresql_where=IS_LIVE),
        Index("ix_calls_waiting", "account_id", "created_at", sqlite_where=MAY_WAIT, postgresql_where=MAY_WAIT),
        Index("ix_calls_carrier_id", "carrier_id"),
        Index(
            "ux_calls_idempotency_key",
            "account_id",
            "idempotency_key",
            unique=True,
            sqlite_where=text("idempotency_key IS NOT NULL"),
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    account_id: str
    key_id: str
    agent_id: str
    agent_version: int
    to: str
    from_number: str
    context: str
    metadata_: str = Field(sa_column=Column("metadata", String, nullable=False))  # SQLModel has its own `metadata`
    max_duration_seconds: int
    language: str
    voicemail_message: str | None
    questions: str
    recipient_timezone: str | None
    consent: str | None
    approval: str | None
    cost: str | None
    idempotency_key: str | None
    fingerprint: str
    carrier: str
    token: str
    carrier_id: str | None
    owner: str | None
    status: str
    created_at: int = Field(sa_type=BigInteger)
    heard_from_at: int = Field(sa_type=BigInteger)
    end_requested_at: int | None = Field(default=None, sa_type=BigInteger)
    answered_at: int | None = Field(default=None, sa_type=BigInteger)
    ended_at: int | None = Field(default=None, sa_type=BigInteger)
    answered_by: str | None
    end_reason: str | None
    outcome: str | None
    opt_out: bool
    disclosure_spoken: bool
    voicemail_left: bool
    recording: str | None
    breaks: int
    turn_count: int
    error: str | None


CALL_FIELDS = tuple(field.name for field in fields(Call))


def call_columns(call: Call, names: Collection[str] = CALL_FIELDS) -> Columns:
    """The columns of the fields in `names`."""
    columns: Columns = {}
    for name in names:
        value = getattr(call, name)
        columns[name] = value if value is None or name not in _CALL_WRITERS else _CALL_WRITERS[name](value)
    return columns


def call_value(row: Row) -> Call:
    (
        call_id,
        account_id,
        key_id,
        agent_id,
        agent_version,
        to,
        from_number,
        context,
        metadata,
        max_duration_seconds,
        language,
        voicemail_message,
        questions,
        recipient_timezone,
        consent,
        approval,
        cost,
        idempotency_key,
        fingerprint,
        carrier,
        token,
        carrier_id,
        owner,
        status,
        created_at,
        heard_from_at,
        end_requested_at,
        answered_at,
        ended_at,
        answered_by,
        end_reason,
        outcome,
        opt_out,
        disclosure_spoken,
        voicemail_left,
        recording,
        breaks,
        turn_count,
        error,
    ) = row
    return Call(
        id=call_id,
        account_id=account_id,
        key_id=key_id,
        agent_id=agent_id,
        agent_version=agent_version,
        to=to,
        from_number=from_number,
        context=context,
        metadata=MappingProxyType(json.loads(metadata)),
        max_duration_seconds=max_duration_seconds,
        language=language,
        voicemail_message=voicemail_message,
        questions=_questions(questions),
        recipient_timezone=recipient_timezone,
        consent=or_none(_consent, consent),
        approval=or_none(_approval, approval),
        cost=or_none(_cost, cost),
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        carrier=carrier,
        token=token,
        carrier_id=carrier_id,
        owner=owner,
        status=CallStatus(status),
        created_at=moment(created_at),
        heard_from_at=moment(heard_from_at),
        end_requested_at=or_none(moment, end_requested_at),
        answered_at=or_none(moment, answered_at),
        ended_at=or_none(moment, ended_at),
        answered_by=or_none(AnsweredBy, answered_by),
        end_reason=or_none(EndReason, end_reason),
        outcome=or_none(_outcome, outcome),
        opt_out=bool(opt_out),
        disclosure_spoken=bool(disclosure_spoken),
        voicemail_left=bool(voicemail_left),
        recording=or_none(_recording, recording),
        breaks=breaks,
        turn_count=turn_count,
        error=or_none(_error, error),
    )


def _word(member: StrEnum) -> str:
    return member.value


def _json_of(value: Outcome | CallError | Recording | Cost) -> str:
    return json.dumps(asdict(value))


def _json_of_mapping(value: Mapping[str, str]) -> str:
    return json.dumps(dict(value))


def _outcome(column: str) -> Outcome:
    stored = json.loads(column)
    answers = tuple(Answer(**answer) for answer in stored.get("answers", ()))
    return Outcome(goal_met=GoalMet(stored["goal_met"]), summary=stored["summary"], answers=answers)


def _json_of_consent(consent: Consent) -> str:
    return json.dumps({**asdict(consent), "obtained_at": consent.obtained_at.isoformat()})


def _consent(column: str) -> Consent:
    stored = json.loads(column)
    return Consent(**{**stored, "obtained_at": datetime.fromisoformat(stored["obtained_at"])})


def _json_of_approval(approval: Approval) -> str:
    times = {"expires_at": micros(approval.expires_at), "decided_at": or_none(micros, approval.decided_at)}
    return json.dumps({**asdict(approval), **times})


def _approval(column: str) -> Approval:
    stored = json.loads(column)
    times = {"expires_at": moment(stored["expires_at"]), "decided_at": or_none(moment, stored["decided_at"])}
    return Approval(**{**stored, **times, "state": ApprovalState(stored["state"])})


def _cost(column: str) -> Cost:
    return Cost(**json.loads(column))


def _recording(column: str) -> Recording:
    stored = json.loads(column)
    return Recording(**{**stored, "status": RecordingStatus(stored["status"])})


def _error(column: str) -> CallError:
    return CallError(**json.loads(column))


_CALL_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "metadata": _json_of_mapping,
    "questions": _json_questions,
    "consent": _json_of_consent,
    "approval": _json_of_approval,
    "cost": _json_of,
    "recording": _json_of,
    "status": _word,
    "created_at": micros,
    "heard_from_at": micros,
    "end_requested_at": micros,
    "answered_at": micros,
    "ended_at": micros,
    "answered_by": _word,
    "end_reason": _word,
    "outcome": _json_of,
    "error": _json_of,
}


class TurnRow(SQLModel, table=True):
    """Never changed once written. Without a rowid, the turns of a call lie side by side in SQLite's file."""

    __tablename__ = "turns"
    __table_args__ = {"sqlite_with_rowid": False}

    call_id: str = Field(primary_key=True, foreign_key="calls.id", ondelete="CASCADE")
    index: int = Field(primary_key=True)
    at: int = Field(sa_type=BigInteger)
    speaker: str
    text: str


def turn_columns(call_id: str, turn: Turn) -> Columns:
    return {
        "call_id": call_id,
        "index": turn.index,
        "at": micros(turn.at),
        "speaker": turn.speaker.value,
        "text": turn.text,
    }


def turn_value(row: Row) -> Turn:
    _, index, at, speaker, text = row
    return Turn(index=index, at=moment(at), speaker=Speaker(speaker), text=text)


class OwnerRow(SQLModel, table=True):
    """A process that carries calls, and how often it has said that it is alive."""

    __tablename__ = "owners"

    id: str = Field(primary_key=True)
    beats: int = Field(sa_type=BigInteger)


def or_none(convert: Callable[[S], T], value: S | None) -> T | None:
    return None if value is None else convert(value)


def table(row: type[SQLModel]) -> Table:
    return SQLModel.metadata.tables[str(row.__tablename__)]


ACCOUNTS = table(AccountRow)
KEYS = table(KeyRow)
AGENTS = table(AgentRow)
AGENT_VERSIONS = table(AgentVersionRow)
CALLS = table(CallRow)
TURNS = table(TurnRow)
OWNERS = table(OwnerRow)
