"""The search for devices on one node: first fit with backtracking, claim by claim, request by request.

The order of attempts, and so the first solution, is that of Kubernetes 1.36 (structured allocator, allocateOne). Within a
request devices are taken in ascending order only, so no set of devices is tried twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dds_core.matching.cel import Attribute
from dds_core.matching.counters import AsIn1362, Exact, Ledger, Tables
from dds_core.matching.devices import lookup
from dds_core.matching.errors import AllocationError
from dds_core.matching.gates import Gates
from dds_core.matching.node_selectors import node_matches
from dds_core.matching.pools import Candidate, NodePools, device_reach
from dds_core.matching.usage import Amounts, InUse, consumption, fits
from dds_core.model import (
    BLOCKING,
    Alternative,
    Claim,
    Constraint,
    Device,
    DeviceClass,
    DeviceKey,
    Node,
    Taint,
    TaintRule,
    Toleration,
)

# -- taints (KEP-5055) -------------------------------------------------------------------------------------------------


def prevented(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether a taint prevents the allocation and no toleration accepts it."""
    return any(taint.effect in BLOCKING and not any(each.tolerates(taint) for each in tolerations) for taint in taints)


# -- constraints -------------------------------------------------------------------------------------------------------

# matchAttribute and distinctAttribute. The search adds the devices of a claim one by one and removes them in reverse order.


class Rule(Protocol):
    """A constraint with the devices added so far. `name`: that of the results (`Alternative.named`)."""

    def add(self, name: str, device: Device, driver: str) -> bool:
        """Add the device if the constraint allows it. Returns whether it does."""

    def remove(self, name: str) -> None:
        """Remove the device that was added last."""


def rules_of(claim: Claim, gates: Gates) -> Sequence[Rule]:
    """The claim's constraints, still without devices. AllocationError for one of an unknown kind."""
    found: list[Rule] = []
    for index, constraint in enumerate(claim.constraints):
        if constraint.match:
            found.append(_Match(constraint, constraint.match))
        elif constraint.distinct:
            found.append(_DistinctByRequest(constraint) if gates.faults else _Distinct(constraint, constraint.distinct))
        else:
            what = f"constraint #{index}: empty constraint (unsupported constraint type?)"
            raise AllocationError(what, claim=claim.path)
    return found


def _equal(one: Attribute, other: Attribute) -> bool:
    return type(one) is type(other) and one == other


class _Values(ABC):
    """A stack with the attribute's values of the added devices. A device without the attribute is refused."""

    def __init__(self, constraint: Constraint, attribute: str) -> None:
        self._constraint = constraint
        self.attribute = attribute
        self._values: list[Attribute] = []

    def add(self, name: str, device: Device, driver: str) -> bool:
        if not self._constraint.concerns(name):
            return True
        value = lookup(device, self.attribute, driver)
        if value is None or not self._fits(value):
            return False
        self._values.append(value)
        return True

    def remove(self, name: str) -> None:
        if self._constraint.concerns(name):
            self._values.pop()

    @abstractmethod
    def _fits(self, value: Attribute) -> bool:
        """Whether the value may be added to the present ones."""


class _Match(_Values):
    """All devices have the same value."""

    def fixed(self, name: str) -> tuple[str, Attribute] | None:
        """The attribute and its value, once a device has fixed it for the devices of this alternative."""
        return (self.attribute, self._values[0]) if self._values and self._constraint.concerns(name) else None

    def _fits(self, value: Attribute) -> bool:
        return not self._values or _equal(value, self._values[0])


class _Distinct(_Values):
    """No two devices have the same value."""

    def _fits(self, value: Attribute) -> bool:
        return not any(_equal(value, each) for each in self._values)


class _DistinctByRequest:
    """`_Distinct` with the fault of 1.36: it keeps only the last value of each request. So the first and third device of a
    request may be equal, and after a removal no value of the request is left."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._values: dict[str, Attribute] = {}

    def add(self, name: str, device: Device, driver: str) -> bool:
        if not self._constraint.concerns(name):
            return True
        value = lookup(device, self._constraint.distinct, driver)
        if value is None or any(_equal(value, each) for each in self._values.values()):
            return False
        self._values[name.partition("/")[0]] = value
        return True

    def remove(self, name: str) -> None:
        if self._constraint.concerns(name):
            self._values.pop(name.partition("/")[0], None)


# -- search ------------------------------------------------------------------------------------------------------------

MOST_RESULTS = 32
"""Most devices of one claim (AllocationResultsMaxSize)."""

SCHEDULER_STEPS = 1_000_000
"""Most steps of a search as the scheduler makes it, up to 16 µs each."""
MOST_STEPS = 3_000
"""Most steps of the searches for one pod on a thread that decides: about 50 ms."""

_DONE, _DEAD_END, _TOO_MANY = "done", "dead end", "too many"
"""How an attempt ends. After "too many" another device does not help, only an alternative that needs fewer devices."""


class OutOfSteps(Exception):
    """The search took too many steps. It stands for the scheduler's filterTimeout, without a clock."""


