"""What alembic runs to reach the database: it uses the connection and the transaction of `dds_migrations.upgrade`'s
caller."""

from alembic import context

from dds_migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
