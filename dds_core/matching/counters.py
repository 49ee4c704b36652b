"""The rest of a pool's shared counters while devices are chosen (KEP-4815). A shared device is charged once, with its first
share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from dds_core.matching.pools import Candidate, Counters, NodePools, Pool, PoolKey
from dds_core.matching.usage import InUse
from dds_core.model import DeviceKey

Tables = dict[str, Counters]
"""Pool name → the rest of its counters, as 1.36.2 keeps it for all nodes during the attempt for a pod."""


class Ledger(Protocol):
    """Charges devices to the counters of their pools."""

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        """Charge the device, or a share of it, if the counters allow it. Returns whether they do."""

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        """Undo the last charge of the device."""


class Exact:
    """A ledger that follows the rule exactly. `promised` are the devices of which this search has promised a share."""

    def __init__(self, pools: NodePools, in_use: InUse, promised: Collection[DeviceKey]) -> None:
        self._pools = pools
        self._in_use = in_use
        self._promised = promised
        self._free: dict[PoolKey, Counters] = {}

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        consumed = candidate.consumes
        if not consumed or (shared and self._is_paid_for(candidate.key)):
            return True
        free = self._left(candidate)
        if any(amount > free[name][counter] for name, each in consumed.items() for counter, amount in each.items()):
            return False
        _charge(free, candidate, 1)
        return True

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        if candidate.consumes and not (shared and self._is_paid_for(candidate.key)):
            _charge(self._left(candidate), candidate, -1)

    def _is_paid_for(self, key: DeviceKey) -> bool:
        return key in self._promised or key in self._in_use.shares

    def _left(self, candidate: Candidate) -> Counters:
        key = candidate.key[:2]
        if key not in self._free:
            self._free[key] = left(self._pools.pool_of[key], self._in_use)
        return self._free[key]


class AsIn1362:
    """A ledger with the faults of Kubernetes 1.36.2, to predict its scheduler. The numbers are issues of Kubernetes.

    Pools of the same name share one table, whatever their driver; it is the one of the first node of the attempt (140434). One
    counter below zero blocks the whole pool. The charge of a share stays when the share is given back (140436). A share in use
    without a consumed capacity does not count as charged (140433).
    """

    def __init__(self, pools: NodePools, in_use: InUse, promised: Collection[DeviceKey], tables: Tables) -> None:
        self._pools = pools
        self._in_use = in_use
        self._promised = promised
        self._tables = tables
        self._free: dict[str, Counters] = {}

    def take(self, candidate: Candidate, *, shared: bool) -> bool:
        paid = candidate.key in self._promised or self._in_use.consumed.get(candidate.key)
        if not candidate.consumes or (shared and paid):
            return True
        free = self._left(candidate)
        _charge(free, candidate, 1)
        if any(amount < 0 for each in free.values() for amount in each.values()):
            _charge(free, candidate, -1)
            return False
        return True

    def give_back(self, candidate: Candidate, *, shared: bool) -> None:
        if candidate.consumes and not shared:
            _charge(self._left(candidate), candidate, -1)

    def _left(self, candidate: Candidate) -> Counters:
        driver, name, _ = candidate.key
        if name not in self._free:
            if name not in self._tables:
                self._tables[name] = left(self._pools.pool_of[driver, name], self._in_use)
            self._free[name] = {set_: dict(counters) for set_, counters in self._tables[name].items()}
        return self._free[name]


def left(pool: Pool, in_use: InUse) -> Counters:
    """The pool's counters less the consumption of its devices in use. Below zero when too many devices are in use."""
    free = {name: dict(counters) for name, counters in pool.counters.items()}
    for candidate in pool.consumers:
        if in_use.takes(candidate.key):
            _charge(free, candidate, 1)
    return free


def _charge(free: Counters, candidate: Candidate, by: int) -> None:
    """Counters that are missing in the table are ignored."""
    for name, counters in candidate.consumes.items():
        for counter, amount in counters.items():
            if counter in free.get(name, {}):
                free[name][counter] -= by * amount
