"""The autoscaler's orders as writes: compose a server, return a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from dds_adapters.fabric.provider import FabricDenied, FabricError, FabricRefused
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Result, Versions
from dds_adapters.machines.provider import CONFLICT, Machines
from dds_core.autoscaler.fold.decisions import FULL

DENIED, OUT_OF_RESOURCES, REFUSED = "Denied", "OutOfResources", "Refused"


class ServerWrite(ABC):
    """A call to a provider of machines. It may be repeated, because the provider knows orders and servers by name."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        try:
            self._ask()
        except FabricDenied as error:
            return Declined(403, DENIED, error.what)
        except FabricRefused as error:
            if error.code == CONFLICT:
                return Later(error.what)
            reason = OUT_OF_RESOURCES if error.code == FULL else error.reason or REFUSED
            return Declined(error.code, reason, error.what)
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
