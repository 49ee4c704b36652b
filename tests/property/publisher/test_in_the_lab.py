"""Random inventories, pods, outages, restarts, changes of policy, models and cables, put to the whole publisher in a lab, with a
scheduler, an operator and our scaler: the judge finds nothing, and in the end what is published is what there is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dds_core.publisher.policy import PublishPolicy
from dds_lab import lab_settings as lab_settings
from dds_lab.driver import PUBLISHER_USER
from dds_lab.scenario import Scenario
from dds_lab.scenario.scenario import Run
from dds_lab.scenario.trouble import ManagerFault
from tests.property.streams import SOAK
from tests.support.drawn import examples
from tests.support.publishing import PublishRun, Surroundings, change_models, publishing, written
from tests.support.troubles import TroubledApi

MODELS = ("nvidia-a100", "nvidia-h100")
FREE = {"nvidia-a100": "NVIDIA A100", "nvidia-h100": "NVIDIA H100"}
FAULTS = (
    ManagerFault(kind="away"),
    ManagerFault(kind="error", share=0.6),
    ManagerFault(kind="busy", share=0.5, wait=3.0),
    ManagerFault(kind="cut", share=0.5),
    ManagerFault(kind="slow", share=0.5, wait=20.0),
    ManagerFault(kind="empty", share=0.5),
    ManagerFault(kind="expired", share=0.5),
    ManagerFault(kind="odd", share=0.5, odd="html"),
    ManagerFault(kind="odd", share=0.5, odd="missing"),
    ManagerFault(kind="odd", share=0.5, odd="types"),
)
POLICIES = (
    PublishPolicy(mode="publish"),
    PublishPolicy(mode="publish", pool_devices=2),
    PublishPolicy(mode="publish", gone_seconds=5, read_back_seconds=5),
    PublishPolicy(mode="publish", scan_interval_seconds=7, while_cooling="withdraw"),
)
VERBS = (
    "run", "run", "run", "run", "withdraw", "resize", "resize", "fault", "kill", "forget", "cut", "api", "policy", "describe",
    "leave out", "cable", "delete slice", "restart scaler", "wait",
)  # fmt: skip
moves = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 7), st.integers(0, 3)), min_size=8, max_size=24)
counts = st.integers(0, 5)
MANY = st.sampled_from((1, 2, 3, 5, 140))


def inventory(here: int, there: int, others: int) -> Scenario:
    """Two fabrics with so many devices."""
    return written(f"""
models:
  - {{model: NVIDIA A100, device: nvidia-a100, product: A100}}
  - {{model: NVIDIA H100, device: nvidia-h100, product: H100}}
fabrics:
  - {{id: 1, devices: {{NVIDIA A100: {here}, NVIDIA H100: {others}}}}}
  - {{id: 2, devices: {{NVIDIA A100: {there}}}}}
nodes:
  - {{count: 3, fabric: 1}}
  - {{first: 3, count: 2, fabric: 2}}
