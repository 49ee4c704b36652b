"""The path that a claim or a device took, as a mermaid state diagram."""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.timeline.clock import duration, time_of_day
from dds_core.timeline.entries import Entry


def path_diagram(entries: Iterable[Entry]) -> str:
    """Each change an arrow, numbered in order, with its instant, its trigger and the time spent in the state before.

    Takes the entries of one subject; of several lives only the order tells them apart.
    """
    lines = ["stateDiagram-v2"]
    number = 0
    for entry in entries:
        if not entry.trigger:
            continue
        number += 1
        source = "[*]" if entry.source == "New" else entry.source
        spent = f" after {duration(entry.after)}" if entry.after is not None else ""
        # A colon would end the label, so times stand without.
        time = time_of_day(entry.at).replace(":", "∶")
        lines.append(f"    {source} --> {entry.target}: {number}. {time} {entry.trigger}{spent}")
    return "\n".join(lines) + "\n"
