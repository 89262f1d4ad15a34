"""A call and a recording as Twilio keeps them, and as its REST API shows them."""

import asyncio
import math
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tests.twilio_emulator.callee import Callee
from tests.twilio_emulator.chaos import Chaos
from tests.twilio_emulator.line import Line
from tests.twilio_emulator.pace import Pace, rfc2822, wall
from tests.twilio_emulator.twiml import Document

VERSION = "2010-04-01"
PRICE_A_MINUTE = 0.014
PRICED_AFTER = 2.0


class Status(StrEnum):
    QUEUED = "queued"
    RINGING = "ringing"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"
    BUSY = "busy"
    FAILED = "failed"
    NO_ANSWER = "no-answer"
    CANCELED = "canceled"

    @property
    def final(self) -> bool:
        return self not in (Status.QUEUED, Status.RINGING, Status.IN_PROGRESS)


def sid(prefix: str) -> str:
    return prefix + secrets.token_hex(16)


def formatted(number: str) -> str:
    """(415) 867-5309 within North America, E.164 elsewhere."""
    if number.startswith("+1") and len(number) == 12:
        return f"({number[2:5]}) {number[5:8]}-{number[8:]}"
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where to ask or to tell, and how."""

    url: str
    method: str = "POST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What POST Calls asked for, once it was found to be right."""

    to: str
    from_: str
    twiml: str | None = None
    url: Webhook | None = None
    fallback: Webhook | None = None
    status: Webhook | None = None
    events: frozenset[str] = frozenset({"completed"})
    ring_seconds: int = 60
    max_seconds: int = 14400
    record: bool = False
    recording: Webhook | None = None
    recording_events: frozenset[str] = frozenset({"completed"})
    recording_channels: str = "mono"
    recording_track: str = "both"
    amd: str = ""  # "", Enable, DetectMessageEnd
    amd_async: bool = False
    amd_callback: Webhook | None = None


@dataclass(slots=True, kw_only=True)
class Recording:
    call_sid: str
    account_sid: str
    source: str
    channels: int
    track: str
    callback: Webhook | None
    events: frozenset[str]
    sid: str = field(default_factory=lambda: sid("RE"))
    status: str = "in-progress"
    began: float
    started: datetime = field(default_factory=wall)
    seconds: int | None = None

    @property
    def path(self) -> str:
        return f"/{VERSION}/Accounts/{self.account_sid}/Recordings/{self.sid}"

    def resource(self) -> dict[str, Any]:
        return {
            "sid": self.sid,
            "account_sid": self.account_sid,
            "call_sid": self.call_sid,
            "conference_sid": None,
            "api_version": VERSION,
            "status": self.status,
            "source": self.source,
            "channels": self.channels,
            "track": self.track,
            "duration": None if self.seconds is None else str(self.seconds),
            "start_time": rfc2822(self.started),
            "date_created": rfc2822(self.started),
            "date_updated": rfc2822(self.started),
            "price": None,
            "price_unit": "USD",
            "error_code": None,
            "encryption_details": None,
            "media_url": self.path,
            "uri": self.path + ".json",
            "subresource_uris": {},
        }


@dataclass(slots=True, kw_only=True)
class Call:
    account_sid: str
    order: Order
    callee: Callee
    chaos: list[Chaos]
    pace: Pace
    line: Line
    queue_ms: int = 0
    sid: str = field(default_factory=lambda: sid("CA"))
    status: Status = Status.QUEUED
    created: datetime = field(default_factory=wall)
    updated: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    answered_at: float | None = None
    ended_at: float | None = None
    answered_by: str | None = None
    sequence: int = 0
    ended_by: str = ""
    document: Document | None = None  # what a POST to the call told it to go on with
    settled: bool = False  # it is over, and everyone who asked to be told was
    over: asyncio.Event = field(default_factory=asyncio.Event)  # it was hung up
    signal: asyncio.Event = field(default_factory=asyncio.Event)  # that, or it was told to go on elsewhere
    told: asyncio.Event = field(default_factory=asyncio.Event)  # the completed callback was answered
    initiated: asyncio.Event = field(default_factory=asyncio.Event)  # the first callback was answered
    recordings: list[Recording] = field(default_factory=list)
    relays: list[str] = field(default_factory=list)  # their session SIDs

    @property
    def path(self) -> str:
        return f"/{VERSION}/Accounts/{self.account_sid}/Calls/{self.sid}"

    def hang_up(self, by: str) -> None:
        """Whoever is first ends it."""
        if not self.ended_by and not self.status.final:
            self.ended_by = by
            self.over.set()
            self.signal.set()
            self.line.die()

    def redirect(self, document: Document) -> None:
        self.document = document
        self.signal.set()

    def seconds(self) -> int | None:
        if self.answered_at is None or self.ended_at is None:
            return None
        return max(1, round(self.ended_at - self.answered_at))

    def price(self) -> str | None:
        seconds = self.seconds()
        if seconds is None or self.ended_at is None or self.pace.now() < self.ended_at + PRICED_AFTER:
            return None
        return f"-{math.ceil(seconds / 60) * PRICE_A_MINUTE:.5f}"

    def resource(self, *, fresh: bool = False) -> dict[str, Any]:
        """`fresh` as the 201 has it: nothing has happened yet, whatever has."""
        seconds = self.seconds()
        parts = (
            "notifications recordings payments events siprec streams transcriptions "
            "user_defined_message_subscriptions user_defined_messages"
        )
        paths = {part: f"{self.path}/{''.join(w.title() for w in part.split('_'))}.json" for part in parts.split()}
        return {
            "sid": self.sid,
            "account_sid": self.account_sid,
            "parent_call_sid": None,
            "to": self.order.to,
            "to_formatted": formatted(self.order.to),
            "from": self.order.from_,
            "from_formatted": formatted(self.order.from_),
            "phone_number_sid": "PN" + "0" * 32,
            "status": Status.QUEUED.value if fresh else self.status.value,
            "date_created": None if fresh else rfc2822(self.created),
            "date_updated": None if fresh else rfc2822(self.updated or self.created),
            "start_time": None if fresh else rfc2822(self.started),
            "end_time": None if fresh else rfc2822(self.ended),
            "duration": None if seconds is None or fresh else str(seconds),
            "price": None if fresh else self.price(),
            "price_unit": "USD",
            "direction": "outbound-api",
            "answered_by": None if fresh else self.answered_by,
            "api_version": VERSION,
            "annotation": None,
            "forwarded_from": None,
            "caller_name": None,
            "group_sid": None,
            "queue_time": str(self.queue_ms),
            "trunk_sid": None,
            "uri": self.path + ".json",
            "subresource_uris": paths,
        }
