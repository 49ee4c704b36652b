"""The search for devices on one node: first fit, depth first, claim by claim, request by request, with every step taken back.

The order of attempts is that of Kubernetes 1.36 (structured allocator, allocateOne), and so is the first solution. Within a
request devices are taken in their order only, so no set of devices is tried twice. This module must not look at anything
but what it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dds_core.matching.claims import ALL, Alternative, Claim, Constraint
from dds_core.matching.counters import AsIn1362, Exact, Ledger, Tables
from dds_core.matching.errors import AllocationError
from dds_core.matching.nodes import Node, node_matches
from dds_core.matching.objects import Attribute, Device, DeviceClass, Gates, TaintRule
from dds_core.matching.pools import Candidate, NodePools, device_reach
from dds_core.matching.usage import Amounts, InUse, consumption, fits
from dds_core.model import DeviceKey, Taint, Toleration

# -- taints ------------------------------------------------------------------------------------------------------------

# Which taints of a device keep a request away (KEP-5055).


BLOCKING = ("NoSchedule", "NoExecute")
"""Effects that stop an allocation; None and whatever is unknown only inform."""


def prevented(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether a taint stops the allocation that no toleration accepts."""
    return any(taint.effect in BLOCKING and not any(tolerates(each, taint) for each in tolerations) for taint in taints)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration accepts the taint; an empty effect or key accepts every one."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator == "Equal" and toleration.value == taint.value)


# -- constraints -------------------------------------------------------------------------------------------------------

# matchAttribute and distinctAttribute, while the devices of one claim are chosen one after the other. A constraint is told of
# each device (`add`) and may refuse it; what it accepted is taken back in reverse order (`remove`).


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
            found.append(_DistinctByRequest(constraint) if gates.faults else _Distinct(constraint, constraint.distinct))
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


# -- search ------------------------------------------------------------------------------------------------------------

MOST_RESULTS = 32
"""Devices that one claim can get (AllocationResultsMaxSize)."""

_DONE, _DEAD_END, _TOO_MANY = "done", "dead end", "too many"
"""How an attempt ends; with the last no other device would help, only another alternative that needs fewer."""


