"""Values to store. Each call of a function makes one that differs from all others where it must."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from callmcp.agents.model import Agent
from callmcp.calls.model import Call
from callmcp.identity.model import Account, ApiKey, Scope

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

_numbers = itertools.count(1)


def an_account(**fields: Any) -> Account:
    number = next(_numbers)
    some: dict[str, Any] = {"id": f"acct_{number:012x}", "name": f"account {number}", "created_at": NOON}
    return Account(**some | fields)


def a_key(**fields: Any) -> ApiKey:
    number = next(_numbers)
    some: dict[str, Any] = {
        "id": f"key_{number:012x}",
        "account_id": "acct_1",
        "name": f"key {number}",
        "prefix": f"cmcp_{number:06x}",
        "digest": f"{number:064x}",
        "scopes": frozenset({Scope.CALLS_WRITE}),
        "agent_ids": frozenset(),
        "created_at": NOON,
    }
    return ApiKey(**some | fields)


def an_agent(**fields: Any) -> Agent:
    some: dict[str, Any] = {
        "id": f"agt_{next(_numbers):012x}",
        "account_id": "acct_1",
        "name": "Ada",
        "greeting": "Hello, this is Ada.",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Agent(**some | fields)


def a_call(**fields: Any) -> Call:
    number = next(_numbers)
    created_at = fields.get("created_at", NOON + timedelta(seconds=number))
    some: dict[str, Any] = {
        "id": f"call_{number:024x}",
        "account_id": "acct_1",
        "key_id": "key_1",
        "agent_id": "agt_000001",
        "agent_version": 1,
        "to": "+15550100000",
        "from_number": "+15550100099",
        "context": "Ask whether the table is free.",
        "metadata": {"order": "17"},
        "max_duration_seconds": 600,
        "idempotency_key": None,
        "fingerprint": "f" * 64,
        "carrier": "simulator",
        "token": "token",
        "created_at": created_at,
        "heard_from_at": created_at,
    }
    return Call(**some | fields)
