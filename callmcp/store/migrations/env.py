"""Alembic's way in: `schema.py` hands over a connection that is in its transaction already."""

from alembic import context
from sqlmodel import SQLModel

import callmcp.store.grant_tables
import callmcp.store.policy_tables  # noqa: F401 - they fill the metadata, with what they import

context.configure(connection=context.config.attributes["connection"], target_metadata=SQLModel.metadata)
context.run_migrations()
