"""The autoscaler's writes: a server more, a server less, the Node of one that is gone, and the start-up taint of one that has
come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import msgspec

from dds_adapters.fabric.provider import FabricDenied, FabricError, FabricRefused
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.live_object import Ref, Server, Write
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result, Versions
from dds_adapters.machines.provider import CONFLICT, Machines
from dds_core.autoscaler.fold.decisions import FULL
from dds_core.autoscaler.records import STARTING

NODES = "nodes"
DENIED, OUT_OF_RESOURCES, REFUSED = "Denied", "OutOfResources", "Refused"


class ServerWrite(ABC):
    """A call to a provider of machines, which knows orders and servers by their names: each may be made twice."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        try:
            self._ask()
        except FabricDenied as error:
            return Declined(403, DENIED, error.what)
        except FabricRefused as error:
            if error.code == CONFLICT:
                return Later(error.what)
            return Declined(error.code, OUT_OF_RESOURCES if error.code == FULL else REFUSED, error.what)
        except FabricError as error:
            return Later(error.what)
        return Done()

    @abstractmethod
    def _ask(self) -> None:
        """Raises FabricError."""


@dataclass(frozen=True, slots=True)
class ComposeServer(ServerWrite):
    """ServerOrdered."""

    machines: Machines
    order: str
    group: str

    def _ask(self) -> None:
        self.machines.compose(self.order, self.group)


@dataclass(frozen=True, slots=True)
class ReturnServer(ServerWrite):
    """ServerReturned; `server` is the provider's id."""

    machines: Machines
    server: str

    def _ask(self) -> None:
        self.machines.decompose(self.server)


@dataclass(frozen=True, slots=True)
class DeleteNode(Write):
    """NodeRemoved."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.find(Ref(NODES, self.name, uid=self.uid))
        if live is None or live.deleting:
            return Done(written=False)
        server.delete(live)
        return Done()


@dataclass(frozen=True, slots=True)
class OpenNode(Write):
    """NodeOpened: the taint of this key and effect goes, all others stay."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(NODES, self.name, uid=self.uid))
        taints = _taints(live.raw)
        if taints is None:
            return Obsolete(f"{live.ref} has taints that cannot be read")
        left = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != _STARTING]
        if len(left) == len(taints):
            return Done(written=False)
        server.merge(live, {"spec": {"taints": left or None}})
        return Done()


_STARTING = (STARTING.key, STARTING.effect)


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None


class _Node(msgspec.Struct):
    spec: _Spec | None = None


def _taints(raw: bytes) -> list[dict[str, Any]] | None:
    """The taints of a Node with all that they have; None where they are none."""
    try:
        spec = msgspec.json.decode(raw, type=_Node).spec
    except ValueError:
        return None
    return (spec.taints or []) if spec is not None else []
