"""The values of a call: frozen, made from outside only through the checks in this file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from callmcp.agents.model import DEFAULT_LANGUAGE, E164, language_problems, voicemail_problems
from callmcp.agents.questions import Question, question_problems
from callmcp.calls.approval import Approval
from callmcp.calls.cost import Cost
from callmcp.errors import InvalidArguments, Problem, Refused

MAX_CONTEXT = 8000
MAX_IDEMPOTENCY_KEY = 255
MAX_TIMEZONE = 64
MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 256


class CallStatus(StrEnum):
    """The state of the line, in the carrier world's own words; `state.py` says which may follow which.

    `unknown`: the carrier may have dialled and has not said. It is not final.
    """

    QUEUED = "queued"
    INITIATED = "initiated"
    RINGING = "ringing"
    IN_PROGRESS = "in-progress"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    BUSY = "busy"
    NO_ANSWER = "no-answer"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({CallStatus.COMPLETED, CallStatus.BUSY, CallStatus.NO_ANSWER, CallStatus.FAILED, CallStatus.CANCELED})
LIVE = frozenset(CallStatus) - FINAL


class AnsweredBy(StrEnum):
    """Who or what picked up, as far as it can be told."""

    HUMAN = "human"
    MACHINE = "machine"
    FAX = "fax"
    IVR = "ivr"
    UNKNOWN = "unknown"


NO_PERSON = frozenset({AnsweredBy.MACHINE, AnsweredBy.FAX})


class EndReason(StrEnum):
    """Why the call is over: `<who or what>-<what it did>`."""

    CALLEE_HUNG_UP = "callee-hung-up"
    AGENT_HUNG_UP = "agent-hung-up"
    ENDED_BY_CALLER = "ended-by-caller"
    MAX_DURATION = "max-duration"
    NO_ANSWER = "no-answer"
    BUSY = "busy"
    MACHINE = "machine"
    DECLINED = "declined"
    EXPIRED = "expired"
    CARRIER_REFUSED = "carrier-refused"
    CARRIER_FAILED = "carrier-failed"
    CARRIER_SILENT = "carrier-silent"
    POLICY_REFUSED = "policy-refused"
    SERVER_LOST = "server-lost"


class GoalMet(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


class Speaker(StrEnum):
    AGENT = "agent"
    CALLEE = "callee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one side said, as the other heard it. `index` counts from 0 within the call."""

    index: int
    at: datetime
    speaker: Speaker
    text: str


Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call found out about one question. `value` has the question's type, None when there is none; `evidence` is
    the index of the turn that says so; `error` is what is wrong or missing, and stands alone: it empties no other."""

    name: str
    value: Value | None = None
    evidence: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether the goal of the call was met, apart from what the line did and who answered, and an answer for each
    question that the call was to put."""

    goal_met: GoalMet
    summary: str
    answers: tuple[Answer, ...] = ()


class RecordingStatus(StrEnum):
    """`requested`: it begins with the talk. `absent`: there was nothing to record, or the carrier records nothing."""

    REQUESTED = "requested"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The carrier's recording of a call. `carrier_id` is what it is fetched by; it never leaves this server."""

    status: RecordingStatus
    carrier_id: str | None = None
    duration_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallError:
    """What went wrong: our stable code, words for whoever reads the record, and the carrier's own code."""

    code: str
    message: str
    carrier_code: str | None = None


@dataclass(frozen=True, slots=True)
class PhoneNumber:
    """A number in E.164 (ITU-T E.164 section 6): `+`, a country code that does not begin with 0, 7 to 15 digits in all.

    E.164 alone says nothing of whether the number is in use or may be called: that is policy.
    """

    e164: str

    @classmethod
    def parse(cls, text: str) -> "PhoneNumber":
        """Raises Refused for the short number of an emergency service, InvalidArguments saying what else is wrong."""
        if E164.fullmatch(text):
            return cls(text)
        if text in EMERGENCY_SHORT_NUMBERS or text.lstrip("+") in EMERGENCY_SHORT_NUMBERS:
            raise emergency_refused(text)
        raise InvalidArguments.of("to", _why_not_e164(text))

    def __str__(self) -> str:
        return self.e164


# What people dial for help somewhere in the world, and the crisis lines beside it (988); none of them is E.164.
# fmt: off
EMERGENCY_SHORT_NUMBERS = frozenset((
    "000", "08", "100", "101", "102", "103", "104", "105", "106", "107", "108", "110", "111", "112",
    "113", "114", "115", "116", "117", "118", "119", "120", "122", "123", "127", "128", "129", "133",
    "140", "144", "15", "150", "155", "156", "157", "158", "17", "18", "190", "191", "192", "193",
    "194", "195", "197", "198", "199", "911", "988", "990", "991", "992", "993", "994", "995", "997",
    "998", "999", "1911", "1112",
))
# fmt: on


def emergency_refused(number: str) -> Refused:
    return Refused(
        f"{number} reaches an emergency service, and an AI agent never calls one. "
        "If there is an emergency, tell the person you work for to call it themselves.",
        code="emergency_number",
    )


def _why_not_e164(text: str) -> str:
    form = "the number must be in E.164 format: +, the country code, then the number, digits only, such as +14155550123"
    digits = text[1:]
    if not text:
        why = "it is empty"
    elif text != text.strip():
        why = "it has white space or a line break at an end"
    elif not text.startswith("+"):
        why = "it does not begin with + and the country code"
    elif not (digits.isascii() and digits.isdigit()):
        why = "it has characters other than digits after the +"
    elif digits.startswith("0"):
        why = "a country code never begins with 0"
    elif len(digits) > 15:  # noqa: PLR2004 - E.164's own limit
        why = f"it has {len(digits)} digits and E.164 allows 15"
    else:
        why = f"it has only {len(digits)} digits after the +"
    return f"{why}; {form}"


