"""matchAttribute and distinctAttribute, while the devices of one claim are chosen one after the other.

A constraint is told of each device (`add`) and may refuse it; what it accepted is taken back in reverse order (`remove`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from dds_core.matching.claims import Alternative, Claim, Constraint
from dds_core.matching.errors import AllocationError
from dds_core.matching.gates import Gates
from dds_core.matching.objects import Attribute, Device


class Rule(Protocol):
    """A constraint at work."""

    def add(self, asked: Alternative, device: Device, driver: str) -> bool:
        """Whether the device may join; if so it has."""

    def remove(self, asked: Alternative) -> None:
        """Take back the device that joined last."""


def rules_of(claim: Claim, gates: Gates) -> Sequence[Rule]:
    """The claim's constraints, with no device yet. AllocationError for one of an unknown kind."""
    found: list[Rule] = []
    for index, constraint in enumerate(claim.constraints):
        if constraint.match:
            found.append(_Match(constraint, constraint.match))
        elif constraint.distinct:
            found.append(
                _Distinct(constraint, constraint.distinct)
                if gates.distinct_pairwise
                else _DistinctByRequest(constraint)
            )
        else:
            what = f"constraint #{index}: empty constraint (unsupported constraint type?)"
            raise AllocationError(what, claim=str(claim))
    return found


def _applies(constraint: Constraint, asked: Alternative) -> bool:
    names = constraint.requests
    return not names or asked.request in names or asked.name in names


def _equal(one: Attribute, other: Attribute) -> bool:
    return type(one) is type(other) and one == other


class _Values(ABC):
    """An attribute that all devices must have, and what is asked of its values, which come and go like a stack."""

    def __init__(self, constraint: Constraint, attribute: str) -> None:
        self._constraint = constraint
        self._attribute = attribute
        self._values: list[Attribute] = []

    def add(self, asked: Alternative, device: Device, driver: str) -> bool:
        if not _applies(self._constraint, asked):
            return True
        value = device.lookup(self._attribute, driver)
        if value is None or not self._fits(value):
            return False
        self._values.append(value)
        return True

    def remove(self, asked: Alternative) -> None:
        if _applies(self._constraint, asked):
            self._values.pop()

    @abstractmethod
    def _fits(self, value: Attribute) -> bool:
        """Whether the value may join those that are there."""


class _Match(_Values):
    """All devices have one value."""

    def _fits(self, value: Attribute) -> bool:
        return not self._values or _equal(value, self._values[0])


class _Distinct(_Values):
    """No two devices have the same value."""

    def _fits(self, value: Attribute) -> bool:
        return not any(_equal(value, each) for each in self._values)


class _DistinctByRequest:
    """The same as 1.36 does it: the value of the last device is remembered by request, so that of three devices of one
    request the first and the third may be equal, and a device taken back leaves its request without a memory."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._values: dict[str, Attribute] = {}

    def add(self, asked: Alternative, device: Device, driver: str) -> bool:
        if not _applies(self._constraint, asked):
            return True
        value = device.lookup(self._constraint.distinct, driver)
        if value is None or any(_equal(value, each) for each in self._values.values()):
            return False
        self._values[asked.request] = value
        return True

    def remove(self, asked: Alternative) -> None:
        if _applies(self._constraint, asked):
            self._values.pop(asked.request, None)