@dataclass(slots=True)
class Steps:
    """How many devices may still be tried, over all searches that share it. The first look of each search at each device is not
    counted: every search has to take it, and it is linear."""

    left: int


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """An alternative of a request, prepared for the search. `name` is that of its results. `selectors` is the number of its set
    of selectors (class and own)."""

    name: str
    asked: Alternative
    device_class: DeviceClass
    selectors: int


@dataclass(frozen=True, slots=True, eq=False)
class PreparedClaim:
    """A claim prepared for the search: the alternatives of each request."""

    claim: Claim
    requests: tuple[tuple[Wanted, ...], ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """A device chosen for an alternative. `amounts` is set only for a shared device."""

    wanted: Wanted
    candidate: Candidate
    amounts: Amounts | None


@dataclass(slots=True)
class _State:
    """The devices and shares that this search has promised so far."""

    devices: dict[DeviceKey, list[int]] = field(default_factory=dict)
    shares: dict[DeviceKey, list[Amounts]] = field(default_factory=dict)


class Search:
    """One search on one node. Use it once."""

    def __init__(
        self,
        node: Node,
        pools: NodePools,
        prepared: Sequence[PreparedClaim],
        in_use: InUse,
        gates: Gates,
        selected: Callable[[Candidate, Wanted, Claim], bool],
        steps: Steps,
        rules: Sequence[TaintRule] = (),
        tables: Tables | None = None,
        among: Sequence[DeviceKey] | None = None,
        apart: Mapping[DeviceKey, Collection[DeviceKey]] | None = None,
    ) -> None:
        self._node = node
        self._pools = pools
        self._candidates = pools.candidates if among is None else _in_order(pools.candidates, among)
        self._among = None if among is None else frozenset(among)
        self._apart = apart or {}
        self._prepared = prepared
        self._in_use = in_use
        self._gates = gates
        self._selected = selected
        self._rules = rules
        self._steps = steps
        self._free_steps = len(self._candidates) * sum(len(options) for one in prepared for options in one.requests)
        self._promised = _State()
        self._ledger: Ledger = (
            AsIn1362(pools, in_use, self._promised.shares, {} if tables is None else tables)
            if gates.faults
            else Exact(pools, in_use, self._promised.shares)
        )
        self._constraints: list[Sequence[Rule]] = [rules_of(one.claim, gates) for one in prepared]
        self._all: dict[Wanted, list[Candidate]] = {}
        self._eligible: dict[Wanted, list[int]] = {}
        self._matching: dict[tuple[Wanted, object], list[int]] = {}
        self._kinds: dict[int, object] = {}
        self.taken: list[list[Taken]] = [[] for _ in prepared]
        self.chosen: dict[tuple[int, int], int] = {}

    def run(self) -> bool:
        """Whether there is a solution. Then `taken` has the devices by claim, `chosen` the alternatives by claim and request.
        AllocationError when the pod fails on every node, OutOfSteps when the search takes too long."""
        for one in self._prepared:
            self._check_size(one)
        return self._request(0, 0) == _DONE

    # -- before the search ----------------------------------------------------------------------------------

    def give(self, claim: int, name: str, candidate: Candidate) -> bool:
        """Add a device, which the claim already has by this name, to its constraints. Returns whether they allow it."""
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(name, candidate.device, candidate.slice.driver):
                for joined in reversed(constraints[:index]):
                    joined.remove(name)
                return False
        return True

    def _check_size(self, one: PreparedClaim) -> None:
        least = sum(min(self._needs(wanted, one.claim) for wanted in options) for options in one.requests)
        if least > MOST_RESULTS:
            what = f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise AllocationError(what, claim=one.claim.path, fix="ask for fewer devices, or in several claims")

    def _needs(self, wanted: Wanted, claim: Claim) -> int:
        """The number of devices that an alternative takes. For mode All, find them and keep them."""
        if not wanted.asked.all:
            return wanted.asked.count
        found: list[Candidate] = []
        for pool in self._pools.pools:
            if pool.incomplete or pool.invalid:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                what = f"asks for all devices, but resource pool {pool} is {state}"
                raise AllocationError(what, claim=claim.path, request=wanted.name)
            found += [
                each
                for each in pool.candidates
                if self._usable(each, wanted, claim) and self._amounts(each, wanted) is not None
            ]
        self._all[wanted] = found
        return len(found)

    # -- the search -----------------------------------------------------------------------------------------

    def _request(self, claim: int, request: int) -> str:
        if claim == len(self._prepared):
            return _DONE
        requests = self._prepared[claim].requests
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
        """Take the next device of an alternative, which has `had` devices, from place `start` on; then go on with the search."""
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
        """Try the devices from place `start` on. As in Kubernetes, each free device is checked once, since a failing selector
        must be noticed. When all are known (`_eligible`), a branch ends as soon as fewer are left than needed."""
        candidates = self._candidates
        whole, promised, admin = self._in_use.devices, self._promised.devices, wanted.asked.admin
        place, needed = start, wanted.asked.count - had
        in_vain: set[object] = set()  # with admin access devices differ by who has them, too
        while True:
            eligible = self._eligible.get(wanted)
            if eligible is not None:
                eligible = self._of_fixed_values(claim, wanted, eligible)
                first = bisect_left(eligible, place)
                if len(eligible) - first < needed:
                    return _DEAD_END
                place = eligible[first]
            elif place == len(candidates):
                self._eligible[wanted] = self._places(claim, wanted)
                return _DEAD_END
            here, candidate = place, candidates[place]
            place += 1
            if in_vain and self._kind(here) in in_vain:
                continue
            self._count_step()
            if not admin and (candidate.key in whole or candidate.key in promised):
                continue
            if not self._usable(candidate, wanted, self._prepared[claim].claim):
                continue
            if not self._take(claim, wanted, candidate, must=False):
                continue
            end = self._device(claim, request, wanted, had + 1, place)
            if end == _DONE:
                return end
            self._give_back(claim)
            if end == _TOO_MANY:
                return end
            if not admin:
                in_vain.add(self._kind(here))

    def _count_step(self) -> None:
        if self._free_steps:
            self._free_steps -= 1
            return
        self._steps.left -= 1
        if self._steps.left < 0:
            raise OutOfSteps

    def _of_fixed_values(self, claim: int, wanted: Wanted, eligible: list[int]) -> list[int]:
        """Those of the places whose devices have the values that the claim's matchAttribute constraints are fixed to by now. The
        others would be refused one by one. Not with `faults`, since 1.36.2 charges counters for a refused device."""
        if self._gates.faults:
            return eligible
        rules = (rule for rule in self._constraints[claim] if isinstance(rule, _Match))
        fixed = tuple(one for rule in rules if (one := rule.fixed(wanted.name)) is not None)
        if not fixed:
            return eligible
        asked = (wanted, tuple((name, type(value), value) for name, value in fixed))
        found = self._matching.get(asked)
        if found is None:
            found = self._matching[asked] = [place for place in eligible if self._has(self._candidates[place], fixed)]
        return found

    @staticmethod
    def _has(candidate: Candidate, values: Iterable[tuple[str, Attribute]]) -> bool:
        driver, device = candidate.slice.driver, candidate.device
        known = ((lookup(device, name, driver), value) for name, value in values)
        return all(one is not None and _equal(one, value) for one, value in known)

    def _kind(self, place: int) -> object:
        """Equal for devices that are interchangeable in this search: what cannot be completed with one cannot be completed with
        the other. A device that is like no other, or that cannot be judged, is a kind of its own."""
        if place not in self._kinds:
            self._kinds[place] = self._kind_of(self._candidates[place])
        return self._kinds[place]

    def _kind_of(self, candidate: Candidate) -> object:
        device, driver = candidate.device, candidate.slice.driver
        if self._gates.faults or self._is_shared(candidate) or candidate.consumes or candidate.key in self._apart:
            return candidate
        wishes = [(one.claim, wanted) for one in self._prepared for options in one.requests for wanted in options]
        if any(wanted.asked.all for _, wanted in wishes):  # may fail the pod, which depends on the order of devices
            return candidate
        taints = self._taints(candidate) if self._gates.device_taints else ()
        try:
            suits = tuple(
                self._usable(candidate, wanted, claim)
                and self._amounts(candidate, wanted) is not None
                and not prevented(taints, wanted.asked.tolerations)
                for claim, wanted in wishes
            )
        except AllocationError:  # the search itself finds out, if it comes to this device
            return candidate
        names = {rule.attribute for rules in self._constraints for rule in rules if isinstance(rule, _Values)}
        values = ((name, lookup(device, name, driver)) for name in sorted(names))
        return suits, tuple((name, type(value), value) for name, value in values)

    def _places(self, claim: int, wanted: Wanted) -> list[int]:
        """The places of the devices that are not in use and that the selectors select. Devices promised by this search are
        included without a check: a selector may fail on them, and Kubernetes would not evaluate it."""
        taken, promised = ((), ()) if wanted.asked.admin else (self._in_use.devices, self._promised.devices)
        return [
            place
            for place, candidate in enumerate(self._candidates)
            if candidate.key not in taken
            and (candidate.key in promised or self._usable(candidate, wanted, self._prepared[claim].claim))
        ]

    def _usable(self, candidate: Candidate, wanted: Wanted, claim: Claim) -> bool:
        """Whether the selectors select the device and the node reaches it, in use or not."""
        device = candidate.device
        if device.binding and not self._gates.binding_conditions:
            return False
        found = candidate.matches.get(wanted.selectors)
        if found is None:
            found = candidate.matches[wanted.selectors] = self._selected(candidate, wanted, claim)
        if not found or not candidate.slice.per_device:
            return found
        reach = device_reach(device)
        return reach if isinstance(reach, bool) else node_matches(reach, self._node.name, self._node.labels)

    # -- one device -----------------------------------------------------------------------------------------

    def _take(self, claim: int, wanted: Wanted, candidate: Candidate, *, must: bool) -> bool:
        """Promise the device to the alternative if possible. With `faults`, the charges and constraints of a device that is
        refused late stay, as in 1.36.2 (Kubernetes issue 140436)."""
        if self._is_taken(claim, wanted, candidate):
            return False
        amounts = self._amounts(candidate, wanted)
        if amounts is None and not must:
            return False
        shared = self._is_shared(candidate)
        if candidate.consumes and not self._gates.partitionable_devices:
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
        """Mode All: the capacity of a device was used up by this search after the devices were counted."""
        shared = self._is_shared(candidate)
        if self._gates.faults:
            if not shared:
                self._promised.devices.setdefault(candidate.key, []).append(claim)
            return
        self._undo(claim, wanted, candidate, shared=shared)

    def _undo(self, claim: int, wanted: Wanted, candidate: Candidate, *, shared: bool) -> None:
        """Undo the charges of the device and remove it from the constraints."""
        self._ledger.give_back(candidate, shared=shared)
        for constraint in reversed(self._constraints[claim]):
            constraint.remove(wanted.name)

    def _is_taken(self, claim: int, wanted: Wanted, candidate: Candidate) -> bool:
        """Whether the device is in use or promised, not in `among` (mode All may want others), or kept apart from a promised
        one. A request with admin access sees only the devices of its own claim."""
        if self._among is not None and candidate.key not in self._among:
            return True
        whole, shares = self._promised.devices, self._promised.shares
        if self._apart and any(other in whole or other in shares for other in self._apart.get(candidate.key, ())):
            return True
        promised = whole.get(candidate.key, ())
        if wanted.asked.admin:
            return claim in promised
        if candidate.key in self._in_use.devices or promised:
            return True
        return not self._is_shared(candidate) and candidate.key in self._in_use.shares

    def _amounts(self, candidate: Candidate, wanted: Wanted) -> Amounts | None:
        """What the request takes of the device's capacities; None if the device cannot give it."""
        device, asked = candidate.device, wanted.asked
        if not self._gates.consumable_capacity or not (device.shared or asked.capacity):
            return {}
        amounts = consumption(asked.capacity, device)
        if amounts is None:
            return None
        consumed = self._in_use.consumed.get(candidate.key, {})
        return amounts if fits(amounts, device, consumed, self._shared_out(candidate.key)) else None

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
        """Add the device to all constraints of the claim, or to none. AllocationError in mode All (`must`) when one refuses
        it."""
        joins = self.give(claim, wanted.name, candidate)
        if must and not joins:
            what = f"cannot add device {'/'.join(candidate.key)} because a claim constraint would not be satisfied"
            raise AllocationError(
                what,
                claim=self._prepared[claim].claim.path,
                request=wanted.name,
                device="/".join(candidate.key),
                fix="a request for all devices needs all of them to satisfy the constraint",
            )
        return joins

    def _promise(self, claim: int, wanted: Wanted, candidate: Candidate, amounts: Amounts) -> None:
        if self._is_shared(candidate):
            self._promised.shares.setdefault(candidate.key, []).append(amounts)
            self.taken[claim].append(Taken(wanted, candidate, amounts))
        else:
            self._promised.devices.setdefault(candidate.key, []).append(claim)
            self.taken[claim].append(Taken(wanted, candidate, None))

    def _give_back(self, claim: int) -> None:
        """Undo the last promise."""
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
    """The candidates with these keys, in the order of the keys."""
    named = {candidate.key: candidate for candidate in candidates}
    return [named[key] for key in keys if key in named]
