"""Every permission that scaler and publisher use, once: which verb, for which call, of which feature. Roles, the chart, the
documentation and `dds doctor` are made from these tables, so that none of them can ask for more or less than another.

Pure data; nothing here asks an API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Literal, Protocol, Self

from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.watch.watched import DRA, OPERATOR
from dds_core.kit.policy import Mode
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import Policy

RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNT = "dds"
"""Name of the ServiceAccount and of its roles, unless somebody chooses another."""
PUBLISHER = "dds-publisher"
"""The same for the publisher, and the name of its Lease."""

Where = Literal["cluster", "config", "lease"]
"""Which role has a rule: the ClusterRole, or the Role in the ConfigMap's or in the Lease's namespace."""

DRIVERS = "<drivers>"
CONFIGMAP = "<configmap>"
LEASE = "<lease>"
IDENTITY = "kube-system"
"""The namespace whose uid is the cluster's identity."""

ALWAYS = ""
"""The power of a rule that goes with none: without it there is no scaler, or no publisher."""


class Has(Protocol):
    """Somebody's powers."""

    def has(self, power: str) -> bool: ...


@dataclass(frozen=True)
class Powers:
    """What the scaler may do. A power that is off takes its rules with it; a decision that would need it is then refused by the
    API server, which the log and the metrics say.

    attach: create and raise ComposabilityRequests. signal: set our conditions on claims. steer: nominate a node and clear the
    allocations that were signalled (hand-over mode `clear`). labels: pool, cool-down and ready labels of nodes. stamp: when a
    device was last used. detach: mark victims and lower requests. taint_rules: DeviceTaintRules. events: Kubernetes Events.
    leader_election: a Lease. metrics_reviews: ask who reads the metrics.
    """

    attach: bool = True
    signal: bool = True
    steer: bool = True
    labels: bool = True
    stamp: bool = True
    detach: bool = True
    taint_rules: bool = True
    events: bool = True
    leader_election: bool = True
    metrics_reviews: bool = True

    @classmethod
    def needed(cls, policy: Policy, *, leader_election: bool = False, metrics_reviews: bool = False) -> Self:
        """The powers that a policy can ever use. In mode `observe` nothing is written about the fleet at all."""
        writes, detaches = policy.mode != "observe", policy.mode == "detach"
        return cls(
            attach=writes,
            signal=writes,
            steer=writes and policy.hand_over == "clear",
            labels=writes,
            stamp=writes,
            detach=detaches,
            taint_rules=detaches,
            events=writes,
            leader_election=leader_election,
            metrics_reviews=metrics_reviews,
        )

    def has(self, power: str) -> bool:
        """Whether a rule of this power counts."""
        return power == ALWAYS or bool(getattr(self, power))


@dataclass(frozen=True)
class PublisherPowers:
    """What the publisher may do, in the same sense.

    publish: create, change and delete ResourceSlices; asking what the API server keeps of one is a dry run and needs it too.
    node_labels: the labels of fabric and limits on nodes. bare_metal_hosts: follow BareMetalHosts, where these say which machine
    a node is. events, leader_election, metrics_reviews: as the scaler's.
    """

    publish: bool = True
    node_labels: bool = True
    bare_metal_hosts: bool = False
    events: bool = True
    leader_election: bool = True
    metrics_reviews: bool = True

    @classmethod
    def needed(
        cls,
        policy: PublishPolicy,
        *,
        bare_metal_hosts: bool = False,
        leader_election: bool = False,
        metrics_reviews: bool = False,
    ) -> Self:
        """The powers that a policy can ever use. In mode `observe` nothing is written about the fleet at all."""
        writes = policy.mode != "observe"
        return cls(
            publish=writes,
            node_labels=writes and policy.label_nodes,
            bare_metal_hosts=bare_metal_hosts,
            events=writes,
            leader_election=leader_election,
            metrics_reviews=metrics_reviews,
        )

    def has(self, power: str) -> bool:
        """Whether a rule of this power counts."""
        return power == ALWAYS or bool(getattr(self, power))


