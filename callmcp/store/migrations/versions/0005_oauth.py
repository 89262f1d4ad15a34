"""OAuth: clients, what they were granted, what they prove it with, and the keys that sign tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def _text(name: str, *, nullable: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "oauth_clients",
        *(_text(name) for name in ("id", "kind", "name", "redirect_uris")),
        _time("created_at"),
        _text("secret_digest", nullable=True),
        _text("account_id", nullable=True),
        _text("scopes"),
        _time("last_used_at", nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_oauth_clients_kind", "oauth_clients", ["kind", "created_at"])
    op.create_table(
        "oauth_grants",
        *(_text(name) for name in ("id", "account_id", "key_id", "client_id", "client_name")),
        *(_text(name) for name in ("scopes", "agent_ids", "resource")),
        _time("created_at"),
        _time("revoked_at", nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_oauth_grants_client", "oauth_grants", ["client_id"])
    op.create_index("ix_oauth_grants_account", "oauth_grants", ["account_id"])
    op.create_table(
        "oauth_codes",
        *(_text(name) for name in ("digest", "grant_id", "client_id", "redirect_uri", "challenge")),
        _time("expires_at"),
        _time("used_at", nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("ix_oauth_codes_grant", "oauth_codes", ["grant_id"])
    op.create_table(
        "oauth_refresh_tokens",
        *(_text(name) for name in ("digest", "grant_id", "client_id")),
        _time("expires_at"),
        _time("used_at", nullable=True),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("ix_oauth_refresh_tokens_grant", "oauth_refresh_tokens", ["grant_id"])
    op.create_table("oauth_signing_keys", _text("id"), _text("jwk"), _time("created_at"), sa.PrimaryKeyConstraint("id"))
