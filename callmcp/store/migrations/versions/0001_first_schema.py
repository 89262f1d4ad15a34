"""The first schema: accounts, keys, agents, calls with their turns, and the processes that carry calls."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "agents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("instructions", sa.String(), nullable=False),
        sa.Column("greeting", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("from_number", sa.String(), nullable=True),
        sa.Column("max_duration_seconds", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_agents_account", "agents", ["account_id", "created_at", "id"])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("agent_ids", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_index("ix_api_keys_account_id", "api_keys", ["account_id"])
    op.create_table(
        "calls",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("agent_version", sa.Integer(), nullable=False),
        sa.Column("to", sa.String(), nullable=False),
        sa.Column("from_number", sa.String(), nullable=False),
        sa.Column("context", sa.String(), nullable=False),
        sa.Column("metadata", sa.String(), nullable=False),
        sa.Column("max_duration_seconds", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("carrier", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("carrier_id", sa.String(), nullable=True),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("heard_from_at", sa.BigInteger(), nullable=False),
        sa.Column("end_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("answered_by", sa.String(), nullable=True),
        sa.Column("end_reason", sa.String(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("opt_out", sa.Boolean(), nullable=False),
        sa.Column("turn_count", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_calls_account", "calls", ["account_id", "created_at", "id"])
    op.create_index("ix_calls_agent", "calls", ["account_id", "agent_id", "created_at", "id"])
    op.create_index("ix_calls_agent_status", "calls", ["account_id", "agent_id", "status", "created_at", "id"])
    op.create_index("ix_calls_carrier_id", "calls", ["carrier_id"])
    op.create_index(
        "ix_calls_carried",
        "calls",
        ["owner", "end_requested_at"],
        sqlite_where=sa.text("status IN ('in-progress', 'initiated', 'queued', 'ringing', 'unknown')"),
        postgresql_where=sa.text("status IN ('in-progress', 'initiated', 'queued', 'ringing', 'unknown')"),
    )
    op.create_index(
        "ix_calls_quiet",
        "calls",
        ["status", "heard_from_at"],
        sqlite_where=sa.text("status IN ('in-progress', 'initiated', 'queued', 'ringing', 'unknown')"),
        postgresql_where=sa.text("status IN ('in-progress', 'initiated', 'queued', 'ringing', 'unknown')"),
    )
    op.create_index("ix_calls_status", "calls", ["account_id", "status", "created_at", "id"])
    op.create_index("ix_calls_to", "calls", ["account_id", "to", "created_at", "id"])
    op.create_index(
        "ux_calls_idempotency_key",
        "calls",
        ["account_id", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "owners",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "turns",
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["call_id"], ["calls.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("call_id", "index"),
        sqlite_with_rowid=False,
    )
