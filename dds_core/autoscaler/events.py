"""What the autoscaler's log holds beside what all logs do: nodes, pods and servers, what Cluster Autoscaler asks, and what is
decided."""

from __future__ import annotations

from typing import ClassVar, Literal

from dds_core.autoscaler.model import NodeRef
from dds_core.autoscaler.records import Case, Load, Server, Worker
from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events import objects, shared
from dds_core.events.base import Decision, Fact, Level, Names, observed, register
from dds_core.events.objects import *  # noqa: F403
from dds_core.timeline.phrases import listed


def _servers(count: int) -> str:
    return f"{count} server{'' if count == 1 else 's'}"


AUTOSCALER = "autoscaler"
"""The stream of everything that is about the whole view."""


def group_stream(group: str) -> str:
    return f"group/{group}"


def order_stream(order: str) -> str:
    return f"order/{order}"


# -- objects -----------------------------------------------------------------------------------------------------------

WorkerObserved, WorkerGone = observed(Worker, "A node appeared or changed.", "A node was deleted.")
LoadObserved, LoadGone = observed(
    Load,
    "A pod appeared or changed.",
    "A pod was deleted.",
)
ServerObserved, ServerGone = observed(
    Server,
    "The provider's answer about a server is new.",
    "A complete answer of the provider no longer lists the server.",
)


# -- what Cluster Autoscaler asks --------------------------------------------------------------------------------------


class OfAutoscaler(Fact, frozen=True):
    @property
    def subject(self) -> str:
        return AUTOSCALER


class Refreshed(OfAutoscaler, frozen=True):
    """Cluster Autoscaler began a loop, and the view for it has changed."""

    def words(self, names: Names) -> str:
        return "Cluster Autoscaler began a loop"


class OfGroup(Fact, frozen=True):
    level: ClassVar[Level] = "info"

    group: str

    @property
    def subject(self) -> str:
        return group_stream(self.group)


class GrowthAsked(OfGroup, frozen=True):
    """Cluster Autoscaler wants `delta` more servers."""

    delta: int

    def words(self, names: Names) -> str:
        return f"Cluster Autoscaler asks for {_servers(self.delta)} more in {self.group}"


class ShrinkAsked(OfGroup, frozen=True):
    """Cluster Autoscaler wants `delta` fewer of the servers that are not there yet."""

    delta: int

    def words(self, names: Names) -> str:
        return f"Cluster Autoscaler gives up {_servers(self.delta)} of {self.group} that did not come"


class RemovalAsked(OfGroup, frozen=True):
    """Cluster Autoscaler has drained these nodes and wants their servers removed."""

    nodes: tuple[NodeRef, ...]

    def words(self, names: Names) -> str:
        return f"Cluster Autoscaler asks to remove {listed([one.name for one in self.nodes])} of {self.group}"


# -- decisions ---------------------------------------------------------------------------------------------------------


class Asked(Decision, frozen=True):
    """Base of what answers Cluster Autoscaler; nothing of it is written to the cluster."""

    written: ClassVar[bool] = False

    group: str
    mode: str

    @property
    def subject(self) -> str:
        return group_stream(self.group)


class GroupShown(Asked, frozen=True):
    """Show Cluster Autoscaler the group with these bounds, this target, and these nodes joined or left. `closed`: why
    nothing may be added. `reasons`: why nodes left."""

    minimum: int
    maximum: int
    target: int
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    closed: str = ""
    reasons: dict[str, str] = {}

    def words(self, names: Names) -> str:
        parts = [f"show {self.group} with a target of {self.target} between {self.minimum} and {self.maximum}"]
        parts += [f"with {listed(self.joined)}"] if self.joined else []
        parts += [f"without {', '.join(self._why(one) for one in self.left)}"] if self.left else []
        parts += [f"closed: {self.closed}"] if self.closed else []
        return "; ".join(parts)

    def _why(self, node: str) -> str:
        return f"{node} ({why})" if (why := self.reasons.get(node)) else node


class GroupHidden(Asked, frozen=True):
    """Show the group no longer: the policy or the mode excludes it."""

    def words(self, names: Names) -> str:
        return f"show no group {self.group}"


Refusal = Literal["unknown", "refused", "bad"]


class AskRefused(Asked, frozen=True):
    """Refuse what Cluster Autoscaler asked for."""

    level: ClassVar[Level] = "warning"

    kind: Refusal
    text: str

    @property
    def key(self) -> tuple[str, str]:
        return ("AskRefused", f"{self.group}: {self.text}")

    def words(self, names: Names) -> str:
        return f"refuse that: {self.text}"


class OfOrder(Decision, frozen=True):
    gone_with: ClassVar[str] = "order"

    order: str
    group: str
    mode: str

    @property
    def subject(self) -> str:
        return order_stream(self.order)


class ServerOrdered(OfOrder, frozen=True):
    """Order a server from the provider under this name."""

    def words(self, names: Names) -> str:
        return f"order a server for {self.group} as {self.order}"


class OrderFailed(OfOrder, frozen=True):
    """No server came for an order; Cluster Autoscaler gives it up."""

    level: ClassVar[Level] = "warning"
    written: ClassVar[bool] = False

    code: str
    text: str
    out_of_resources: bool = False

    def words(self, names: Names) -> str:
        return f"tell that {self.order} has failed: {self.code}: {self.text}"


class ServerReturned(OfOrder, frozen=True):
    """Give a server back to its provider. `server`: the provider's id, empty if none is known. `node`: its node."""

    server: str = ""
    node: str = ""

    @property
    def subject(self) -> str:
        return order_stream(self.order or self.server)

    def words(self, names: Names) -> str:
        what = f"the server of {self.node}" if self.node else f"what came of {self.order}"
        return f"give {what} back ({self.group})"


class NodeRemoved(Decision, frozen=True):
    """Delete the Node of a server that is gone."""

    node: str
    uid: str
    mode: str

    @property
    def subject(self) -> str:
        return self.uid

    def words(self, names: Names) -> str:
        return f"delete node {self.node}: its server is gone"


class NodeOpened(Decision, frozen=True):
    """Remove the start-up taint from a node that has all labels of its group."""

    node: str
    uid: str
    mode: str

    @property
    def subject(self) -> str:
        return self.uid

    def words(self, names: Names) -> str:
        return f"take the start-up taint off {self.node}, which has its labels"


_ADVICE: dict[Case, str] = {
    "device": "leave pod {} to a device",
    "server": "leave pod {} to a server",
    "nothing": "see no help for pod {}",
    "": "look after pod {} no more",
}


class PodAdvised(Decision, frozen=True):
    """What would let a pending pod run, in words (`text`) and as a `case`."""

    written: ClassVar[bool] = False

    pod: str
    case: Case
    text: str
    mode: str

    @property
    def subject(self) -> str:
        return self.pod

    def words(self, names: Names) -> str:
        return f"{_ADVICE[self.case].format(names.name(self.pod))}: {self.text}"


EVENTS = (
    *shared.EVENTS,
    *objects.EVENTS,
    *(WorkerObserved, WorkerGone, LoadObserved, LoadGone, ServerObserved, ServerGone),
    *register(Refreshed, GrowthAsked, ShrinkAsked, RemovalAsked),
    *register(GroupShown, GroupHidden, AskRefused, ServerOrdered, OrderFailed, ServerReturned),
    *register(NodeRemoved, NodeOpened, PodAdvised),
)
