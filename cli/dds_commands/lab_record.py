"""`dds lab record`: a recording of a real cluster, made so that it can be given away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType

import click

from dds_commands.lab_run import Seconds
from dds_commands.running import FINE
from dds_commands.screen import counted, note, show
from dds_core.errors import InputError
from dds_lab.record import RESOURCES, Cluster, Recorded
from dds_lab.record import record as record_cluster
from dds_lab.record.recorded import RecordingFile


@click.command("record")
@click.option("--kubeconfig", "path", metavar="FILE", required=True, help="The cluster and who asks it.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; the current one by default.")
@click.option("-o", "--output", metavar="FILE", required=True, help="The recording; gzipped when it ends in .gz.")
@click.option("--duration", type=Seconds(), help="Stop after so long, such as 10m; by default at Ctrl-C.")
@click.option("--resources", metavar="NAMES", help=f"Only these, with commas between: {', '.join(RESOURCES)}.")
@click.option("--raw", is_flag=True, help="Keep objects whole, with environment values, annotations and all else.")
def record(
    path: str, context: str | None, output: str, duration: float | None, resources: str | None, raw: bool
) -> int:
    """Record what happens in a cluster, by watching it; nothing in it is changed. Ctrl-C ends it.

    Only the fields that dds reads are written (docs/lab.md lists them), pods only if they refer to a claim, one ConfigMap,
    and never a Secret. With --raw objects are written whole: look at the file before you give it away.
    """
    chosen = _chosen(resources)
    if raw:
        note("--raw: whole objects are written, with environment values, annotations and opaque configuration")
    stop = threading.Event()
    with closing(Cluster(path, context)) as cluster, RecordingFile(output) as file, _until_stopped(stop):
        found = record_cluster(
            cluster, file, resources=chosen, raw=raw, seconds=duration, stop=stop, note=note,
            begun=lambda: note(f"recording {cluster.where}; Ctrl-C ends it"),
        )  # fmt: skip
    _tell(found, output)
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


@contextmanager
def _until_stopped(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the recording well instead of breaking it off."""

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {name: signal.signal(name, end) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _tell(found: Recorded, output: str) -> None:
    show(f"{output}: {counted(found.events.total(), 'event')}")
    for resource, number in sorted(found.events.items()):
        show(f"  {resource:<24} {number}")
    if found.not_served:
        note(f"not served there: {', '.join(found.not_served)}")
    if found.refused:
        note(f"not allowed to read: {', '.join(found.refused)}")
    show(f"look at it with: dds replay {output}")
