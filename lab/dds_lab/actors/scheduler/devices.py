"""The scheduler's DynamicResources plugin: which claims a pod needs, whether a node can serve them, with what, how well.

Device choice itself is `dds_core.matching`. This module must never write anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dds_lab.actors.objects import allocation_of, reservations
from dds_lab.actors.scheduler.claims import (
    FAILED,
    MOST_RESERVATIONS,
    TIMED_OUT,
    Claims,
    ExtendedResources,
    is_reserved_for,
    is_special,
    readiness,
    special_claim,
)
from dds_lab.actors.scheduler.feasibility import Refusal, node_selects
from dds_lab.actors.scheduler.inventory import NOTHING, Chosen, Inventory, Wanted
from dds_lab.actors.scheduler.nodes import Node
from dds_lab.actors.scheduler.pods import Object, Pod

PLUGIN = "DynamicResources"
NOT_AVAILABLE = Refusal(PLUGIN, ("resourceclaim not available on the node",))
CANNOT_ALLOCATE = Refusal(PLUGIN, ("cannot allocate all claims",))
TOO_SLOW = Refusal(PLUGIN, ("timed out trying to allocate devices",))


def refusal(reason: str) -> Refusal:
    """A refusal of this plugin; removing pods does not cure it."""
    return Refusal(PLUGIN, (reason,))


def missing_claim(pod: Pod, claims: Claims) -> str:
    """Why the pod's claims are not all there ("" when they are): such a pod is not tried."""
    for name, claim in pod.claims:
        if claim is None:
            return f"pod {pod.key}: the claim for {name} is not generated yet"
        found = claims.get(f"{pod.namespace}/{claim}")
        if found is None:
            return f'resourceclaim "{claim}" not found'
        if "deletionTimestamp" in found["metadata"]:
            return f'resourceclaim "{claim}" is being deleted'
    return ""


