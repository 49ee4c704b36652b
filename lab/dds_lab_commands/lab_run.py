"""The commands of the lab that serve nothing: run a scenario on virtual time (`run`), list the scenarios (`scenarios`), record a
real cluster (`record`)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import click

from dds_adapters.files import new_file
from dds_commands.parameters import output_options
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, note, position_bar, show, show_data, table
from dds_core.errors import InputError
from dds_core.timeline.instants import duration
from dds_lab import shipped
from dds_lab.joined.checks import Options
from dds_lab.joined.joining import How
from dds_lab.lab import Lab
from dds_lab.record import RESOURCES, Cluster, Recorded
from dds_lab.record import record as record_cluster
from dds_lab.record.recording_file import RecordingFile
from dds_lab.scenario.values import seconds
from dds_lab.tally import Tally, moves
from dds_lab_commands.lab_join import played

_SLICES = 200


class Seconds(click.ParamType[float]):
    """A duration in the form that scenarios use: 90s, 10m, 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(seconds(float(value) if isinstance(value, str) and value.isdigit() else value))
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


@click.command("run")
@click.argument("scenario", metavar="SCENARIO")
@click.option("-o", "--output", metavar="FILE", help="Recording; by default SCENARIO.jsonl.gz in this folder.")
@click.option("--replace", is_flag=True, help="Overwrite an existing recording.")
@click.option("--no-recording", is_flag=True, help="Write no recording, only print the result.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed instead of the scenario's.")
@click.option("--until", type=Seconds(), help="Stop after this lab time, such as 10m.")
@click.option("--cluster", metavar="KUBECONFIG", help="Join this cluster and play there, in real time.")
@click.option("--context", metavar="NAME", help="With --cluster: context of the kubeconfig.")
@click.option("--scaler", is_flag=True, help="With --cluster: play the simulated reference scaler too.")
def run(
    scenario: str, output: str | None, replace: bool, no_recording: bool, seed: int | None, until: float | None,
    cluster: str | None, context: str | None, scaler: bool,
) -> int:  # fmt: skip
    """Run a scenario on virtual time, and write a recording for the other commands.

    The same scenario and seed give the same bytes. Ends with 2 when a step fails or its condition never becomes true. With
    --cluster the lab joins a cluster (see `dds lab join`), plays the scenario in real time, judges the cluster's scaler, and
    leaves; then it also ends with 2 when the judge finds something.
    """
    if cluster is None and (context is not None or scaler):
        raise InputError("--context and --scaler are for a cluster", fix="give --cluster KUBECONFIG too")
    if no_recording and (output is not None or replace):
        raise InputError("--no-recording goes with neither --output nor --replace", fix="give one or the other")
    found = shipped.find(scenario)
    path = None if no_recording else output if output is not None else f"{found.name}.jsonl.gz"
    if cluster is not None:
        if replace:
            raise InputError("--replace is for virtual time", fix="choose another name with -o")
        if seed is not None:
            found = found.model_copy(update={"seed": seed})
        lasts = found.duration if until is None else until
        how = How(recording=path, judged=True, lasts=lasts, cut=until is not None)
        return played(found, cluster, context, Options(scaler=scaler), how)
    begun, tally = time.monotonic(), Tally()
    with _recording(path, replace) as file, Lab.virtual(found, seed=seed, sink=file) as lab:
        tally.follow(lab.client("tally"))
        _pass(lab, found.duration if until is None else until)
    took = round((time.monotonic() - begun) * 1_000_000)
    _tell(lab, tally, took, found.seed if seed is None else seed)
    if path is not None and file is not None:
        show(f"recording    {path} ({counted(file.events, 'event')})")
        show(f"             look at it with: dds replay {path}")
    for failure in lab.steps.failures:
        note(failure)
    return VERIFICATION if lab.steps.failures else FINE


@contextlib.contextmanager
def _recording(path: str | None, replace: bool) -> Iterator[RecordingFile | None]:
    """The recording's file; there is none if the run fails or is interrupted."""
    if path is None:
        yield None
        return
    if not replace and os.path.lexists(path):
        raise InputError("it is there already", where=path, fix="choose another name with -o, or give --replace")
    with new_file(path, replace=replace, mode=0o600) as lines, RecordingFile(path, into=lines) as file:
        yield file


