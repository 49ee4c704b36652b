"""The tables of the picture: what was observed of each object, and what the engine remembers of its own.

Rows only; what is derived from them is in `dds_core.indexes`.
"""

from __future__ import annotations

from typing import Any

from dds_core.model import (
    AttachRequest,
    Claim,
    Config,
    DeviceClass,
    FabricResource,
    Node,
    Observed,
    Pod,
    Slice,
    TaintRule,
)
from dds_core.policy import Policy
from dds_core.remembered import Remembered
from dds_core.rows import (
    Cell,
    ClaimLife,
    Cooling,
    DeviceLife,
    Failure,
    Fence,
    HandOverRow,
    Order,
    Rate,
    Reservation,
    Timeout,
)
from dds_core.table import Table


class Dirty:
    """What has to be looked at again: claims, devices and taint rules by uid, nodes by name, or everything. `freed` counts
    attaches that ended or are not ordered any more: others may have waited for the room."""

    __slots__ = ("claims", "devices", "everything", "freed", "nodes", "rules")

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.devices: set[str] = set()
        self.nodes: set[str] = set()
        self.rules: set[str] = set()
        self.everything = False
        self.freed = 0

    def __bool__(self) -> bool:
        return bool(self.claims or self.devices or self.nodes or self.rules or self.freed or self.everything)

    def take(self) -> Dirty:
        """A copy of what is dirty; this one is clean afterwards."""
        taken = Dirty()
        taken.claims, taken.devices, taken.nodes = self.claims, self.devices, self.nodes
        taken.rules, taken.everything, taken.freed = self.rules, self.everything, self.freed
        self.clear()
        return taken

    def add(self, other: Dirty) -> None:
        self.claims |= other.claims
        self.devices |= other.devices
        self.nodes |= other.nodes
        self.rules |= other.rules
        self.everything = self.everything or other.everything
        self.freed += other.freed

    def clear(self) -> None:
        self.claims, self.devices, self.nodes, self.rules = set(), set(), set(), set()
        self.everything, self.freed = False, 0


class Tables(Remembered[Observed]):
    """Every table, and the few facts that are no rows. All changes go through the tables' `put` and `drop`."""

    def __init__(self) -> None:
        super().__init__()
        journal = self.journal
        self.claims: Table[str, Claim] = Table(journal)
        self.pods: Table[str, Pod] = Table(journal)
        self.nodes: Table[str, Node] = Table(journal)
        self.slices: Table[str, Slice] = Table(journal)
        self.classes: Table[str, DeviceClass] = Table(journal)
        self.rules: Table[str, TaintRule] = Table(journal)
        self.configs: Table[str, Config] = Table(journal)
        self.requests: Table[str, AttachRequest] = Table(journal)
        self.resources: Table[str, FabricResource] = Table(journal)
        self._tables: dict[type[Observed], Table[str, Any]] = {
            Claim: self.claims,
            Slice: self.slices,
            DeviceClass: self.classes,
            TaintRule: self.rules,
            Node: self.nodes,
            Pod: self.pods,
            Config: self.configs,
            AttachRequest: self.requests,
            FabricResource: self.resources,
        }

        self.lives: Table[str, ClaimLife] = Table(journal)
        self.devices: Table[str, DeviceLife] = Table(journal)
        self.reservations: Table[str, Reservation] = Table(journal)
        self.orders: Table[Cell, Order] = Table(journal)
        self.hand_overs: Table[str, HandOverRow] = Table(journal)
        self.failures: Table[str, Failure] = Table(journal)
        self.cooling: Table[Cell, Cooling] = Table(journal)
        self.fences: Table[str, Fence] = Table(journal)
        self.timeouts: Table[str, Timeout] = Table(journal)
        self.unmarked: Table[str, int] = Table(journal)
        self.lifted: Table[str, int] = Table(journal)
        self.marks: Table[str, int] = Table(journal)
        self.erring: Table[str, int] = Table(journal)
        self.counters: Table[str, int] = Table(journal)
        self.rates: Table[str, Rate] = Table(journal)

        self.policy = Policy()
        self.taint_rules = ""
        self.skew: int | None = None
        self.dirty = Dirty()