@dataclass(slots=True, eq=False)
class PodDevices:
    """The devices side of one attempt for one pod."""

    pod: Pod
    claims: list[Object]
    """Its claims in the pod's order; last, if it has one, the special claim that exists already."""
    available: Availability
    inventory: Inventory
    extended: ExtendedResources
    by_claim: tuple[str, ...] = ()
    """Extended resources that devices may serve."""
    cost: Callable[[], float] = lambda: 0.0
    """Seconds that the allocator takes for a node."""
    limit: float = 0.0
    slow: bool = False
    """Whether that cost can matter."""
    unavailable: dict[int, None] = field(default_factory=dict)
    """Indexes of claims that were not available on some node."""
    chosen: dict[str, Chosen] = field(default_factory=dict)
    specials: dict[str, tuple[Object, list[Object]]] = field(default_factory=dict)
    """By node: the special claim it would take, and what its requests stand for."""
    _wanted: list[Wanted] = field(default_factory=list)
    _kind: tuple[str, ...] = ()
    _allocated: list[tuple[int, Object]] = field(default_factory=list)
    _special_claims: dict[tuple[str, ...], tuple[Object, list[Object], Wanted]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted = [self.inventory.wanted(claim) for claim in self.unallocated()]
        self._kind = tuple(one.kind for one in self._wanted)
        self._allocated = [
            (place, claim) for place, claim in enumerate(self.claims) if allocation_of(claim) is not None
        ]

    @property
    def kind(self) -> tuple[str, ...] | None:
        """Equal for pods of which the same devices are asked; None where it depends on more than what is free."""
        return None if self._allocated or self.by_claim or self.slow else self._kind

    @property
    def idle(self) -> bool:
        """Whether the pod has nothing to do with devices."""
        return not self.claims and not self.by_claim

    @property
    def hopeless(self) -> bool:
        """Whether a claim is allocated that can be used on no node."""
        return not all(self.available.anywhere(claim) for _, claim in self._allocated)

    @property
    def alike(self) -> bool:
        """Whether a hopeless pod hears the same of every node: it has but one claim."""
        return len(self.claims) == 1 and not self.by_claim

    @property
    def ranked(self) -> bool:
        """Whether nodes can differ by which alternatives they offer."""
        return any(
            "firstAvailable" in one for claim in self.unallocated() for one in claim["spec"]["devices"]["requests"]
        )

    def unallocated(self) -> list[Object]:
        """The claims that this attempt allocates, in the pod's order."""
        return [claim for claim in self.claims if allocation_of(claim) is None]

    def check(self, node: Node) -> Refusal | None:
        """Filter: whether every claim is available on the node, or can be allocated there."""
        missing = [place for place, claim in self._allocated if not self.available.on(claim, node)]
        special = self._special(node) if self.by_claim else None
        wanted, kind = self._wanted, self._kind
        if special is not None:
            wanted, kind = [*wanted, special[2]], (*kind, special[2].kind)
        chosen = self.inventory.choose(node, wanted, kind) if wanted else None
        if wanted and self.limit and self.cost() > self.limit:
            return TOO_SLOW
        if chosen is not None and chosen.reason:
            return CANNOT_ALLOCATE if chosen.reason == NOTHING else refusal(chosen.reason)
        if missing:
            self.unavailable.update(dict.fromkeys(missing))
            return NOT_AVAILABLE
        if chosen is not None:
            self.chosen[node.name] = chosen
        if special is not None:
            self.specials[node.name] = special[:2]
        return None

    def score(self, node: Node) -> int:
        """How early in their lists the alternatives are that the node offers."""
        chosen = self.chosen.get(node.name)
        return chosen.score if chosen is not None else 0

    def _special(self, node: Node) -> tuple[Object, list[Object], Wanted] | None:
        """The special claim that the pod would take on this node, None when it takes none or has one already."""
        resources = tuple(name for name in self.by_claim if name not in node.allocatable)
        if not resources or any(is_special(claim, self.pod) for claim in self.claims):
            return None
        if resources not in self._special_claims:
            claim, mappings = special_claim(self.pod, resources, self.extended)
            self._special_claims[resources] = (claim, mappings, self.inventory.wanted(claim))
        return self._special_claims[resources]


class Availability:
    """Whether an allocated claim is usable: on a node by its node selector, and anywhere only if its devices have neither failed
    nor timed out. For one attempt: what a claim's status says is looked at once and not for each node."""

    def __init__(self, binding_conditions: bool, now: int, timeout: float) -> None:
        self._binding_conditions = binding_conditions
        self._now = now
        self._timeout = timeout
        self._known: dict[str, bool] = {}

    def anywhere(self, claim: Object) -> bool:
        """Whether there may be a node on which the claim can be used."""
        uid = claim["metadata"]["uid"]
        if uid not in self._known:
            self._known[uid] = allocation_of(claim) is None or not self._lost(claim)
        return self._known[uid]

    def on(self, claim: Object, node: Node) -> bool:
        """Whether the claim can be used on the node, or be allocated there."""
        allocation = allocation_of(claim)
        if allocation is None:
            return True
        return self.anywhere(claim) and node_selects(allocation.get("nodeSelector"), node.name, node.labels)

    def _lost(self, claim: Object) -> bool:
        return self._binding_conditions and readiness(claim, self._now, self._timeout).state in (FAILED, TIMED_OUT)


def before_nodes(pod: Pod, found: list[Object], claims: Claims, inventory: Inventory) -> Refusal | None:
    """PreFilter: what stands against the pod before any node is looked at."""
    for claim in found:
        meta = claim["metadata"]
        if allocation_of(claim) is not None:
            if len(reservations(claim)) >= MOST_RESERVATIONS and not is_reserved_for(claim, pod):
                return refusal("resourceclaim in use")
            continue
        if claims.in_flight(meta["uid"]):
            return refusal(f"resource claim {meta['namespace']}/{meta['name']} is in the process of being allocated")
        for request in claim["spec"]["devices"]["requests"]:
            for name, wanted in _classes(request):
                if not inventory.has_class(wanted):
                    return refusal(f"request {name}: device class {wanted} does not exist")
    return None


def _classes(request: Object) -> list[tuple[str, str]]:
    name = request["name"]
    if "firstAvailable" in request:
        return [(f"{name}/{one['name']}", one["deviceClassName"]) for one in request["firstAvailable"]]
    return [(name, request["exactly"]["deviceClassName"])]
