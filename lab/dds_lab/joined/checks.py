"""What is in the way before a lab joins a cluster, what it will make there, and what the cluster lacks. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from dds_adapters.kubernetes.publish.probe import ProbeFailed, probe
from dds_core.errors import InputError
from dds_lab import setup
from dds_lab.actors.models import BadConfig, read_config_map
from dds_lab.api.kinds import RESOURCE, Object
from dds_lab.client import Client
from dds_lab.crds import DEFINITIONS
from dds_lab.joined.heartbeats import conditions
from dds_lab.joined.marks import KINDS, LABEL, LEASES, LENT, OPERATOR_POD, RIGHTS, is_marked, taint
from dds_lab.joined.remote import RemoteServer
from dds_lab.lab_settings import V1ALPHA3
from dds_lab.scenario import Scenario
from dds_lab.scenario.checks import problems as problems_of
from dds_lab.scenario.cluster import Nodes
from dds_lab.scenario.parts import ManagerPart, PartName

TOLD = 5
LABELLED = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Keeps load balancers of a cloud from nodes that do not exist."""
THEIRS: tuple[PartName, ...] = ("scheduler", "claims", "controllers")
"""Parts that a cluster has itself."""
_MANIFESTS = {one.partition(".")[0] for one in KINDS}


class CannotJoin(InputError):
    """Something is in the way."""


class Lent(Nodes):
    """A node that exists, in place of one of the scenario's."""

    lent: str

    def names(self) -> list[str]:
        return [self.lent]


@dataclass(frozen=True)
class Options:
    """`nodes`: existing nodes that get the devices. `without`: parts that are left out, or `steps`. `scaler`: the simulated
    reference scaler plays too. `manager`: the API of a hardware's manager, if the scenario has none. `beside`: `operator`,
    `drivers`: what may be in the cluster already."""

    nodes: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    scaler: bool = False
    manager: Literal["fm", "cm", "nec", ""] = ""
    beside: frozenset[str] = frozenset()


@dataclass
class Plan:
    """`make`: what is made at the start, each with where it is written. `lend`: labels for nodes that exist. `uses`: objects that
    are there and as they should be. `lacks`: what will not be as in the lab. `problems`: why the lab cannot join."""

    make: list[tuple[str, Object]] = field(default_factory=list)
    lend: dict[str, dict[str, str]] = field(default_factory=dict)
    uses: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def held(self, where: str) -> None:
        """Raises CannotJoin with the first of the problems."""
        if self.problems:
            more = f"; and {len(self.problems) - TOLD} more" if len(self.problems) > TOLD else ""
            what = "; ".join(self.problems[:TOLD]) + more
            raise CannotJoin(
                f"the lab cannot join: {what}", where=where, fix="nothing was made; docs/lab-join.md says what to do"
            )


def adapted(scenario: Scenario, options: Options) -> Scenario:
    """The scenario as it is played in a cluster that has a control plane. Raises CannotJoin."""
    parts: dict[str, Any] = dict.fromkeys((*THEIRS, *(options.without - {"steps"})))
    if not options.scaler:
        parts["scaler"] = None
    if options.manager and scenario.parts.manager is None:
        parts["manager"] = ManagerPart(api=options.manager)
    operator = None if "operator" in options.without else scenario.parts.operator
    parts["operator"] = operator and operator.model_copy(update={"webhook": False})
    update: dict[str, Any] = {"parts": scenario.parts.model_copy(update=parts)}
    if options.nodes:
        update["cluster"] = scenario.cluster.model_copy(update={"nodes": _lent(scenario, options.nodes)})
    if "steps" in options.without:
        update |= {"steps": (), "mix": (), "workload": None}
    found = scenario.model_copy(update=update)
    wrong = [f"{'.'.join(map(str, one.path))}: {one.what}" for one in problems_of(found)] if options.nodes else []
    if wrong:
        fix = "give as many nodes as the scenario has, or --without steps"
        raise CannotJoin(f"with these nodes the scenario is not whole: {wrong[0]}", where="--nodes", fix=fix)
    return found


