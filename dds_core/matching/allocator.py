"""The scheduler's choice of devices: which ones the claims of a pod get on a node, or why none.

A reimplementation of Kubernetes 1.36's structured allocator. The caller passes in slices, classes and taint rules as they
change, keeps `InUse`, and asks node by node. The same input always gives the same answer. The caller also supplies the
identifiers of shares, because they are random.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from dds_core.matching import cel
from dds_core.matching.counters import Tables
from dds_core.matching.errors import AllocationError, SelectorError
from dds_core.matching.gates import Gates
from dds_core.matching.node_selectors import NodeSelector, node_matches
from dds_core.matching.pools import Candidate, Inventory, Pool
from dds_core.matching.results import Allocation, allocation, score
from dds_core.matching.search import MOST_STEPS, SCHEDULER_STEPS, OutOfSteps, PreparedClaim, Search, Steps, Wanted
from dds_core.matching.usage import InUse
from dds_core.model import Alternative, Claim, DeviceClass, DeviceKey, Node, Slice, TaintRule

__all__ = [
    "MOST_STEPS",
    "TIMED_OUT",
    "Allocation",
    "AllocationError",
    "Allocator",
    "Fit",
    "Gates",
    "InUse",
    "NodeSelector",
    "OutOfSteps",
    "SelectorError",
    "Steps",
    "Tables",
    "node_matches",
]

TIMED_OUT = "timed out trying to allocate devices"
"""Why there is no answer after too many steps."""

SELECTORS_KEPT = 4096
"""Number of sets of selectors whose results are cached. When it is reached, the cache is emptied."""


Given = tuple[int, str, DeviceKey]
"""(index of a claim, name, device): a device that the claim already has in a result of this name."""


class Fit(Struct, frozen=True):
    """The answer for a node. True when the claims fit: an allocation for each claim, in their order, and the score of the
    chosen alternatives. Otherwise `reason` says why not."""

    allocations: tuple[Allocation, ...] = ()
    score: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class Allocator:
    """Chooses devices. It keeps slices, classes and rules by name, and only reads `in_use`, which the caller changes."""

    def __init__(
        self,
        slices: Iterable[Slice] = (),
        classes: Iterable[DeviceClass] = (),
        in_use: InUse | None = None,
        gates: Gates | None = None,
        rules: Iterable[TaintRule] = (),
        *,
        share_id: Callable[[], str] | None = None,
        steps: int = SCHEDULER_STEPS,
        forgiving: bool = False,
    ) -> None:
        """`share_id` returns a new UUID for each share (needed as soon as a device is shared). `steps` limits one search (the
        scheduler's filterTimeout without a clock). `forgiving`: a selector that
        fails on a device does not select it, instead of failing the pod."""
        self.in_use = in_use if in_use is not None else InUse()
        self.gates = gates if gates is not None else Gates()
        self._inventory = Inventory(slices, self.gates)
        self._classes = {each.name: each for each in classes}
        self._rules = {each.name: each for each in rules}
        self._share_id = share_id if share_id is not None else _no_share_id
        self._steps = steps
        self._forgiving = forgiving
        self._selectors: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        self._numbers = 0
        self._last_prepared: tuple[tuple[Claim, ...], tuple[PreparedClaim, ...]] = ((), ())

    # -- what is there --------------------------------------------------------------------------------------

    def put_slice(self, slice_: Slice) -> None:
        """Add a slice, or replace the slice of this name."""
        self._inventory.put(slice_)

    def remove_slice(self, name: str) -> None:
        self._inventory.remove(name)

    def put_class(self, device_class: DeviceClass) -> None:
        self._classes[device_class.name] = device_class
        self._last_prepared = ((), ())

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._last_prepared = ((), ())

    def put_rule(self, rule: TaintRule) -> None:
        """Add or replace a taint rule. It has an effect only when the gates of taints and taint rules are on."""
        self._rules[rule.name] = rule

    def remove_rule(self, name: str) -> None:
        self._rules.pop(name, None)

    # -- the choice -----------------------------------------------------------------------------------------

    def allocate(
        self,
        node: Node,
        claims: Sequence[Claim],
        tables: Tables | None = None,
        *,
        among: Sequence[DeviceKey] | None = None,
        given: Sequence[Given] = (),
        apart: Mapping[DeviceKey, Collection[DeviceKey]] | None = None,
        steps: Steps | None = None,
    ) -> Fit:
        """Devices on this node for these claims of a pod, none of which has an allocation yet.

        `tables`, empty at first, holds the counters that 1.36.2 keeps from one node to the next during the attempt for a pod;
        it is used with `Gates.faults` only. `among`: choose only from these devices, in this order. A request for all devices
        then fails if one of them is not in `among`. `given` are devices that a claim already has and keeps; they count for its
        constraints. `apart` has for each device the devices that may not be allocated together with it. `steps`: a limit that
        several searches share; None for that of the allocator.

        AllocationError when the pod fits no node until something is changed: a selector fails, a class does not exist, a gate
        is off, or a request asks for all devices while a pool is being updated. Fastest when the same claims are asked for on
        one node after the other.
        """
        prepared = self._prepared(tuple(claims))
        pools = self._inventory.pools(node)
        obeyed = self.gates.device_taints and self.gates.device_taint_rules
        bare = self.gates.taint_without_selector
        rules = tuple([one for one in self._rules.values() if one.selects or bare]) if obeyed else ()
        steps = steps if steps is not None else Steps(self._steps)
        search = Search(
            node, pools, prepared, self.in_use, self.gates, self._selected, steps, rules, tables, among, apart
        )
        for claim, name, key in given:
            newest = max(self._inventory.named(key), key=lambda one: one.slice.generation, default=None)
            if newest is None or not search.give(claim, name, newest):
                return Fit(reason="a device that a claim keeps does not satisfy its constraints, or is not known")
        try:
            found = search.run()
        except OutOfSteps:
            return Fit(reason=TIMED_OUT)
        if not found:
            return Fit(
                reason="invalid resource pools were encountered" if pools.any_invalid else "cannot allocate all claims"
            )
        allocations = tuple([allocation(taken, node.name, self.gates, self._share_id) for taken in search.taken])
        return Fit(allocations, score(prepared, search.chosen))

    def reachable(self, node: Node) -> tuple[Pool, ...]:
        """The pools with devices for the node, in the order of choice. The same objects until their slices change."""
        return tuple(self._inventory.pools(node).pool_of.values())

    def selects(self, claim: Claim, key: DeviceKey) -> bool:
        """Whether class and selectors of some request of the claim accept this device, free or not.

        Also true when that cannot be judged: the class does not exist, a selector fails, or no slice lists the device.
        """
        return self.refusal(claim, key) is None

    def refusal(self, claim: Claim, key: DeviceKey, *, doubt: bool = False) -> str | None:
        """Why class and selectors of no request of the claim accept this device: the selector of the first request that refuses
        it. None when one accepts it. What cannot be judged counts as refused only with `doubt`."""
        found = self._inventory.named(key)
        if not found:
            return "no slice lists it" if doubt else None
        words = "the claim asks for nothing"
        wanted = ((request.name, one) for request in claim.requests for one in request.alternatives)
        for place, (request, asked) in enumerate(wanted):
            for candidate in found:
                try:
                    refused = self._refused(candidate, self._wanted(claim, request, asked), claim)
                except AllocationError as error:
                    refused = error.what if doubt else None
                if refused is None:
                    return None
                words = refused if not place else words
        return words

    # -- claims made ready ----------------------------------------------------------------------------------

    def _prepared(self, claims: tuple[Claim, ...]) -> tuple[PreparedClaim, ...]:
        """The prepared form of the last claims is cached, since the caller asks for the same claims on many nodes."""
        if self._last_prepared[0] != claims or not claims:
            if len(self._selectors) >= SELECTORS_KEPT:  # a number in use must not be given to other selectors
                self._selectors.clear()
                for candidate in self._inventory.candidates():
                    candidate.matches.clear()
            self._last_prepared = (claims, tuple(self._prepare(claim) for claim in claims))
        return self._last_prepared[1]

    def _prepare(self, claim: Claim) -> PreparedClaim:
        found = []
        for request in claim.requests:
            if request.prioritized and not self.gates.prioritized_list:
                raise _switched_off("has subrequests", "DRAPrioritizedList", claim, request.name)
            found.append(tuple(self._wanted(claim, request.name, asked) for asked in request.alternatives))
        return PreparedClaim(claim, tuple(found))

    def _wanted(self, claim: Claim, request: str, asked: Alternative) -> Wanted:
        name = asked.named(request)
        if (asked.capacity or "capacity" in asked.empty) and not self.gates.consumable_capacity:
            raise _switched_off("has capacity requests", "DRAConsumableCapacity", claim, name)
        if (asked.admin or "adminAccess" in asked.empty) and not self.gates.admin_access:
            raise _switched_off("admin access is requested", "DRAAdminAccess", claim, name)
        if "" in asked.selectors:
            what = f"selector #{asked.selectors.index('')}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(what, claim=claim.path, request=name)
        if asked.unknown_mode:
            raise AllocationError(f"unsupported count mode {asked.unknown_mode}", claim=claim.path, request=name)
        found = self._classes.get(asked.device_class)
        if found is None:
            what = (
                f"could not retrieve device class {asked.device_class}: not found"
                if asked.device_class
                else "missing device class name"
            )
            raise AllocationError(what, claim=claim.path, request=name, fix="create the DeviceClass, or name another")
        return Wanted(name, asked, found, self._number(found.selectors, asked.selectors))

    # -- selectors ------------------------------------------------------------------------------------------

    def _number(self, of_class: tuple[str, ...], own: tuple[str, ...]) -> int:
        """The number under which candidates cache whether these selectors select them. It is never used again."""
        found = self._selectors.get((of_class, own))
        if found is None:
            self._numbers += 1
            found = self._selectors[of_class, own] = self._numbers
        return found

    def _selected(self, candidate: Candidate, wanted: Wanted, claim: Claim) -> bool:
        """Whether all selectors, first of the class and then of the request, select the device."""
        try:
            return self._refused(candidate, wanted, claim) is None
        except AllocationError:
            if self._forgiving:
                return False
            raise

    def _refused(self, candidate: Candidate, wanted: Wanted, claim: Claim) -> str | None:
        """The first selector that does not select the device; None when all do. AllocationError when one fails."""
        view = candidate.view()
        try:
            for expression in (*wanted.device_class.selectors, *wanted.asked.selectors):
                if not cel.compile(expression).matches(view):
                    return expression
        except SelectorError as error:
            device = "/".join(candidate.key)
            own = error.expression in wanted.asked.selectors
            owner = "selector" if own else f"class {wanted.device_class.name}: selector"
            raise AllocationError(
                f"{owner} {error.expression[:200]!r} on device {device}: {error.reason}",
                claim=claim.path,
                request=wanted.name,
                device=device,
                expression=error.expression,
                fix="guard names that a device may lack with `'name' in device.attributes['domain']`",
            ) from error
        return None


def _switched_off(what: str, gate: str, claim: Claim, request: str) -> AllocationError:
    return AllocationError(f"{what}, but {gate} is off", claim=claim.path, request=request, fix=f"switch {gate} on")


def _no_share_id() -> str:
    raise AllocationError("a device is shared and nobody gives identifiers", fix="give the Allocator a `share_id`")
