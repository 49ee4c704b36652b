"""What the autoscaler reads of the cluster and of machine providers, and its own rows: one frozen struct per kind, with only the
fields that a rule uses.

Claims, slices, device classes, the ConfigMap, requests and devices are those of `dds_core.model`. Amounts are integers:
millicores of cpu, bytes of memory, numbers of pods.
"""

from __future__ import annotations

from typing import Literal

from dds_core.model import BLOCKING, CORDON, FINISHED, Record, Requirement, Taint, Toleration

DELETED_BY_CA = "ToBeDeletedByClusterAutoscaler"
"""Key of the taint that Cluster Autoscaler puts on a node before it asks for its removal."""
STARTING = Taint("startup-taint.cluster-autoscaler.kubernetes.io/dds", "", "NoSchedule")
"""The taint with which a new server registers; until it is removed, Cluster Autoscaler counts the node as upcoming."""
FULL = 507
"""Code of a refusal by a provider that has no free server (HTTP: insufficient storage)."""

Amounts = dict[str, int]


class Worker(Record, frozen=True):
    """A node. `provider_id`: spec.providerID. `room`: what is allocatable. `ready`: condition Ready."""

    uid: str
    name: str = ""
    provider_id: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    deleting: bool = False
    ready: bool = False
    room: Amounts = {}

    @property
    def is_condemned(self) -> bool:
        """Whether Cluster Autoscaler is about to ask for its removal."""
        return any(taint.key == DELETED_BY_CA for taint in self.taints)


class Load(Record, frozen=True):
    """A pod. `asks`: requests of its containers together. `terms`: node selector terms, one of which must hold (empty:
    any node). `waiting`: reason of PodScheduled=False. `daemon`: made by a DaemonSet. Claims as in `Pod`."""

    uid: str
    namespace: str = ""
    name: str = ""
    node: str = ""
    nominated: str = ""
    phase: str = ""
    deleting: bool = False
    waiting: str = ""
    claims: tuple[str, ...] = ()
    extended_claim: str = ""
    asks: Amounts = {}
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    daemon: bool = False

    @property
    def is_over(self) -> bool:
        return self.phase in FINISHED

    @property
    def is_pending(self) -> bool:
        """Whether the scheduler has neither bound nor nominated it to a node."""
        return not (self.node or self.nominated or self.deleting or self.is_over)

    def tolerates(self, worker: Worker) -> bool:
        """Whether no taint of the node keeps the pod away."""
        taints = (*worker.taints, *([CORDON] if worker.unschedulable else ()))
        hard = (taint for taint in taints if taint.effect in BLOCKING)
        return all(any(one.tolerates(taint) for one in self.tolerations) for taint in hard)


ServerState = Literal["creating", "running", "deleting", "failed"]


class Server(Record, frozen=True):
    """A server as its provider reports it. `order`: the name it was ordered under, empty if dds did not order it.
    `provider_id`: that of its node, empty until known. `code`, `message`: why it failed."""

    uid: str
    group: str = ""
    order: str = ""
    provider_id: str = ""
    state: ServerState = "creating"
    code: str = ""
    message: str = ""
    out_of_resources: bool = False


# -- own rows ------------------------------------------------------------------------------------------------------------


class Order(Record, frozen=True):
    """A server that was ordered and whose node is not there yet. `since`: when it was decided. `code`, `message`: why it will not
    come. `over`: it is being taken back; `void`: a write for that failed."""

    group: str
    since: int
    code: str = ""
    message: str = ""
    out_of_resources: bool = False
    over: bool = False
    void: bool = False


class Leaving(Record, frozen=True):
    """A server that is being given back; `node` is "" if it had none. `removing`: the server is gone and its Node is being
    deleted. `void`: a write for that failed."""

    group: str
    node: str
    since: int
    removing: bool = False
    void: bool = False


class Shown(Record, frozen=True):
    """A group as it was shown last. `members`: names of its nodes. `closed`: why no server may be added, "" if one may."""

    minimum: int
    maximum: int
    target: int
    members: tuple[str, ...] = ()
    closed: str = ""


Case = Literal["device", "server", "nothing", ""]
"""What would let a pod run: a device on an existing node, another server, or nothing; "" while unknown."""


class Advice(Record, frozen=True):
    """The case of a pending pod, and why."""

    case: Case
    words: str
