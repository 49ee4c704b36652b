"""The scalers that a check can put into a scenario in place of its own: dds, or the simulated reference scaler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from dds_adapters.kubernetes.cluster import Unreachable
from dds_core.component import Component
from dds_core.engine import EngineOf
from dds_core.errors import DdsError, Fenced
from dds_core.events import Alerted
from dds_core.kit.work import FAULTS
from dds_core.log import EventLog, MemoryLog
from dds_core.log.chain import verify_log
from dds_core.replay import event_of, groups, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.status import ApiError
from dds_lab.check.perturb import Choose, Perturber, nothing
from dds_lab.client import Client
from dds_lab.driver import SCALER_USER, OurProcess, OurScaler
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.parts import OperatorPart, PartName, ScalerPart
from dds_lab.scenario.values import fixed
from dds_lab.setup import install_guard

LOG, CLUSTER = "lab/scaler", "kube-system-of-the-lab"
QUICK = OperatorPart()
HANDS = ("attach", "detach", "condition")
"""Steps with which a scenario does the work of operator and scaler by hand."""
FOREIGN = {"shares"}
"""Scenarios whose steps do the work of a foreign scaler, for devices that dds does not manage."""
READING = ("get", "list", "watch")


def without_hands(found: Scenario, **parts: Any) -> Scenario:
    """The scenario with an operator, without a scaler and without steps by hand; `parts` replace other parts."""
    return _with_parts(found, {"scaler": None, **parts})


def with_reference(found: Scenario, **parts: Any) -> Scenario:
    """As `without_hands`, with the simulated reference scaler."""
    return _with_parts(found, {"scaler": found.parts.scaler or ScalerPart(), **parts})


def _with_parts(found: Scenario, parts: dict[str, Any]) -> Scenario:
    changed: dict[str, Any] = {}
    if found.parts.operator is None and found.cluster.models:
        changed["operator"] = QUICK
        if any(one.cordon is not None for one in found.steps):
            # Later than the scenario's cordon, like the step by hand.
            changed["fabric"] = found.parts.fabric.model_copy(update={"attach": fixed(3.0)})
    hands = () if found.name in FOREIGN else HANDS
    steps = tuple(
        one for one in found.steps if all(getattr(one, hand) is None for hand in hands) and not _awaits_a_clearing(one)
    )
    return found.model_copy(update={"parts": found.parts.model_copy(update={**changed, **parts}), "steps": steps})


def _awaits_a_clearing(step: Any) -> bool:
    """Such steps are removed: an exchange clears an allocation only for a moment and does not let the pod go elsewhere."""
    return step.wait_for is not None and step.wait_for.lacks == "status.allocation"


def policy_of(found: Scenario, **more: Any) -> Policy:
    """A policy with the durations of the scenario's own scaler, in mode detach."""
    knobs, scheduler = found.parts.scaler, found.parts.scheduler
    profiles = scheduler.profiles if scheduler is not None else {}
    return Policy(
        **{
            "mode": "detach",
            "scan_interval_seconds": round(knobs.interval) if knobs else 5,
            "no_removal_seconds": round(knobs.removal) if knobs else 15,
            "no_allocation_seconds": round(knobs.allocation) if knobs else 5,
            "schedulers": {
                each: SchedulerPolicy(binding_timeout_seconds=round(one.binding_timeout))
                for each, one in profiles.items()
            },
            "detaches_per_hour": 10_000,
            **more,
        }
    )


class Subject(Protocol):
    """A scaler in a lab; `tap` sits between it and the API server."""

    tap: Perturber

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def faults(self) -> list[str]:
        """Errors that the scaler itself shows at the end, such as a log that does not verify."""
        ...


Cast = Callable[[Lab, Scenario, Choose], Subject]
"""Adds a scaler to a lab that is not started yet; the scenario is the one before it was adapted."""


