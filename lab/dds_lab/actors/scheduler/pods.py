"""A pod as the scheduler sees it, parsed once for each version of the object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from dds_core.matching.quantities import amount
from dds_lab.client import Object as Object

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
"""The assumed requests of a container without requests, for the score."""


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """The parts of a pod that scheduling depends on. `requests`: cpu in thousandths, memory in bytes, others in units."""

    obj: Object
    uid: str
    namespace: str
    name: str
    priority: int
    preempts: bool  # whether its policy lets it preempt others
    scheduler: str
    node: str
    nominated: str
    requests: dict[str, int]
    scored: tuple[int, int]  # cpu and memory for the score
    best_effort: bool
    claims: tuple[tuple[str, str | None], ...]  # name in the pod, name of the claim (None: not generated yet)
    claim_keys: tuple[str, ...]
    labels: Mapping[str, str]
    tolerations: tuple[Object, ...]
    shape: str  # equal for pods that the static filters cannot tell apart
    affinity: Object
    ports: frozenset[tuple[str, str, int]]  # host IP, protocol, port
    gated: bool
    deleting: bool
    ended: bool
    generation: int

    @property
    def has_pod_affinity(self) -> bool:
        return bool(self.affinity.get("podAffinity") or self.affinity.get("podAntiAffinity"))

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read(obj: Object, known: Pod | None = None) -> Pod:
    """Parse a Pod. `known`: an earlier version of the pod. If both have the same spec object, its costly parts are reused."""
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
    claims = tuple(_claims(spec, status))
    namespace = meta.get("namespace", "")
    affinity = spec.get("affinity") or {}
    names = [name for _, name in claims if name]
    tolerations = tuple(spec.get("tolerations") or ())
    if known is not None and known.obj["spec"] is spec:
        taken, scored, shape = known.requests, known.scored, known.shape
    else:
        taken, scored = requests(spec), _scored(spec)
        shape = _shape(spec.get("nodeSelector") or {}, affinity.get("nodeAffinity") or {}, tolerations, spec)
    return Pod(
        obj=obj,
        uid=meta["uid"],
        namespace=namespace,
        name=meta["name"],
        priority=spec.get("priority") or 0,
        preempts=spec.get("preemptionPolicy") != "Never",
        scheduler=spec.get("schedulerName") or "default-scheduler",
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        requests=taken,
        scored=scored,
        best_effort=status.get("qosClass") == "BestEffort",
        claims=claims,
        claim_keys=tuple(f"{namespace}/{name}" for name in names),
        labels=meta.get("labels") or {},
        tolerations=tolerations,
        shape=shape,
        affinity=affinity,
        ports=frozenset(_ports(spec)),
        gated=bool(spec.get("schedulingGates")),
        deleting="deletionTimestamp" in meta,
        ended=status.get("phase") in ("Succeeded", "Failed"),
        generation=meta.get("generation", 0),
    )


def requests(spec: Object) -> dict[str, int]:
    """What the pod takes from a node: the sum of its containers and sidecars, at least the peak of its init containers, plus
    overhead. Requests of the pod as a whole replace those of its containers."""
    together: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(together, _requested(container))
    sidecars: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _requested(container)
        if container.get("restartPolicy") == "Always":
            _add(together, own)
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise(peak, own)
    _raise(together, peak)
    for name, text in ((spec.get("resources") or {}).get("requests") or {}).items():
        together[name] = units(name, text)
    _add(together, {name: units(name, text) for name, text in (spec.get("overhead") or {}).items()})
    return {name: value for name, value in together.items() if value}


@lru_cache(maxsize=4096)
def units(resource: str, text: str) -> int:
    """A quantity in the unit of its resource, rounded up: cpu in thousandths, everything else in whole units."""
    value = amount(str(text))
    if value is None:
        return 0
    return ceil(value * 1000) if resource == "cpu" else ceil(value)


def _claims(spec: Object, status: Object) -> Iterable[tuple[str, str | None]]:
    generated = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for reference in spec.get("resourceClaims") or ():
        name = reference["name"]
        direct = reference.get("resourceClaimName")
        if direct:
            yield name, direct
        elif name not in generated:
            yield name, None
        elif generated[name]:
            yield name, generated[name]


def _requested(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: units(name, text) for name, text in asked.items()}


def _scored(spec: Object) -> tuple[int, int]:
    cpu = memory = 0
    for container in spec.get("containers") or ():
        own = _requested(container)
        cpu += own.get("cpu", DEFAULT_MILLI_CPU)
        memory += own.get("memory", DEFAULT_MEMORY)
    whole = requests(spec)
    return max(cpu, whole.get("cpu", 0)), max(memory, whole.get("memory", 0))


def _ports(spec: Object) -> Iterable[tuple[str, str, int]]:
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]


def _shape(selector: Object, affinity: Object, tolerations: tuple[Object, ...], spec: Object) -> str:
    return json.dumps([selector, affinity, tolerations, spec.get("nodeName") or ""], sort_keys=True)


def _add(into: dict[str, int], what: Mapping[str, int]) -> None:
    for name, value in what.items():
        into[name] = into.get(name, 0) + value


def _raise(to: dict[str, int], what: Mapping[str, int]) -> None:
    for name, value in what.items():
        to[name] = max(to.get(name, 0), value)
