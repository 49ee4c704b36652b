"""`dds lab import`: make a scenario of the lab from a real trace, and print the trace's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from dds_commands.screen import counted, show, show_json, table
from dds_core.errors import InputError
from dds_core.timeline.instants import duration
from dds_lab.scenario.checks import MAX_NODES
from dds_lab.scenario.values import YEAR, seconds
from dds_lab_commands.lab_run import Seconds
from dds_whatif.traces.demand import Trace, Window
from dds_whatif.traces.facts import Arrivals, Facts, Spread, Use, facts
from dds_whatif.traces.formats import KINDS, read_trace
from dds_whatif.traces.scenario import Imported, Shape, cut, imported, name_of, pods_beside, refuse, shown, write

_FILE = click.Path(dir_okay=False, path_type=Path)


class Pool(click.ParamType[tuple[str, int]]):
    """N (any model) or MODEL=N."""

    name = "pool"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        model, _, number = str(value).rpartition("=")
        if not number.isdecimal() or not 1 <= int(number) <= 100_000:
            self.fail(f"{value!r} is neither N nor MODEL=N, with N from 1 to 100000", param, ctx)
        return model, int(number)


@click.command("import")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option(
    "-o", "--output", type=_FILE, metavar="FILE", help="Write the scenario to FILE.yaml, its pods to FILE.csv."
)
@click.option("--replace", is_flag=True, help="Overwrite existing files.")
@click.option("--from", "since", metavar="TIME", help="Start of the window.")
@click.option("--until", metavar="TIME", help="End of the window.")
@click.option("--every", type=click.IntRange(1), default=1, metavar="N", help="Only every N-th row.")
@click.option(
    "--pending", is_flag=True, help="Include pods that never ran in the trace, and delete them at the traced time."
)
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    metavar="N",
    help="Number of nodes; by default enough for two slots per device.",
)
@click.option(
    "--slots", type=click.IntRange(1, 32), default=8, show_default=True, help="Most devices of a model on a node."
)
@click.option(
    "--pool", "pools", type=Pool(), multiple=True, metavar="[MODEL=]N", help="Devices in the pool; by default the peak."
)
@click.option(
    "--warm-up", type=Seconds(), default="0s", help="Start pods that already run over this time before the window."
)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="Output format.")
def import_(
    kind: str,
    paths: tuple[Path, ...],
    output: Path | None,
    replace: bool,
    since: str | None,
    until: str | None,
    every: int,
    pending: bool,
    nodes: int | None,
    slots: int,
    pools: tuple[tuple[str, int], ...],
    warm_up: float,
    form: str,
) -> None:
    """Turn a trace of real GPU use into a scenario, and print its numbers.

    Without -o it only prints the numbers.

    \b
    alibaba-gpu-v2025  disaggregated_DLRM_trace.csv
    openb-v2023        openb_pod_list_default.csv (or another list of pods)
                       and openb_node_list_all_node.csv
    philly             philly.csv, as siasosp23/artifacts has it

    FILE may be gzipped. TIME is a duration after the start of the trace's window, such as 12d6h; for philly also an
    instant, such as 2017-10-09T07:00 (UTC). Choose a window of hours or a day. docs/lab.md describes how pods, nodes and
    pools are made from a trace.
    """
    if output is not None:
        refuse(output, over=replace, apart=paths)
    named = dict(pools)
    shape = Shape(nodes, slots, {m: n for m, n in named.items() if m}, named.get(""), pending, warm_up)
    trace = read_trace(kind, paths)
    part = cut(trace, _window(trace, since, until), every)
    found = facts(part)
    made = imported(part, name_of(output), shape) if output is not None else None
    if made is not None and output is not None:
        write(made, output, over=replace)
    if form == "json":
        show_json(_data(part, found, made, output))
    else:
        _tell(part, found, made, output)


def _window(trace: Trace, since: str | None, until: str | None) -> Window:
    begins = trace.window[0] if since is None else _moment("--from", since, trace)
    ends = trace.window[1] if until is None else _moment("--until", until, trace)
    if ends <= begins:
        raise InputError(
            f"the window ends at {shown(ends, trace)} and begins at {shown(begins, trace)}", fix="let --until be later"
        )
    if ends - begins > YEAR:
        raise InputError("the window is longer than a year", fix="give --from and --until")
    return begins, ends


def _moment(option: str, text: str, trace: Trace) -> float:
    """Raises InputError if the text is no time of the trace."""
    try:
        return trace.window[0] + float(seconds(float(text) if text.isdecimal() else text))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not trace.calendar:
        also = ", or an instant such as 2017-10-09T07:00" if trace.calendar else ""
        fix = f"write so long after the beginning of the trace's window, such as 12d6h{also}"
        raise InputError(f"{option}: {text!r} is no time here", fix=fix)
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def _data(trace: Trace, found: Facts, made: Imported | None, output: Path | None) -> dict[str, Any]:
    data = {"kind": trace.kind, "rows_read": trace.rows, "left_out": trace.left_out, "facts": found}
    if made is not None and output is not None:
        data["scenario"] = {
            "file": str(output),
            "pods_file": str(pods_beside(output)),
            "pods": made.pods,
            "nodes": len(made.scenario.cluster.node_names()),
            "pools": made.scenario.cluster.fabrics[0].devices,
            "left_out": made.left_out,
        }
    return data


def _tell(trace: Trace, found: Facts, made: Imported | None, output: Path | None) -> None:
    begins, ends = trace.window
    long = duration(round((ends - begins) * 1_000_000))
    show(f"{trace.kind}: {shown(begins, trace)} until {shown(ends, trace)}, {long}")
    table(("number", "in the trace"), list(_numbers(found)), "there is nothing")
    for words, number in sorted(trace.left_out.items()):
        show(f"left out: {counted(number, 'row')}, {words}")
    if made is None or output is None:
        show("no scenario is written: give -o FILE")
        return
    pools = ", ".join(f"{number} {model}" for model, number in made.scenario.cluster.fabrics[0].devices.items())
    nodes = counted(len(made.scenario.cluster.node_names()), "node")
    for words, number in sorted(made.left_out.items()):
        show(f"without a pod: {counted(number, 'row')}, {words}")
    show(f"scenario {output}: {counted(made.pods, 'pod')} in {pods_beside(output)}, {nodes}, pools of {pools}")
    show(f"play it with: dds lab run {output}")


def _numbers(found: Facts) -> Iterator[tuple[str, str]]:
    yield (
        "rows",
        f"{found.rows}; {found.before} created before, {found.alive} alive at the end, {found.endless} without an end",
    )
    yield "by devices asked for", ", ".join(f"{number} × {devices}" for devices, number in found.by_devices.items())
    yield "in use", _use(found.use)
    if found.shared_use is not None:
        yield "in use by share", f"{_use(found.shared_use)} ({counted(found.sharing, 'row')} with a share)"
    yield "device-hours", f"{found.use.device_hours}"
    if len(found.by_model) > 1:
        yield "peak by model", ", ".join(f"{model} {peak}" for model, peak in found.by_model.items())
    if found.owners > 1:
        yield "owners", f"{found.owners}, whose own peaks are {found.owner_peaks} in all"
    if found.arrivals is not None:
        yield "arrivals an hour", _arrivals(found.arrivals)
    spreads = {
        "lifetime, both ends known": found.lifetimes,
        "lifetime in the window": found.clipped,
        "wait": found.waits,
        "never ran, lived": found.never_ran,
    }
    yield from ((name, _spread(one)) for name, one in spreads.items() if one is not None)


def _use(of: Use) -> str:
    words = f"min {of.min:g}, median {of.median:g}, p95 {of.p95:g}, peak {of.peak:g}"
    return f"{words}; {of.at_begin:g} at the beginning, {of.at_end:g} at the end"


def _arrivals(of: Arrivals) -> str:
    words = f"median {of.median}, p95 {of.p95}, peak {of.peak}, most in a minute {of.minute_peak}"
    return f"{words}; {of.total} in {counted(of.hours, 'full hour')}"


def _spread(of: Spread) -> str:
    return f"p50 {of.p50:.0f} s, p90 {of.p90:.0f} s, p99 {of.p99:.0f} s, max {of.max:.0f} s; {of.n} of them, {of.zero} zero"
