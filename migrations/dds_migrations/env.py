"""Alembic's environment. It uses the connection and the transaction of the caller of `dds_migrations.upgrade`."""

from alembic import context

from dds_migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
