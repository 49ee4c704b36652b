"""The devices in use, whole or in shares, and how much of a shared device a request takes.

The caller owns `InUse`: it adds each allocation that is seen or in flight and removes it when it ends. The allocator only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dds_core.matching.node_selectors import Object
from dds_core.matching.quantities import Quantity, parse, parsed
from dds_core.model import CapacityPolicy, Claim, Device, DeviceKey


class InUse:
    """Devices in use. `devices` counts the allocations that hold the whole device, `shares` those that hold a share of it.
    `consumed` is what all shares together take of each capacity, in 10⁻⁹."""

    __slots__ = ("consumed", "devices", "shares")

    def __init__(self) -> None:
        self.devices: dict[DeviceKey, int] = {}
        self.shares: dict[DeviceKey, int] = {}
        self.consumed: dict[DeviceKey, dict[str, int]] = {}

    @classmethod
    def by(cls, claims: Iterable[Claim]) -> InUse:
        """What these claims are allocated, other than to look at it (admin access)."""
        found = cls()
        for claim in claims:
            for one in claim.allocation.results if claim.allocation is not None else ():
                if not one.admin:
                    found.count(one.key, one.consumed if one.share else None)
        return found

    def add(self, allocation: Object) -> None:
        """Count the devices of an allocation (status.allocation)."""
        self._change(allocation, 1)

    def remove(self, allocation: Object) -> None:
        """Count the devices of an allocation no longer. It must have been added before."""
        self._change(allocation, -1)

    def takes(self, key: DeviceKey) -> bool:
        """Whether an allocation holds the device or a share of it."""
        return key in self.devices or key in self.shares

    def copy(self) -> InUse:
        twin = InUse()
        twin.devices = dict(self.devices)
        twin.shares = dict(self.shares)
        twin.consumed = {key: dict(amounts) for key, amounts in self.consumed.items()}
        return twin

    def _change(self, allocation: Object, by: int) -> None:
        for result in held(allocation):
            key = (result["driver"], result["pool"], result["device"])
            consumed = None if result.get("shareID") is None else result.get("consumedCapacity") or {}
            self.count(key, consumed, by)

    def count(self, key: DeviceKey, consumed: Mapping[str, object] | None, by: int = 1) -> None:
        """Count one holder more (or less, `by` -1): of the whole device, or of a share that takes the quantities in
        `consumed`."""
        if consumed is None:
            _count(self.devices, key, by)
            return
        _count(self.shares, key, by)
        amounts = self.consumed.setdefault(key, {})
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, 0) + by * parsed(amount).nanos
        if key not in self.shares:
            del self.consumed[key]


def held(allocation: Object) -> Iterator[Object]:
    """The results that hold a device. Results with admin access hold none."""
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield result


def _count(counts: dict[DeviceKey, int], key: DeviceKey, by: int) -> None:
    now = counts.get(key, 0) + by
    if now > 0:
        counts[key] = now
    else:
        counts.pop(key, None)


# -- what a request takes of a device --------------------------------------------------------------------------------------

# KEP-5075, consumable_capacity.go of 1.36. Names are compared unchanged: `memory` does not match `gpu.example.com/memory`.

Amounts = dict[str, Quantity]


def consumption(requests: Mapping[str, str], device: Device) -> Amounts | None:
    """What the request takes of each capacity of the device. None when the device lacks a requested capacity or its policy does
    not allow the amount."""
    if not requests.keys() <= device.capacity.keys():
        return None
    amounts: Amounts = {}
    for name, full in device.capacity.items():
        policy = device.policies.get(name)
        amount = _amount(requests.get(name, ""), full, policy)
        if policy is not None and not _allowed(amount, policy):
            return None
        amounts[name] = amount
    return amounts


def fits(amounts: Amounts, device: Device, consumed: Mapping[str, int], promised: Mapping[str, int]) -> bool:
    """Whether the capacity suffices for the amounts, what others consume and what this search has promised (both in 10⁻⁹)."""
    return all(
        consumed.get(name, 0) + promised.get(name, 0) + amount.nanos <= parse(device.capacity[name]).nanos
        for name, amount in amounts.items()
    )


def _amount(requested: str, full: str, policy: CapacityPolicy | None) -> Quantity:
    """Without a request the policy's default, or everything. A request is rounded up to an amount of the policy, if there is
    one."""
    if not requested:
        return parse(full if policy is None or not policy.default else policy.default)
    amount = parse(requested)
    if policy is None:
        return amount
    if policy.ranged and policy.min:
        return _rounded(amount, parse(policy.min), policy.step)
    return next((value for value in map(parse, policy.values) if amount.nanos <= value.nanos), amount)


def _rounded(amount: Quantity, least: Quantity, step: str) -> Quantity:
    """Rounded up to the minimum plus whole steps. Steps are computed with integers; a fraction counts as one more."""
    if amount.nanos < least.nanos:
        return least
    size = parse(step).integer if step else 0
    if size <= 0:
        return amount
    return Quantity.whole(least.integer - (least.integer - amount.integer) // size * size)


def _allowed(amount: Quantity, policy: CapacityPolicy) -> bool:
    if policy.default and amount.nanos == parse(policy.default).nanos:
        return True
    if policy.ranged:
        if policy.max and amount.nanos > parse(policy.max).nanos:
            return False
        least, step = (parse(text).integer if text else 0 for text in (policy.min, policy.step))
        return step <= 0 or (amount.integer - least) % step == 0
    return not policy.values or any(amount.nanos == parse(value).nanos for value in policy.values)
