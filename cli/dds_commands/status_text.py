"""The status of a scaler for people: a head, the numbers, and a table for each thing that is under way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dds_commands.screen import counted, show, style, table
from dds_core.timeline.clock import duration, rfc3339

Data = Mapping[str, Any]
Cells = Callable[[Data, "Ages"], Sequence[str]]
Table = tuple[str, str, tuple[str, ...], Cells]
"""A title, the key of its rows in the data, headings, and the cells of a row."""


def show_status(data: Data, now: int, most: int) -> None:
    """Everything; times count back from `now`, microseconds. What there is none of is left out, and so is what goes beyond `most`
    rows of a table: it has to be read in a hurry."""
    ages = Ages(now)
    for line in head_lines(data, ages):
        show(line)
    show("")
    show(f"claims: {_numbers(data['claims'])}")
    for row in data["devices"]:
        show(f"devices {row['model']}: {_numbers(row['states'])}; {row['free']} in the pool")
    show(f"attaches under way: {data['attaches_under_way']} of at most {data['attaches_at_most']}")
    _show_waiting(data, ages)
    show_tables(data, ages, most, _TABLES)


class Ages:
    """How long ago instants were, or how far they are off."""

    def __init__(self, now: int) -> None:
        self._now = now

    def since(self, at: int) -> str:
        """How long ago, or "-" for never."""
        return duration(max(0, self._now - at)) if at else "-"

    def until(self, at: int) -> str:
        """How long from now."""
        return f"in {duration(at - self._now)}" if at > self._now else "now"


def head_lines(data: Data, ages: Ages) -> list[str]:
    """The log, who writes it, the mode, and what stands in the way of every decision."""
    dress = style()
    newest = f"position {data['position']}, newest event {ages.since(data['recorded_at'])} ago"
    lines = [f"{dress('log ' + data['log'], 'name')}  {newest}"]
    if data["epoch"] and data["epoch_at"]:
        lines.append(f"epoch {data['epoch']} since {rfc3339(data['epoch_at'])} ({ages.since(data['epoch_at'])})")
    mode = data["mode"]
    config = f", the ConfigMap says {mode['config']}" if mode["config"] else ""
    hand_over = f", hand-over {data['hand_over']}" if "hand_over" in data else ""
    lines.append(f"mode {dress(mode['effective'], 'state')} (policy {mode['policy']}{config}){hand_over}")
    if not data["synced"]:
        lines.append(
            dress("not synced: nothing is decided yet; /readyz of the process names what was not listed", "bad")
        )
    else:
        lines.append(f"synced, for the first time {ages.since(data['synced_at'])} ago")
        if not data["models"]:
            config = "names no model that can be used" if data["config_seen"] else "is not there"
            lines.append(dress(f"the ConfigMap of the fabric {config}: no device is known as ours", "bad"))
    if data["stale"]:
        lines.append(dress(f"stale: {', '.join(data['stale'])}", "bad"))
    return lines


def _numbers(states: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in states.items()) or "none"


def show_tables(data: Data, ages: Ages, most: int, tables: Sequence[Table]) -> None:
    """Of each table the first rows; a table without any is left out."""
    for title, key, headings, cells in tables:
        if data[key]:
            titled(title)
            table(headings, [cells(row, ages) for row in data[key][:most]], "")
            if len(data[key]) > most:
                show(f"… and {len(data[key]) - most} more, with --most or --json")


def titled(title: str) -> None:
    """A heading, with an empty line before it."""
    show("")
    show(style()(title, "name"))


def _show_waiting(data: Data, ages: Ages) -> None:
    if not data["waiting_count"]:
        return
    rest = data["waiting_count"] - len(data["waiting"])
    more = f", the {len(data['waiting'])} that wait longest" if rest else ""
    titled(f"{counted(data['waiting_count'], 'claim')} waiting{more}")
    table(
        ("claim", "state", "for", "node", "model", "why"),
        [
            (
                row["claim"],
                row["state"],
                ages.since(row["since"]),
                row["node"],
                ", ".join(row["models"]) or "-",
                row["why"],
            )
            for row in data["waiting"]
        ],
        "",
    )


COMMON: tuple[Table, ...] = (
    (
        "refused writes",
        "refused",
        ("write", "of", "times", "again"),
        lambda row, ages: (row["action"], row["of"], str(row["count"]), ages.until(row["again_at"])),
    ),
    (
        "alerts",
        "alerts",
        ("of", "reason", "text"),
        lambda row, ages: (row["of"], row["reason"], row["text"]),
    ),
    (
        "objects that were not as expected, each told once; some may be mended by now",
        "rejected",
        ("of", "field", "reason"),
        lambda row, ages: (row["of"], row["field"], row["reason"]),
    ),
)
"""What can go wrong with either component."""

_TABLES: tuple[Table, ...] = (
    (
        "orders that the requests do not show yet",
        "orders",
        ("node", "model", "request", "size", "for"),
        lambda row, ages: (row["node"], row["model"], row["request"], str(row["size"]), ages.since(row["since"])),
    ),
    (
        "hand-overs under way",
        "hand_overs",
        ("claim", "pod", "node", "how", "for"),
        lambda row, ages: (
            row["claim"],
            row["pod"] or "-",
            row["node"],
            row["steering"] + (", steered" if row["steered"] else ""),
            ages.since(row["since"]),
        ),
    ),
    (
        "devices on their way back to the pool",
        "fences",
        ("device", "node", "model", "stage", "for"),
        lambda row, ages: (row["device"], row["node"], row["model"], row["stage"], ages.since(row["since"])),
    ),
    (
        "cool-downs",
        "cool_downs",
        ("node", "model", "ends", "after"),
        lambda row, ages: (row["node"], row["model"], ages.until(row["until"]), row["reason"]),
    ),
    *COMMON,
)
