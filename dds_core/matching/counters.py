"""What is left of a pool's shared counters while devices are chosen (KEP-4815): `take` charges a device, `give_back` takes the
charge back. A device that may be shared is charged once, with its first share.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from dds_core.matching.objects import Counters
from dds_core.matching.pools import Candidate, NodePools, Pool, PoolKey
from dds_core.matching.usage import InUse
from dds_core.model import DeviceKey

Tables = dict[str, Counters]
"""By name of a pool what is left of its counters, as 1.36.2 keeps it for all nodes while it looks for a pod's devices."""


class Ledger(Protocol):
    """Counters at work."""

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        """Whether the counters allow the device, or a share of it; if so it is charged."""

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        """What was charged last for the device is charged no more."""


class Exact:
    """As the rule says it. `promised` are the devices of which this search has promised a share."""

    def __init__(self, pools: NodePools, in_use: InUse, promised: Collection[DeviceKey]) -> None:
        self._pools = pools
        self._in_use = in_use
        self._promised = promised
        self._free: dict[PoolKey, Counters] = {}

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        consumed = candidate.device.consumes
        if not consumed or (shared and self._is_paid_for(candidate.key)):
            return True
        free = self._left(candidate)
        if any(amount > free[name][counter] for name, each in consumed.items() for counter, amount in each.items()):
            return False
        _charge(free, candidate, 1)
        return True

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        if candidate.device.consumes and not (shared and self._is_paid_for(candidate.key)):
            _charge(self._left(candidate), candidate, -1)

    def _is_paid_for(self, key: DeviceKey) -> bool:
        return key in self._promised or key in self._in_use.shares

    def _left(self, candidate: Candidate) -> Counters:
        key = candidate.key[:2]
        if key not in self._free:
            self._free[key] = left(self._pools.pool_of[key], self._in_use)
        return self._free[key]


class AsIn1362:
    """As Kubernetes 1.36.2 keeps them, whose faults decide what its scheduler does.

    The table is that of the first pool of a name, whoever's it is, on whichever node of the attempt it was made (issue 140434).
    A counter below zero closes the whole pool. What a share was charged stays charged when the share is taken back (140436). A
    share that is out without a consumed capacity does not count as paid for (140433).
    """

    def __init__(self, pools: NodePools, in_use: InUse, promised: Collection[DeviceKey], tables: Tables) -> None:
        self._pools = pools
        self._in_use = in_use
        self._promised = promised
        self._tables = tables
        self._free: dict[str, Counters] = {}

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        paid = candidate.key in self._promised or self._in_use.consumed.get(candidate.key)
        if not candidate.device.consumes or (shared and paid):
            return True
        free = self._left(candidate)
        _charge(free, candidate, 1)
        if any(amount < 0 for each in free.values() for amount in each.values()):
            _charge(free, candidate, -1)
            return False
        return True

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        if candidate.device.consumes and not shared:
            _charge(self._left(candidate), candidate, -1)

    def _left(self, candidate: Candidate) -> Counters:
        driver, name, _ = candidate.key
        if name not in self._free:
            if name not in self._tables:
                self._tables[name] = left(self._pools.pool_of[driver, name], self._in_use)
            self._free[name] = {set_: dict(counters) for set_, counters in self._tables[name].items()}
        return self._free[name]


def left(pool: Pool, in_use: InUse) -> Counters:
    """What the devices in use leave of the pool's counters; below zero when too much was given away."""
    free = {name: dict(counters) for name, counters in pool.counters.items()}
    for candidate in pool.consumers:
        if in_use.takes(candidate.key):
            _charge(free, candidate, 1)
    return free


def _charge(free: Counters, candidate: Candidate, by: int) -> None:
    """Counters that the table does not have are nobody's."""
    for name, counters in candidate.device.consumes.items():
        for counter, amount in counters.items():
            if counter in free.get(name, {}):
                free[name][counter] -= by * amount
