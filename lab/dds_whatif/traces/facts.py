"""The numbers of a trace in a window: devices in use, arrivals, lifetimes and waits.

Nothing is random or estimated; these rules define the numbers exactly:

- A row holds its devices in [start, end), clipped to the window [A, B). N(t) is the sum of the devices held at t.
- In use: levels of N weighted by time. A quantile q is the smallest level x with (time with N ≤ x) ≥ q·(B − A).
- Arrivals: percentiles over bins floor((t − A) / 3600) for the full hours of the window, empty bins included.
- Percentiles of lists: nearest rank, sorted[ceil(q·n) − 1].
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dds_whatif.traces.demand import Held, Trace, Window

HOUR, MINUTE = 3600, 60


class Use(msgspec.Struct, frozen=True):
    """The number of devices in use."""

    min: float
    median: float
    p95: float
    peak: float
    mean: float
    device_hours: float
    """Rounded to a tenth, as all hours."""
    at_begin: float
    at_end: float
    """Just before the window ends."""


class Arrivals(msgspec.Struct, frozen=True):
    """The number of rows that came in an hour."""

    hours: int
    """Full hours of the window."""
    total: int
    """Arrivals in these hours."""
    median: int
    p95: int
    peak: int
    minute_peak: int
    """The most in one minute of the clock."""


class Spread(msgspec.Struct, frozen=True):
    """Percentiles of a list of seconds."""

    n: int
    zero: int
    p50: float
    p90: float
    p99: float
    max: float


class Facts(msgspec.Struct, frozen=True):
    """A trace's numbers in a window. A field is None if there is nothing to count or the trace does not say."""

    window: Window
    rows: int
    """Rows that hold or want devices in the window."""
    by_devices: dict[int, int]
    """Number of rows by their number of devices."""
    by_model: dict[str, int]
    """Most devices in use at once, by model."""
    use: Use
    shared_use: Use | None
    """In use if a row that asks for a part of a device counts as that part; None without such rows."""
    sharing: int
    """Rows that ask for a part of a device."""
    owners: int
    owner_peaks: int
    """The sum of each owner's peak."""
    arrivals: Arrivals | None
    before: int
    """Rows that were created before the window."""
    alive: int
    """Rows that hold devices when the window ends."""
    endless: int
    """Rows without an end in the trace."""
    lifetimes: Spread | None
    """From start to end, for rows with both."""
    clipped: Spread | None
    """The same for all rows that ran, clipped to the window."""
    waits: Spread | None
    """From creation to start."""
    never_ran: Spread | None
    """Lifetimes of rows that only waited."""


def facts(trace: Trace, window: Window | None = None) -> Facts:
    """The numbers of a trace in a window, by default its own. Lifetimes and waits of rows that touch the window count in full."""
    window = trace.window if window is None else window
    rows = touching(trace.held, window)
    ran = [one for one in rows if one.start is not None]
    sharing = [one for one in rows if one.thousandths < one.devices * 1000]
    return Facts(
        window=window,
        rows=len(rows),
        by_devices=dict(sorted(Counter(one.devices for one in rows).items())),
        by_model={model: int(use(of, window).peak) for model, of in sorted(_grouped(rows, "model"))},
        use=use(ran, window),
        shared_use=use(ran, window, shared=True) if sharing else None,
        sharing=len(sharing),
        owners=len({one.owner for one in rows}),
        owner_peaks=sum(int(use(of, window).peak) for _, of in _grouped(rows, "owner")),
        arrivals=_arrivals([one.created for one in rows if one.created is not None], window),
        before=sum(one.arrived(-math.inf) < window[0] for one in rows),
        alive=sum(one.end is None or one.end >= window[1] for one in ran if _start(one) < window[1]),
        endless=sum(one.end is None for one in rows),
        lifetimes=_spread(one.end - _start(one) for one in ran if one.created is not None and one.end is not None),
        clipped=_spread(_clipped(one, window) for one in ran),
        waits=_spread(_start(one) - one.created for one in ran if one.created is not None) if trace.waits else None,
        never_ran=_spread(
            one.end - one.arrived(window[0]) for one in rows if one.start is None and one.end is not None
        ),
    )


