"""`dds export`: the histories of claims and devices for other tools."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from dds_adapters.export import TABLES, Story, csv_table
from dds_commands.parameters import output_options, period, period_options, require_file, source_arguments
from dds_commands.running import require as require_extra
from dds_commands.screen import note, progress
from dds_commands.sources import Opened, cut, require
from dds_core.errors import InputError
from dds_core.scaler.component import SCALER


@click.command("export", short_help="Export claims and devices to Perfetto, OpenTelemetry or CSV.")
@source_arguments
@period_options
@output_options("csv", "otlp", "perfetto")
@click.option("--table", type=click.Choice(list(TABLES)), help="Table of --format csv; by default claims.")
def export(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    form: str,
    table: str | None,
) -> None:
    """Export the history of every claim and device in the format of another tool.

    \b
    csv       a table for spreadsheets and data frames
    otlp      one trace per claim, as JSON lines for OpenTelemetry's collector and Jaeger
    perfetto  a timeline of all claims and devices, for https://ui.perfetto.dev; needs -o FILE

    otlp and perfetto need the extra export.
    --since leaves out what ended before, and exports everything else whole; --table use counts device-time from then on.
    """
    if table is not None and form != "csv":
        raise InputError(f"--table says nothing with --format {form}", fix="leave it out, or use --format csv")
    if form == "perfetto":
        require_file("a trace of Perfetto is no text")
    if form != "csv":
        require_extra("export")
    with Opened() as opened:
        source = opened.source(sources, url, name)
        require(source, SCALER, "give the log of a scaler: --name CLUSTER/scaler")
        first, last = period(source.span, since, until)
        cluster = source.log_name.partition("/")[0]
        story = Story(cluster, progress(cut(source.told(), *last), None, "reading"), first.begun)
    if not story.claims and not story.devices:
        note("no claims and no devices: the file says nothing")
    _write(story, form, table or "claims")


def _write(story: Story, form: str, table: str) -> None:
    sys.stdout.flush()
    if form == "csv":
        text = TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="replace", newline="")
        try:
            csv_table(table, story, text)
        finally:
            text.detach()
        return
    # Here and not above: a table needs no extra, and does not wait for these packages.
    if form == "otlp":
        from dds_adapters.export.otlp import otlp as parts
    else:
        from dds_adapters.export.perfetto import perfetto as parts
    for part in parts(story):
        sys.stdout.buffer.write(part)
