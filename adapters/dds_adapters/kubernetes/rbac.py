"""The table of every permission that scaler, publisher and autoscaler use: the verb, the call that needs it, and its feature. The
chart, the kustomize bases, the documentation and `dds doctor` all use these tables, so they agree.

A policy knob that needs a permission is a row of `RULES` and its `Feature`. Pure data: nothing here sends a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.watch.watch_spec import DRA, OPERATOR
from dds_core.autoscaler.policy import AutoscaleMode, AutoscalePolicy
from dds_core.kit.policy import Mode
from dds_core.publisher.policy import PublishMode, PublishPolicy
from dds_core.scaler.policy import Policy

PUBLISHER = "dds-publisher"
"""Default name of the publisher's ServiceAccount, roles and Lease."""
AUTOSCALER = "dds-autoscaler"
"""The same for the autoscaler."""

Where = Literal["cluster", "config", "lease", "guard"]
"""The role that has a rule: the ClusterRole, or the Role in the namespace of the fabric's ConfigMap, the Lease or the guards."""
WHERES: tuple[Where, ...] = ("cluster", "config", "lease", "guard")

DRIVERS = "<drivers>"
CONFIGMAP = "<configmap>"
LEASE = "<lease>"
MACHINE_GROUP = "cluster.x-k8s.io"
IDENTITY = "kube-system"
"""The namespace whose uid is the cluster's identity."""

ALWAYS = ""
"""The power of a rule that cannot be switched off: without it the component does not run."""

_RANK = {"observe": 0, "attach": 1, "publish": 1, "autoscale": 1, "detach": 2}
"""Order of the modes of scaler, publisher and autoscaler."""


@dataclass(frozen=True)
class Feature:
    """A part of dds that needs some rules.

    Without its `power` the rules are left out of the role; the API server then refuses the decisions that need them, which log
    and metrics show. `mode` is the lowest mode that makes the calls; `used` says whether a policy in such a mode ever does.
    `told`: not the policy but another setting switches it on. `words`: only texts for people are lost without it. `spare`: dds
    works without it too, but less well.
    """

    name: str
    power: str = ALWAYS
    mode: Mode | PublishMode | AutoscaleMode = "observe"
    used: Callable[[Any], bool] = lambda policy: True
    told: bool = False
    words: bool = False
    spare: bool = False


def exchanges(policy: Policy) -> bool:
    """Whether the policy uses exchanges, for pods of any scheduler."""
    named = (one.hand_over for one in (policy.scheduler, *policy.schedulers.values()))
    return "exchange" in (policy.hand_over, *named)


def _guards(policy: Policy) -> bool:
    """Whether devices are guarded, for an exchange or before a detach."""
    return exchanges(policy) or policy.mode == "detach"


WATCH = Feature("watch")
ATTACH = Feature("attach", "attach", "attach")
SIGNAL = Feature("conditions on claims", "signal", "attach")
EXCHANGE = Feature("exchange", "exchange", "attach", exchanges, spare=True)
GUARD = Feature("guards", "exchange", "attach", _guards, spare=True)
HOLD = Feature("holds", "exchange", "detach", spare=True)
CLEAR = Feature("hand-over clear", "steer", "attach")
LABELS = Feature("node labels", "labels", "attach")
NUDGE = Feature("looks of the operator", "nudge", "attach", lambda policy: policy.operator_nudge == "auto")
STAMP = Feature("last-used stamps", "stamp", "attach")
DETACH = Feature("detach", "detach", "detach")
PUBLISH = Feature("publish", "publish", "publish")
NODE_LABELS = Feature("labels of fabric and limits", "node_labels", "publish", lambda policy: policy.label_nodes)
MACHINES = Feature("machines by BareMetalHost", "bare_metal_hosts", told=True)
SERVERS = Feature("nodes of servers", "servers", "autoscale")
CLUSTER_API = Feature("servers by cluster-api", "cluster_api", told=True)
EVENTS = Feature("events", "events", "attach", words=True)
ELECTION = Feature("leader election", "leader_election", told=True)
REVIEWS = Feature("metrics protection", "metrics_reviews", told=True)
DOCTOR = Feature("doctor", words=True)


