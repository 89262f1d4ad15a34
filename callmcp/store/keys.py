"""What is asked of the database about accounts and keys. Each function is one job of a lane."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, func, select, update

from callmcp.errors import Conflict, NotFound
from callmcp.identity.model import Account, ApiKey
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.tables import (
    ACCOUNTS,
    KEYS,
    account_columns,
    account_value,
    key_columns,
    key_value,
    micros,
)

_ADD_ACCOUNT = InsertNew(ACCOUNTS)
_ACCOUNT_NAMED = select(ACCOUNTS).where(ACCOUNTS.c.name == bindparam("name"))
_ACCOUNTS = select(ACCOUNTS).order_by(ACCOUNTS.c.created_at, ACCOUNTS.c.id)
_ADD_KEY = InsertNew(KEYS)
_KEY = select(KEYS).where(KEYS.c.id == bindparam("id"))
_KEY_BY_DIGEST = select(KEYS).where(KEYS.c.digest == bindparam("digest"))
_ALL_KEYS = select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id)
_KEYS = _ALL_KEYS.where(KEYS.c.account_id == bindparam("account_id"))
_SAVE_KEY = (
    update(KEYS)
    .where(KEYS.c.id == bindparam("id"))
    .values(
        {column.name: bindparam(column.name) for column in KEYS.c if column.name not in {"id", "last_used_at"}}
        # Once revoked, always revoked: an update that read the key before must not bring it back.
        | {"revoked_at": func.coalesce(KEYS.c.revoked_at, bindparam("revoked_at"))}
    )
)
_TOUCH_KEY = update(KEYS).where(KEYS.c.id == bindparam("key_id")).values(last_used_at=bindparam("at"))


def add_account(connection: Connection, account: Account) -> None:
    if not connection.run(_ADD_ACCOUNT, account_columns(account)):
        raise Conflict(f"There is an account named {account.name!r} already.", code="account_exists")


def account_named(connection: Connection, name: str) -> Account | None:
    row = connection.one(_ACCOUNT_NAMED, {"name": name})
    return None if row is None else account_value(row)


def accounts(connection: Connection) -> Sequence[Account]:
    return [account_value(row) for row in connection.all(_ACCOUNTS, {})]


def add_key(connection: Connection, key: ApiKey) -> None:
    if not connection.run(_ADD_KEY, key_columns(key)):
        raise Conflict(f"There is a key {key.id!r} already.", code="key_exists")


def key_by_digest(connection: Connection, digest: str) -> ApiKey | None:
    row = connection.one(_KEY_BY_DIGEST, {"digest": digest})
    return None if row is None else key_value(row)


def key(connection: Connection, key_id: str) -> ApiKey | None:
    row = connection.one(_KEY, {"id": key_id})
    return None if row is None else key_value(row)


def keys(connection: Connection, account_id: str | None) -> Sequence[ApiKey]:
    rows = connection.all(*((_ALL_KEYS, {}) if account_id is None else (_KEYS, {"account_id": account_id})))
    return [key_value(row) for row in rows]


def save_key(connection: Connection, key: ApiKey) -> None:
    if not connection.run(_SAVE_KEY, key_columns(key)):
        raise NotFound(f"There is no key {key.id!r}.", code="key_not_found")


def touch_key(connection: Connection, key_id: str, at: datetime) -> None:
    connection.run(_TOUCH_KEY, {"key_id": key_id, "at": micros(at)})