POWERS: tuple[str, ...] = tuple(one.name for one in fields(Powers))
"""The names of all powers of the scaler, in the order in which they are explained."""
PUBLISHER_POWERS: tuple[str, ...] = tuple(one.name for one in fields(PublisherPowers))
"""Those of the publisher."""


@dataclass(frozen=True)
class Feature:
    """What stops without its rules. `power` switches it; `mode` is the lowest that makes its calls."""

    name: str
    power: str = ALWAYS
    mode: Mode = "observe"


WATCH = Feature("watch")
SIGNAL = Feature("conditions on claims", "signal", "attach")
CLEAR = Feature("hand-over clear", "steer", "attach")
ATTACH = Feature("attach", "attach", "attach")
LABELS = Feature("node labels", "labels", "attach")
STAMP = Feature("last-used stamps", "stamp", "attach")
DETACH = Feature("detach", "detach", "detach")
TAINTS = Feature("taint rules", "taint_rules", "detach")
EVENTS = Feature("events", "events", "attach")
ELECTION = Feature("leader election", "leader_election")
REVIEWS = Feature("metrics protection", "metrics_reviews")
DOCTOR = Feature("doctor")
PUBLISH = Feature("publish", "publish", "attach")
NODE_LABELS = Feature("labels of fabric and limits", "node_labels", "attach")
MACHINES = Feature("machines by BareMetalHost", "bare_metal_hosts")


@dataclass(frozen=True)
class Rule:
    """Permission for some verbs on one resource, which may be a part of one ("pods/status").

    `call` is the request that needs it, as a person reads it. `names` are resourceNames, some still markers (DRIVERS, CONFIGMAP,
    LEASE).
    """

    of: Feature
    group: str
    resource: str
    verbs: tuple[str, ...]
    call: str
    names: tuple[str, ...] = ()
    where: Where = "cluster"

    @property
    def feature(self) -> str:
        """The name of the feature that needs it."""
        return self.of.name

    @property
    def power(self) -> str:
        """The power that it goes with, ALWAYS for none."""
        return self.of.power

    @property
    def parts(self) -> tuple[str, str]:
        """Resource and subresource, as a SelfSubjectAccessReview wants them."""
        resource, _, subresource = self.resource.partition("/")
        return resource, subresource


_LISTEN = ("list", "watch")
_COORDINATION = "coordination.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"

RULES: tuple[Rule, ...] = (
    Rule(WATCH, "", "configmaps", _LISTEN, "the ConfigMap of the fabric", (CONFIGMAP,), "config"),
    Rule(WATCH, "", "nodes", _LISTEN, "labels, taints and cordons of nodes"),
    Rule(WATCH, "", "pods", _LISTEN, "pods that have no node yet"),
    Rule(WATCH, "", "pods", ("get",), "what became of a pod that left the pending ones"),
    Rule(WATCH, "", "namespaces", ("get",), "the uid of kube-system: the cluster's identity in the log", (IDENTITY,)),
    Rule(WATCH, DRA, "deviceclasses", _LISTEN, "which devices a claim's request can mean"),
    Rule(WATCH, DRA, "devicetaintrules", _LISTEN, "taints of devices, where such rules are served"),
    Rule(WATCH, DRA, "resourceclaims", _LISTEN, "allocations and reservations"),
    Rule(WATCH, DRA, "resourceslices", _LISTEN, "devices of pools and of nodes"),
    Rule(WATCH, OPERATOR, "composabilityrequests", _LISTEN, "what the fabric was asked for"),
    Rule(WATCH, OPERATOR, "composableresources", _LISTEN, "what the fabric attached"),
    Rule(ATTACH, OPERATOR, "composabilityrequests", ("create",), "order the first device of a model for a node"),
    Rule(ATTACH, OPERATOR, "composabilityrequests", ("get", "patch"), "compare a request, then raise its size"),
    Rule(SIGNAL, DRA, "resourceclaims", ("get",), "compare a claim before a condition is set"),
    Rule(SIGNAL, DRA, "resourceclaims/status", ("patch",), "set our conditions on the devices of a claim"),
    Rule(
        SIGNAL, DRA, "resourceclaims/driver", ("arbitrary-node:patch",),
        "the same for devices of these drivers, from Kubernetes 1.36", (DRIVERS,),
    ),
    Rule(CLEAR, "", "pods/status", ("patch",), "nominate the node for a pod"),
    Rule(CLEAR, DRA, "resourceclaims", ("get",), "compare a claim before its allocation is cleared"),
    Rule(CLEAR, DRA, "resourceclaims/status", ("patch",), "clear an allocation that was signalled"),
    Rule(CLEAR, DRA, "resourceclaims/binding", ("patch",), "the same, from Kubernetes 1.36"),
    Rule(LABELS, "", "nodes", ("get", "patch"), "compare a node, then set pool, cool-down and ready labels"),
    Rule(STAMP, OPERATOR, "composableresources", ("get", "patch"), "say when a device was last used; take a mark off"),
    Rule(DETACH, OPERATOR, "composableresources", ("get", "patch"), "mark the device that is to go"),
    Rule(DETACH, OPERATOR, "composabilityrequests", ("get", "patch"), "lower a request by its marked victims"),
    Rule(TAINTS, DRA, "devicetaintrules", ("create", "delete"), "keep the scheduler from a victim; let go of it again"),
    Rule(EVENTS, "events.k8s.io", "events", ("create",), "tell users what was done for their claims and pods"),
    Rule(ELECTION, _COORDINATION, "leases", ("create",), "make the Lease (a name cannot limit this)", (), "lease"),
    Rule(ELECTION, _COORDINATION, "leases", ("get", "update"), "win, hold and release the Lease", (LEASE,), "lease"),
    Rule(REVIEWS, "authentication.k8s.io", "tokenreviews", ("create",), "who asks for the metrics"),
    Rule(REVIEWS, _AUTHORIZATION, "subjectaccessreviews", ("create",), "whether they may read them"),
    Rule(DOCTOR, _AUTHORIZATION, "selfsubjectaccessreviews", ("create",), "which of these permissions are there"),
)  # fmt: skip
"""The scaler's table. What is listened to first, then each feature in the order of a claim's life."""