@dataclass(frozen=True)
class Rule:
    """Permission for verbs on a resource or subresource ("pods/status").

    `call` describes the request that needs it. `names` are resourceNames, some of them markers (DRIVERS, CONFIGMAP, LEASE).
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
        return self.of.name

    @property
    def power(self) -> str:
        """The power that includes this rule; ALWAYS for none."""
        return self.of.power

    @property
    def parts(self) -> tuple[str, str]:
        """Resource and subresource, for a SelfSubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        return resource, subresource


_LISTEN = ("list", "watch")
_AUTHORIZATION = "authorization.k8s.io"
_ADMISSION = guard.ADMISSION.partition("/")[0]
_PROGRAM = (
    Rule(ELECTION, "coordination.k8s.io", "leases", ("create",), "make the Lease (a name cannot limit this)", (), "lease"),
    Rule(ELECTION, "coordination.k8s.io", "leases", ("get", "update"), "win, hold and release the Lease", (LEASE,), "lease"),
    Rule(REVIEWS, "authentication.k8s.io", "tokenreviews", ("create",), "who asks for the metrics"),
    Rule(REVIEWS, _AUTHORIZATION, "subjectaccessreviews", ("create",), "whether they may read them"),
    Rule(DOCTOR, _AUTHORIZATION, "selfsubjectaccessreviews", ("create",), "which of these permissions are there"),
)  # fmt: skip
"""What every component needs."""

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
    Rule(SIGNAL, DRA, "resourceclaims/status", ("patch",), "set dds's conditions on the devices of a claim"),
    Rule(
        SIGNAL, DRA, "resourceclaims/driver", ("arbitrary-node:patch",),
        "the same for devices of these drivers, from Kubernetes 1.36", (DRIVERS,),
    ),
    Rule(EXCHANGE, DRA, "resourceclaims", ("get",), "compare a claim before its devices are exchanged"),
    Rule(EXCHANGE, DRA, "resourceclaims/status", ("patch",), "exchange the devices of a claim"),
    Rule(GUARD, DRA, "resourceclaims", ("get",), "read dds-probe; compare a hold"),
    Rule(GUARD, DRA, "resourceclaims/status", ("patch",), "see whether a guard is in force; hold a device; let go of it"),
    Rule(GUARD, DRA, "resourceclaims/binding", ("patch",), "the same, from Kubernetes 1.36 (which asks cluster-wide)"),
    Rule(
        GUARD, _ADMISSION, "validatingadmissionpolicies", ("get",),
        "whether the guard is installed, and exempts dds", (guard.NAME,),
    ),
    Rule(GUARD, _ADMISSION, "validatingadmissionpolicybindings", ("get",), "where its ConfigMap is", (guard.NAME,)),
    Rule(
        GUARD, "authentication.k8s.io", "selfsubjectreviews", ("create",),
        "the user name of dds; every user usually may, but without it there is no guard",
    ),
    Rule(GUARD, "", "configmaps", ("get", "patch"), "guard a device; take the guard off", (guard.CONFIG_MAP,), "guard"),
    Rule(CLEAR, "", "pods/status", ("patch",), "nominate the node for a pod"),
    Rule(CLEAR, DRA, "resourceclaims", ("get",), "compare a claim before its allocation is cleared"),
    Rule(CLEAR, DRA, "resourceclaims/status", ("patch",), "clear an allocation that was signalled"),
    Rule(CLEAR, DRA, "resourceclaims/binding", ("patch",), "the same, from Kubernetes 1.36"),
    Rule(LABELS, "", "nodes", ("get", "patch"), "compare a node, then set pool, cool-down and ready labels"),
    Rule(NUDGE, OPERATOR, "composableresources", ("get", "patch"), "make the operator look at a device on its way"),
    Rule(STAMP, OPERATOR, "composableresources", ("get", "patch"), "say when a device was last used; take a mark off"),
    Rule(DETACH, OPERATOR, "composableresources", ("get", "patch"), "mark the device that is to go"),
    Rule(DETACH, OPERATOR, "composabilityrequests", ("get", "patch"), "lower a request by its marked victims"),
    Rule(HOLD, DRA, "resourceclaims", ("create", "delete"), "hold a device before it goes back; let go of it", (), "guard"),
    Rule(EVENTS, "events.k8s.io", "events", ("create",), "tell users what was done for their claims and pods"),
    *_PROGRAM,
)  # fmt: skip
"""The scaler's table: first what it watches, then each feature in the order of a claim's life."""

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
    *_PROGRAM,
    Rule(DOCTOR, DRA, "deviceclasses", ("list",), "whether a class asks for what a device does not say"),
)  # fmt: skip
"""The publisher's table. The publisher writes no claim, pod or request, and reads no Secret: its own is a mounted file."""


