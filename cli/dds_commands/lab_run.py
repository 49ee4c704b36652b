"""`dds lab run`: a scenario on virtual time, as fast as it goes, into a recording."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from dds_commands.parameters import format_option
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, note, position_bar, show, show_json, show_jsonl, table
from dds_core.errors import InputError
from dds_core.timeline.clock import duration
from dds_lab import shipped
from dds_lab.lab import Lab
from dds_lab.record.recorded import RecordingFile
from dds_lab.scenario.forms import seconds
from dds_lab.tally import Tally, moves

_SLICES = 200


class Seconds(click.ParamType[float]):
    """A duration as scenarios have it: 90s, 10m, 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(seconds(float(value) if isinstance(value, str) and value.isdigit() else value))
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


@click.command("run")
@click.argument("scenario", metavar="SCENARIO")
@click.option("-o", "--output", metavar="FILE", help="The recording; by default SCENARIO.jsonl.gz in this folder.")
@click.option("--replace", is_flag=True, help="Write over a recording that is there already.")
@click.option("--no-recording", is_flag=True, help="Write no recording, only say what came of it.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Another seed than the scenario's.")
@click.option("--until", type=Seconds(), help="Stop after so much of the lab's time, such as 10m.")
def run(
    scenario: str, output: str | None, replace: bool, no_recording: bool, seed: int | None, until: float | None
) -> int:
    """Run a scenario on virtual time and write a recording of it, which every other command takes as a SOURCE.

    The same scenario and seed give the same bytes. Ends with 2 when a step of the scenario could not be carried out or what it
    waits for did not come about.
    """
    if no_recording and (output is not None or replace):
        raise InputError("--no-recording goes with neither --output nor --replace", fix="give one or the other")
    found = shipped.find(scenario)
    path = None if no_recording else output if output is not None else f"{found.name}.jsonl.gz"
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
    """The file, which disappears again when the run breaks off."""
    if path is None:
        yield None
        return
    part = f"{path}.{os.getpid()}.part" + (".gz" if path.endswith(".gz") else "")
    if not replace and os.path.lexists(path):
        raise InputError("it is there already", where=path, fix="choose another name with -o, or give --replace")
    try:
        with RecordingFile(part, replace=True) as file:
            yield file
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            Path(part).unlink()


def _pass(lab: Lab, seconds: float) -> None:
    """Let the time pass in slices, so that a terminal can show how far it is."""
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


# -- lab scenarios -----------------------------------------------------------------------------------------------------

# `dds lab scenarios`: those that come with dds.


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
