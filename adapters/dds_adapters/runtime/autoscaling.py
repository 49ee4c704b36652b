"""The threads of the autoscaler: one polls the provider for its servers, the gRPC server takes calls of Cluster Autoscaler.

They decide nothing. They put what they receive into the `Inbox` of the controller; a call then waits for its answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend, Observe
from dds_adapters.autoscaler.provider import Away, Provider
from dds_adapters.autoscaler.server import Server
from dds_adapters.fabric.provider import FabricError
from dds_adapters.kubernetes.decode import config
from dds_adapters.machines.provider import Machines, ServersPartly
from dds_adapters.runtime.autoscaler import NOT_YET, Ask, AutoscalerController, Inbox, Outside
from dds_adapters.runtime.live_settings import SERVERS_SECONDS
from dds_adapters.runtime.loop import EffectivePolicy, Make, Surroundings
from dds_adapters.runtime.polling import PollingThread
from dds_core.autoscaler import events as e
from dds_core.autoscaler.model import GroupsView, NodeRef
from dds_core.autoscaler.state import Fleet
from dds_core.errors import DdsError
from dds_core.log import EventLog

ANSWER_SECONDS = 4.0
"""A caller waits at most this long. Cluster Autoscaler's time limit for every call is five seconds by default."""
STOP_SECONDS = 2.0


class ServersPoller(PollingThread):
    """Polls the provider of machines for its servers."""

    def __init__(
        self,
        machines: Machines,
        inbox: Inbox,
        *,
        interval: float = SERVERS_SECONDS,
        on_error: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        super().__init__("servers")
        self._machines = machines
        self._inbox = inbox
        self._interval = interval
        self._on_error = on_error
        self._wanted = False
        self.answered: float | None = None
        """When the provider last listed all servers, by the monotonic clock."""

    def look(self) -> None:
        """Poll again soon."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopping:
            self._wanted = False
            self._ask()
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._wanted, self._interval)

    def _ask(self) -> None:
        try:
            self._inbox.tell(self._machines.servers())
            self.answered = time.monotonic()
        except ServersPartly as error:
            self._inbox.tell(error.servers, error.groups)
            self._on_error(error)
        except FabricError as error:
            self._on_error(error)
        except Exception as error:  # a bug in dds must not end the polling
            what = f"the question for servers ended with {type(error).__name__}"
            self._on_error(DdsError(what, where="the provider of servers", fix="please report it; it is asked again"))


class CallForwarder(Provider):
    """Passes Cluster Autoscaler's calls to the controller. A call that times out may still take effect; Cluster Autoscaler
    reads the target size afterwards, and that is correct."""

    def __init__(
        self, inbox: Inbox, shown: Callable[[], GroupsView | None], *, patience: float = ANSWER_SECONDS
    ) -> None:
        """`shown` returns the current view, None before there is one. `patience` limits the wait of a call, in seconds."""
        self._inbox = inbox
        self._shown = shown
        self._patience = patience

    def refresh(self) -> None:
        self._ask(e.Refreshed())

    def view(self) -> GroupsView:
        shown = self._shown()
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
        try:
            answer.result(self._patience)
        except TooLate:
            answer.cancel()
            what = f"nothing was decided within {self._patience:g} s"
            raise Away(what, fix="ask again; if this stays, look at the log of dds and at its database") from None


class _SideThreads:
    """The poller and the gRPC server as one."""

    def __init__(self, poller: ServersPoller, server: Server) -> None:
        self._poller = poller
        self._server = server
        self._serving = False

    def start(self) -> None:
        """Raises InputError when the address cannot be used."""
        self._server.start()
        self._serving = True
        self._poller.start()

    def look(self) -> None:
        self._poller.look()

    def stop(self) -> Sequence[str]:
        self._poller.end()
        if self._serving:
            self._server.stop(STOP_SECONDS / 2)
            self._serving = False
        return [] if self._poller.stop(STOP_SECONDS) else [self._poller.name]

    def threads(self) -> Mapping[str, bool]:
        return {self._poller.name: self._poller.alive}

    def age(self) -> float | None:
        answered = self._poller.answered
        return None if answered is None else time.monotonic() - answered


Listen = Callable[[GrpcFrontend], Server]
"""Makes the server for a frontend. It does not listen yet."""


def make_autoscaler(
    code: str,
    machines: Machines,
    listen: Listen,
    *,
    config_namespace: str = config.NAMESPACE,
    interval: float = SERVERS_SECONDS,
    observe: Observe = lambda method, code: None,
) -> Make[Fleet]:
    """A function that makes the autoscaler with its threads. `code` is the version of dds; `observe` is called after each gRPC
    call. It listens only while it leads, so that calls reach the process that decides. The caller closes `machines` after the
    process has ended."""

    def make(log: EventLog, policy: EffectivePolicy, around: Surroundings[Fleet]) -> AutoscalerController:
        inbox = Inbox(around.arrivals.instant, around.arrivals.wake)
        poller = ServersPoller(
            machines, inbox, interval=interval, on_error=lambda error: around.trouble("servers", error)
        )
        frontend = GrpcFrontend(CallForwarder(inbox, lambda: controller.shown), observe=observe)
        controller = AutoscalerController(
            log,
            policy,
            Outside(machines, inbox, _SideThreads(poller, listen(frontend))),
            code=code,
            config_namespace=config_namespace,
            listeners=around.listeners,
            on_error=lambda error: around.trouble("decisions", error),
        )
        return controller

    return make
