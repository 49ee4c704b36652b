"""The alembic environment and versions of the SQL event log. It knows the schema and nothing of the events."""
