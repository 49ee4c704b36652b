"""What allocations hold: devices as a whole, and shares of those that may be shared.

`InUse` is owned by the caller, who adds each allocation that is seen or in flight and removes it when it ends; the allocator
reads it and never changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dds_core.matching.nodes import Object
from dds_core.matching.quantities import parsed
from dds_core.model import DeviceKey


class InUse:
    """Devices in use. `devices` counts the allocations that hold a device whole, `shares` those that hold a share of it,
    `consumed` says what all shares together take of each capacity, in 10⁻⁹."""

    __slots__ = ("consumed", "devices", "shares")

    def __init__(self) -> None:
        self.devices: dict[DeviceKey, int] = {}
        self.shares: dict[DeviceKey, int] = {}
        self.consumed: dict[DeviceKey, dict[str, int]] = {}

    @classmethod
    def of_claims(cls, claims: Iterable[Object]) -> InUse:
        """What these ResourceClaims hold, from their status.allocation."""
        found = cls()
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation")
            if allocation:
                found.add(allocation)
        return found

    def add(self, allocation: Object) -> None:
        """Take in what an allocation (status.allocation) holds."""
        self._change(allocation, 1)

    def remove(self, allocation: Object) -> None:
        """Give up what an allocation held; it must have been added."""
        self._change(allocation, -1)

    def takes(self, key: DeviceKey) -> bool:
        """Whether anybody holds the device or a share of it."""
        return key in self.devices or key in self.shares

    def copy(self) -> InUse:
        """The same, to try something on."""
        twin = InUse()
        twin.devices = dict(self.devices)
        twin.shares = dict(self.shares)
        twin.consumed = {key: dict(amounts) for key, amounts in self.consumed.items()}
        return twin

    def _change(self, allocation: Object, by: int) -> None:
        for result in held(allocation):
            key = (result["driver"], result["pool"], result["device"])
            if result.get("shareID") is None:
                _count(self.devices, key, by)
                continue
            _count(self.shares, key, by)
            amounts = self.consumed.setdefault(key, {})
            for name, amount in (result.get("consumedCapacity") or {}).items():
                amounts[name] = amounts.get(name, 0) + by * parsed(amount).nanos
            if key not in self.shares:
                del self.consumed[key]


def held(allocation: Object) -> Iterator[Object]:
    """The results that hold something: administrators look on and take nothing."""
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield result


def _count(counts: dict[DeviceKey, int], key: DeviceKey, by: int) -> None:
    now = counts.get(key, 0) + by
    if now > 0:
        counts[key] = now
    else:
        counts.pop(key, None)
