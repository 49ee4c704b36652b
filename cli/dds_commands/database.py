"""`dds db`: create, upgrade and check the database that holds logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dds_adapters.sql import Database, check, current, upgrade
from dds_adapters.sql.urls import as_url
from dds_commands.parameters import LOG_VARIABLE, default_path, made, required_log, state_folder, without_password
from dds_commands.screen import note, show
from dds_core import __version__
from dds_core.component import component_of
from dds_core.errors import InputError, Unfoldable
from dds_core.log import EventLog
from dds_core.replay import fold_log, written_by


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
    before, after = upgrade(where, say=note)
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
    """Check whether this version of dds can go on with the database and each log in it. It changes nothing.

    Before an upgrade, and before going back, ask the version that is to go on: it also says when the version that wrote a
    log could not go on after it. It ends with 1 if it cannot use the database, or cannot read a log from its newest
    checkpoint to its end as a start does.
    """
    where = required_log(url, "a URL")
    show(f"{without_password(where)} is at {check(where)}, which this version of dds uses")
    with Database(where) as database:
        failed: list[InputError] = []
        for head in database.heads():
            try:
                show(_checked(database.log(head.log)))
            except InputError as error:
                failed.append(error)
        if failed:
            raise failed[0]


def _checked(log: EventLog) -> str:
    """What this version can do with the log. Raises InputError if it cannot go on with it."""
    component, head = component_of(log.name), log.head()
    found = written_by(log, component)
    try:
        fold_log(log.read_lean(max(0, head.checkpoint - 1)), component)
    except (InputError, Unfoldable) as error:
        where = ", ".join(filter(None, (f"log {log.name}", error.where)))
        raise InputError(error.what, where=where, fix=error.fix) from None
    who, ends = f"dds {found.code}" if found.code else "an unknown version", found.way_back_ends
    said = f"log {log.name} ends at position {head.position}, written by {who}; dds {__version__} can go on with it"
    return f"{said}, and there is no way back but a copy: {ends}" if ends else said
