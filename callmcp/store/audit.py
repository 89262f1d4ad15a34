"""What is asked of the database about the audit trail. Each function is one job of a lane."""

from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select

from callmcp.identity.audit import Entry
from callmcp.store.connection import Connection
from callmcp.store.policy_tables import AUDIT, audit_columns, audit_value

_ADD = insert(AUDIT)
_ENTRIES = (
    select(AUDIT)
    .where(AUDIT.c.account_id == bindparam("account_id"))
    .order_by(AUDIT.c.at.desc(), AUDIT.c.id.desc())
    .limit(bindparam("limit"))
)


def add_entry(connection: Connection, entry: Entry) -> None:
    connection.run(_ADD, audit_columns(entry))


def entries(connection: Connection, account_id: str, *, limit: int) -> Sequence[Entry]:
    return [audit_value(row) for row in connection.all(_ENTRIES, {"account_id": account_id, "limit": limit})]
