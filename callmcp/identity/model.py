"""Who asks, and what they may do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from callmcp.errors import Forbidden, InvalidArguments

DEFAULT_ACCOUNT = "default"
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


class Scope(StrEnum):
    """What a credential may do: `<resource>:<read|write>`, or `admin`.

    `write` implies `read` of the same resource; `admin` implies every scope.
    """

    CALLS_READ = "calls:read"
    CALLS_WRITE = "calls:write"
    AGENTS_READ = "agents:read"
    AGENTS_WRITE = "agents:write"
    ADMIN = "admin"

    def implies(self, other: "Scope") -> bool:
        return other in _IMPLIED[self]


_IMPLIED = {
    Scope.CALLS_READ: frozenset({Scope.CALLS_READ}),
    Scope.CALLS_WRITE: frozenset({Scope.CALLS_WRITE, Scope.CALLS_READ}),
    Scope.AGENTS_READ: frozenset({Scope.AGENTS_READ}),
    Scope.AGENTS_WRITE: frozenset({Scope.AGENTS_WRITE, Scope.AGENTS_READ}),
    Scope.ADMIN: frozenset(Scope),
}


def parse_scopes(texts: Iterable[str]) -> frozenset[Scope]:
    """Scopes by their names. Raises InvalidArguments naming the first unknown one, and when there is none at all."""
    scopes = set()
    for text in texts:
        try:
            scopes.add(Scope(text))
        except ValueError:
            known = ", ".join(scope.value for scope in Scope)
            raise InvalidArguments.of("scope", f"{text!r} is not a scope; the scopes are {known}") from None
    if not scopes:
        raise InvalidArguments.of("scope", "at least one scope is needed")
    return frozenset(scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What keys, agents, calls and opt-outs belong to."""

    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is stored: never the secret, only its SHA-256 and its first characters for people to tell it by.

    `agent_ids` empty means every agent of the account.
    """

    id: str
    account_id: str
    name: str
    prefix: str
    digest: str
    scopes: frozenset[Scope]
    agent_ids: frozenset[str]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is asking: an account, through one credential. `agent_ids` empty means every agent of the account."""

    account_id: str
    key_id: str
    scopes: frozenset[Scope]
    agent_ids: frozenset[str] = frozenset()

    def may(self, scope: Scope) -> bool:
        return any(held.implies(scope) for held in self.scopes)

    def require(self, scope: Scope) -> None:
        """Raises Forbidden unless this principal holds `scope` or one that implies it."""
        if not self.may(scope):
            held = " ".join(sorted(self.scopes))
            raise Forbidden(f"This needs the scope {scope.value}; the key has {held}.", scopes=[scope.value])

    def sees(self, agent_id: str) -> bool:
        return not self.agent_ids or agent_id in self.agent_ids
