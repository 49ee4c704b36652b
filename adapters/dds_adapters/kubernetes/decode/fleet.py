"""Decodes a node and a pod for the autoscaler: what a node offers, what a pod requests and where it may run.

For any object, however broken, the only error is a `Fault` that names the field. It never quotes a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode import raw_objects as raw_
from dds_adapters.kubernetes.decode.decoding import Fault, read
from dds_adapters.kubernetes.decode.translate import RESOURCES, Resource
from dds_core.autoscaler.records import Amounts, Load, Worker
from dds_core.errors import InputError
from dds_core.matching.quantities import NANO, parse
from dds_core.model import Requirement

UNITS = {"cpu": 1000, "memory": 1, "ephemeral-storage": 1, "pods": 1}
"""The amounts that are counted, in parts of the API's unit. All others (devices of a device plugin, huge pages) are left to the
scheduler and Cluster Autoscaler."""
DAEMON_SET = "DaemonSet"
READY = "Ready"
RESIZE_PENDING, INFEASIBLE = "PodResizePending", "Infeasible"

# -- nodes ---------------------------------------------------------------------------------------------------------------


class _NodeSpec(raw_.NodeSpec, frozen=True):
    provider_id: str = msgspec.field(name="providerID", default="")


class _NodeStatus(raw_.Part, frozen=True):
    allocatable: raw_.Quantities | None = None
    conditions: tuple[raw_.PodCondition, ...] | None = None


class _RawNode(raw_.Object, frozen=True, kw_only=True):
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_node = msgspec.json.Decoder(_RawNode)
_NO_NODE, _NO_NODE_STATUS = _NodeSpec(), _NodeStatus()


def worker(raw: bytes) -> Worker:
    """A Node. Raises Fault."""
    found = read(_node, raw, "Node", decoding.CORE)
    meta, spec, status = found.metadata, found.spec or _NO_NODE, found.status or _NO_NODE_STATUS
    return Worker(
        uid=meta.uid,
        name=meta.name,
        provider_id=spec.provider_id,
        labels=meta.labels or {},
        taints=decoding.taints(spec.taints),
        unschedulable=spec.unschedulable,
        deleting=meta.deletion_timestamp is not None,
        ready=any(one.type == READY and one.status == "True" for one in status.conditions or ()),
        room=_amounts("status.allocatable", status.allocatable),
    )


# -- pods ----------------------------------------------------------------------------------------------------------------


class _Container(raw_.Container, frozen=True):
    name: str = ""


class _NodeAffinity(raw_.Part, frozen=True):
    required: raw_.NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(raw_.Part, frozen=True):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(raw_.PodSpec, frozen=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    overhead: raw_.Quantities | None = None
    resources: raw_.Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None


class _ContainerStatus(raw_.Part, frozen=True):
    name: str = ""
    allocated_resources: raw_.Quantities | None = None
    resources: raw_.Resources | None = None


class _PodStatus(raw_.PodStatus, frozen=True):
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    allocated_resources: raw_.Quantities | None = None
    resources: raw_.Resources | None = None


class _RawPod(raw_.Object, frozen=True, kw_only=True):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_pod = msgspec.json.Decoder(_RawPod)
_NO_POD, _NO_POD_STATUS = _PodSpec(), _PodStatus()


def load(raw: bytes) -> Load:
    """A Pod. Raises Fault."""
    found = read(_pod, raw, "Pod", decoding.CORE, namespaced=True)
    spec, status = found.spec or _NO_POD, found.status or _NO_POD_STATUS
    known = decoding.pod_of(found.metadata, spec, status)
    return Load(
        uid=known.uid,
        namespace=known.namespace,
        name=known.name,
        node=known.node,
        nominated=known.nominated,
        phase=known.phase,
        deleting=known.deleting,
        waiting=known.waiting,
        claims=known.claims,
        extended_claim=known.extended_claim,
        asks=_asks(spec, status),
        terms=_terms(spec),
        tolerations=known.tolerations,
        daemon=any(owner.kind == DAEMON_SET for owner in found.metadata.owner_references or ()),
    )


def _asks(spec: _PodSpec, status: _PodStatus) -> Amounts:
    """The amounts that the scheduler counts: those of the containers; requests of the whole pod take precedence; the overhead is
    added.

    While a container, a sidecar or a pod is resized, the largest of what it asks for, has been allocated and has counts; of a
    resize that the node can never grant what it asks for does not (component-helpers/resource, PodRequests)."""
    resize = next((one.reason for one in status.conditions or () if one.type == RESIZE_PENDING), "")
    resized = _Resizes(status, infeasible=resize == INFEASIBLE)
    counted = decoding.together(
        (
            (True, resized.container(place, one))
            if decoding.is_sidecar(one)
            else (False, _requests(place, one.resources))
            for place, one in _placed("spec.initContainers", spec.init_containers)
        ),
        (resized.container(place, one) for place, one in _placed("spec.containers", spec.containers)),
    )
    overhead = Counter(_amounts("spec.overhead", spec.overhead, up=True))
    return dict(Counter({**counted, **resized.pod(spec, overhead)}) + overhead)


def _placed(field: str, containers: tuple[_Container, ...] | None) -> Iterator[tuple[str, _Container]]:
    return ((f"{field}[{number}]", one) for number, one in enumerate(containers or ()))


class _Resizes:
    """What counts of containers and pods that may be in mid-resize."""

    def __init__(self, status: _PodStatus, *, infeasible: bool) -> None:
        self._status = status
        self._infeasible = infeasible
        both = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
        self._containers = {one.name: one for one in both}

    def container(self, place: str, one: _Container) -> Counter[str]:
        asked, status = _requests(place, one.resources), self._containers.get(one.name)
        if status is None or status.resources is None:
            return asked
        return self._largest(asked, *_granted(f"status of container {one.name}", status))

    def pod(self, spec: _PodSpec, overhead: Counter[str]) -> Counter[str]:
        """Of requests of the whole pod; what it has been allocated and has comes with the overhead."""
        asked = _requests("spec", spec.resources)
        if self._status.resources is None and self._status.allocated_resources is None:
            return asked
        largest = self._largest(asked, *(one - overhead for one in _granted("status", self._status)))
        return Counter({name: largest[name] for name in asked})

    def _largest(self, asked: Counter[str], *granted: Counter[str]) -> Counter[str]:
        largest = Counter[str]() if self._infeasible else asked
        for one in granted:
            largest = largest | one
        return largest


def _granted(place: str, status: _ContainerStatus | _PodStatus) -> tuple[Counter[str], Counter[str]]:
    """What has been allocated, and what is in effect."""
    allocated = Counter(_amounts(f"{place}.allocatedResources", status.allocated_resources, up=True))
    return allocated, _requests(place, status.resources)


def _requests(place: str, found: raw_.Resources | None) -> Counter[str]:
    return Counter(_amounts(f"{place}.resources.requests", found.requests if found is not None else None, up=True))


def _terms(spec: _PodSpec) -> tuple[tuple[Requirement, ...], ...]:
    """The required node affinity, with the node selector added to each of its terms."""
    selected = tuple(Requirement(key, "In", (value,)) for key, value in sorted((spec.node_selector or {}).items()))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return (selected,) if selected else ()
    return tuple((*selected, *_expressions(term)) for term in required.node_selector_terms or ())


def _expressions(term: raw_.Term) -> Iterable[Requirement]:
    """Requirements on labels and on fields (the API has only metadata.name). A term without any matches no node."""
    both = (*(term.match_expressions or ()), *(term.match_fields or ()))
    return (Requirement(one.key, one.operator, one.values or ()) for one in both)


# -- amounts -------------------------------------------------------------------------------------------------------------


def _amounts(place: str, found: Mapping[str, str | int | float] | None, *, up: bool = False) -> Amounts:
    """Whole millicores, bytes and pods; requests are rounded `up`, allocatable amounts down."""
    amounts = {}
    for name, unit in UNITS.items():
        if found and name in found:
            try:
                parts = parse(str(found[name])).nanos * unit
            except InputError:
                raise Fault(f"{place}.{name}", "is no quantity") from None
            amounts[name] = -(-parts // NANO) if up else parts // NANO
    return amounts


# -- facts ---------------------------------------------------------------------------------------------------------------

AUTOSCALED: dict[str, Resource] = {
    **RESOURCES,
    "nodes": Resource("Node", Worker, worker),
    "pods": Resource("Pod", Load, load),
}
"""As `RESOURCES`, for the autoscaler."""
