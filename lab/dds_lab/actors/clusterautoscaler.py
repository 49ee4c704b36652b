"""A simulated Cluster Autoscaler with an external gRPC provider. It makes the same calls in the same order, simulates
scale-up and scale-down, and repeats the real one's mistakes about pool devices.

It follows the source of 1.35 and 1.36: core/static_autoscaler.go (the loop), clusterstate (instances, timeouts, back-off),
core/scaleup (estimates on a template), core/scaledown (utilization, simulated removal, taint, drain, deletion). Of dds it knows
only the provider's interface. The mistakes: copying a node's pods for a template fails if a claim holds a pool device (`stopped`
counts that), and a node with fewer pools than its group's last good node counts as not ready.

Left out: expanders (the group that takes most pods is chosen), pods of controllers, daemon sets, budgets, soft taints, several
deletions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dds_adapters.autoscaler.provider import Away, Provider, ProviderError
from dds_core.autoscaler.model import Group, GroupsView, NodeRef, Template
from dds_core.autoscaler.records import DELETED_BY_CA, STARTING
from dds_core.matching.allocator import Allocator, Gates, InUse, NodeSelector
from dds_core.matching.errors import AllocationError
from dds_core.matching.from_api import read_claim, read_class, read_node, read_slice
from dds_core.matching.node_selectors import node_matches
from dds_core.matching.quantities import NANO, parse
from dds_core.model import Node
from dds_lab.actors.objects import allocation_of, claim_statuses, results, tolerates
from dds_lab.client import ApiError, Client, Object
from dds_lab.time import MICROSECONDS, Time, Timer

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
UNITS = {"cpu": 1000, "memory": 1}
LONGEST_BACKOFF, DRAIN = 1800.0, 120.0
"""Seconds."""
THRESHOLD = 0.5
"""The highest utilization of a node that may be removed."""
Room = dict[str, int]


@dataclass(frozen=True)
class CaSettings:
    """Seconds, each named after the autoscaler's flag; `scan` is scan-interval, `taint` is node-delete-delay-after-taint."""

    scan: float = 10.0
    unneeded: float = 600.0
    after_add: float = 600.0
    provision: float = 900.0
    backoff: float = 300.0
    taint: float = 5.0


@dataclass(frozen=True)
class Did:
    """An action: grow, refused, give up, remove or evict. `what`: names of the pods that caused it, or of the nodes or
    instances."""

    at: int
    kind: str
    group: str
    what: tuple[str, ...]
    number: int = 0


Told = Callable[[Did], None]


@dataclass
class _Backoff:
    until: int
    seconds: float


@dataclass
class _Deletion:
    node: str
    group: str
    due: int
    evicted: bool = False
    until: int = 0


