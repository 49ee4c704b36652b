"""What the autoscaler reads of the cluster and of machine providers, and what it remembers of its own: one frozen struct a kind,
holding only what a rule uses.

Claims, slices, device classes, the ConfigMap, requests and devices are those of `dds_core.model`. Amounts are integers:
millicores of cpu, bytes of memory, numbers of pods.
"""

from __future__ import annotations

from typing import Literal

from dds_core.model import CORDON, FINISHED, Record, Requirement, Taint, Toleration

DELETED_BY_CA = "ToBeDeletedByClusterAutoscaler"
"""Key of the taint that Cluster Autoscaler puts on a node before it asks for its removal."""
STARTING = Taint("startup-taint.cluster-autoscaler.kubernetes.io/dds", "", "NoSchedule")
"""The taint with which a new server registers; Cluster Autoscaler counts the node as upcoming until it is off."""

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
        """The scheduler has found no node for it, and none is chosen."""
        return not (self.node or self.nominated or self.deleting or self.is_over)

    def tolerates(self, worker: Worker) -> bool:
        """Whether no taint of the node keeps it away."""
        taints = (*worker.taints, *([CORDON] if worker.unschedulable else ()))
        hard = (taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute"))
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


# -- what is remembered of its own ---------------------------------------------------------------------------------------


class Order(Record, frozen=True):
    """A server that was asked for and whose node is not there yet. `since` is the instant of the decision; `code` and `message`
    say why it will not come; `over` that it is being taken back, `void` that a write of that came to nothing."""

    group: str
    since: int
    code: str = ""
    message: str = ""
    out_of_resources: bool = False
    over: bool = False
    void: bool = False


class Leaving(Record, frozen=True):
    """A server that is being given back: its group, and its node's name, "" for one that had none. `removing`: it is gone, and
    its Node is being deleted. `void`: a write of that came to nothing."""

    group: str
    node: str
    since: int
    removing: bool = False
    void: bool = False


class Shown(Record, frozen=True):
    """A group as it was shown last. `members` are the names of its nodes; `closed` says why nothing may be added, "" when it
    may."""

    minimum: int
    maximum: int
    target: int
    members: tuple[str, ...] = ()
    closed: str = ""


Case = Literal["device", "server", "nothing", ""]
"""What would let a pod run: a device on a node that is there, another server, neither; "" where it is not known yet."""


class Advice(Record, frozen=True):
    """Which case a pending pod is, and in words why."""

    case: Case
    words: str
