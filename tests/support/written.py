"""A writer at a served lab, and works that show in the object itself in which order and how often they were carried out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from dds_adapters.kubernetes.cluster import Answer, Asking, Cluster, path_of
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Result, Task, Versions
from dds_adapters.kubernetes.write.writer import Writer
from dds_core.events import Event
from dds_lab.face import Served, serving
from dds_lab.faults.wire import FaultPlan, Rule
from tests.support.served import client_of, new_server, users, wall

NAMESPACE = "default"


@dataclass(frozen=True)
class Appended:
    """Appends a number to what a ConfigMap has, unless it is there."""

    name: str
    number: int

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        path = path_of("configmaps", versions("configmaps"), NAMESPACE, self.name)
        answer = api.ask("GET", path)
        if answer.code != 200:
            return _judged(answer)
        live = msgspec.json.decode(answer.body)
        numbers = live.get("data", {}).get("numbers", "").split()
        if str(self.number) in numbers:
            return Done(written=False)
        meta = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "data": {"numbers": " ".join([*numbers, str(self.number)])}}
        encoded = msgspec.json.encode(body)
        return _judged(api.ask("PATCH", path, body=encoded, content_type="application/merge-patch+json"))


def _judged(answer: Answer) -> Result:
    if answer.code < 300:
        return Done()
    if answer.code in (409, 429) or answer.code >= 500:
        return Later(str(answer.code), answer.wait)
    return Declined(answer.code, "")


def appended(name: str, number: int, **more: Any) -> Task:
    return Task(Appended(name, number), (f"configmaps/{name}",), f"{name}-{number}", "Appended", name, **more)


@dataclass
class Noted:
    """A way to the server that keeps when what was asked, and how long an answer was to be waited for."""

    api: Asking
    asked: list[tuple[float, str, float]] = field(default_factory=list)
    before: Callable[[str], None] = lambda method: None

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        self.before(method)
        self.asked.append((time.monotonic(), method, more.get("timeout", 60.0)))
        return self.api.ask(method, path, **more)


class Desk:
    """A lab, a writer, and the facts that it gave. `left` is what `permit` says."""

    def __init__(self, served: Served, cluster: Cluster, plan: FaultPlan) -> None:
        self.served = served
        self.left = float("inf")
        self.facts: list[Event] = []
        self.told: list[str] = []
        self.noted = Noted(cluster)
        self._plan = plan
        self._wake = threading.Event()
        self.writer = Writer(
            self.noted, lambda resource: "v1", permit=lambda: self.left, wake=self._wake.set,
            told=self.told.append, random=Random(1),
        )  # fmt: skip

    def until(self, enough: Callable[[], bool], seconds: float = 60.0) -> None:
        """Fetch outcomes whenever there are some, until it is enough."""
        deadline = time.monotonic() + seconds
        while True:
            self._wake.clear()
            self.facts += self.writer.outcomes()
            if enough():
                return
            assert time.monotonic() < deadline, "it did not come"
            self._wake.wait(0.05)

    def strike(self, *rules: Rule) -> None:
        """From now on these faults and no others."""

        def change() -> None:
            self._plan.rules, self._plan.struck = rules, [0] * len(rules)

        self.served.run(change)

    def make(self, *names: str) -> None:
        for name in names:
            body = {"metadata": {"name": name}, "data": {"numbers": ""}}
            self.served.run(lambda body=body: client_of(self.served.server).create("configmaps", body, NAMESPACE))  # type: ignore[misc]

    def numbers(self, name: str) -> list[int]:
        found = self.served.run(lambda: client_of(self.served.server).get("configmaps", name, NAMESPACE))
        return [int(number) for number in found["data"]["numbers"].split()]


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    """A writer that was started, at a lab on whose wire faults can be had."""
    plan = FaultPlan((), wall, Random(1))
    with serving(new_server(), users(), tls=False, faults=plan) as served:
        cluster = Cluster(served.kubeconfig(folder / "kubeconfig"), "admin")
        place = Desk(served, cluster, plan)
        place.writer.start()
        try:
            yield place
        finally:
            stopped = place.writer.stop(20)
            cluster.close()
    assert stopped, "a thread hangs"
