"""How many claims and devices are in which state, and how long devices idled: kept event by event, so that a scrape never looks
into the picture.

The thread that decides writes, the one that scrapes reads; a lock keeps them apart.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.live.metrics import catalogue as c
from dds_core.lifecycle import CLAIM_STATES, GONE, IDLE, MARKED, RELEASED
from dds_core.picture import Picture

SECOND = 1_000_000
_IDLING = frozenset({IDLE, MARKED})


class InState(NamedTuple):
    """A state and the instant from which it holds."""

    state: str
    since: int


class Standing(NamedTuple):
    """A device: its state since when, its model, its node."""

    state: str
    since: int
    model: str
    node: str


class _Idle:
    """Idle time of the devices of a model on a node, in microseconds, as a line over time: it rises with the number of spells
    that go on. A spell that begins or ends bends the line and never lets it jump."""

    __slots__ = ("offset", "spells")

    def __init__(self) -> None:
        self.offset = 0
        self.spells = 0

    def begin(self, at: int) -> None:
        self.spells += 1
        self.offset -= at

    def end(self, at: int) -> None:
        self.spells -= 1
        self.offset += at

    def until(self, at: int) -> int:
        return self.offset + self.spells * at


class Fleet(Collector):
    """Claims and devices by state. `lock` is to be held around every change."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.lock = threading.Lock()
        self._now = 0
        self._claims: dict[str, InState] = {}
        self._devices: dict[str, Standing] = {}
        self._claims_in: Counter[str] = Counter()
        self._devices_in: Counter[tuple[str, str, str]] = Counter()
        self._idle: dict[tuple[str, str], _Idle] = {}
        registry.register(self)

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def recount(self, picture: Picture) -> None:
        """Take over the picture as it is: at the start, and after it was folded anew. Idle time counts from here for what was not
        known to idle."""
        self._now = max(self._now, picture.now)
        for uid in self._claims.keys() | picture.lives.rows.keys():
            life = picture.lives.get(uid)
            known = self._claims.get(uid)
            if life is None:
                self._claim(uid, None)
            elif known is None or known.state != life.state:
                self._claim(uid, InState(life.state, life.since))
        for uid in self._devices.keys() | picture.devices.rows.keys():
            device, stood = picture.devices.get(uid), self._devices.get(uid)
            if device is None:
                self._device(uid, None, self._now)
            elif stood is None or (stood.state, stood.model, stood.node) != (device.state, device.model, device.node):
                self._device(uid, Standing(device.state, device.since, device.model, device.node), self._now)

    def passed(self, at: int) -> None:
        """Time went on to this instant."""
        self._now = max(self._now, at)

    def claim(self, uid: str) -> InState | None:
        return self._claims.get(uid)

    def device(self, uid: str) -> Standing | None:
        return self._devices.get(uid)

    def claim_moved(self, uid: str, state: str, at: int, picture: Picture) -> None:
        """A claim's step to `state`; one that the picture has forgotten is counted no more."""
        known = self._claims.get(uid)
        if known is None or known.state != state:
            self._claim(uid, InState(state, at))
        self.claim_gone(uid, picture)

    def claim_gone(self, uid: str, picture: Picture) -> None:
        """A claim may have been deleted: forgotten once its life has ended."""
        known = self._claims.get(uid)
        if known is not None and known.state == RELEASED and uid not in picture.lives:
            self._claim(uid, None)

    def device_moved(self, uid: str, state: str, at: int, picture: Picture) -> None:
        """A device's step to `state`."""
        if state == GONE:
            self._device(uid, None, at)
            return
        life, known = picture.devices.get(uid), self._devices.get(uid)
        model = life.model if life is not None else known.model if known is not None else ""
        node = life.node if life is not None else known.node if known is not None else ""
        self._device(uid, Standing(state, at, model, node), at)

    def node_gone(self, picture: Picture) -> None:
        """A node was deleted: what is told of nodes that are there no more, and have no device, is told no longer."""
        for key, idle in list(self._idle.items()):
            if not idle.spells and key[1] not in picture.node_named:
                del self._idle[key]

    def _claim(self, uid: str, new: InState | None) -> None:
        old = self._claims.pop(uid, None)
        if old is not None:
            self._claims_in[old.state] -= 1
        if new is not None:
            self._claims[uid] = new
            self._claims_in[new.state] += 1

    def _device(self, uid: str, new: Standing | None, at: int) -> None:
        old = self._devices.pop(uid, None)
        if old is not None:
            place = (old.state, old.model, old.node)
            self._devices_in[place] -= 1
            if not self._devices_in[place]:
                del self._devices_in[place]
        if new is not None:
            self._devices[uid] = new
            self._devices_in[(new.state, new.model, new.node)] += 1
        self._spell(old, new, at)

    def _spell(self, old: Standing | None, new: Standing | None, at: int) -> None:
        was = (old.model, old.node) if old is not None and old.state in _IDLING else None
        now = (new.model, new.node) if new is not None and new.state in _IDLING else None
        if was == now:
            return
        if was is not None:
            self._idle[was].end(at)
        if now is not None:
            self._idle.setdefault(now, _Idle()).begin(at)

    # -- the thread that scrapes ---------------------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        yield from (GaugeMetricFamily(one.name, one.help) for one in (c.CLAIMS, c.DEVICES))
        yield CounterMetricFamily(c.IDLE.name, c.IDLE.help)

    def collect(self) -> Iterator[Metric]:
        claims = GaugeMetricFamily(c.CLAIMS.name, c.CLAIMS.help, labels=c.CLAIMS.labels)
        devices = GaugeMetricFamily(c.DEVICES.name, c.DEVICES.help, labels=c.DEVICES.labels)
        idle = CounterMetricFamily(c.IDLE.name, c.IDLE.help, labels=c.IDLE.labels)
        with self.lock:
            in_state, at_place = dict(self._claims_in), dict(self._devices_in)
            idled = {key: one.until(self._now) for key, one in self._idle.items()}
        for state in CLAIM_STATES:
            claims.add_metric((state,), in_state.get(state, 0))
        for place, count in at_place.items():
            devices.add_metric(place, count)
        for key, micros in idled.items():
            idle.add_metric(key, micros / SECOND)
        yield from (claims, devices, idle)
