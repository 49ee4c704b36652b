"""Pure functions: which resources a ComposabilityRequest keeps and gives up, on which nodes it creates new ones, and which
requests the operator's webhook refuses. They follow the real operator, faults included: a resource that was just created (state
"") is given up last."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from dds_core.errors import DdsError
from dds_core.matching.quantities import amount
from dds_lab.actors.objects import said
from dds_lab.actors.operator.names import DELETE_DEVICE, LAST_USED
from dds_lab.client import Object, instants

GOING = ("Detaching", "Deleting")
SPREAD = "differentnode"


class NoNode(DdsError):
    """There are not enough nodes for the request."""


@dataclass(frozen=True)
class Placement:
    """`kept`: the resources that stay. `nodes`: the node of each resource to create."""

    kept: tuple[Object, ...]
    nodes: tuple[str, ...]


def place(
    request: Object, owned: Iterable[Object], nodes: Mapping[str, Object], occupied: Callable[[], Iterable[str]]
) -> Placement:
    """`nodes`: all nodes by name. `occupied`: gives the nodes of other samenode requests. Raises NoNode."""
    wanted = request["spec"]["resource"]
    there = [one for one in owned if said(one, "state") not in GOING]
    fitting = [one for one in there if _fits(one, wanted, nodes)]
    fitting = _by_policy(fitting, wanted)
    surplus = len(fitting) - wanted["size"]
    given_up = sorted(fitting, key=_priority)[: max(0, surplus)]
    kept = tuple(one for one in fitting if one not in given_up)
    return Placement(kept, _nodes(wanted, kept, nodes, occupied))


def _fits(resource: Object, wanted: Object, nodes: Mapping[str, Object]) -> bool:
    spec = resource["spec"]
    node = spec.get("target_node", "")
    return (
        spec["type"] == wanted["type"]
        and spec["model"] == wanted["model"]
        and bool(spec.get("force_detach")) == bool(wanted.get("force_detach"))
        and wanted.get("target_node", "") in ("", node)
        and node in nodes
        and has_room(nodes[node], wanted)
    )


def _by_policy(fitting: list[Object], wanted: Object) -> list[Object]:
    """samenode: only resources on the node of the first one. differentnode: one resource per node."""
    if not fitting:
        return fitting
    if wanted.get("allocation_policy", "samenode") == "samenode":
        node = fitting[0]["spec"].get("target_node", "")
        return [one for one in fitting if one["spec"].get("target_node", "") == node]
    firsts: dict[str, Object] = {}
    for one in fitting:
        firsts.setdefault(one["spec"].get("target_node", ""), one)
    return list(firsts.values())


def _priority(resource: Object) -> tuple[int, int, str]:
    """Sort key, the first to be given up first: by bucket, then the least recently used."""
    return (_bucket(resource), last_used(resource), resource["metadata"]["name"])


def _bucket(resource: Object) -> int:
    now, device = said(resource, "state"), said(resource, "device_id")
    annotations = resource["metadata"].get("annotations") or {}
    if now == "None" or (now == "Attaching" and not device):
        return 0
    if now == "Online" and annotations.get(DELETE_DEVICE) == "true":
        return 1
    if now == "Attaching":
        return 2
    if now == "Online":
        return 3
    return 4


def last_used(resource: Object) -> int:
    """When the device was last used according to the annotation, else when the object was created."""
    metadata = resource["metadata"]
    for text in ((metadata.get("annotations") or {}).get(LAST_USED, ""), metadata.get("creationTimestamp", "")):
        try:
            return instants.read(text)
        except ValueError:
            continue
    return 0


def _nodes(
    wanted: Object, kept: tuple[Object, ...], nodes: Mapping[str, Object], occupied: Callable[[], Iterable[str]]
) -> tuple[str, ...]:
    missing: int = wanted["size"] - len(kept)
    if missing <= 0:
        return ()
    if wanted.get("allocation_policy", "samenode") == "differentnode":
        return _different(wanted, kept, nodes, missing)
    return (_same(wanted, kept, nodes, occupied),) * missing


def _same(
    wanted: Object, kept: tuple[Object, ...], nodes: Mapping[str, Object], occupied: Callable[[], Iterable[str]]
) -> str:
    target: str = wanted.get("target_node", "")
    if target:
        if target not in nodes:
            raise NoNode("the target node does not existed")
        if not has_room(nodes[target], wanted):
            raise NoNode("TargetNode does not meet spec's requirements")
        return target
    if kept:
        first: str = kept[0]["spec"]["target_node"]
        return first
    taken = set(occupied())
    for name in sorted(nodes):
        if name not in taken and has_room(nodes[name], wanted):
            return name
    raise NoNode("insufficient number of available nodes")


def _different(wanted: Object, kept: tuple[Object, ...], nodes: Mapping[str, Object], missing: int) -> tuple[str, ...]:
    taken = {one["spec"]["target_node"] for one in kept}
    free = [name for name in sorted(nodes) if name not in taken and has_room(nodes[name], wanted)]
    if len(free) < missing:
        raise NoNode("insufficient number of available nodes")
    return tuple(free[:missing])


def has_room(node: Object, wanted: Object) -> bool:
    """Whether the node's *capacity* (not what is left of it) covers other_spec; CPU counts in whole cores."""
    other = wanted.get("other_spec")
    if not other:
        return True
    capacity = (node.get("status") or {}).get("capacity") or {}
    enough: bool = (
        int(_amount(capacity, "cpu")) * 1000 >= other.get("milli_cpu", 0)
        and _amount(capacity, "memory") >= other.get("memory", 0)
        and _amount(capacity, "ephemeral-storage") >= other.get("ephemeral_storage", 0)
        and _amount(capacity, "pods") >= other.get("allowed_pod_number", 0)
    )
    return enough