class ClusterAutoscaler:
    """One process. A restart is a new object without any memory. `provider` is called once in each loop."""

    def __init__(
        self,
        client: Client,
        time: Time,
        provider: Callable[[], Provider],
        settings: CaSettings,
        told: Told = lambda did: None,
        saw: Callable[[GroupsView], None] = lambda view: None,
    ) -> None:
        self.stopped = 0  # loops that ended early: a pod on a node of a group holds a pool device
        self._client = client
        self._time = time
        self._provider = provider
        self._settings = settings
        self._told = told
        self._saw = saw
        self._first = True
        self._next: Timer | None = None
        self._backoffs: dict[str, _Backoff] = {}
        self._unneeded: dict[str, int] = {}
        self._added_at = 0
        self._seen_creating: dict[str, int] = {}
        self._pools: dict[str, int] = {}
        self._deletion: _Deletion | None = None

    def start(self) -> None:
        self._next = self._time.after(1.0, self._loop)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _loop(self) -> None:
        self._next = self._time.after(self._settings.scan, self._loop)
        try:
            self._run(self._provider())
        except (Away, ApiError):
            return

    def _run(self, provider: Provider) -> None:
        if self._deletion is not None:
            self._go_on(provider, self._deletion)
        provider.refresh()
        view = provider.view()
        self._saw(view)
        cluster = Cluster(self._client)
        if self._first:
            # Remove the taints that an earlier process left on nodes of the groups.
            for node in cluster.nodes.values():
                if _tainted(node, DELETED_BY_CA) and view.group_of(_ref(node)) is not None:
                    self._untaint(node)
            self._first = False
        groups = {group.id: self._members(view, group, cluster) for group in view.groups}
        if any(self._copied(members, cluster) for members in groups.values()):
            self.stopped += 1
            return
        self._delete_failed(provider, view, cluster)
        upcoming = {group.id: self._upcoming(group, groups[group.id], cluster) for group in view.groups}
        self._pools = {group.id: self._expected(group.id, groups[group.id], cluster) for group in view.groups}
        simulated = Simulation(cluster, [(group, upcoming[group.id]) for group in view.groups])
        left = [pod for pod in cluster.unschedulable() if not simulated.place(pod)]
        if left and self._grow(provider, view, simulated, left):
            return
        self._shrink(provider, view, groups, cluster)

    def _members(self, view: GroupsView, group: Group, cluster: Cluster) -> list[Object]:
        return [
            node for node in cluster.nodes.values() if (found := view.group_of(_ref(node))) and found.id == group.id
        ]

    def _copied(self, members: list[Object], cluster: Cluster) -> bool:
        """Whether no template can be built: a pod on the example node holds a device that is not the node's own."""
        good = next((one for one in members if _ready(one) and not _tainted(one, DELETED_BY_CA)), None)
        return good is not None and any(
            cluster.holds_of_a_pool(claim)
            for pod in cluster.pods_on(_name(good))
            for claim in cluster.claims_of(pod) or ()
        )

    # -- scale-up

    def _delete_failed(self, provider: Provider, view: GroupsView, cluster: Cluster) -> None:
        """Delete instances that failed or did not register in time, and back off their group."""
        known = {one["spec"].get("providerID") for one in cluster.nodes.values()}
        creating = {}
        for group in view.groups:
            for one in group.instances:
                if one.id in known or one.state != "creating":
                    continue
                since = creating[one.id] = self._seen_creating.get(one.id, self._time.now())
                late = self._time.now() - since > self._settings.provision * MICROSECONDS
                if one.code or late:
                    self._back_off(group.id)
                    self._did("give up", group.id, (one.id,))
                    self._ask(lambda id=one.id, group=group.id: provider.delete(group, [NodeRef(id, id)]))  # type: ignore[misc]
        self._seen_creating = creating

    def _upcoming(self, group: Group, members: list[Object], cluster: Cluster) -> int:
        ready = sum(self._is_ready(group.id, one, cluster) for one in members)
        deleted = sum(_tainted(one, DELETED_BY_CA) for one in members)
        return max(0, group.target - ready + deleted) if not self._is_backed_off(group.id) else 0

    def _is_ready(self, group: str, node: Object, cluster: Cluster) -> bool:
        """Ready as the autoscaler counts it: by the Ready condition, and by the number of pools that the last template had."""
        if not _ready(node) or _tainted(node, STARTING.key):
            return False
        return cluster.pools_of(_name(node)) >= self._pools.get(group, 0)

    def _expected(self, group: str, members: list[Object], cluster: Cluster) -> int:
        """The number of pools of the next template: that of the first good node, else that of the last template."""
        good = next((one for one in members if _ready(one) and not _tainted(one, DELETED_BY_CA)), None)
        return cluster.pools_of(_name(good)) if good is not None else self._pools.get(group, 0)

    def _grow(self, provider: Provider, view: GroupsView, simulated: Simulation, left: list[Object]) -> bool:
        """Grow the group whose template takes most of the pods. True when the provider accepted."""
        best: tuple[int, Group, list[Object]] | None = None
        for group in view.groups:
            if self._is_backed_off(group.id):
                continue
            if group.target >= group.maximum or group.template is None:
                continue
            number, pods = simulated.estimate(group, left, group.maximum - group.target)
            if number and (best is None or len(pods) > len(best[2])):
                best = (number, group, pods)
        if best is None:
            return False
        number, group, pods = best
        self._did("grow", group.id, tuple(map(_name, pods)), number)
        if not self._ask(lambda: provider.increase(group.id, number)):
            self._did("refused", group.id, tuple(map(_name, pods)), number)
            self._back_off(group.id)
            return False
        self._added_at = self._time.now()
        return True

    def _is_backed_off(self, group: str) -> bool:
        backoff = self._backoffs.get(group)
        return backoff is not None and backoff.until > self._time.now()

    def _back_off(self, group: str) -> None:
        last = self._backoffs.get(group)
        seconds = min(LONGEST_BACKOFF, last.seconds * 2) if last is not None else self._settings.backoff
        self._backoffs[group] = _Backoff(self._time.now() + round(seconds * MICROSECONDS), seconds)

    # -- scale-down

    def _shrink(self, provider: Provider, view: GroupsView, groups: dict[str, list[Object]], cluster: Cluster) -> None:
        now, settings = self._time.now(), self._settings
        unneeded: dict[str, int] = {}
        for group in view.groups:
            for node in groups[group.id]:
                if self._is_unneeded(node, cluster):
                    unneeded[_name(node)] = self._unneeded.get(_name(node), now)
        self._unneeded = unneeded
        if self._deletion is not None or (now - self._added_at < settings.after_add * MICROSECONDS and self._added_at):
            return
        for group in provider.view().groups:  # read anew: this loop's own requests count already
            for node in groups.get(group.id, ()):
                since = unneeded.get(_name(node))
                if (
                    since is not None
                    and now - since >= settings.unneeded * MICROSECONDS
                    and group.target > group.minimum
                ):
                    self._begin(node, group.id)
                    return

    def _is_unneeded(self, node: Object, cluster: Cluster) -> bool:
        name = _name(node)
        if not _ready(node) or _tainted(node, DELETED_BY_CA) or _tainted(node, STARTING.key):
            return False
        if cluster.utilization(node) > THRESHOLD:
            return False
        moved = Simulation(cluster, (), without=name)
        return all(_may_move(pod) and moved.place(pod, anew=True) for pod in cluster.pods_on(name))

    def _begin(self, node: Object, group: str) -> None:
        taints = [*(node["spec"].get("taints") or ()), {"key": DELETED_BY_CA, "effect": "NoSchedule"}]
        self._client.patch("nodes", _name(node), {"spec": {"taints": taints, "unschedulable": True}})
        due = self._time.now() + round(self._settings.taint * MICROSECONDS)
        self._deletion = _Deletion(_name(node), group, due)

    def _go_on(self, provider: Provider, deletion: _Deletion) -> None:
        """Continue a deletion: evict the pods that are bound now, then delete the node."""
        now = self._time.now()
        if now < deletion.due:
            return
        cluster = Cluster(self._client)
        node = cluster.nodes.get(deletion.node)
        if node is None:
            self._deletion = None
            return
        bound = [pod for pod in cluster.pods_on(deletion.node) if pod["spec"].get("nodeName") == deletion.node]
        if bound and not deletion.evicted:
            deletion.evicted, deletion.until = True, now + round(DRAIN * MICROSECONDS)
            for pod in bound:
                self._did("evict", deletion.group, (_name(pod), deletion.node))
                self._client.evict(_name(pod), pod["metadata"]["namespace"])
            return
        if bound and now < deletion.until:
            return
        self._deletion = None
        removed = False
        try:
            if not bound and provider.view().group_of(_ref(node)) is not None:
                self._did("remove", deletion.group, (deletion.node,))
                removed = self._ask(lambda: provider.delete(deletion.group, [_ref(node)]))
        finally:  # also when the provider does not answer
            if not removed:
                self._did("refused", deletion.group, (deletion.node,))
                self._untaint(node)
                self._unneeded.pop(deletion.node, None)

    def _untaint(self, node: Object) -> None:
        left = [one for one in node["spec"].get("taints") or () if one["key"] != DELETED_BY_CA]
        self._client.patch("nodes", _name(node), {"spec": {"taints": left or None, "unschedulable": None}})

    def _ask(self, call: Callable[[], None]) -> bool:
        try:
            call()
        except Away:
            raise
        except ProviderError:
            return False
        return True

    def _did(self, kind: str, group: str, what: tuple[str, ...], number: int = 0) -> None:
        self._told(Did(self._time.now(), kind, group, what, number))