AUTOSCALER_RULES: tuple[Rule, ...] = (
    Rule(WATCH, "", "configmaps", _LISTEN, "the ConfigMap of the fabric", (CONFIGMAP,), "config"),
    Rule(WATCH, "", "nodes", _LISTEN, "which server a node is, its labels and taints"),
    Rule(WATCH, "", "pods", _LISTEN, "every pod: those that wait, and the room that the others take"),
    Rule(WATCH, "", "namespaces", ("get",), "the uid of kube-system: the cluster's identity in the log", (IDENTITY,)),
    Rule(WATCH, DRA, "deviceclasses", _LISTEN, "which devices a claim's request can mean"),
    Rule(WATCH, DRA, "devicetaintrules", _LISTEN, "taints of devices, where such rules are served"),
    Rule(WATCH, DRA, "resourceclaims", _LISTEN, "which devices claims hold"),
    Rule(WATCH, DRA, "resourceslices", _LISTEN, "devices of pools and of nodes"),
    Rule(WATCH, OPERATOR, "composabilityrequests", _LISTEN, "what the fabric was asked for"),
    Rule(WATCH, OPERATOR, "composableresources", _LISTEN, "what the fabric attached"),
    Rule(SERVERS, "", "nodes", ("get", "patch"), "compare a node, then take its start-up taint off"),
    Rule(SERVERS, "", "nodes", ("delete",), "delete the Node of a server that is gone"),
    Rule(
        CLUSTER_API,
        MACHINE_GROUP,
        "machinedeployments",
        ("get", "patch"),
        "raise and lower the replicas of a group",
    ),
    Rule(CLUSTER_API, MACHINE_GROUP, "machinesets", ("get", "list", "patch"), "the same; whose Machines they are"),
    Rule(CLUSTER_API, MACHINE_GROUP, "machines", ("get", "list", "patch"), "its servers; mark the one that is to go"),
    Rule(EVENTS, "events.k8s.io", "events", ("create",), "tell users what a pod waits for and what became of an order"),
    *_PROGRAM,
)
"""The autoscaler's table. The rules of cluster-api apply if this cluster is the management cluster. It reads no Secret either."""


@dataclass(frozen=True)
class Names:
    """The values of the markers in one installation. Without drivers, no condition can be set on Kubernetes 1.36."""

    drivers: tuple[str, ...] = ("gpu.nvidia.com",)
    configmap: str = config.NAME
    config_namespace: str = config.NAMESPACE
    lease: str = "dds-scaler"
    lease_namespace: str = config.NAMESPACE
    guard_namespace: str = config.NAMESPACE

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names with the markers replaced."""
        known = {DRIVERS: self.drivers, CONFIGMAP: (self.configmap,), LEASE: (self.lease,)}
        return tuple(name for marker in names for name in known.get(marker, (marker,)))

    def namespace(self, where: Where) -> str:
        """The namespace of a role, "" for the ClusterRole."""
        return {
            "cluster": "",
            "config": self.config_namespace,
            "lease": self.lease_namespace,
            "guard": self.guard_namespace,
        }[where]


USUAL = Names()
USUAL_PUBLISHER = Names(drivers=(), lease=PUBLISHER)
USUAL_AUTOSCALER = Names(drivers=(), lease=AUTOSCALER)


def needed(policy: Policy | PublishPolicy | AutoscalePolicy, table: Sequence[Rule], *told: Feature) -> frozenset[str]:
    """The powers that a policy can ever use, and those of the features in `told`. In mode `observe` dds writes nothing about the
    fleet."""

    def is_needed(of: Feature) -> bool:
        return of in told if of.told else _RANK[policy.mode] >= _RANK[of.mode] and of.used(policy)

    return frozenset(rule.power for rule in table if is_needed(rule.of))
