"""Every feature, driven through the lab by a user that has exactly the roles of the deployment: no verb is missing, none is there
for nothing, and no write is one that the admission policies would refuse."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.doctor.permissions import permissions
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.web.reviews import ALLOWED, Reviews
from dds_core.events import NodeLabelled, WriteRefused
from dds_core.log import EventLog, MemoryLog
from dds_core.scaler.events import (
    DetachOrdered,
    DeviceHeld,
    DevicesGiven,
    GuardLifted,
    HoldEnded,
    Steered,
    VictimUnmarked,
)
from dds_lab.api.requests import User
from dds_lab.driver import Direct
from dds_lab.scenario.cluster import User as Named
from tests.project.deploy.admission import ACCOUNT
from tests.project.deploy.permitted import GROUPS, Uses, give_roles, needed
from tests.support.doctor_lab import DoctorLab
from tests.support.live_lab import LiveLab, OurProcess, eventually, without_scaler
from tests.support.ours import Running, policy_for, running, told_to_us

Drive = Callable[[], Uses]


def _marked_by_hand(run: Running) -> None:
    """Somebody marks a device that is in use, which the operator would detach with the next size."""
    admin = run.lab.client("admin")
    for one in admin.list("composableresources"):
        one["metadata"]["annotations"] = {**one["metadata"].get("annotations", {}), "cohdi.io/delete-device": "true"}
        admin.update("composableresources", one)


def _ran(name: str, *, without: tuple[str, ...] = (), marked: float = 0.0, **policy: Any) -> tuple[Uses, Running]:
    """A scenario to its end with the scaler's own roles, less those for some resources.
    `marked`: second at which all devices are marked by hand."""
    scenario, uses = told_to_us(name), Uses()
    cluster = scenario.cluster.model_copy(update={"version": "1.36.3", "taint_rules": "resource.k8s.io/v1alpha3"})

    def prepare(run: Running) -> None:
        admin = run.lab.client("admin")
        give_roles(admin, without)
        uses.follow(run.lab.server)
        if marked:
            run.lab.time.after(marked, lambda: _marked_by_hand(run))

    scenario, knobs = scenario.model_copy(update={"cluster": cluster}), policy_for(name, **policy)
    with running(scenario, knobs, prepare=prepare, guarded=False, groups=GROUPS) as run:
        run.lab.run()
    return uses, run


def _scenario(name: str, *expected: type, **policy: Any) -> Uses:
    """The uses of a scenario in which these decisions are made."""
    uses, run = _ran(name, **policy)
    run.sound(verified=False)
    for one in expected:
        assert run.events(one), f"{name} shows no {one.__name__}"
    assert run.events(WriteRefused) == []
    assert uses.judged > 0
    return uses


def _process(folder: Path) -> Uses:
    """The process over HTTP, which lists, watches, and leads by a Lease."""
    scenario, uses = without_scaler(told_to_us("first_attach")), Uses()
    users = (*scenario.cluster.users, Named(name=ACCOUNT, groups=GROUPS))
    cluster = scenario.cluster.model_copy(update={"users": users, "taint_rules": "resource.k8s.io/v1beta2"})
    lease = LeaseSettings(duration=10.0, renew_deadline=8.0, retry_period=0.5)
    settings = LiveSettings(identity="test", leader_elect=True, lease=lease, health=None, metrics=None)
    logs: list[EventLog] = []

    def open_log(uid: str) -> EventLog:
        logs.append(MemoryLog("lab/scaler", cluster=uid, recorded_at=time.time_ns() // 1000))
        return logs[0]

    def synced() -> bool:
        return bool(logs) and any(row.type == "Synced" for row in logs[0].read())

    with LiveLab(scenario.model_copy(update={"cluster": cluster}), folder) as lab:
        lab.call(lambda lab: give_roles(lab.client("admin")))
        lab.call(lambda lab: uses.follow(lab.server))
        account = lab.cluster(ACCOUNT)
        try:
            with OurProcess(account, open_log, settings=settings) as ours:
                eventually(synced)
                eventually(lambda: ("coordination.k8s.io", "leases", "update") in uses.used)
            assert ours.troubles.lines == []
        finally:
            account.close()
    return uses


def _reviews() -> Uses:
    """What `dds doctor` and whoever reads the metrics make it ask."""
    uses, clinic = Uses(), DoctorLab(taint_rules="resource.k8s.io/v1beta2")
    give_roles(clinic.admin)
    uses.follow(clinic.lab.server)
    found = clinic.look(permissions, user=ACCOUNT, groups=GROUPS)
    assert {one.level for one in found} == {"ok"}, found
    clinic.lab.server.access.register("the-scraper", User("prometheus", ("system:masters",)))
    reviews = Reviews(Direct(clinic.lab.server, ACCOUNT, GROUPS))
    assert reviews.judge("Bearer the-scraper") == ALLOWED
    return uses


FEATURES: dict[str, Drive] = {
    "hand-over clear, holds, detach": partial(
        _scenario,
        "burst",
        Steered,
        DeviceHeld,
        HoldEnded,
        DetachOrdered,
        hand_over="clear",
    ),
    "a mark by hand": partial(_scenario, "first_attach", VictimUnmarked, marked=20.0),
    "exchanges": partial(_scenario, "burst", DevicesGiven, GuardLifted),
    "an empty pool": partial(_scenario, "pool_exhausted", DevicesGiven),
    "cool-down": partial(_scenario, "node_limit", NodeLabelled),
    "attach errors": partial(_scenario, "attach_failure"),
    "coexistence": partial(_scenario, "coexistence"),
    "two requests": partial(_scenario, "two_requests"),
    "extended resources": partial(_scenario, "extended_resource"),
    "reviews": _reviews,
}


@cache
def _driven(feature: str) -> Uses:
    return FEATURES[feature]()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Uses:
    return _process(tmp_path_factory.mktemp("lab"))


@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_is_missing_and_nothing_would_be_refused(feature: str) -> None:
    uses = _driven(feature)
    assert sorted(set(uses.lacked)) == []
    assert sorted(set(uses.denied)) == []


def test_the_process_lacks_nothing(process: Uses) -> None:
    assert sorted(set(process.lacked)) == []


def test_nothing_is_there_for_nothing(process: Uses) -> None:
    used = process.used.union(*(_driven(feature).used for feature in FEATURES))
    assert sorted(needed() - used) == []


@pytest.mark.parametrize(
    "resource",
    [
        "resourceclaims/driver",
        "resourceclaims/status",
        "resourceclaims/binding",
        "pods/status",
        "composabilityrequests",
    ],
)
def test_a_missing_rule_is_noticed_and_costs_that_feature_alone(resource: str) -> None:
    """B1: what may not be written is told as refused; the scaler goes on."""
    uses, run = _ran("first_attach", without=(resource,), hand_over="clear")
    assert any(resource in one for one in uses.lacked), uses.lacked
    assert run.ours.crashed is None
    if resource != "composabilityrequests":  # without its watch there is no view, so nothing is decided at all
        assert run.events(WriteRefused)


def test_a_write_that_the_policies_refuse_is_noticed() -> None:
    """The harness itself: it would tell."""
    uses, clinic = Uses(), DoctorLab()
    give_roles(clinic.admin)
    uses.follow(clinic.lab.server)
    requests = Direct(clinic.lab.server, ACCOUNT, GROUPS)
    node = clinic.admin.list("nodes")[0]["metadata"]["name"]
    body = b'{"spec": {"unschedulable": true}}'
    answer = requests.ask("PATCH", f"/api/v1/nodes/{node}", body=body, content_type="application/merge-patch+json")
    assert answer.code == 422
    assert [one.partition(": ")[2] for one in uses.denied] == ["dds may change nothing of a node but its labels"]