def _amount(capacity: Mapping[str, str], name: str) -> Fraction:
    return amount(str(capacity.get(name, "0"))) or Fraction(0)


# -- the validating webhook, called at creation and at every update


def refusal(new: Object, others: Iterable[Object], random: Random) -> str:
    """Why the webhook refuses the request, "" if it does not. `others`: all requests, or at least those with the key `kin_of`. A
    request without a target counts for the node of one of its resources, which the real webhook draws."""
    wanted = (new.get("spec") or {}).get("resource")
    if not wanted:
        return ""
    target, spread = wanted.get("target_node", ""), _spread(wanted)
    if spread and target:
        return "TargetNode cannot be specified when AllocationPolicy is set to 'differentnode'"
    for other in others:
        its = other["spec"]["resource"]
        alike = (its["type"], its["model"]) == (wanted["type"], wanted["model"])
        if other["metadata"]["name"] == new["metadata"].get("name") or not alike:
            continue
        if _spread(its) if spread else random.choice(_places(other)) == target:
            named = f"{other['metadata']['name']} with type {wanted['type']} and model {wanted['model']}"
            return f"composabilityRequest resource {named} already exists"
    return ""


def kin(request: Object) -> set[tuple[str, ...]]:
    """The conflict keys of a request: with which new ones it may conflict."""
    wanted = request["spec"]["resource"]
    places = {*_places(request), *((SPREAD,) if _spread(wanted) else ())}
    return {(place, wanted["type"], wanted["model"]) for place in places}


def kin_of(new: Object) -> tuple[str, ...]:
    """The conflict key of the requests that a new one may conflict with."""
    wanted = new["spec"]["resource"]
    return (SPREAD if _spread(wanted) else wanted.get("target_node", ""), wanted["type"], wanted["model"])


def _spread(wanted: Object) -> bool:
    return bool(wanted.get("allocation_policy", "samenode") == SPREAD)


def _places(request: Object) -> list[str]:
    """The target of a request, else the nodes of its resources, else "" (which conflicts, too)."""
    target: str = request["spec"]["resource"].get("target_node", "")
    resources = (request.get("status") or {}).get("resources") or {}
    return [target] if target else [resources[name].get("node_name", "") for name in sorted(resources)] or [""]


def node_of(request: Object) -> str:
    """The node of a samenode request: its target, else that of its first resource, else ""."""
    return _places(request)[0]