PUBLISHER_RULES: tuple[Rule, ...] = (
    Rule(WATCH, "", "configmaps", _LISTEN, "the ConfigMap of the fabric", (CONFIGMAP,), "config"),
    Rule(WATCH, "", "nodes", _LISTEN, "which machine a node is, and the labels that it has"),
    Rule(WATCH, "", "namespaces", ("get",), "the uid of kube-system: the cluster's identity in the log", (IDENTITY,)),
    Rule(WATCH, DRA, "resourceclaims", _LISTEN, "which devices claims hold"),
    Rule(WATCH, DRA, "resourceslices", _LISTEN, "what is published, and what nodes have of their own"),
    Rule(WATCH, OPERATOR, "composableresources", _LISTEN, "what the fabric attached"),
    Rule(
        PUBLISH, DRA, "resourceslices", ("get", "create", "update", "delete"),
        "compare a slice, then write it; what the API server keeps of one",
    ),
    Rule(MACHINES, "metal3.io", "baremetalhosts", _LISTEN, "which machine a node is, by the annotation of its host"),
    Rule(NODE_LABELS, "", "nodes", ("get", "patch"), "compare a node, then set the labels of its fabric and limits"),
    Rule(EVENTS, "events.k8s.io", "events", ("create",), "tell users what became of a pool"),
    Rule(ELECTION, _COORDINATION, "leases", ("create",), "make the Lease (a name cannot limit this)", (), "lease"),
    Rule(ELECTION, _COORDINATION, "leases", ("get", "update"), "win, hold and release the Lease", (LEASE,), "lease"),
    Rule(REVIEWS, "authentication.k8s.io", "tokenreviews", ("create",), "who asks for the metrics"),
    Rule(REVIEWS, _AUTHORIZATION, "subjectaccessreviews", ("create",), "whether they may read them"),
    Rule(DOCTOR, _AUTHORIZATION, "selfsubjectaccessreviews", ("create",), "which of these permissions are there"),
    Rule(DOCTOR, DRA, "deviceclasses", ("list",), "whether a class asks for what a device does not say"),
)  # fmt: skip
"""The publisher's table. It asks for no claim, pod or request to be written, and for no Secret: its own is a mounted file."""


