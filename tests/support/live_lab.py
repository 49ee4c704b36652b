"""A lab on real time over HTTP, and our own scaler beside it: in this process, or as a program of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.loop import P
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.scaler import make_scaler
from dds_core.errors import DdsError
from dds_core.log import EventLog
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_core.scaler.state import State
from dds_lab.http_frontend import HttpFrontend
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.lab import Lab
from dds_lab.manager.frontend import ManagerFrontend
from dds_lab.scenario import Scenario
from dds_lab.serving import Address, serve

T = TypeVar("T")

QUICK = Policy(
    mode="detach",
    scan_interval_seconds=5,
    no_removal_seconds=4,
    no_allocation_seconds=10,
    cool_down_seconds=10,
    scheduler=SchedulerPolicy(binding_timeout_seconds=45),
)
"""Sooner than is good for a real cluster."""


def without_scaler(scenario: Scenario) -> Scenario:
    """The scenario with room for our own scaler."""
    return scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"scaler": None})})


class Lasting(ABC):
    """Something that begins and ends with a block."""

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def stop(self) -> None:
        """End."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class LiveLab(Lasting):
    """A lab that runs in a thread of its own."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        *,
        speed: float = 1.0,
        tls: bool = False,
        host: str = LOOPBACK,
        seed: int | None = None,
        prepare: Callable[[Lab], None] = lambda lab: None,
    ) -> None:
        """`prepare` is called in the lab's own thread, once it answers and before anything else happens there."""
        self.scenario = scenario
        self.kubeconfig = folder / "lab.kubeconfig"
        self._speed = speed
        self._tls = tls
        self._host = host
        self._seed = seed
        self._prepare = prepare
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="lab", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self.lab: Lab
        self.face: HttpFrontend
        self.manager: ManagerFrontend
        """Where the scenario has one."""
        self.credentials = folder / "manager"
        """What a client needs to log in to the manager, as the files of a Secret."""

    def start(self) -> None:
        """Serve; comes back when it answers."""
        self._thread.start()
        self._ready.wait(30)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End."""
        if (
            self._stop is not None
            and self._ready.is_set()
            and self._error is None
            and self.face is not self._first_face
        ):
            asyncio.run_coroutine_threadsafe(self.face.stop(), self._loop).result(10)
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def call(self, what: Callable[[Lab], T]) -> T:
        """Something done in the lab's own thread."""

        async def do() -> T:
            return what(self.lab)

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(30)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that all of it runs on."""
        return self._loop

    def cluster(self, user: str = "admin") -> Cluster:
        """The API as a client sees it."""
        return Cluster(str(self.kubeconfig), user)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        try:
            address = Address(self._host, tls=self._tls)
            self._loop.run_until_complete(
                serve(
                    self.scenario,
                    address,
                    self._stop,
                    self._up,
                    speed=self._speed,
                    seed=self._seed,
                    managed=self._managed,
                )
            )
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()
            self._loop.run_until_complete(asyncio.sleep(0.02))  # what was closed is gone a turn later
            self._loop.close()

    def _managed(self, face: ManagerFrontend) -> None:
        self.manager = face
        face.write_credentials(self.credentials)

    def _up(self, face: HttpFrontend, lab: Lab) -> None:
        self.face, self.lab = face, lab
        self._first_face = face
        face.kubeconfig(self.kubeconfig)
        self._prepare(lab)
        self._ready.set()


class Troubles:
    """An observer that only collects what went wrong."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def committed(self, steps: object, state: object, /) -> None: ...

    def began(self, process: Process[Any]) -> None: ...

    def leads(self, leading: bool, why: str = "") -> None: ...

    def alive(self) -> None: ...

    def on_turn(self, state: object, /) -> None: ...

    def trouble(self, part: str, error: DdsError) -> None:
        self.lines.append(f"{part}: {error}")


class Running(Lasting, Generic[P]):
    """A process of ours in a thread of this one, over HTTP."""

    def __init__(self, make: Callable[[Troubles], Process[P]]) -> None:
        """`make` is given who is to be told what goes wrong."""
        self.troubles = Troubles()
        self.process = make(self.troubles)
        self.ended: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ours", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 30.0) -> None:
        """In order; raises what ended it before."""
        self.process.stop()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it did not end"
        if self.ended is not None:
            raise self.ended

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.process.run()
        except BaseException as error:
            self.ended = error


class OurProcess(Running[State]):
    """Our scaler."""

    def __init__(
        self,
        cluster: Cluster,
        open_log: Callable[[str], EventLog],
        policy: Callable[[], Policy] = lambda: QUICK,
        settings: LiveSettings | None = None,
        prepare: Callable[[Process[State]], None] = lambda process: None,
    ) -> None:
        """`prepare` is given it before it begins."""
        settings = settings or LiveSettings(identity="test", health=None, metrics=None)
        make = make_scaler("test", settings.config_namespace, settings.lease_namespace)
        super().__init__(lambda troubles: Process(settings, cluster, open_log, policy, make, observer=troubles))
        prepare(self.process)


def eventually(what: Callable[[], T], seconds: float = 30.0, pause: float = 0.05) -> T:
    """What a call gives as soon as that is true; fails when it never is."""
    until = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
