"""What calls cost, and calls that wait for a person's yes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_MAY_WAIT = "status = 'queued' AND approval IS NOT NULL"


def upgrade() -> None:
    for name in ("recipient_timezone", "approval", "cost"):
        op.add_column("calls", sa.Column(name, sa.String(), nullable=True))
    op.create_index(
        "ix_calls_waiting",
        "calls",
        ["account_id", "created_at"],
        sqlite_where=sa.text(_MAY_WAIT),
        postgresql_where=sa.text(_MAY_WAIT),
    )
    op.create_table(
        "prices",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("of", sa.String(), nullable=False),
        sa.Column("per_minute", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "of"),
    )
    op.create_table(
        "spend",
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("micros", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject_id", "day"),
    )
