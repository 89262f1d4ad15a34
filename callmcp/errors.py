"""The error tree. Every error has a stable `code`; none knows a protocol's numbers, an edge maps them.

CallMcpError
├── InvalidArguments     what was sent is malformed: each problem names its field
├── Unauthenticated      no credential, or one that is wrong, expired or revoked
├── Forbidden            the credential lacks a scope
├── NotFound             no such agent, call, key or account here (also: somebody else's)
├── Conflict             it clashes with what is stored (an idempotency key with other arguments, a taken name)
├── Refused              a rule said no, before anything was dialled
├── CarrierError
│   ├── CarrierRefused   the carrier said no: the call was certainly not placed
│   └── CarrierUncertain the carrier may have dialled and has not said
├── Unavailable          something we depend on cannot be reached now; the same request may work later
└── BadConfiguration     a setting is missing or wrong; names it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


class CallMcpError(Exception):
    """Base of all errors that callmcp raises on purpose. `str(error)` is a sentence for whoever can act on it."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with one field. `field` is a path such as `metadata.order`, `message` says how to mend it."""

    field: str
    message: str


class InvalidArguments(CallMcpError):
    """The arguments are malformed; `problems` has one entry for each thing wrong."""

    code = "invalid_arguments"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems))

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidArguments":
        return cls([Problem(field=field, message=message)])


class Unauthenticated(CallMcpError):
    """No usable credential. `presented` says whether one was sent at all."""

    code = "unauthenticated"

    def __init__(self, message: str, *, presented: bool) -> None:
        super().__init__(message)
        self.presented = presented


class Forbidden(CallMcpError):
    """The credential is good but lacks a scope. `scopes` are all that the operation needs."""

    code = "insufficient_scope"

    def __init__(self, message: str, *, scopes: Sequence[str]) -> None:
        super().__init__(message)
        self.scopes = tuple(scopes)


class NotFound(CallMcpError):
    code = "not_found"


class Conflict(CallMcpError):
    code = "conflict"


class Refused(CallMcpError):
    """A rule said no before anything was dialled. `retry_at` is when asking again can help, if time helps at all;
    `refusal_id` names what was remembered of it, `rule` the rule."""

    code = "refused"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retry_at: datetime | None = None,
        refusal_id: str | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.retry_at = retry_at
        self.refusal_id = refusal_id
        self.rule = rule


class CarrierError(CallMcpError):
    """`carrier_code` is the carrier's own code, for whoever looks it up in the carrier's documentation. `passing`: the
    cause may pass by itself, and the same request work later."""

    code = "carrier_error"

    def __init__(
        self, message: str, *, code: str | None = None, carrier_code: str | None = None, passing: bool = False
    ) -> None:
        super().__init__(message, code=code)
        self.carrier_code = carrier_code
        self.passing = passing


class CarrierRefused(CarrierError):
    code = "carrier_refused"


class CarrierUncertain(CarrierError):
    code = "carrier_uncertain"


class Unavailable(CallMcpError):
    code = "unavailable"


class BadConfiguration(CallMcpError):
    code = "bad_configuration"