@dataclass(frozen=True)
class Names:
    """What the markers stand for in one installation. No driver at all means that no condition can be set on Kubernetes 1.36."""

    drivers: tuple[str, ...] = ("gpu.nvidia.com",)
    configmap: str = config.NAME
    config_namespace: str = config.NAMESPACE
    lease: str = "dds-scaler"
    lease_namespace: str = config.NAMESPACE

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names with the markers replaced."""
        known = {DRIVERS: self.drivers, CONFIGMAP: (self.configmap,), LEASE: (self.lease,)}
        return tuple(name for marker in names for name in known.get(marker, (marker,)))

    def namespace(self, where: Where) -> str:
        """The namespace of a role, "" for the ClusterRole."""
        return {"cluster": "", "config": self.config_namespace, "lease": self.lease_namespace}[where]


EVERYTHING = Powers()
USUAL = Names()
ALL_OF_PUBLISHER = PublisherPowers()
USUAL_PUBLISHER = Names(drivers=(), lease=PUBLISHER)


def rules(powers: Has = EVERYTHING, where: Where | None = None, table: Sequence[Rule] = RULES) -> list[Rule]:
    """The rules of a table that these powers leave, of one role or of all."""
    return [rule for rule in table if powers.has(rule.power) and where in (None, rule.where)]


def sections(chosen: Sequence[Rule]) -> list[tuple[str, list[Rule]]]:
    """The rules by power, each power's in the order of the table."""
    order = (ALWAYS, *dict.fromkeys((*POWERS, *PUBLISHER_POWERS)))
    ranked = sorted(chosen, key=lambda rule: order.index(rule.power))
    return [(power, list(some)) for power, some in groupby(ranked, key=lambda rule: rule.power)]


def policy_rules(chosen: Sequence[Rule]) -> list[dict[str, Any]]:
    """PolicyRules for rules of one power, resources with the same verbs and names in one. Markers stay."""
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for rule in chosen:
        wanted = verbs.setdefault((rule.group, rule.resource, rule.names), [])
        wanted += [verb for verb in rule.verbs if verb not in wanted]
    shapes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), some in verbs.items():
        shapes.setdefault((group, tuple(sorted(some)), names), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(some)}
        | ({"resourceNames": list(names)} if names else {})
        for (group, some, names), resources in shapes.items()
    ]


def role(
    where: Where,
    powers: Has = EVERYTHING,
    names: Names = USUAL,
    name: str = ACCOUNT,
    table: Sequence[Rule] = RULES,
) -> dict[str, Any]:
    """The ClusterRole, or the Role of one of the namespaces. A rule whose markers stand for nothing is left out: without names it
    would allow every object."""
    found = [rule for _, some in sections(rules(powers, where, table)) for rule in policy_rules(some)]
    named = [
        one | {"resourceNames": list(names.of(one["resourceNames"]))} if "resourceNames" in one else one
        for one in found
    ]
    namespace = names.namespace(where)
    return {
        "apiVersion": RBAC,
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": role_name(name, where)} | ({"namespace": namespace} if namespace else {}),
        "rules": [one for one in named if one.get("resourceNames", True)],
    }


def cluster_role(powers: Powers = EVERYTHING, names: Names = USUAL, name: str = ACCOUNT) -> dict[str, Any]:
    """The ClusterRole."""
    return role("cluster", powers, names, name)


def publisher_role(
    where: Where, powers: Has = ALL_OF_PUBLISHER, names: Names = USUAL_PUBLISHER, name: str = PUBLISHER
) -> dict[str, Any]:
    """The publisher's ClusterRole, or its Role in one of the namespaces."""
    return role(where, powers, names, name, PUBLISHER_RULES)


def role_name(name: str, where: Where) -> str:
    """What a role is called. The two Roles may be in one namespace."""
    return name if where == "cluster" else f"{name}-{where}"


def binding(made: dict[str, Any], account: str, namespace: str) -> dict[str, Any]:
    """The binding that gives a role to a ServiceAccount."""
    return {
        "apiVersion": RBAC,
        "kind": f"{made['kind']}Binding",
        "metadata": dict(made["metadata"]),
        "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": made["kind"], "name": made["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
