"""The faults of the hardware and of its manager: those that a scenario plans, and those that a test adds by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

from dds_lab.scenario.trouble import FabricFault, ManagerFault
from dds_lab.time import MICROSECONDS, Time

F = TypeVar("F", FabricFault, ManagerFault)
Act = Literal["attach", "detach", "check", "smi"]


def concerns(fault: FabricFault | ManagerFault, node: str, model: str) -> bool:
    """Whether the fault may strike what concerns this node and model: without names it strikes all."""
    return (not fault.nodes or node in fault.nodes) and (not fault.models or model in fault.models)


class Faults(Generic[F]):
    """Faults in the order of their windows, which count from the creation. `name`: of the random numbers."""

    def __init__(self, time: Time, name: str, planned: Sequence[F] = ()) -> None:
        self._time = time
        self._random = time.random(name)
        self._began = time.now()
        self._left: list[tuple[F, int]] = [(one, one.times) for one in sorted(planned, key=lambda one: one.since)]

    def add(self, fault: F) -> None:
        self._left.append((fault, fault.times))

    def lift(self, fault: F) -> None:
        """End a fault early. No effect if it is not pending."""
        self._left = [(one, left) for one, left in self._left if one != fault]

    def waiting(self) -> tuple[F, ...]:
        """The faults whose window is open and that may still strike."""
        return tuple(fault for fault, _ in self._left if self._is_open(fault))

    def struck(self, befalls: Callable[[F], bool], most: int | None = None) -> tuple[F, ...]:
        """The faults that strike now, `most` at the most. A fault that has struck `times` times is removed."""
        if not self._left:
            return ()
        struck: list[F] = []
        kept: list[tuple[F, int]] = []
        for fault, left in self._left:
            may = (most is None or len(struck) < most) and self._is_open(fault) and befalls(fault)
            hit = may and (fault.share >= 1.0 or self._random.random() < fault.share)
            if hit:
                struck.append(fault)
            if not hit or left != 1:
                kept.append((fault, left - 1 if hit and left else left))
        self._left = kept
        return tuple(struck)

    def _is_open(self, fault: F) -> bool:
        passed = self._time.now() - self._began
        return round(fault.since * MICROSECONDS) <= passed and (
            fault.until is None or passed < round(fault.until * MICROSECONDS)
        )


class HardwareFaults(Faults[FabricFault]):
    def take(self, operation: Act, node: str, model: str) -> FabricFault | None:
        """Take the first fault that strikes this order, or what the real operator asks: the manager about a device that is
        Online (`check`), nvidia-smi on a node with a new device (`smi`)."""
        struck = self.struck(lambda fault: fault.operation == operation and concerns(fault, node, model), most=1)
        return next(iter(struck), None)


class CallFaults(Faults[ManagerFault]):
    def take(self, call: str, node: str = "", model: str = "") -> tuple[ManagerFault, ...]:
        """All faults that strike a call to the manager about a node's machine and a model ("" for none)."""
        return self.struck(lambda fault: (not fault.calls or call in fault.calls) and concerns(fault, node, model))