def _pass(lab: Lab, seconds: float) -> None:
    """Advance the time in slices, so that a terminal can show the progress."""
    start, whole = lab.time.now(), round(seconds * 1_000_000)
    if not sys.stderr.isatty():
        lab.run(until=start + whole)
        return
    with position_bar(_SLICES, "running") as progress:
        for number in range(1, _SLICES + 1):
            lab.run(until=start + whole * number // _SLICES)
            progress(number)


def _tell(lab: Lab, tally: Tally, took: int, seed: int) -> None:
    moved, passed = moves(lab.ledger), lab.time.now() - lab.scenario.start
    show(f"{lab.scenario.name}: {duration(passed)} of the lab's time in {duration(took)}, seed {seed}")
    show(f"pods         {tally.pods}, of which {tally.bound} got a node")
    waits, ready = tally.allocations["pool"], tally.allocations["node"]
    show(f"claims       {tally.claims}, allocated {waits + ready} times: {waits} in a pool, {ready} on a node")
    landed = f"{tally.stayed} on the node that was made ready, {tally.moved} elsewhere"
    show(f"hand-overs   {tally.hand_overs}" + (f": {landed}" if tally.hand_overs else ""))
    more = "".join(f", {moved[what]} {what}" for what in ("failed", "unanswered") if moved[what])
    show(f"fabric       {moved['attached']} attached, {moved['detached']} detached{more}")
    for one in lab.exits:
        show(f"exit         {one}")


@click.command("scenarios")
@output_options("table", "json", "jsonl")
def scenarios(form: str) -> None:
    """List the scenarios that come with dds."""
    found = [(name, shipped.find(name)) for name in shipped.names()]
    data = [{"scenario": name, "about": one.about, "seconds": one.duration} for name, one in found]
    if form == "table":
        table(("scenario", "what it shows"), [(name, one.about) for name, one in found], "there are none")
    else:
        show_data(data, form)


@click.command("record")
@click.option("--kubeconfig", "path", metavar="FILE", required=True, help="Cluster and user.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default the current one.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Recording; gzipped if its name ends in .gz.")
@click.option("--duration", type=Seconds(), help="Stop after this time, such as 10m; by default at Ctrl-C.")
@click.option("--resources", metavar="NAMES", help=f"Only these, separated by commas: {', '.join(RESOURCES)}.")
@click.option("--raw", is_flag=True, help="Write whole objects, with environment values and annotations.")
def record(
    path: str, context: str | None, output: str, duration: float | None, resources: str | None, raw: bool
) -> int:
    """Record a cluster by watching it, until Ctrl-C. Nothing in it is changed.

    Written are only the fields that dds reads (listed in docs/lab.md), pods only if they refer to a claim, one ConfigMap,
    and never a Secret. --raw writes whole objects: look at the file before you share it.
    """
    chosen = _chosen(resources)
    if raw:
        note("--raw: whole objects are written, with environment values, annotations and opaque configuration")
    stop = threading.Event()
    with contextlib.closing(Cluster(path, context)) as cluster, RecordingFile(output) as file, _until_stopped(stop):
        found = record_cluster(
            cluster, file, resources=chosen, raw=raw, seconds=duration, stop=stop, note=note,
            begun=lambda: note(f"recording {cluster.where}; Ctrl-C ends it"),
        )  # fmt: skip
    _tell_recorded(found, output)
    return FINE


def _chosen(text: str | None) -> tuple[str, ...]:
    if text is None:
        return RESOURCES
    chosen = tuple(one.strip() for one in text.split(",") if one.strip())
    unknown = [one for one in chosen if one not in RESOURCES]
    if unknown or not chosen:
        raise InputError(
            f"{', '.join(unknown) or 'nothing'} cannot be recorded", fix=f"choose of {', '.join(RESOURCES)}"
        )
    return chosen


@contextlib.contextmanager
def _until_stopped(stop: threading.Event) -> Iterator[None]:
    """Within the block Ctrl-C and SIGTERM set `stop`, so that the recording is completed."""

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {name: signal.signal(name, end) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _tell_recorded(found: Recorded, output: str) -> None:
    show(f"{output}: {counted(found.events.total(), 'event')}")
    for resource, number in sorted(found.events.items()):
        show(f"  {resource:<24} {number}")
    if found.not_served:
        note(f"not served there: {', '.join(found.not_served)}")
    if found.refused:
        note(f"not allowed to read: {', '.join(found.refused)}")
    show(f"look at it with: dds replay {output}")
