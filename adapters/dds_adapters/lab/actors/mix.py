"""A random mix of pods with claims: when they come, what they ask for, how long they run. All of it from one seed."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from dds_adapters.lab.actors.workloads import Run, Workloads
from dds_adapters.lab.client import ApiError
from dds_adapters.lab.latency import Latency, Uniform
from dds_adapters.lab.time import Time, Timer


@dataclass(frozen=True)
class Ask:
    """What a share of the pods asks for: devices by DeviceClass, and amounts of capacity by class."""

    devices: dict[str, int]
    weight: float = 1.0
    shares: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class MixSettings:
    """`pods` in all, at random instants of `over` seconds that begin at `start`. Each runs for `lasts`. `ends`: is it
    deleted then with its claim, or does it end by itself, and is deleted `linger` seconds later? `keep` of those stay.
    `templates`: the share with generated claims; `withdrawn`: the share deleted before they run, `patience` seconds
    after they came."""

    pods: int
    over: float
    asks: tuple[Ask, ...]
    start: float = 0.0
    lasts: Latency = field(default=Uniform(60.0, 600.0))
    name: str = "mix"
    namespaces: tuple[str, ...] = ("default",)
    templates: float = 0.0
    withdrawn: float = 0.0
    patience: Latency = field(default=Uniform(0.0, 5.0))
    ends: Literal["deleted", "finished"] = "deleted"
    linger: float = 10.0
    keep: int = 0
    cpu: str = ""
    memory: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)


class Mix:
    """The source of the pods. The next instant is drawn when the one before has come, so that a long run costs no
    memory."""

    def __init__(self, workloads: Workloads, time: Time, settings: MixSettings) -> None:
        self._workloads = workloads
        self._time = time
        self._settings = settings
        self._random: Random = time.random(f"mix/{settings.name}")
        self.refused = 0  # arrivals that the API did not take, such as those of a namespace that is gone
        self._made = 0
        self._left = settings.over
        self._ended: deque[tuple[str, str]] = deque()
        self._timer: Timer | None = None
        self._weights = [one.weight for one in settings.asks]

    def start(self) -> None:
        if self._settings.ends == "finished":
            self._workloads.ran.append(self._ran)
        self._timer = self._time.after(self._settings.start, self._next)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ran in self._workloads.ran:
            self._workloads.ran.remove(self._ran)

    def _next(self) -> None:
        """Wait for the next arrival: the smallest of as many uniform instants as are left."""
        missing = self._settings.pods - self._made
        if missing <= 0:
            self._timer = None
            return
        gap = self._left * (1.0 - self._random.random() ** (1.0 / missing))
        self._left -= gap
        self._timer = self._time.after(gap, self._arrive)

    def _arrive(self) -> None:
        settings, random = self._settings, self._random
        self._made += 1
        name = f"{settings.name}-{self._made}"
        namespace = settings.namespaces[int(random.random() * len(settings.namespaces))]
        ask = random.choices(settings.asks, self._weights)[0]
        lasts = settings.lasts.draw(random)
        deleted = settings.ends == "deleted"
        wanted = Run(
            name=name,
            namespace=namespace,
            devices=ask.devices,
            shares=ask.shares,
            lasts=None if deleted else lasts,
            delete_after=lasts if deleted else None,
            template=random.random() < settings.templates,
            cpu=settings.cpu,
            memory=settings.memory,
            node_selector=settings.node_selector,
        )
        try:
            self._workloads.run(wanted)
        except ApiError:
            self.refused += 1
        if random.random() < settings.withdrawn:
            self._time.after(settings.patience.draw(random), lambda: self._workloads.withdraw(name, namespace))
        self._next()

    def _ran(self, namespace: str, name: str, phase: str) -> None:
        """A pod of ours that has ended by itself is deleted a while later, unless it is one of those that stay."""
        stem, _, number = name.rpartition("-")
        if phase != "Succeeded" or stem != self._settings.name or not number.isdecimal():
            return
        self._ended.append((namespace, name))
        if len(self._ended) > self._settings.keep:
            oldest = self._ended.popleft()
            self._time.after(self._settings.linger, lambda: self._workloads.withdraw(oldest[1], oldest[0]))
