"""Alembic's way in: `schema.py` hands over a connection that is in its transaction already."""

from alembic import context
from sqlmodel import SQLModel

import callmcp.store.policy_tables  # noqa: F401 - fills the metadata, with what it imports

context.configure(connection=context.config.attributes["connection"], target_metadata=SQLModel.metadata)
context.run_migrations()