def touching(held: Iterable[Held], window: Window) -> list[Held]:
    """The rows that existed in the window, or ended exactly at its start."""
    begins, ends = window
    return [one for one in held if one.arrived(begins) < ends and (one.end is None or one.end >= begins)]


def use(held: Iterable[Held], window: Window, *, shared: bool = False) -> Use:
    """Devices in use in a window; with `shared` a row counts with its thousandths of a device."""
    begins, ends = window
    unit = 1000 if shared else 1
    levels: dict[int, float] = defaultdict(float)
    level, at, first = 0, begins, None
    for when, by in _changes(held, window, shared):
        if when > at:
            first = level if first is None else first
            levels[level] += when - at
            at = when
        level += by
    if at < ends:
        first = level if first is None else first
        levels[level] += ends - at
    last = level
    total = sum(number * seconds for number, seconds in levels.items())
    there = sorted((number, seconds) for number, seconds in levels.items())
    quantiles = [_level(there, percent, ends - begins) / unit for percent in (50, 95)]
    return Use(
        min=there[0][0] / unit,
        median=quantiles[0],
        p95=quantiles[1],
        peak=there[-1][0] / unit,
        mean=total / unit / (ends - begins),
        device_hours=round(total / unit / HOUR, 1),
        at_begin=(first or 0) / unit,
        at_end=last / unit,
    )


def _changes(held: Iterable[Held], window: Window, shared: bool) -> list[tuple[float, int]]:
    """Changes of the number of held devices, as (time, change), in order. Changes at or after the window's end are left out."""
    begins, ends = window
    found: list[tuple[float, int]] = []
    for one in held:
        start, end = max(_start(one), begins), ends if one.end is None else min(one.end, ends)
        if start < end:
            by = one.thousandths if shared else one.devices
            found.append((start, by))
            if end < ends:
                found.append((end, -by))
    found.sort()
    return found


def _level(levels: Sequence[tuple[int, float]], percent: int, whole: float) -> int:
    passed = 0.0
    for level, seconds in levels:
        passed += seconds
        if passed * 100 >= percent * whole:
            return level
    return levels[-1][0]


def _start(one: Held) -> float:
    return math.inf if one.start is None else one.start


def _clipped(one: Held, window: Window) -> float:
    end = window[1] if one.end is None else min(one.end, window[1])
    return max(0.0, end - max(_start(one), window[0]))


def _grouped(held: Iterable[Held], by: str) -> Iterator[tuple[str, list[Held]]]:
    groups: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        groups[getattr(one, by)].append(one)
    yield from groups.items()


def _arrivals(created: Sequence[float], window: Window) -> Arrivals | None:
    begins, ends = window
    hours = int((ends - begins) // HOUR)
    bins = Counter(int((at - begins) // HOUR) for at in created if at >= begins)
    minutes = Counter(int(at // MINUTE) for at in created if at >= begins)
    if not hours:
        return None
    full = [bins[hour] for hour in range(hours)]
    ordered = sorted(full)
    return Arrivals(
        hours=hours,
        total=sum(full),
        median=int(_rank(ordered, 50)),
        p95=int(_rank(ordered, 95)),
        peak=ordered[-1],
        minute_peak=max(minutes.values(), default=0),
    )


def _spread(seconds: Iterable[float]) -> Spread | None:
    found = sorted(round(one, 6) for one in seconds)  # to the microsecond, against rounding errors of floats
    if not found:
        return None
    p50, p90, p99 = (_rank(found, percent) for percent in (50, 90, 99))
    return Spread(n=len(found), zero=sum(1 for one in found if one == 0), p50=p50, p90=p90, p99=p99, max=found[-1])


def _rank(ordered: Sequence[float], percent: int) -> float:
    return ordered[-(-percent * len(ordered) // 100) - 1]
