"""How much of a device's capacities a request takes (KEP-5075, consumable_capacity.go of 1.36).

Names are compared as they are written: a request for `memory` does not mean `gpu.example.com/memory`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dds_core.matching.objects import Capacity, RequestPolicy
from dds_core.matching.quantities import Quantity

Amounts = dict[str, Quantity]


def consumption(requests: Mapping[str, Quantity] | None, capacity: Mapping[str, Capacity]) -> Amounts | None:
    """What the request takes of each capacity that the device has; None when the device cannot give it: it lacks a capacity
    that is asked for, or its policy does not allow the amount."""
    wanted = requests or {}
    if not wanted.keys() <= capacity.keys():
        return None
    amounts: Amounts = {}
    for name, each in capacity.items():
        amount = _amount(wanted.get(name), each)
        if each.policy is not None and not _allowed(amount, each.policy):
            return None
        amounts[name] = amount
    return amounts


def fits(
    amounts: Amounts, capacity: Mapping[str, Capacity], consumed: Mapping[str, int], promised: Mapping[str, int]
) -> bool:
    """Whether the amounts fit beside what others consume and what this allocation has promised already (both in 10⁻⁹)."""
    return all(
        consumed.get(name, 0) + promised.get(name, 0) + amount.nanos <= capacity[name].value.nanos
        for name, amount in amounts.items()
    )


def _amount(requested: Quantity | None, capacity: Capacity) -> Quantity:
    """Nothing asked: the default, else all. Asked: as it is without a policy, else rounded up to what the policy has."""
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.ranged and policy.minimum is not None:
        return _rounded(requested, policy.minimum, policy.step)
    return next((value for value in policy.values if requested.nanos <= value.nanos), requested)


def _rounded(requested: Quantity, minimum: Quantity, step: Quantity | None) -> Quantity:
    """At least the minimum, and from there whole steps up; with integers, a fraction counting as one more."""
    if requested.nanos < minimum.nanos:
        return minimum
    if step is None or step.integer <= 0:
        return requested
    steps = -(-(requested.integer - minimum.integer) // step.integer)
    return Quantity.whole(minimum.integer + steps * step.integer)


def _allowed(amount: Quantity, policy: RequestPolicy) -> bool:
    if policy.default is not None and amount.nanos == policy.default.nanos:
        return True
    if policy.ranged:
        if policy.maximum is not None and amount.nanos > policy.maximum.nanos:
            return False
        minimum = policy.minimum.integer if policy.minimum is not None else 0
        step = policy.step.integer if policy.step is not None else 0
        return step <= 0 or (amount.integer - minimum) % step == 0
    return not policy.values or any(amount.nanos == value.nanos for value in policy.values)
