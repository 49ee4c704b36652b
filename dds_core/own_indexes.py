"""The indexes over what the engine itself remembers: lives, reservations, orders, failures, cool-downs and fences. Kept right by
the tables' hooks as those of `dds_core.indexes` are, and never stored either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_core.lifecycle import WAITING
from dds_core.model import DeviceKey
from dds_core.rows import Cell, ClaimLife, Cooling, DeviceLife, Failure, Fence, Order, Reservation
from dds_core.table import Index
from dds_core.tables import Tables


class OwnIndexes(Tables):
    """The tables with what is derived from the engine's own."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_as: Index[DeviceKey, str] = Index()
        self.returning: Index[str, str] = Index()
        self.reserved_for: Index[str, str] = Index()
        self.reservations_for: Index[str, str] = Index()
        self.reservations_at: Index[str, str] = Index()
        self.ready_for: Index[str, str] = Index()
        self.cooling_at: Index[str, Cell] = Index()
        self.fabric_of: dict[str, str] = {}
        self.fabric_failed: Index[tuple[str, str], str] = Index()
        self.failed_at: Index[str, str] = Index()
        self.under_way: set[str] = set()
        self.units_ordered = 0
        self.idle_of_model: Index[str, str] = Index()
        self.idle_at: Index[str, str] = Index()
        self.waiting_at: Index[str, str] = Index()
        self.our_rules: Index[DeviceKey, str] = Index()
        self.fenced: Index[DeviceKey, str] = Index()

        self.lives.watch(self._life_changed)
        self.devices.watch(self._device_changed)
        self.reservations.watch(self._reservation_changed)
        self.orders.watch(self._cell_changed)
        self.failures.watch(self._failure_changed)
        self.cooling.watch(self._cell_changed)
        self.fences.watch(self._fence_changed)

    def fails(self, fabric: str, model: str) -> bool:
        """Whether the fabric has brought no device of the model to so many of its nodes lately that it is the fabric's fault."""
        return 0 < self.policy.pool_cool_down_nodes <= len(self.fabric_failed[fabric, model])

    def _life_changed(self, uid: str, old: ClaimLife | None, new: ClaimLife | None) -> None:
        for life, gone in ((old, True), (new, False)):
            if life is None:
                continue
            if life.node:
                self.dirty.nodes.add(life.node)
            if life.state in WAITING:
                (self.waiting_at.discard if gone else self.waiting_at.add)(life.node, uid)
            for promise in life.promises:
                (self.ready_for.discard if gone else self.ready_for.add)(promise.identity, uid)
            if life.state == "Detaching":
                for resource in life.devices:
                    (self.returning.discard if gone else self.returning.add)(resource, uid)
        self.dirty.claims.add(uid)

    def _device_changed(self, uid: str, old: DeviceLife | None, new: DeviceLife | None) -> None:
        if new is not None and new.state == "Attaching":
            self.under_way.add(uid)
        elif uid in self.under_way:
            self.under_way.discard(uid)
            self.dirty.freed += 1
        self.dirty.devices.add(uid)
        self.dirty.claims |= self.returning[uid]
        if old is not None and old.key is not None:
            self.taken_as.discard(old.key, uid)
        if new is not None and new.key is not None:
            self.taken_as.add(new.key, uid)
        resource = self.resources.get(uid)
        if resource is not None:
            self.dirty.nodes.add(resource.node)
        if old is not None and old.state == "Idle":
            self.idle_of_model.discard(old.model, uid)
            self.idle_at.discard(old.node, uid)
        if new is not None and new.state == "Idle":
            self.idle_of_model.add(new.model, uid)
            self.idle_at.add(new.node, uid)

    def _reservation_changed(self, key: str, old: Reservation | None, new: Reservation | None) -> None:
        for row, gone in ((old, True), (new, False)):
            if row is not None:
                for promise in row.promises:
                    (self.reserved_for.discard if gone else self.reserved_for.add)(promise.identity, key)
                (self.reservations_for.discard if gone else self.reservations_for.add)(row.claim, key)
                (self.reservations_at.discard if gone else self.reservations_at.add)(row.node, key)
                self.dirty.nodes.add(row.node)
                self.dirty.claims.add(row.claim)

    def _failure_changed(self, claim: str, old: Failure | None, new: Failure | None) -> None:
        for failure, change in ((old, Index.discard), (new, Index.add)):
            if failure is not None:
                change(self.failed_at, failure.node, claim)
                self.dirty.nodes.add(failure.node)

    def _fence_changed(self, resource: str, old: Fence | None, new: Fence | None) -> None:
        self.dirty.devices.add(resource)
        for fence, change in ((old, Index.discard), (new, Index.add)):
            if fence is not None:
                change(self.fenced, fence.key, resource)
                self.dirty.rules |= self.our_rules[fence.key]

    def _cell_changed(self, cell: Cell, old: Any, new: Any) -> None:
        if isinstance(old, Order):
            self.units_ordered -= old.more
            self.dirty.freed += old.more
        if isinstance(new, Order):
            self.units_ordered += new.more
        if isinstance(new or old, Cooling):
            (self.cooling_at.add if new is not None else self.cooling_at.discard)(cell[0], cell)
        for row, change in ((old, Index.discard), (new, Index.add)):
            if isinstance(row, Cooling) and row.of_fabric:
                self._count_failed(cell, change)
        self.dirty.nodes.add(cell[0])

    def _count_failed(self, cell: Cell, change: Callable[[Index[Any, Any], Any, Any], None]) -> None:
        """One node more, or less, that its fabric brought no device of a model to. When the fabric begins to count as failing, or
        does no longer, each of them is looked at."""
        node, model = cell
        key = (self.fabric_of.get(node, ""), model)
        if not key[0]:
            return
        before = self.fails(*key)
        change(self.fabric_failed, key, node)
        if self.fails(*key) != before:
            self.dirty.nodes |= self.fabric_failed[key]
