"""The rows of OAuth, as in tables.py: beside each its two functions."""

import json

from sqlalchemy import BigInteger, Index
from sqlmodel import Field, SQLModel

from callmcp.identity.grants import ClientKind, Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import Scope
from callmcp.store.tables import Columns, Row, micros, moment, or_none, table


class ClientRow(SQLModel, table=True):
    __tablename__ = "oauth_clients"
    __table_args__ = (Index("ix_oauth_clients_kind", "kind", "created_at"),)

    id: str = Field(primary_key=True)
    kind: str
    name: str
    redirect_uris: str
    created_at: int = Field(sa_type=BigInteger)
    secret_digest: str | None
    account_id: str | None
    scopes: str
    last_used_at: int | None = Field(default=None, sa_type=BigInteger)


def client_columns(client: OAuthClient) -> Columns:
    return {
        "id": client.id,
        "kind": client.kind.value,
        "name": client.name,
        "redirect_uris": json.dumps(client.redirect_uris),
        "created_at": micros(client.created_at),
        "secret_digest": client.secret_digest,
        "account_id": client.account_id,
        "scopes": json.dumps(sorted(client.scopes)),
        "last_used_at": or_none(micros, client.last_used_at),
    }


def client_value(row: Row) -> OAuthClient:
    client_id, kind, name, redirect_uris, created_at, secret_digest, account_id, scopes, last_used_at = row
    return OAuthClient(
        id=client_id,
        kind=ClientKind(kind),
        name=name,
        redirect_uris=tuple(json.loads(redirect_uris)),
        created_at=moment(created_at),
        secret_digest=secret_digest,
        account_id=account_id,
        scopes=frozenset(map(Scope, json.loads(scopes))),
        last_used_at=or_none(moment, last_used_at),
    )


class GrantRow(SQLModel, table=True):
    __tablename__ = "oauth_grants"
    __table_args__ = (Index("ix_oauth_grants_client", "client_id"), Index("ix_oauth_grants_account", "account_id"))

    id: str = Field(primary_key=True)
    account_id: str
    key_id: str
    client_id: str
    client_name: str
    scopes: str
    agent_ids: str
    resource: str
    created_at: int = Field(sa_type=BigInteger)
    revoked_at: int | None = Field(default=None, sa_type=BigInteger)


def grant_columns(grant: Grant) -> Columns:
    return {
        "id": grant.id,
        "account_id": grant.account_id,
        "key_id": grant.key_id,
        "client_id": grant.client_id,
        "client_name": grant.client_name,
        "scopes": json.dumps(sorted(grant.scopes)),
        "agent_ids": json.dumps(sorted(grant.agent_ids)),
        "resource": grant.resource,
        "created_at": micros(grant.created_at),
        "revoked_at": or_none(micros, grant.revoked_at),
    }


def grant_value(row: Row) -> Grant:
    grant_id, account_id, key_id, client_id, client_name, scopes, agent_ids, resource, created_at, revoked_at = row
    return Grant(
        id=grant_id,
        account_id=account_id,
        key_id=key_id,
        client_id=client_id,
        client_name=client_name,
        scopes=frozenset(map(Scope, json.loads(scopes))),
        agent_ids=frozenset(json.loads(agent_ids)),
        resource=resource,
        created_at=moment(created_at),
        revoked_at=or_none(moment, revoked_at),
    )


class CodeRow(SQLModel, table=True):
    __tablename__ = "oauth_codes"
    __table_args__ = (Index("ix_oauth_codes_grant", "grant_id"),)

    digest: str = Field(primary_key=True)
    grant_id: str
    client_id: str
    redirect_uri: str
    challenge: str
    expires_at: int = Field(sa_type=BigInteger)
    used_at: int | None = Field(default=None, sa_type=BigInteger)


def code_columns(code: Code) -> Columns:
    return {
        "digest": code.digest,
        "grant_id": code.grant_id,
        "client_id": code.client_id,
        "redirect_uri": code.redirect_uri,
        "challenge": code.challenge,
        "expires_at": micros(code.expires_at),
        "used_at": or_none(micros, code.used_at),
    }


def code_value(row: Row) -> Code:
    digest, grant_id, client_id, redirect_uri, challenge, expires_at, used_at = row
    return Code(
        digest=digest,
        grant_id=grant_id,
        client_id=client_id,
        redirect_uri=redirect_uri,
        challenge=challenge,
        expires_at=moment(expires_at),
        used_at=or_none(moment, used_at),
    )


class RefreshTokenRow(SQLModel, table=True):
    __tablename__ = "oauth_refresh_tokens"
    __table_args__ = (Index("ix_oauth_refresh_tokens_grant", "grant_id"),)

    digest: str = Field(primary_key=True)
    grant_id: str
    client_id: str
    expires_at: int = Field(sa_type=BigInteger)
    used_at: int | None = Field(default=None, sa_type=BigInteger)


def refresh_token_columns(token: RefreshToken) -> Columns:
    times = {"expires_at": micros(token.expires_at), "used_at": or_none(micros, token.used_at)}
    return {"digest": token.digest, "grant_id": token.grant_id, "client_id": token.client_id, **times}


def refresh_token_value(row: Row) -> RefreshToken:
    digest, grant_id, client_id, expires_at, used_at = row
    return RefreshToken(
        digest=digest,
        grant_id=grant_id,
        client_id=client_id,
        expires_at=moment(expires_at),
        used_at=or_none(moment, used_at),
    )


class SigningKeyRow(SQLModel, table=True):
    __tablename__ = "oauth_signing_keys"

    id: str = Field(primary_key=True)
    jwk: str
    created_at: int = Field(sa_type=BigInteger)


def signing_key_columns(key: SigningKey) -> Columns:
    return {"id": key.id, "jwk": key.jwk, "created_at": micros(key.created_at)}


def signing_key_value(row: Row) -> SigningKey:
    key_id, jwk, created_at = row
    return SigningKey(id=key_id, jwk=jwk, created_at=moment(created_at))


CLIENTS = table(ClientRow)
GRANTS = table(GrantRow)
CODES = table(CodeRow)
REFRESH_TOKENS = table(RefreshTokenRow)
SIGNING_KEYS = table(SigningKeyRow)
