"""The rows of what operators lay down and of what came of it, as in tables.py: beside each its two functions."""

import json
from dataclasses import asdict

from sqlalchemy import BigInteger, Index
from sqlmodel import Field, SQLModel

from callmcp.calls.optouts import OptOut, OptOutSource
from callmcp.calls.policy.limits import Level, Limits, limits_definition, limits_of
from callmcp.calls.policy.prices import Price
from callmcp.calls.refusals import Refusal
from callmcp.identity.audit import Entry
from callmcp.store.tables import Columns, Row, micros, moment, or_none, table


class OptOutRow(SQLModel, table=True):
    __tablename__ = "opt_outs"

    account_id: str = Field(primary_key=True)
    number: str = Field(primary_key=True)
    source: str
    reason: str
    call_id: str | None
    created_at: int = Field(sa_type=BigInteger)


def opt_out_columns(opt_out: OptOut) -> Columns:
    return {**asdict(opt_out), "source": opt_out.source.value, "created_at": micros(opt_out.created_at)}


def opt_out_value(row: Row) -> OptOut:
    account_id, number, source, reason, call_id, created_at = row
    return OptOut(
        account_id=account_id,
        number=number,
        source=OptOutSource(source),
        reason=reason,
        call_id=call_id,
        created_at=moment(created_at),
    )


class LimitsRow(SQLModel, table=True):
    """The limits of an account, an agent or a key, by its id; JSON, since nothing is looked for in them."""

    __tablename__ = "limits"

    subject_id: str = Field(primary_key=True)
    account_id: str = Field(index=True)
    level: str
    definition: str


def limits_columns(account_id: str, level: Level, subject_id: str, limits: Limits) -> Columns:
    definition = json.dumps(limits_definition(limits))
    return {"subject_id": subject_id, "account_id": account_id, "level": level.value, "definition": definition}


def limits_value(row: Row) -> tuple[Level, str, Limits]:
    subject_id, _, level, definition = row
    return Level(level), subject_id, limits_of(json.loads(definition))


class RefusalRow(SQLModel, table=True):
    __tablename__ = "refusals"
    __table_args__ = (Index("ix_refusals_account", "account_id", "at", "id"),)

    id: str = Field(primary_key=True)
    account_id: str
    key_id: str
    agent_id: str
    to: str
    rule: str
    level: str
    code: str
    reason: str
    retry_at: int | None = Field(default=None, sa_type=BigInteger)
    at: int = Field(sa_type=BigInteger)


def refusal_columns(refusal: Refusal) -> Columns:
    times = {"retry_at": or_none(micros, refusal.retry_at), "at": micros(refusal.at)}
    return {**asdict(refusal), "level": refusal.level.value, **times}


def refusal_value(row: Row) -> Refusal:
    *texts, retry_at, at = row
    names = ("id", "account_id", "key_id", "agent_id", "to", "rule", "level", "code", "reason")
    fields = dict(zip(names, texts, strict=True))
    fields["level"] = Level(fields["level"])
    return Refusal(**fields, retry_at=or_none(moment, retry_at), at=moment(at))


class AuditRow(SQLModel, table=True):
    """Only ever added to: the migration has triggers that refuse anything else."""

    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_account", "account_id", "at"),)

    id: str = Field(primary_key=True)
    account_id: str
    at: int = Field(sa_type=BigInteger)
    actor: str
    action: str
    subject: str
    before: str | None
    after: str | None
    reason: str


def audit_columns(entry: Entry) -> Columns:
    return {**asdict(entry), "at": micros(entry.at)}


def audit_value(row: Row) -> Entry:
    entry_id, account_id, at, actor, action, subject, before, after, reason = row
    return Entry(
        id=entry_id,
        account_id=account_id,
        at=moment(at),
        actor=actor,
        action=action,
        subject=subject,
        before=before,
        after=after,
        reason=reason,
    )


class PriceRow(SQLModel, table=True):
    __tablename__ = "prices"

    account_id: str = Field(primary_key=True)
    of: str = Field(primary_key=True)
    per_minute: int = Field(sa_type=BigInteger)


def price_columns(price: Price) -> Columns:
    return asdict(price)


def price_value(row: Row) -> Price:
    account_id, of, per_minute = row
    return Price(account_id=account_id, of=of, per_minute=per_minute)


class SpendRow(SQLModel, table=True):
    """What the calls that an account, an agent or a key placed on a day (UTC, `2026-12-01`) have cost or may still
    cost, in micro-units: a budget adds up at most a month of days, however many calls there were."""

    __tablename__ = "spend"

    subject_id: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    micros: int = Field(sa_type=BigInteger)


OPT_OUTS = table(OptOutRow)
LIMITS = table(LimitsRow)
REFUSALS = table(RefusalRow)
AUDIT = table(AuditRow)
PRICES = table(PriceRow)
SPEND = table(SpendRow)