class Ours:
    """The dds scaler, on a log in memory."""

    asks_the_newest = True

    def __init__(self, lab: Lab, scenario: Scenario, choose: Choose = nothing) -> None:
        self.tap = Perturber(lab.time, self, choose)
        self.log = MemoryLog(LOG, cluster=CLUSTER, recorded_at=scenario.start)
        self._lab = lab
        self._policy = policy_of(scenario, scan_interval_seconds=0)  # a level pass would repair what a rule missed
        self._instances: list[OurScaler] = []

    def begin(self) -> None:
        if not self._instances:
            install_guard(self._lab.client("installer"), SCALER_USER)
            self._lab.cast("scaler", self.begin, self.end)
        elif self._instances[-1].alive:
            return
        one = OurScaler(self._lab, self.log, self._policy)
        one.client.tap = self.tap
        carry = one.requests.carry
        one.requests.carry = lambda request: (
            carry(request) if request.method == "GET" else self.tap.write(partial(carry, request), request.path)
        )
        self._instances.append(one)
        one.start()

    def end(self) -> None:
        if self._instances:
            self._instances[-1].kill()

    def relist(self, resource: str) -> None:
        if self._instances[-1].alive:
            self._instances[-1].cut(resource, 0.0)

    def lose_answer(self) -> Exception:
        return Unreachable("the connection broke", where="the API server", fix="ask again")

    def faults(self) -> list[str]:
        return unsound(self._instances, self.log, SCALER)


def unsound(
    instances: Sequence[OurProcess[Any]],
    log: EventLog,
    component: Component[Any],
    *,
    verified: bool = True,
    excused: Sequence[str] = (),
) -> list[str]:
    """Errors of dds processes and of their log: crashes, faults, alerts, a broken chain. With `verified` the log's decisions are
    also made again and compared. A fault that a process survived is ignored if it contains one of the `excused` texts."""
    ends = [one.crashed for one in instances if one.crashed is not None]
    told = [f"it ended: {type(one).__name__}: {one}" for one in ends if not isinstance(one, Fenced)]
    faults = [str(fault) for one in instances for fault in one.faults]
    told += [fault for fault in faults if not any(words in fault for words in excused)]
    alerts = (event_of(row, component) for row in log.read(types={Alerted.__name__}))
    told += [one.text for one in alerts if isinstance(one, Alerted) and one.reason in FAULTS]
    try:
        verify_log(log)
    except DdsError as error:
        told.append(str(error))
    if not verified:
        return told
    report = verify(log.read(), component)
    other = ["other code decided it"] if not all(span.same for span in report.spans) else []
    return [*told, *(str(one) for one in report.differences[:3]), *other]


def unsound_with(clock: Callable[[int], int], log: EventLog, component: Component[Any]) -> list[str]:
    """Differences of the log that a recorder would have written whose clock shows `clock(instant)`: the same facts, decided anew.
    Time in a log never goes back, and no fact comes before a deadline that is due, whatever the clock shows."""
    told = (group for group in groups(log.read(), component))
    again = EngineOf(component).run((clock(one.at), one.heard) for one in told if one.heard is not None)
    written = MemoryLog(log.name, cluster=CLUSTER, recorded_at=0)
    epoch = written.take_epoch(0)
    written.append([step.group(number) for number, step in enumerate(again)], epoch=epoch, recorded_at=0)
    report = verify(written.read(), component)  # decided just now by this code, whatever code the log's `Started` names
    return [f"with a clock that steps: {one}" for one in [*report.differences, *report.told][:3]]


class Reference:
    """The simulated reference scaler, with the reference's faults: its informers list with version 0."""

    asks_the_newest = False

    def __init__(self, lab: Lab, scenario: Scenario, choose: Choose = nothing) -> None:
        self.tap = Perturber(lab.time, self, choose)
        self._lab = lab
        self._client: Client | None = None
        lab.on_client = self._made

    def _made(self, part: PartName, client: Client) -> None:
        if part == "scaler":
            self._client, client.tap = client, self.tap
            carry = client.carry
            client.carry = lambda call: self._carry(carry, call)

    def _carry(self, carry: Callable[[Call], Outcome], call: Call) -> Outcome:
        return carry(call) if call.verb in READING else self.tap.write(partial(carry, call))

    def begin(self) -> None:
        self._lab.begin_part("scaler")

    def end(self) -> None:
        self._lab.end_part("scaler")

    def relist(self, resource: str) -> None:
        if self._client is not None:
            self._client.cut(resource=resource)

    def lose_answer(self) -> Exception:
        return ApiError(500, "InternalError", "the connection broke")

    def faults(self) -> list[str]:
        return []
