"""`dds lab scenarios`: those that come with dds."""

from __future__ import annotations

import click

from dds_adapters.lab import shipped
from dds_commands.parameters import format_option
from dds_commands.screen import show_json, show_jsonl, table


@click.command("scenarios")
@format_option("table", "json", "jsonl")
def scenarios(form: str) -> None:
    """List the scenarios that come with dds."""
    found = [(name, shipped.find(name)) for name in shipped.names()]
    data = [{"scenario": name, "about": one.about, "seconds": one.duration} for name, one in found]
    if form == "json":
        show_json(data)
    elif form == "jsonl":
        show_jsonl(data)
    else:
        table(("scenario", "what it shows"), [(name, one.about) for name, one in found], "there are none")
