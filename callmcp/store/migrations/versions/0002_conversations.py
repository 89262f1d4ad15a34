"""What a conversation needs: agents with a voice, a model and questions, their versions, and what came of a call."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_AGENTS = (
    ("language", sa.String(), "en-US"),
    ("voice", sa.String(), None),
    ("tts_provider", sa.String(), None),
    ("transcription_provider", sa.String(), None),
    ("speech_model", sa.String(), None),
    ("hints", sa.String(), "[]"),
    ("fallbacks", sa.String(), "[]"),
    ("temperature", sa.Float(), None),
    ("voicemail_message", sa.String(), None),
    ("recording", sa.Boolean(), sa.false()),
    ("questions", sa.String(), "[]"),
)
_CALLS = (
    ("language", sa.String(), "en-US"),
    ("voicemail_message", sa.String(), None),
    ("questions", sa.String(), "[]"),
    ("voicemail_left", sa.Boolean(), sa.false()),
    ("recording", sa.String(), None),
    ("breaks", sa.Integer(), "0"),
)


def upgrade() -> None:
    for table, columns in (("agents", _AGENTS), ("calls", _CALLS)):
        for name, kind, value in columns:
            op.add_column(table, sa.Column(name, kind, nullable=value is None, server_default=value))
    versions = op.create_table(
        "agent_versions",
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "version"),
    )
    # What an agent was before it was last changed is not known; what it is now is the first version there is of it.
    connection = op.get_bind()
    for agent in connection.execute(sa.text("SELECT * FROM agents")).mappings().all():
        definition = {name: bool(value) if name == "recording" else value for name, value in agent.items()}
        row = {"agent_id": agent["id"], "version": agent["version"], "definition": json.dumps(definition)}
        connection.execute(sa.insert(versions).values(row))
