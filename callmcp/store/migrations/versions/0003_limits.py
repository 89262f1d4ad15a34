"""What operators lay down and what came of it: limits, the suppression list, refusals, the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_LIVE = "status IN ('in-progress', 'initiated', 'queued', 'ringing', 'unknown')"
_ONLY_ADDED_TO = "the audit trail is only ever added to"


def upgrade() -> None:
    op.add_column("calls", sa.Column("consent", sa.String(), nullable=True))
    op.add_column("calls", sa.Column("disclosure_spoken", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("agents", sa.Column("on_behalf_of", sa.String(), nullable=False, server_default=""))
    op.add_column("agents", sa.Column("disclosure", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.create_index("ix_calls_key", "calls", ["account_id", "key_id", "created_at"])
    op.create_index(
        "ix_calls_live",
        "calls",
        ["account_id", "created_at"],
        sqlite_where=sa.text(_LIVE),
        postgresql_where=sa.text(_LIVE),
    )
    op.create_table(
        "opt_outs",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("number", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "number"),
    )
    op.create_table(
        "limits",
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("definition", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("subject_id"),
    )
    op.create_index("ix_limits_account_id", "limits", ["account_id"])
    op.create_table(
        "refusals",
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("id", "account_id", "key_id", "agent_id", "to", "rule", "level", "code", "reason")
        ),
        sa.Column("retry_at", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_refusals_account", "refusals", ["account_id", "at", "id"])
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_account", "audit", ["account_id", "at"])
    _take_in_the_opt_outs_there_are()
    _guard_the_audit()


def _take_in_the_opt_outs_there_are() -> None:
    """Whose wish was only in the record of a call so far is on the list from now on."""
    op.execute(
        "INSERT INTO opt_outs (account_id, number, source, reason, call_id, created_at) "
        "SELECT account_id, \"to\", 'callee', '', min(id), min(created_at) FROM calls WHERE opt_out "
        'GROUP BY account_id, "to"'
    )


def _guard_the_audit() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for what in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{what.lower()} BEFORE {what} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_ONLY_ADDED_TO}'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION audit_only_added_to() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_ONLY_ADDED_TO}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_only_added_to BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_only_added_to()"
    )