def _lent(scenario: Scenario, names: Sequence[str]) -> tuple[Lent, ...]:
    groups = [group for group in scenario.cluster.nodes for _ in group.names()]
    if len(names) > len(groups) or len(set(names)) < len(names):
        what = f"{len(names)} nodes, and the scenario has {len(groups)}"
        raise CannotJoin(what, where="--nodes", fix="give each once, and at most as many as the scenario has")
    return tuple(Lent(**{**dict(group), "count": 1, "lent": name}) for group, name in zip(groups, names, strict=False))


def not_played(scenario: Scenario) -> Iterator[str]:
    """Sentences on parts of the scenario that have no effect in a cluster with a control plane of its own."""
    if scenario.faults.wire or scenario.faults.allocations:
        yield "faults on the wire and of the scheduler are not played"
    for place, step in enumerate(scenario.steps):
        it = step.restart or step.relist
        if it is not None and it.part in THEIRS:
            yield f"steps[{place}] does nothing: the {it.part} of this cluster is its own"
        if step.run is not None and step.run.priority:
            yield f"steps[{place}]: a priority needs a PriorityClass here, so the cluster refuses the pod"


# -- what is there


def plan(client: Client, server: RemoteServer, scenario: Scenario, options: Options) -> Plan:
    """Ask the cluster. Raises ApiError."""
    found = Plan(lacks=list(not_played(scenario)))
    for definition in DEFINITIONS:
        _look(client, found, "the operator's kinds", definition, _serves)
    missing = [obj["metadata"]["name"] for _, obj in found.make]
    if len(missing) == 1 and not found.problems:
        found.problems.append(
            f"the operator's kinds are half-installed: {missing[0]} is missing; install both, or none"
        )
    for place, obj in setup.objects(client, scenario):
        if obj["kind"] == "Node" and options.nodes:
            _lend(client, found, obj)
        else:
            wanted = _node(obj, scenario.name) if obj["kind"] == "Node" else obj
            _look(client, found, place, wanted, _SAME.get(obj["kind"]))
    _names(client, found, scenario)
    _operator(client, found, scenario, options)
    _slices(client, found, scenario, options)
    _gates(server, found, scenario)
    return found


def release(server: RemoteServer) -> str:
    """The cluster's version. Raises CannotJoin for one without resource.k8s.io/v1."""
    version = str(server.json("/version").get("gitVersion", "of unknown version"))
    served = [one.version for one in server.registry.resources() if one.key == f"resourceclaims.{RESOURCE}"]
    if "v1" not in served:
        what = f"Kubernetes {version} serves {', '.join(served) or 'nothing'} of {RESOURCE}, and not v1"
        raise CannotJoin(what, where=server.cluster.where, fix="use 1.34 or newer; binding conditions are on from 1.36")
    return version


def rights(server: RemoteServer) -> None:
    """Raises CannotJoin if the user of the kubeconfig may not do what a lab does."""
    asked = [(group, one, verb) for group, several, verbs in RIGHTS for one in several for verb in verbs]
    asked = [one for one in asked if ":" not in one[2]]  # of 1.36 alone, and only for what a step may do
    with ThreadPoolExecutor(8) as pool:
        may = list(pool.map(lambda one: _may(server, *one), asked))
    names = [
        f"{verb} {one}{f'.{group}' if group else ''}"
        for (group, one, verb), fine in zip(asked, may, strict=True)
        if not fine
    ]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        what = f"this user may not {', '.join(names[:3])}{more}"
        raise CannotJoin(
            what, where=server.cluster.where, fix="give it the role that 'dds lab join --print-role' prints"
        )


