"""What devices cost: device-time by state and by other properties; and what the same work would have taken with fixed
provisioning: if each node had owned as many devices as it ever used at once. A resource that never
named a device (`DeviceHistory.came`) took no device-time.

Times are whole microseconds, so that sums are exact. The time of a device that several claims hold is divided among them; a rest
goes, a microsecond each, to the first of them by uid.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from dds_core.scaler.history.devices import DeviceHistory, DeviceSpan
from dds_core.scaler.history.fold import History
from dds_core.scaler.spending import STATES, USED

Key = tuple[str, ...]
Spent = dict[str, int]
"""Microseconds by state of a device."""

DAY = 86_400_000_000

PLACES = ("model", "node", "fabric", "day")
"""Properties of every device-second, also of one without a claim."""
HOLDERS = ("namespace", "claim")
"""Properties of device-seconds in use only."""


def usage(history: History, by: Sequence[str], name_of_day: Callable[[int], str]) -> dict[Key, Spent]:
    """Device-time by the values of `by` (of `PLACES` and `HOLDERS`); the holder is "" where no claim held the device."""
    found: dict[Key, Spent] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for device in history.devices.values():
        for span, day, micros in _pieces(device, history, "day" in by):
            place = {
                "model": device.model,
                "node": device.node,
                "fabric": device.fabric,
                "day": name_of_day(day) if "day" in by else "",
            }
            for claim, share in shares(span.claims if span.state == USED else (), micros):
                holder = history.claims.get(claim)
                whose = {
                    "namespace": holder.namespace if holder is not None else "",
                    "claim": holder.name if holder is not None else "",
                }
                found[tuple({**place, **whose}[one] for one in by)][span.state] += share
    return dict(found)


def shares(claims: Sequence[str], micros: int) -> Iterator[tuple[str, int]]:
    """The part of each claim in a device's time; all of it to "" without a claim."""
    whole, rest = divmod(micros, max(1, len(claims)))
    for place, claim in enumerate(claims or ("",)):
        yield claim, whole + (place < rest)


def provisioned(history: History, by: Sequence[str], name_of_day: Callable[[int], str]) -> dict[Key, int]:
    """Device-time (microseconds) if each node had owned as many devices of a model as it ever used at once: all the time, or for
    each day as many as on that day. By the values of `by` (of `PLACES`)."""
    found: Counter[Key] = Counter()
    fabrics = {(one.node, one.model): one.fabric for one in history.devices.values()}
    for (node, model, day), (peak, micros) in _peaks(history, daily="day" in by).items():
        values = {
            "model": model,
            "node": node,
            "fabric": fabrics[node, model],
            "day": name_of_day(day) if "day" in by else "",
        }
        found[tuple(values[one] for one in by)] += peak * micros
    return dict(found)


def most_at_once(history: History) -> dict[str, tuple[int, int]]:
    """By model: the most devices ever in use at once, and the sum over the nodes of the most that each ever used at once."""
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for device in history.devices.values():
        for span, _, micros in _pieces(device, history, False):
            if span.state == USED and micros:
                begin = max(span.since, history.first)
                steps[device.model] += [(begin, 1), (begin + micros, -1)]
    nodes: Counter[str] = Counter()
    for (_, model, _), (peak, _) in _peaks(history, daily=False).items():
        nodes[model] += peak
    return {model: (_peak(changes), nodes[model]) for model, changes in steps.items()}


def _peaks(history: History, *, daily: bool) -> dict[tuple[str, str, int], tuple[int, int]]:
    """By node, model and day (0 for all days together): the most devices in use at once, and the length of the time."""
    steps: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for device in history.devices.values():
        for span, day, micros in _pieces(device, history, daily):
            if span.state == USED and micros:
                begin = max(span.since, history.first, day * DAY)
                steps[device.node, device.model, day] += [(begin, 1), (begin + micros, -1)]
    return {key: (_peak(changes), _long(history, key[2], daily=daily)) for key, changes in steps.items()}


def _peak(changes: list[tuple[int, int]]) -> int:
    number = most = 0
    for _, change in sorted(changes):
        number += change
        most = max(most, number)
    return most


def _long(history: History, day: int, *, daily: bool) -> int:
    if not daily:
        return history.now - history.first
    return min(history.now, (day + 1) * DAY) - max(history.first, day * DAY)


def _pieces(device: DeviceHistory, history: History, daily: bool) -> Iterator[tuple[DeviceSpan, int, int]]:
    """(span, number of the day, microseconds): a device's spans since the history begins, cut at midnight (UTC) if `daily`."""
    for span in device.spans if device.came else ():
        since, until = max(span.since, history.first), max(span.since, span.until or history.now)
        if not daily:
            yield span, 0, max(0, until - since)
            continue
        while since < until:
            day = since // DAY
            end = min(until, (day + 1) * DAY)
            yield span, day, end - since
            since = end