class NumberKind(StrEnum):
    """What kind of number the numbering plan says it is."""

    FIXED = "fixed"
    MOBILE = "mobile"
    FIXED_OR_MOBILE = "fixed-or-mobile"
    TOLL_FREE = "toll-free"
    PREMIUM = "premium"
    SHARED_COST = "shared-cost"
    VOIP = "voip"
    PERSONAL = "personal"
    PAGER = "pager"
    SATELLITE = "satellite"
    SERVICE = "service"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberLooks:
    """What can be told of a number without asking anybody. `region` is ISO 3166 (None: of no region), `zones` are the
    time zones that it may be in (IANA; empty: nobody knows)."""

    is_possible: bool
    is_valid: bool
    is_emergency: bool
    kind: NumberKind = NumberKind.UNKNOWN
    region: str | None = None
    zones: tuple[str, ...] = ()


MAX_CONSENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """That the callee agreed to be called: on what ground, when, and where the proof is kept."""

    basis: str
    obtained_at: datetime
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What somebody wants: which voice agent calls whom, and why. Raises InvalidArguments, a problem for each field."""

    agent_id: str
    to: PhoneNumber
    context: str = ""
    idempotency_key: str | None = None
    max_duration_seconds: int | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    voicemail_message: str | None = None
    questions: tuple[Question, ...] = ()
    language: str | None = None
    recipient_timezone: str | None = None
    consent: Consent | None = None

    def __post_init__(self) -> None:
        problems = [
            Problem(field=name, message=f"at most {most} characters, not {len(text)}")
            for name, text, most in (
                ("context", self.context, MAX_CONTEXT),
                ("idempotency_key", self.idempotency_key or "", MAX_IDEMPOTENCY_KEY),
                ("recipient_timezone", self.recipient_timezone or "", MAX_TIMEZONE),
                ("consent.basis", self.consent.basis if self.consent else "", MAX_CONSENT),
                ("consent.reference", self.consent.reference if self.consent else "", MAX_CONSENT),
            )
            if len(text) > most
        ]
        if self.idempotency_key == "":
            problems.append(Problem(field="idempotency_key", message="leave it out, or give at least one character"))
        if len(self.metadata) > MAX_METADATA:
            problems.append(Problem(field="metadata", message=f"at most {MAX_METADATA} entries"))
        problems += [
            Problem(
                field=f"metadata.{key[:MAX_METADATA_KEY]}",
                message=f"keys have 1 to {MAX_METADATA_KEY} characters, values at most {MAX_METADATA_VALUE}",
            )
            for key, value in self.metadata.items()
            if not 1 <= len(key) <= MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE
        ]
        problems += [
            *voicemail_problems(self.voicemail_message),
            *question_problems(self.questions),
            *language_problems(self.language),
        ]
        if problems:
            raise InvalidArguments(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One outbound call as it stands. It changes only through `state.apply`; what was said is kept beside it as Turns.

    `from_number` is the caller id; `owner` names the process that carries the call, when one does; `fingerprint`
    identifies the arguments it was placed with; `heard_from_at` is when the line last gave a sign of life;
    `end_requested_at` is a request to end it that its owner obeys; `end_reason` may be known while the line is still
    being hung up; `token` is unguessable and stands in the addresses at which the carrier reports on this one call.
    `language`, `voicemail_message` and `questions` are the request's, else the voice agent's; `recording` is None when
    the call is not to be recorded; `breaks` counts how often the talk broke off and was taken up again. `approval` is
    None when nobody had to be asked: a call that waits for one is not missed, `heard_from_at`, before its time is up.
    `cost` is None when the call costs nothing.
    """

    id: str
    account_id: str
    key_id: str
    agent_id: str
    agent_version: int
    to: str
    from_number: str
    context: str
    metadata: Mapping[str, str]
    max_duration_seconds: int
    language: str = DEFAULT_LANGUAGE
    voicemail_message: str | None = None
    questions: tuple[Question, ...] = ()
    recipient_timezone: str | None = None
    consent: Consent | None = None
    approval: Approval | None = None
    cost: Cost | None = None
    idempotency_key: str | None
    fingerprint: str
    carrier: str
    token: str
    carrier_id: str | None = None
    owner: str | None = None
    status: CallStatus = CallStatus.QUEUED
    created_at: datetime
    heard_from_at: datetime
    end_requested_at: datetime | None = None
    answered_at: datetime | None = None
    ended_at: datetime | None = None
    answered_by: AnsweredBy | None = None
    end_reason: EndReason | None = None
    outcome: Outcome | None = None
    opt_out: bool = False
    disclosure_spoken: bool = False
    voicemail_left: bool = False
    recording: Recording | None = None
    breaks: int = 0
    turn_count: int = 0
    error: CallError | None = None

    @property
    def waits(self) -> bool:
        """Whether nothing may be dialled yet, or is not."""
        return self.approval is not None and self.approval.waits and not self.status.is_final


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls to list. `since` is inclusive, `until` exclusive, both on created_at."""

    status: CallStatus | None = None
    agent_id: str | None = None
    to: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the list of calls, newest first: just after the call with this date and id."""

    created_at: datetime
    id: str