class Cluster:
    """A snapshot of the cluster, read with list calls."""

    def __init__(self, client: Client) -> None:
        self.nodes = {_name(one): one for one in client.list("nodes")}
        self.pods = [
            one for one in client.list("pods") if one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        self.claims = {(_namespace(one), _name(one)): one for one in client.list("resourceclaims")}
        self.slices = client.list("resourceslices")
        self.classes = client.list("deviceclasses")
        self._local = {
            (one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in self.slices if one["spec"].get("nodeName")
        }

    def pods_on(self, node: str) -> Iterator[Object]:
        """Pods that are bound or nominated to the node."""
        return (pod for pod in self.pods if node in (pod["spec"].get("nodeName"), _nominated(pod)))

    def unschedulable(self) -> list[Object]:
        """Pods that the scheduler marked Unschedulable and did not nominate to a node."""
        found = []
        for pod in self.pods:
            if pod["spec"].get("nodeName") or _nominated(pod) or "deletionTimestamp" in pod["metadata"]:
                continue
            conditions = pod.get("status", {}).get("conditions") or ()
            if any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions):
                found.append(pod)
        return found

    def claims_of(self, pod: Object) -> list[Object] | None:
        """None while one of the pod's claims does not exist yet; such a pod fits nowhere."""
        made = {one["name"]: one.get("resourceClaimName") for one in claim_statuses(pod)}
        names = [
            one.get("resourceClaimName") or made.get(one["name"]) for one in pod["spec"].get("resourceClaims") or ()
        ]
        found = [self.claims.get((_namespace(pod), name or "")) for name in names]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else None

    def holds_of_a_pool(self, claim: Object) -> bool:
        """Whether the claim belongs to a pod and holds a device that is not a node's own."""
        owned = any(one["kind"] == "Pod" for one in claim["metadata"].get("ownerReferences") or ())
        return owned and any((one["driver"], one["pool"]) not in self._local for one in results(claim))

    def pools_of(self, node: str) -> int:
        """The number of pools among the node's own slices."""
        own = (one["spec"] for one in self.slices if one["spec"].get("nodeName") == node)
        return len({(one["driver"], one["pool"]["name"]) for one in own})

    def utilization(self, node: Object) -> float:
        """The share of the node's listed devices that claims hold. For a node without slices: of CPU or memory, whichever is
        more."""
        name = _name(node)
        own = [one for one in self.slices if one["spec"].get("nodeName") == name]
        if own:
            total = sum(len(one["spec"].get("devices") or ()) for one in own)
            pools = {(one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in own}
            taken = sum((r["driver"], r["pool"]) in pools for claim in self.claims.values() for r in results(claim))
            return taken / total if total else 0.0
        room = room_of(node["status"].get("allocatable") or {})
        asked = [asks_of(pod) for pod in self.pods_on(name)]
        return max(
            (sum(one.get(what, 0) for one in asked) / room[what] for what in UNITS if room.get(what)), default=0.0
        )


class Simulation:
    """Free room on nodes, and on `upcoming` ones that look like their group's template. Pods are placed one by one."""

    def __init__(self, cluster: Cluster, upcoming: Iterable[tuple[Group, int]], without: str = "") -> None:
        self._cluster = cluster
        self._nodes: dict[str, tuple[Node, list[Object], Room]] = {}
        self._in_use = InUse()
        for claim in cluster.claims.values():
            if (allocation := allocation_of(claim)) is not None:
                self._in_use.add(allocation)
        for name, node in cluster.nodes.items():
            if name == without or not _ready(node) or node["spec"].get("unschedulable"):
                continue
            room = room_of(node["status"].get("allocatable") or {})
            for pod in cluster.pods_on(name):
                _take(room, asks_of(pod))
            self._add(read_node(node), node["spec"].get("taints") or [], room)
        for group, number in upcoming:
            for each in range(number):
                self._add_template(group, f"{group.id}-upcoming-{each}")

    def _add(self, node: Node, taints: list[Object], room: Room) -> None:
        self._nodes[node.name] = (node, taints, room)

    def _add_template(self, group: Group, name: str) -> None:
        template: Template | None = group.template
        if template is not None:
            taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in template.taints]
            self._add(Node("", name, dict(template.labels)), taints, room_of(template.capacity))

    def place(self, pod: Object, *, anew: bool = False) -> bool:
        """Place the pod on the first node that fits; False if none does. `anew`: allocate its claims again, elsewhere."""
        return any(self._fits(pod, name, anew=anew) for name in list(self._nodes))

    def estimate(self, group: Group, pods: list[Object], most: int) -> tuple[int, list[Object]]:
        """How many new servers of the group the pods need, and which pods these help. The simulation itself stays unchanged."""
        nodes, in_use = dict(self._nodes), self._in_use.copy()
        self._nodes, helped, number = {}, list[Object](), 0
        for pod in pods:
            if self.place(pod):
                helped.append(pod)
                continue
            if number == most:
                continue
            self._add_template(group, f"template-{number}")
            if self._fits(pod, f"template-{number}", anew=False):
                number += 1
                helped.append(pod)
            else:
                self._nodes.pop(f"template-{number}", None)
        self._nodes, self._in_use = nodes, in_use
        return number, helped

    def _fits(self, pod: Object, name: str, *, anew: bool) -> bool:
        node, taints, room = self._nodes[name]
        asks = asks_of(pod)
        selector = pod["spec"].get("nodeSelector") or {}
        if any(room.get(what, 0) < amount for what, amount in asks.items()):
            return False
        if any(node.labels.get(key) != value for key, value in selector.items()):
            return False
        tolerations = pod["spec"].get("tolerations") or ()
        hard = (taint for taint in taints if taint["effect"] != "PreferNoSchedule")
        if not all(tolerates(tolerations, taint) for taint in hard):
            return False
        claims = self._cluster.claims_of(pod)
        if claims is None or not self._allocate(node, claims, anew=anew):
            return False
        _take(room, asks)
        return True

    def _allocate(self, node: Node, claims: list[Object], *, anew: bool) -> bool:
        """Allocate the claims on this node; the devices stay taken. A claim that is allocated already must be usable on the
        node."""
        open_ = []
        for claim in claims:
            allocation = allocation_of(claim)
            if allocation is None or anew:
                open_.append(read_claim(claim))
            elif (selector := allocation.get("nodeSelector")) and not node_matches(
                NodeSelector.from_object(selector), node.name, node.labels
            ):
                return False
        if not open_:
            return True
        allocator = Allocator(
            map(read_slice, self._cluster.slices),
            map(read_class, self._cluster.classes),
            self._in_use,
            Gates(),
            share_id=lambda: "simulated",
            forgiving=True,
        )
        try:
            fit = allocator.allocate(node, open_)
        except AllocationError:
            return False
        for one in fit.allocations:
            self._in_use.add(one.to_object())
        return bool(fit)


def room_of(amounts: Mapping[str, Any]) -> Room:
    return {what: parse(str(amounts[what])).nanos * unit // NANO for what, unit in UNITS.items() if what in amounts}


def asks_of(pod: Object) -> Room:
    asks: Room = {}
    for container in pod["spec"].get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        for what, amount in room_of(requests).items():
            asks[what] = asks.get(what, 0) + amount
    return asks


def _take(room: Room, asks: Room) -> None:
    for what, amount in asks.items():
        room[what] = room.get(what, 0) - amount


def _name(one: Object) -> str:
    return str(one["metadata"]["name"])


def _namespace(one: Object) -> str:
    return str(one["metadata"].get("namespace", ""))


def _nominated(pod: Object) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName", "") or "")


def _may_move(pod: Object) -> bool:
    """The lab's pods have no controller that would create them again, so a pod may move only if its annotation says so."""
    return bool((pod["metadata"].get("annotations") or {}).get(SAFE_TO_EVICT) == "true")


def _ref(node: Object) -> NodeRef:
    return NodeRef(_name(node), str(node["spec"].get("providerID", "")))


def _ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _tainted(node: Object, key: str) -> bool:
    return any(one["key"] == key for one in node["spec"].get("taints") or ())
