"""What is asked of the database about OAuth. Each function is one job of a lane."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, exists, func, insert, or_, select, text, update

from callmcp.errors import Conflict
from callmcp.identity.grants import ClientKind, Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import ApiKey
from callmcp.store import keys
from callmcp.store.connection import Connection, InsertNew
from callmcp.store.grant_tables import (
    CLIENTS,
    CODES,
    GRANTS,
    REFRESH_TOKENS,
    SIGNING_KEYS,
    client_columns,
    client_value,
    code_columns,
    code_value,
    grant_columns,
    grant_value,
    refresh_token_columns,
    refresh_token_value,
    signing_key_columns,
    signing_key_value,
)
from callmcp.store.tables import micros

_ADD_CLIENT = InsertNew(CLIENTS)
_CLIENT = select(CLIENTS).where(CLIENTS.c.id == bindparam("client_id"))
_CLIENTS = (
    select(CLIENTS).where(CLIENTS.c.account_id == bindparam("account_id")).order_by(CLIENTS.c.created_at, CLIENTS.c.id)
)
_REMOVE_CLIENT = delete(CLIENTS).where(CLIENTS.c.id == bindparam("client_id"))
_USE_CLIENT = update(CLIENTS).where(CLIENTS.c.id == bindparam("client_id")).values(last_used_at=bindparam("at"))
_IS_DYNAMIC = CLIENTS.c.kind == bindparam("kind")
_DYNAMIC_CLIENTS = select(func.count()).where(_IS_DYNAMIC, CLIENTS.c.created_at > bindparam("since"))
_FORGET_CLIENTS = delete(CLIENTS).where(
    _IS_DYNAMIC,
    or_(
        CLIENTS.c.last_used_at.is_(None) & (CLIENTS.c.created_at < bindparam("unused_since")),
        CLIENTS.c.last_used_at < bindparam("idle_since"),
    ),
)
_ADD_GRANT = insert(GRANTS)
_GRANT = select(GRANTS).where(GRANTS.c.id == bindparam("grant_id"))
_NOT_REVOKED = GRANTS.c.revoked_at.is_(None)
_GRANTS = (
    select(GRANTS)
    .where(GRANTS.c.account_id == bindparam("account_id"), _NOT_REVOKED)
    .order_by(GRANTS.c.created_at, GRANTS.c.id)
)
_REVOKE_GRANT = (
    update(GRANTS).where(GRANTS.c.id == bindparam("grant_id"), _NOT_REVOKED).values(revoked_at=bindparam("at"))
)
_REVOKE_GRANTS_OF = (
    update(GRANTS).where(GRANTS.c.client_id == bindparam("client"), _NOT_REVOKED).values(revoked_at=bindparam("at"))
)
_ADD_CODE = insert(CODES)
_CODE = select(CODES).where(CODES.c.digest == bindparam("which"))
_USE_CODE = (
    update(CODES).where(CODES.c.digest == bindparam("which"), CODES.c.used_at.is_(None)).values(used_at=bindparam("at"))
)
_ADD_TOKEN = insert(REFRESH_TOKENS)
_TOKEN = select(REFRESH_TOKENS).where(REFRESH_TOKENS.c.digest == bindparam("which"))
_USE_TOKEN = (
    update(REFRESH_TOKENS)
    .where(REFRESH_TOKENS.c.digest == bindparam("which"), REFRESH_TOKENS.c.used_at.is_(None))
    .values(used_at=bindparam("at"))
)
_FORGET_CODES = delete(CODES).where(CODES.c.expires_at < bindparam("expired"))
_FORGET_TOKENS = delete(REFRESH_TOKENS).where(REFRESH_TOKENS.c.expires_at < bindparam("expired"))
_FORGET_GRANTS = delete(GRANTS).where(
    GRANTS.c.created_at < bindparam("made_before"),
    ~exists().where(CODES.c.grant_id == GRANTS.c.id),
    ~exists().where(REFRESH_TOKENS.c.grant_id == GRANTS.c.id),
)
_ADD_KEY = insert(SIGNING_KEYS)
_KEYS = select(SIGNING_KEYS).order_by(SIGNING_KEYS.c.created_at.desc(), SIGNING_KEYS.c.id)
_FORGET_KEYS = delete(SIGNING_KEYS).where(SIGNING_KEYS.c.created_at < bindparam("before"))
_ONE_REGISTERS = text("SELECT pg_advisory_xact_lock(7591)")  # of two that count at once, each would find room
_ONE_AT_A_TIME = text("LOCK TABLE oauth_signing_keys IN EXCLUSIVE MODE")


def add_client(connection: Connection, client: OAuthClient) -> None:
    if not connection.run(_ADD_CLIENT, client_columns(client)):
        raise Conflict(f"There is a client {client.id!r} already.", code="client_exists")


def client(connection: Connection, client_id: str) -> OAuthClient | None:
    row = connection.one(_CLIENT, {"client_id": client_id})
    return None if row is None else client_value(row)


def clients(connection: Connection, account_id: str) -> Sequence[OAuthClient]:
    return [client_value(row) for row in connection.all(_CLIENTS, {"account_id": account_id})]


def remove_client(connection: Connection, client_id: str, at: datetime) -> None:
    connection.run(_REMOVE_CLIENT, {"client_id": client_id})
    connection.run(_REVOKE_GRANTS_OF, {"client": client_id, "at": micros(at)})


def use_client(connection: Connection, client_id: str, at: datetime) -> None:
    connection.run(_USE_CLIENT, {"client_id": client_id, "at": micros(at)})


def register_client(connection: Connection, client: OAuthClient, *, most: int, since: datetime) -> bool:
    if not connection.is_sqlite:
        connection.run(_ONE_REGISTERS, {})
    row = connection.one(_DYNAMIC_CLIENTS, {"kind": ClientKind.DYNAMIC.value, "since": micros(since)})
    if row is not None and int(row[0]) >= most:
        return False
    add_client(connection, client)
    return True


def forget_clients(connection: Connection, *, unused_since: datetime, idle_since: datetime) -> None:
    binds = {"unused_since": micros(unused_since), "idle_since": micros(idle_since)}
    connection.run(_FORGET_CLIENTS, {"kind": ClientKind.DYNAMIC.value, **binds})


def add_grant(connection: Connection, grant: Grant, code: Code | None) -> None:
    connection.run(_ADD_GRANT, grant_columns(grant))
    if code is not None:
        connection.run(_ADD_CODE, code_columns(code))


def grant(connection: Connection, grant_id: str) -> tuple[Grant, ApiKey | None] | None:
    row = connection.one(_GRANT, {"grant_id": grant_id})
    if row is None:
        return None
    found = grant_value(row)
    return found, keys.key(connection, found.key_id)


def grants(connection: Connection, account_id: str) -> Sequence[Grant]:
    return [grant_value(row) for row in connection.all(_GRANTS, {"account_id": account_id})]


def forget_grants(connection: Connection, *, expired: datetime, made_before: datetime) -> None:
    connection.run(_FORGET_CODES, {"expired": micros(expired)})
    connection.run(_FORGET_TOKENS, {"expired": micros(expired)})
    connection.run(_FORGET_GRANTS, {"made_before": micros(made_before)})


def revoke_grant(connection: Connection, grant_id: str, at: datetime) -> None:
    connection.run(_REVOKE_GRANT, {"grant_id": grant_id, "at": micros(at)})


def use_code(connection: Connection, digest: str, at: datetime) -> Code | None:
    used = connection.run(_USE_CODE, {"which": digest, "at": micros(at)})
    row = connection.one(_CODE, {"which": digest})
    found = None if row is None else code_value(row)
    if found is not None and not used:
        revoke_grant(connection, found.grant_id, at)
    return found if used else None


def add_refresh_token(connection: Connection, token: RefreshToken) -> None:
    connection.run(_ADD_TOKEN, refresh_token_columns(token))


def refresh_token(connection: Connection, digest: str) -> RefreshToken | None:
    row = connection.one(_TOKEN, {"which": digest})
    return None if row is None else refresh_token_value(row)


def use_refresh_token(connection: Connection, digest: str, at: datetime) -> RefreshToken | None:
    used = connection.run(_USE_TOKEN, {"which": digest, "at": micros(at)})
    found = refresh_token(connection, digest)
    if found is not None and not used:
        revoke_grant(connection, found.grant_id, at)
    return found if used else None


def signing_keys(connection: Connection) -> Sequence[SigningKey]:
    return [signing_key_value(row) for row in connection.all(_KEYS, {})]


def add_signing_key(connection: Connection, key: SigningKey, *, first: bool) -> None:
    if first:
        if not connection.is_sqlite:
            connection.run(_ONE_AT_A_TIME, {})
        if connection.one(_KEYS, {}) is not None:
            return
    connection.run(_ADD_KEY, signing_key_columns(key))


def forget_signing_keys(connection: Connection, *, succeeded_before: datetime) -> None:
    made = [key.created_at for key in signing_keys(connection) if key.created_at < succeeded_before]
    if made:
        connection.run(_FORGET_KEYS, {"before": micros(max(made))})
