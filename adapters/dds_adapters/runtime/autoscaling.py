"""The autoscaler with what runs beside it: a thread that asks the provider for its servers, and the gRPC server that Cluster
Autoscaler asks.

They decide nothing. What they hear they put where the thread that decides takes it (`Inbox`), and wait for what comes of it.
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
from dds_adapters.runtime.asking import PollingThread
from dds_adapters.runtime.autoscaler import NOT_YET, Ask, Autoscaler, Inbox, Outside
from dds_adapters.runtime.loop import Effective, Make, Surroundings
from dds_adapters.runtime.serve_settings import SERVERS_SECONDS
from dds_core.autoscaler import events as e
from dds_core.autoscaler.model import GroupsView, NodeRef
from dds_core.autoscaler.state import Fleet
from dds_core.errors import DdsError
from dds_core.log import EventLog

ANSWER_SECONDS = 4.0
"""A caller waits at most this long. Cluster Autoscaler's time limit for every call is five seconds by default."""
STOP_SECONDS = 2.0


class ServersAsker(PollingThread):
    """Asks the provider of machines for its servers, again and again, from `start` to `stop`."""

    def __init__(
        self,
        machines: Machines,
        inbox: Inbox,
        *,
        interval: float = SERVERS_SECONDS,
        on_error: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """`on_error` gets failures."""
        super().__init__("servers")
        self._machines = machines
        self._inbox = inbox
        self._interval = interval
        self._on_error = on_error
        self._wanted = False
        self.answered: float | None = None
        """When all servers were last told, on the clock that nobody sets."""

    def look(self) -> None:
        """Ask again soon."""
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
        except Exception as error:  # a fault of ours must not end the asking
            what = f"the question for servers ended with {type(error).__name__}"
            self._on_error(DdsError(what, where="the provider of servers", fix="please report it; it is asked again"))


class Counter(Provider):
    """Where Cluster Autoscaler's calls are handed to the one who decides. What is not answered in time may have been taken all
    the same: its caller asks for the target, which is true."""

    def __init__(
        self, inbox: Inbox, shown: Callable[[], GroupsView | None], *, patience: float = ANSWER_SECONDS
    ) -> None:
        """`shown` is what is seen, None while nothing is; `patience` bounds how long a caller waits, in seconds."""
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


class _Beside:
    """Both threads' worth of it, as one."""

    def __init__(self, asker: ServersAsker, server: Server) -> None:
        self._asker = asker
        self._server = server
        self._serving = False

    def start(self) -> None:
        """Raises InputError when the address cannot be had."""
        self._server.start()
        self._serving = True
        self._asker.start()

    def look(self) -> None:
        self._asker.look()

    def stop(self) -> Sequence[str]:
        self._asker.end()
        if self._serving:
            self._server.stop(STOP_SECONDS / 2)
            self._serving = False
        return [] if self._asker.stop(STOP_SECONDS) else [self._asker.name]

    def threads(self) -> Mapping[str, bool]:
        return {self._asker.name: self._asker.alive}

    def age(self) -> float | None:
        answered = self._asker.answered
        return None if answered is None else time.monotonic() - answered


Listen = Callable[[GrpcFrontend], Server]
"""Makes the server for a face; it does not listen yet."""


def make_autoscaler(
    code: str,
    machines: Machines,
    listen: Listen,
    *,
    config_namespace: str = config.NAMESPACE,
    interval: float = SERVERS_SECONDS,
    observe: Observe = lambda method, seconds, code: None,
) -> Make[Fleet]:
    """The autoscaler as what a process runs, with what runs beside it. `code` says which version of the program that is;
    `observe` is told of each call. It listens while it leads, so that a caller finds the one that decides. The caller closes
    `machines`, after the process has ended."""

    def make(log: EventLog, policy: Effective, around: Surroundings[Fleet]) -> Autoscaler:
        inbox = Inbox(around.arrivals.instant, around.arrivals.wake)
        asker = ServersAsker(
            machines, inbox, interval=interval, on_error=lambda error: around.trouble("servers", error)
        )
        face = GrpcFrontend(Counter(inbox, lambda: controller.shown), observe=observe)
        controller = Autoscaler(
            log,
            policy,
            Outside(machines, inbox, _Beside(asker, listen(face))),
            code=code,
            config_namespace=config_namespace,
            watchers=around.watchers,
            on_error=lambda error: around.trouble("decisions", error),
        )
        return controller

    return make
