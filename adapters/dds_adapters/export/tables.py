"""Tables of the histories as CSV (RFC 4180): instants as RFC 3339, durations in seconds."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import IO, Any

from dds_adapters.export.story import Story
from dds_core.scaler.history import WHOSE, DeviceSpan, Span
from dds_core.scaler.history.data import claim_data, device_data, instant
from dds_core.scaler.history.usage import DAY, usage
from dds_core.scaler.spending import STATES
from dds_core.timeline.instants import day, rfc3339

_SECOND = 1_000_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a cell for a formula, as the first character."""
_BY = ["day", "node", "model", "fabric", "namespace", "claim"]
_STATES = [f"{state}_seconds" for state in STATES]
_STAGES = [f"{stage}_seconds".replace("-", "_") for stage in WHOSE]

_Rows = Iterable[dict[str, Any]]


def csv_table(name: str, story: Story, file: IO[str]) -> None:
    """Write the table of this name under its headings."""
    headings, rows = TABLES[name]
    columns = headings.split()
    out = csv.writer(file, lineterminator="\r\n")
    out.writerow(columns)
    for row in rows(story):
        out.writerow([_cell(row[column]) for column in columns])


def _cell(value: Any) -> str:
    """As text. What a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(value, float):
        return f"{value:.6f}"
    text = "; ".join(value) if isinstance(value, list) else str(value) if value is not None else ""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _claims(story: Story) -> _Rows:
    for claim in story.claims:
        spent = claim.stages(story.now)
        seconds = {column: spent.get(stage, 0) / _SECOND for column, stage in zip(_STAGES, WHOSE, strict=True)}
        yield {**claim_data(claim, story.now), "attempts": len(claim.attempts), **seconds}


def _attempts(story: Story) -> _Rows:
    for claim in story.claims:
        for one, row in zip(claim.attempts, claim_data(claim, story.now)["attempts"], strict=True):
            seconds = ((one.until or story.now) - one.since) / _SECOND
            devices = story.names(one.devices)
            yield {**row, "claim": claim.name, "uid": claim.uid, "seconds": seconds, "devices": devices}


def _spans(story: Story) -> _Rows:
    for claim in story.claims:
        for span in claim.spans:
            about = {"kind": "claim", "name": claim.name, "uid": claim.uid, "span": span.stage, "node": span.node}
            yield {**about, **_times(span, story), "model": "", "claims": [claim.name]}
    for device in story.devices:
        for held in device.spans:
            about = {"kind": "device", "name": device.name, "uid": device.uid, "span": held.state, "node": device.node}
            yield {**about, **_times(held, story), "model": device.model, "claims": story.names(held.claims)}


def _times(span: Span | DeviceSpan, story: Story) -> dict[str, Any]:
    seconds = span.length(story.now) / _SECOND
    return {"since": rfc3339(span.since), "until": instant(span.until), "seconds": seconds}


def _devices(story: Story) -> _Rows:
    for device in story.devices:
        yield {**device_data(device, story.history), **_seconds(device.spent(story.now))}


def _seconds(spent: dict[str, int]) -> dict[str, float]:
    return {column: spent[state] / _SECOND for column, state in zip(_STATES, STATES, strict=True)}


def _use(story: Story) -> _Rows:
    """Device-time from the first wanted instant on."""
    history = copy(story.history)
    history.devices = {
        uid: replace(one, spans=[span._replace(since=max(span.since, story.since)) for span in one.spans])
        for uid, one in history.devices.items()
    }
    for key, spent in sorted(usage(history, _BY, lambda number: day(number * DAY)).items()):
        if any(spent.values()):
            yield {**dict(zip(_BY, key, strict=True)), **_seconds(spent)}


TABLES: dict[str, tuple[str, Callable[[Story], _Rows]]] = {
    "claims": (
        f"claim uid state outcome cause node pods first gone attempts waited_seconds used_seconds stage {' '.join(_STAGES)}",
        _claims,
    ),
    "attempts": ("claim uid cycle attempt since until seconds node models outcome reason cause devices", _attempts),
    "spans": ("kind name uid span since until seconds node model claims", _spans),
    "devices": (f"device resource uid node model fabric state first gone {' '.join(_STATES)}", _devices),
    "use": (" ".join(_BY + _STATES), _use),
}
"""By name: headings, and what makes the rows."""
