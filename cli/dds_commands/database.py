"""`dds db`: create, upgrade and check the database that holds logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dds_adapters.sql import check, current, upgrade
from dds_adapters.sql.urls import as_url
from dds_commands.parameters import LOG_VARIABLE, default_path, made, required_log, state_folder, without_password
from dds_commands.screen import show


@click.group("db")
def db() -> None:
    """Create, upgrade and check the database of a log."""


def _url(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("url", metavar="[URL]", required=False, envvar=LOG_VARIABLE)(command)


@db.command("upgrade")
@_url
def db_upgrade(url: str | None) -> None:
    """Create or upgrade the tables.

    URL is a database URL or a SQLite file, which is created if it is missing; by default DDS_LOG, else the file of dds
    serve.
    """
    if not url:
        made(state_folder(), "give a URL")
    where = as_url(url or default_path())
    before, after = upgrade(where)
    said = f"is at {after} already" if before == after else f"was brought from {before or 'nothing'} to {after}"
    show(f"{without_password(where)} {said}")


@db.command("current")
@_url
def db_current(url: str | None) -> None:
    """Show the database's schema revision."""
    show(current(required_log(url, "a URL")) or "none")


@db.command("check")
@_url
def db_check(url: str | None) -> None:
    """Check whether this version of dds can use the database."""
    where = required_log(url, "a URL")
    show(f"{without_password(where)} is at {check(where)}, which this version of dds uses")