""")


@dataclass
class World:
    """A run, and what was done to it that has to be undone in the end."""

    run: PublishRun
    serial: int = 0
    pods: list[str] = field(default_factory=list)
    left_out: Any = None
    deleted: bool = False

    def do(self, verb: str, which: int, how: int) -> None:
        getattr(self, f"_{verb.replace(' ', '_')}")(which, how)
        self.run.lab.run((0.02, 1.0, 4.0, 15.0)[how])

    def _wait(self, which: int, how: int) -> None:
        self.run.lab.run(5 * which)

    def _run(self, which: int, how: int) -> None:
        self.serial += 1
        name = f"pod-{self.serial}"
        self.pods.append(name)
        asked = Run(
            name=name, devices={MODELS[which % 4 == 3]: 1 + (which == 6)}, lasts=3.0 + 5 * which, delete_after=60.0
        )
        self.run.lab.workloads.run(asked)

    def _withdraw(self, which: int, how: int) -> None:
        if self.pods:
            self.run.lab.workloads.withdraw(self.pods.pop(which % len(self.pods)), "default")

    def _resize(self, which: int, how: int) -> None:
        self.run.lab.fabric.resize(("1", "2")[how % 2], "NVIDIA A100", which - 3)

    def _fault(self, which: int, how: int) -> None:
        fault = FAULTS[(3 * which + how) % len(FAULTS)]
        self.run.manager.faults.add(fault)
        self.run.after(2.0 + 10 * which, partial(self.run.manager.faults.lift, fault))

    def _kill(self, which: int, how: int, *, forget: bool = False) -> None:
        if not self.run.ours.alive:
            return
        self.run.ours.kill()
        self.run.after(0.1 + 4 * which, lambda: self.run.another(self.run.empty_log() if forget else None).start())

    def _forget(self, which: int, how: int) -> None:
        self._kill(which, how, forget=True)

    def _cut(self, which: int, how: int) -> None:
        watched = self.run.ours.controller.watched()
        if self.run.ours.alive and self.run.ours.publisher.synced:
            self.run.troubled.add("watches")
            self.run.ours.cut(watched[which % len(watched)].resource, 1.0 + how)
            self.run.after(3.0 + how, lambda: self.run.troubled.discard("watches"))

    def _api(self, which: int, how: int) -> None:
        """For a while some of its requests fail, are lost, or are answered and the answer is not seen."""
        kinds = (("silent", "503"), ("unseen",), ("409", "500"), ("429",))[how]
        now = (self.run.lab.time.now() - self.run.lab.scenario.start) / 1e6
        self.run.ours.requests = TroubledApi(self.run.lab, kinds, 0.7, now, now + 3 * which, user=PUBLISHER_USER)  # type: ignore[arg-type]
        self.run.troubled.add("api")
        self.run.after(3 * which + 12.0, lambda: self.run.troubled.discard("api"))

    def _policy(self, which: int, how: int) -> None:
        policy = POLICIES[which % len(POLICIES)]
        self.run.around = replace(self.run.around, policy=policy)
        if self.run.ours.alive:
            self.run.ours.change_policy(policy)

    def _describe(self, which: int, how: int) -> None:
        change_models(self.run.lab, lambda entries: entries[0].update(capacity={"memory": f"{which + 1}Gi"}))

    def _leave_out(self, which: int, how: int) -> None:
        """The second model is taken out of the ConfigMap, or comes back."""
        kept: list[Any] = []
        if self.left_out is None:
            change_models(self.run.lab, lambda entries: kept.append(entries.pop()))
            self.left_out = kept[0]
        else:
            change_models(self.run.lab, lambda entries: entries.append(self.left_out))
            self.left_out = None

    def _cable(self, which: int, how: int) -> None:
        """A machine with nothing in it comes into another fabric, or into none."""
        node = f"node000{which % 5}"
        if not self.run.lab.fabric.plugged(node):
            self.run.lab.fabric.connect(node, ("1", "2", "", "1")[how])

    def _delete_slice(self, which: int, how: int) -> None:
        slices = sorted(self.run.judge.view.slices)
        if slices and not self.deleted:
            self.deleted = True
            self.run.lab.client("admin").delete("resourceslices", slices[which % len(slices)])

    def _restart_scaler(self, which: int, how: int) -> None:
        self.run.scalers[-1].kill()
        self.run.after(how, lambda: self.run.another_scaler().start())

    def end(self) -> None:
        """Everything goes on for a while, without trouble."""
        self.run.lab.run(100)
        for fault in self.run.manager.faults.waiting():
            self.run.manager.faults.lift(fault)
        for name in self.pods:
            self.run.lab.workloads.withdraw(name, "default")
        self.run.lab.run(400)


def held_to(scenario: Scenario, drawn: list[tuple[str, int, int]]) -> None:
    with publishing(scenario, Surroundings()) as run:
        run.lab.run(3)
        world = World(run)
        for verb, which, how in drawn:
            world.do(verb, which, how)
        world.end()
        most = run.ours.publisher.state.policy.pool_devices
        assert run.judge.differences(most) == []
        before = len(run.judge.writes)
        run.lab.run(60)
        assert run.judge.writes[before:] == []


MORE_THAN_IS_BELIEVED = [*[("run", 0, 0)] * 7, ("resize", 7, 0), ("policy", 5, 0)]


@examples(5, 25)
@example(here=1, there=0, others=0, drawn=MORE_THAN_IS_BELIEVED)
@example(here=140, there=0, others=0, drawn=MORE_THAN_IS_BELIEVED)
@given(here=MANY, there=counts, others=counts, drawn=moves)
def test_nothing_that_is_held_goes_and_all_converges(
    here: int, there: int, others: int, drawn: list[tuple[str, int, int]]
) -> None:
    held_to(inventory(here, there, others), drawn)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@SOAK
@given(here=MANY, there=counts, others=counts, drawn=moves)
def test_the_same_at_length(here: int, there: int, others: int, drawn: list[tuple[str, int, int]]) -> None:
    held_to(inventory(here, there, others), drawn)
