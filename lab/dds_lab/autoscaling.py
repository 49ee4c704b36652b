"""The dds autoscaler in a lab on virtual time: the loop of the live process, with timers instead of threads and direct calls
instead of gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dds_adapters.autoscaler.provider import Away, Provider
from dds_adapters.fabric.provider import FabricError
from dds_adapters.machines.provider import Machines, ServersPartly
from dds_adapters.runtime.autoscaler import NOT_YET, Ask, AutoscalerController, Inbox, Outside
from dds_core.autoscaler import events as e
from dds_core.autoscaler.model import GroupsView, NodeRef
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.autoscaler.state import Fleet
from dds_core.log import EventLog
from dds_lab.driver import CODE, OurProcess
from dds_lab.lab import Lab
from dds_lab.time import Timer

AUTOSCALER_USER = "system:serviceaccount:composable-dra:dds-autoscaler"
SERVERS_SECONDS = 10.0
"""Seconds between two queries for the servers."""


class OurAutoscaler(OurProcess[Fleet]):
    """The autoscaler in a lab; a simulated Cluster Autoscaler calls `provider`."""

    def __init__(self, lab: Lab, log: EventLog, policy: AutoscalePolicy, machines: Machines) -> None:
        super().__init__(lab, AUTOSCALER_USER)
        inbox = Inbox(self._now, self.wake)
        beside = _ServersTimer(self, machines, inbox)
        self.controller = self.autoscaler = AutoscalerController(
            log, policy, Outside(machines, inbox, beside), code=CODE, on_error=self.faults.append
        )
        self.provider: Provider = _Called(self, inbox)

    def turn_now(self) -> None:
        """Process all arrivals at once."""
        if self._due is not None:
            self._due.cancel()
        self._turn()


class _Called(Provider):
    """Each call is decided before it returns, within one instant of lab time."""

    def __init__(self, ours: OurAutoscaler, inbox: Inbox) -> None:
        self._ours = ours
        self._inbox = inbox

    def refresh(self) -> None:
        self._ask(e.Refreshed())

    def view(self) -> GroupsView:
        shown = self._ours.autoscaler.shown if self._ours.alive else None
        if shown is None:
            raise Away(NOT_YET, fix="ask again")
        return shown

    def increase(self, group: str, delta: int) -> None:
        self._ask(e.GrowthAsked(group, delta))

    def decrease(self, group: str, delta: int) -> None:
        self._ask(e.ShrinkAsked(group, delta))

    def delete(self, group: str, nodes: Sequence[NodeRef]) -> None:
        self._ask(e.RemovalAsked(group, tuple(nodes)))

    def _ask(self, fact: Ask) -> None:
        answer = self._inbox.ask(fact)
        self._ours.turn_now()
        if not answer.done():
            answer.cancel()
            raise Away("nothing was decided in time", fix="ask again")
        answer.result()


class _ServersTimer:
    """Queries the provider for its servers at intervals."""

    def __init__(self, ours: OurAutoscaler, machines: Machines, inbox: Inbox) -> None:
        self._ours = ours
        self._machines = machines
        self._inbox = inbox
        self._next: Timer | None = None

    def start(self) -> None:
        self._again(0.0)

    def look(self) -> None:
        self._again(self._ours._times.write.draw(self._ours._random))

    def stop(self) -> Sequence[str]:
        if self._next is not None:
            self._next.cancel()
        return ()

    def threads(self) -> Mapping[str, bool]:
        return {}

    def age(self) -> float | None:
        return None

    def _again(self, seconds: float) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._ours._time.after(seconds, self._ask)

    def _ask(self) -> None:
        self._again(SERVERS_SECONDS)
        try:
            self._inbox.tell(self._machines.servers())
        except ServersPartly as error:
            self._inbox.tell(error.servers, error.groups)
            self._ours.faults.append(error)
        except FabricError as error:
            self._ours.faults.append(error)