class OutOfSteps(Exception):
    """The search was given up; what a scheduler's filterTimeout is, without a clock."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """An alternative of a request, made ready for the search. `selectors` numbers the set of its class's and its own."""

    asked: Alternative
    device_class: DeviceClass
    selectors: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A claim made ready: by request its alternatives."""

    claim: Claim
    requests: tuple[tuple[Wanted, ...], ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """A device chosen for an alternative; `amounts` only where it is shared."""

    wanted: Wanted
    candidate: Candidate
    amounts: Amounts | None


@dataclass(slots=True)
class _State:
    """What this allocation has promised so far."""

    devices: dict[DeviceKey, list[int]] = field(default_factory=dict)
    shares: dict[DeviceKey, list[Amounts]] = field(default_factory=dict)


class Search:
    """One search on one node; use it once."""

    def __init__(
        self,
        node: Node,
        pools: NodePools,
        plans: Sequence[Plan],
        in_use: InUse,
        gates: Gates,
        selected: Callable[[Candidate, Wanted, Claim], bool],
        rules: Sequence[TaintRule] = (),
        steps: int = 1_000_000,
        tables: Tables | None = None,
        among: Sequence[DeviceKey] | None = None,
        apart: Mapping[DeviceKey, Collection[DeviceKey]] | None = None,
    ) -> None:
        self._node = node
        self._pools = pools
        self._candidates = pools.candidates if among is None else _in_order(pools.candidates, among)
        self._among = None if among is None else frozenset(among)
        self._apart = apart or {}
        self._plans = plans
        self._in_use = in_use
        self._gates = gates
        self._selected = selected
        self._rules = rules
        self._steps = steps
        self._promised = _State()
        self._ledger: Ledger = (
            AsIn1362(pools, in_use, self._promised.shares, {} if tables is None else tables)
            if gates.faults
            else Exact(pools, in_use, self._promised.shares)
        )
        self._constraints: list[Sequence[Rule]] = [rules_of(plan.claim, gates) for plan in plans]
        self._all: dict[Wanted, list[Candidate]] = {}
        self._eligible: dict[Wanted, list[int]] = {}
        self.taken: list[list[Taken]] = [[] for _ in plans]
        self.chosen: dict[tuple[int, int], int] = {}

    def run(self) -> bool:
        """Whether there is a solution: then `taken` holds it by claim, and `chosen` the alternative by claim and request.

        AllocationError when the pod is to be given up, OutOfSteps when the search takes too long.
        """
        for plan in self._plans:
            self._check_size(plan)
        return self._request(0, 0) == _DONE

    # -- before the search ----------------------------------------------------------------------------------

    def give(self, claim: int, asked: Alternative, candidate: Candidate) -> bool:
        """The claim has this device for this alternative already: whether it may join the constraints of those to come."""
        return self._joins(claim, asked, candidate)

    def _check_size(self, plan: Plan) -> None:
        least = sum(min(self._needs(wanted, plan.claim) for wanted in options) for options in plan.requests)
        if least > MOST_RESULTS:
            what = f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise AllocationError(what, claim=str(plan.claim), fix="ask for fewer devices, or in several claims")

    def _needs(self, wanted: Wanted, claim: Claim) -> int:
        """How many devices an alternative takes; for all of them they are found here."""
        if wanted.asked.mode != ALL:
            return wanted.asked.count
        found: list[Candidate] = []
        for pool in self._pools.pools:
            if pool.incomplete or pool.invalid:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                what = f"asks for all devices, but resource pool {pool} is {state}"
                raise AllocationError(what, claim=str(claim), request=wanted.asked.name)
            found += [
                each
                for each in pool.candidates
                if self._usable(each, wanted, claim) and self._amounts(each, wanted) is not None
            ]
        self._all[wanted] = found
        return len(found)

    # -- the search -----------------------------------------------------------------------------------------

    def _request(self, claim: int, request: int) -> str:
        if claim == len(self._plans):
            return _DONE
        requests = self._plans[claim].requests
        if request == len(requests):
            end = self._request(claim + 1, 0)
            return _DEAD_END if end == _TOO_MANY else end
        ends = set()
        for index, wanted in enumerate(requests[request]):
            end = self._device(claim, request, wanted, 0, 0)
            if end == _DONE:
                self.chosen[claim, request] = index
                return _DONE
            ends.add(end)
        return _TOO_MANY if ends == {_TOO_MANY} else _DEAD_END

    def _device(self, claim: int, request: int, wanted: Wanted, had: int, start: int) -> str:
        """Take the device after the `had` first of an alternative, from place `start` on."""
        everything = self._all.get(wanted)
        count = wanted.asked.count if everything is None else len(everything)
        if everything is not None and not everything:
            return _DEAD_END
        if had >= count:
            return self._request(claim, request + 1)
        if len(self.taken[claim]) + count - had > MOST_RESULTS:
            return _TOO_MANY
        if everything is not None:
            if not self._take(claim, wanted, everything[had], must=True):
                return _DEAD_END
            end = self._device(claim, request, wanted, had + 1, 0)
            if end != _DONE:
                self._give_back(claim)
            return end
        return self._first_fit(claim, request, wanted, had, start)

    def _first_fit(self, claim: int, request: int, wanted: Wanted, had: int, start: int) -> str:
        """Try the devices from place `start` on. Every one that is free is looked at once, as the original does it, since
        a selector may fail; once all are known, the search is cut where fewer are left than needed."""
        candidates = self._candidates
        whole, promised, admin = self._in_use.devices, self._promised.devices, wanted.asked.admin
        place, needed = start, wanted.asked.count - had
        while True:
            eligible = self._eligible.get(wanted)
            if eligible is not None:
                first = bisect_left(eligible, place)
                if len(eligible) - first < needed:
                    return _DEAD_END
                place = eligible[first]
            elif place == len(candidates):
                self._eligible[wanted] = self._places(claim, wanted)
                return _DEAD_END
            candidate = candidates[place]
            place += 1
            self._steps -= 1
            if self._steps < 0:
                raise OutOfSteps
            if not admin and (candidate.key in whole or candidate.key in promised):
                continue
            if not self._usable(candidate, wanted, self._plans[claim].claim):
                continue
            if not self._take(claim, wanted, candidate, must=False):
                continue
            end = self._device(claim, request, wanted, had + 1, place)
            if end == _DONE:
                return end
            self._give_back(claim)
            if end == _TOO_MANY:
                return end

    def _places(self, claim: int, wanted: Wanted) -> list[int]:
        """Where the devices are that an alternative could get, as far as others and selectors are concerned. What this search
        has taken is not looked at: a selector may fail on it, and nobody would have asked."""
        taken, promised = ((), ()) if wanted.asked.admin else (self._in_use.devices, self._promised.devices)
        return [
            place
            for place, candidate in enumerate(self._candidates)
            if candidate.key not in taken
            and (candidate.key in promised or self._usable(candidate, wanted, self._plans[claim].claim))
        ]

    def _usable(self, candidate: Candidate, wanted: Wanted, claim: Claim) -> bool:
        """Whether the selectors select the device, whatever has been taken."""
        device = candidate.device
        if device.conditions and not self._gates.binding_conditions:
            return False
        found = candidate.matches.get(wanted.selectors)
        if found is None:
            found = candidate.matches[wanted.selectors] = self._selected(candidate, wanted, claim)
        if not found or not candidate.slice.per_device:
            return found
        reach = device_reach(device)
        return reach if isinstance(reach, bool) else node_matches(reach, self._node)

    # -- one device -----------------------------------------------------------------------------------------

    def _take(self, claim: int, wanted: Wanted, candidate: Candidate, *, must: bool) -> bool:
        """Reserve the device to the alternative, if nothing speaks against it. With its faults 1.36.2 leaves charged and joined
        what was so when something speaks against it (Kubernetes issue 140436)."""
        if self._is_taken(claim, wanted, candidate):
            return False
        amounts = self._amounts(candidate, wanted)
        if amounts is None and not must:
            return False
        shared = self._is_shared(candidate)
        if candidate.device.consumes and not self._gates.partitionable_devices:
            return False
        if not self._ledger.take(candidate, shared=shared):
            return False
        tainted = self._gates.device_taints and prevented(self._taints(candidate), wanted.asked.tolerations)
        if tainted or not self._join(claim, wanted, candidate, must=must):
            if not self._gates.faults:
                self._ledger.give_back(candidate, shared=shared)
            return False
        if amounts is None:
            self._refuse(claim, wanted, candidate)
            return False
        self._promise(claim, wanted, candidate, amounts)
        return True

    def _refuse(self, claim: int, wanted: Wanted, candidate: Candidate) -> None:
        """All devices are wanted, and the capacity of one of them is gone since they were counted."""
        shared = self._is_shared(candidate)
        if self._gates.faults:
            if not shared:
                self._promised.devices.setdefault(candidate.key, []).append(claim)
            return
        self._undo(claim, wanted, candidate, shared=shared)

    def _undo(self, claim: int, wanted: Wanted, candidate: Candidate, *, shared: bool) -> None:
        """Take back what the device was charged, and let it leave every constraint."""
        self._ledger.give_back(candidate, shared=shared)
        for constraint in reversed(self._constraints[claim]):
            constraint.remove(wanted.asked)

    def _is_taken(self, claim: int, wanted: Wanted, candidate: Candidate) -> bool:
        """Whether somebody has the device, or it is none of those to choose among, of which all that are wanted may be more. An
        administrator's request sees only what its own claim has taken."""
        if self._among is not None and candidate.key not in self._among:
            return True
        if self._apart and any(self._is_promised(other) for other in self._apart.get(candidate.key, ())):
            return True
        promised = self._promised.devices.get(candidate.key, ())
        if wanted.asked.admin:
            return claim in promised
        if candidate.key in self._in_use.devices or promised:
            return True
        return not self._is_shared(candidate) and candidate.key in self._in_use.shares

    def _is_promised(self, key: DeviceKey) -> bool:
        return key in self._promised.devices or key in self._promised.shares

    def _amounts(self, candidate: Candidate, wanted: Wanted) -> Amounts | None:
        """What the device would give of its capacities; None if it cannot."""
        device, asked = candidate.device, wanted.asked
        if not self._gates.consumable_capacity or not (device.shared or asked.capacity):
            return {}
        amounts = consumption(asked.capacity, device.capacity)
        if amounts is None:
            return None
        consumed = self._in_use.consumed.get(candidate.key, {})
        return amounts if fits(amounts, device.capacity, consumed, self._shared_out(candidate.key)) else None

    def _shared_out(self, key: DeviceKey) -> Mapping[str, int]:
        total: dict[str, int] = {}
        for amounts in self._promised.shares.get(key, ()):
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount.nanos
        return total

    def _is_shared(self, candidate: Candidate) -> bool:
        return candidate.device.shared and self._gates.consumable_capacity

    def _taints(self, candidate: Candidate) -> Sequence[Taint]:
        own = candidate.device.taints
        if not self._rules:
            return own
        return (*own, *(rule.taint for rule in self._rules if rule.covers(candidate.key)))

    def _join(self, claim: int, wanted: Wanted, candidate: Candidate, *, must: bool) -> bool:
        """Let the device join every constraint of the claim, or none."""
        joins = self._joins(claim, wanted.asked, candidate)
        if must and not joins:
            what = f"cannot add device {'/'.join(candidate.key)} because a claim constraint would not be satisfied"
            raise AllocationError(
                what,
                claim=str(self._plans[claim].claim),
                request=wanted.asked.name,
                device="/".join(candidate.key),
                fix="a request for all devices needs all of them to satisfy the constraint",
            )
        return joins

    def _joins(self, claim: int, asked: Alternative, candidate: Candidate) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(asked, candidate.device, candidate.slice.driver):
                for joined in reversed(constraints[:index]):
                    joined.remove(asked)
                return False
        return True

    def _promise(self, claim: int, wanted: Wanted, candidate: Candidate, amounts: Amounts) -> None:
        if self._is_shared(candidate):
            self._promised.shares.setdefault(candidate.key, []).append(amounts)
            self.taken[claim].append(Taken(wanted, candidate, amounts))
        else:
            self._promised.devices.setdefault(candidate.key, []).append(claim)
            self.taken[claim].append(Taken(wanted, candidate, None))

    def _give_back(self, claim: int) -> None:
        """Take back what was promised last."""
        taken = self.taken[claim].pop()
        candidate = taken.candidate
        holders: dict[DeviceKey, list[int]] | dict[DeviceKey, list[Amounts]] = (
            self._promised.devices if taken.amounts is None else self._promised.shares
        )
        holders[candidate.key].pop()
        if not holders[candidate.key]:
            del holders[candidate.key]
        self._undo(claim, taken.wanted, candidate, shared=taken.amounts is not None)


def _in_order(candidates: Iterable[Candidate], keys: Iterable[DeviceKey]) -> list[Candidate]:
    """Those of these keys, in their order."""
    named = {candidate.key: candidate for candidate in candidates}
    return [named[key] for key in keys if key in named]