def _may(server: RemoteServer, group: str, resource: str, verb: str) -> bool:
    plural, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": plural, "subresource": subresource, "verb": verb}
    spec = {"resourceAttributes": {key: value for key, value in asked.items() if value}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = server.json("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool((answer.get("status") or {}).get("allowed"))


Fits = Callable[[Object, Object], str]
"""What is wrong with an object that exists (first), compared with the one that the lab would make; "" for nothing."""


def _look(client: Client, found: Plan, place: str, obj: Object, fits: Fits | None) -> None:
    """Plan to make the object, or to use the one that is there."""
    resource, metadata = setup.resource_of(client, obj, place), obj["metadata"]
    if resource.plural not in _MANIFESTS:
        found.problems.append(f"{place}: a lab makes no {obj['kind']} in a cluster that is not its own")
        return
    namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
    there = client.find(setup.reference(resource), metadata["name"], namespace)
    name = f"{resource.name} {metadata['name']}"
    if there is None:
        found.make.append((place, obj))
    elif not (wrong := fits(there, obj) if fits is not None else "the lab did not make it"):
        found.uses.append(name)
    elif is_marked(there):  # it goes before the lab joins
        found.make.append((place, obj))
    else:
        found.problems.append(f"{name} is there already, and {wrong}")


def _serves(there: Object, wanted: Object) -> str:
    """Of a definition: whether it is in force, with the version and its status."""
    established = {one["type"]: one["status"] for one in (there.get("status") or {}).get("conditions") or ()}
    if there["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    if established.get("Established") != "True":
        return "it is half-installed: it is not Established"
    version = wanted["spec"]["versions"][0]["name"]
    for one in there["spec"]["versions"]:
        if one["name"] == version and one.get("served"):
            return "" if "status" in (one.get("subresources") or {}) else f"its {version} has no subresource status"
    return f"it does not serve {version}"


def _same_selectors(there: Object, wanted: Object) -> str:
    if (there.get("spec") or {}).get("selectors") != wanted["spec"].get("selectors"):
        return "it selects other devices"
    wanted_resource = wanted["spec"].get("extendedResourceName")
    if wanted_resource not in (None, there["spec"].get("extendedResourceName")):
        return f"it does not serve {wanted_resource}"
    return ""


def _has_models(there: Object, wanted: Object) -> str:
    try:
        has, needs = read_config_map(there), read_config_map(wanted)
    except BadConfig as error:
        return str(error)
    missing = [one.model for one in needs.models if one not in has.models]
    if missing or has.prefix != needs.prefix:
        return f"it does not say the same of {', '.join(missing) or 'the prefix of labels'}"
    return ""


def _exists(there: Object, wanted: Object) -> str:
    return "it is being deleted" if there["metadata"].get("deletionTimestamp") else ""


_SAME: dict[str, Fits] = {"DeviceClass": _same_selectors, "ConfigMap": _has_models, "Namespace": _exists}


def _node(node: Object, name: str) -> Object:
    """A node that does not exist: recognizable, healthy, and for the lab's pods alone."""
    metadata, spec, status = node["metadata"], node["spec"], node["status"]
    now = status["conditions"][0]["lastHeartbeatTime"]
    return {
        **node,
        "metadata": {**metadata, "labels": {**metadata["labels"], LABELLED: ""}},
        "spec": {**spec, "taints": [*(spec.get("taints") or ()), taint(name)]},
        "status": {**status, "conditions": conditions(now)},
    }


def _lend(client: Client, found: Plan, wanted: Object) -> None:
    """Labels for a node that exists."""
    metadata = wanted["metadata"]
    there = client.find("nodes", metadata["name"])
    if there is None:
        found.problems.append(f"there is no node {metadata['name']}")
        return
    has = there["metadata"].get("labels") or {}
    labels = {key: value for key, value in metadata["labels"].items() if key != "kubernetes.io/hostname"}
    others = [key for key, value in labels.items() if has.get(key, value) != value]
    if others or LENT in (there["metadata"].get("annotations") or {}):
        found.problems.append(f"node {metadata['name']} has {others[0] if others else LENT} already")
    found.lend[metadata["name"]] = {key: value for key, value in labels.items() if key not in has}


def _names(client: Client, found: Plan, scenario: Scenario) -> None:
    """Names that steps will use."""
    applied = Plan(problems=found.problems)
    for place, step in enumerate(scenario.steps):
        if step.apply is not None:
            _look(client, applied, f"steps[{place}].apply", step.apply, None)
        if step.run is None:
            continue
        kinds = ["pods"]
        if step.run.devices:
            kinds.append("resourceclaimtemplates" if step.run.template else "resourceclaims")
        for kind in kinds:
            if client.find(kind, step.run.name, step.run.namespace) is not None:
                named = f"{kind} {step.run.namespace}/{step.run.name}"
                found.problems.append(f"{named} is there already, and a step makes it")
    leases = {one["metadata"]["name"]: one for one in client.list("leases.coordination.k8s.io", LEASES)}
    for name in scenario.cluster.node_names():
        lease = leases.get(name) if name not in found.lend else None
        if lease is not None and not is_marked(lease):
            found.problems.append(f"lease {LEASES}/{name} is there already")


def _operator(client: Client, found: Plan, scenario: Scenario, options: Options) -> None:
    """Whether a real operator runs."""
    pods = [one["metadata"] for one in client.list("pods") if OPERATOR_POD in one["metadata"]["name"]]
    ours = scenario.parts.operator is not None
    if pods and ours and "operator" not in options.beside:
        what = f"an operator runs here (pod {pods[0]['namespace']}/{pods[0]['name']})"
        found.problems.append(f"{what}: leave the lab's out (--without operator), or let both be (--beside operator)")
    elif not pods and not ours:
        found.lacks.append("no pod of an operator was found, and the lab's is left out: nothing attaches a device")


def _slices(client: Client, found: Plan, scenario: Scenario, options: Options) -> None:
    """Whether there are devices of the scenario's drivers, besides another publisher's pools where the lab's is left out."""
    drivers = {one.driver for one in scenario.cluster.models} | {one.name for one in scenario.cluster.drivers}
    nodes, pools = scenario.cluster.node_names(), scenario.parts.publisher is None
    foreign = [one for one in client.list("resourceslices") if one["spec"]["driver"] in drivers and not is_marked(one)]
    others = [one for one in foreign if one["spec"].get("nodeName") or not pools]
    if others and "drivers" not in options.beside:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        what = f"there are devices of {others[0]['spec']['driver']} (slice {others[0]['metadata']['name']}{more})"
        found.problems.append(f"{what}: --beside drivers joins all the same")
    here = [one for one in others if one["spec"].get("nodeName") in nodes]
    if here:
        found.problems.append(f"node {here[0]['spec']['nodeName']} has devices of {here[0]['spec']['driver']} itself")


def _gates(server: RemoteServer, found: Plan, scenario: Scenario) -> None:
    """What the cluster drops or does not serve."""
    drivers = [one.driver for one in scenario.cluster.models]
    if drivers:
        try:
            stored = probe(server.cluster, f"{RESOURCE}/v1", drivers[0])
            if not stored.binding_conditions:
                found.lacks.append(
                    "the cluster drops binding conditions of devices (gates DRADeviceBindingConditions and "
                    "DRAResourceClaimDeviceStatus, on from 1.36): pods are bound before their device is attached"
                )
        except ProbeFailed as error:
            found.problems.append(str(error))
    operator, served = scenario.parts.operator, server.registry.find(RESOURCE, "v1alpha3", "devicetaintrules")
    if operator is not None and not operator.ideal and served is None:
        what = f"the cluster serves no DeviceTaintRules of {V1ALPHA3}"
        found.lacks.append(f"{what}: the lab's operator detaches without; a real one hangs")


def counted(plan: Plan) -> Iterator[str]:
    """What the plan makes, by kind."""
    kinds: dict[str, list[str]] = {}
    for _, obj in plan.make:
        kinds.setdefault(obj["kind"], []).append(obj["metadata"]["name"])
    for kind, names in kinds.items():
        shown = ", ".join(names[:3]) + (f", … ({len(names)})" if len(names) > 3 else "")
        yield f"{kind}: {shown}"
    for node in plan.lend:
        yield f"labels of node {node}: {', '.join((LABEL, *plan.lend[node]))}"
