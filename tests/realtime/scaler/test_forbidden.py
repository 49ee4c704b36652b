"""A permission that lacks, of each resource in turn: it is told in one line, what can go on goes on, and once it is given the
whole cluster is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dds_adapters.kubernetes.watch.watch_spec import OPTIONAL, VERSIONS
from dds_adapters.runtime.live_settings import LiveSettings
from dds_core.log import EventLog, MemoryLog
from dds_core.scaler.policy import Policy
from dds_lab.lab import Lab
from dds_lab.scenario.cluster import User
from dds_lab.shipped import find
from tests.support.live_lab import LiveLab, OurProcess, eventually, without_scaler
from tests.support.users import may

pytestmark = pytest.mark.xdist_group("forbidden")

FOLLOWED = tuple(VERSIONS)
TOLD_SECONDS = 3.0


def without(resource: str) -> str:
    """Who may do everything but that."""
    return f"without-{resource}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLab]:
    """A lab with a user for each resource, who may do everything but follow that."""
    found = without_scaler(find("first_attach"))
    users = tuple(User(name=without(resource)) for resource in FOLLOWED)
    cluster = found.cluster.model_copy(update={"users": users, "taint_rules": "resource.k8s.io/v1beta2"})
    scenario = found.model_copy(update={"cluster": cluster})

    def give(lab: Lab) -> None:
        for resource in FOLLOWED:
            may(lab, without(resource), "namespaces", *(one for one in FOLLOWED if one != resource))

    with LiveLab(scenario, tmp_path_factory.mktemp("lab")) as lab:
        lab.call(give)
        yield lab


@pytest.fixture(scope="module")
def processes(lab: LiveLab) -> Iterator[dict[str, OurProcess]]:
    """Our scaler as each of them, in mode observe, after some seconds."""

    def opened(uid: str) -> EventLog:
        return MemoryLog("lab/scaler", cluster=uid, recorded_at=time.time_ns() // 1000)

    settings = LiveSettings(identity="test", health=None, metrics=None, writers=1)
    with ExitStack() as stack:
        found = {}
        for resource in FOLLOWED:
            cluster = stack.enter_context(closing(lab.cluster(without(resource))))
            found[resource] = stack.enter_context(OurProcess(cluster, opened, Policy, settings))
        time.sleep(TOLD_SECONDS)
        yield found


@pytest.mark.parametrize("resource", FOLLOWED)
def test_what_may_not_be_followed_is_told_and_the_rest_goes_on(
    resource: str, lab: LiveLab, processes: dict[str, OurProcess]
) -> None:
    ours = processes[resource]
    scaler = eventually(lambda: ours.process.controller)
    assert scaler is not None
    told = eventually(lambda: [line for line in ours.troubles.lines if "403" in line])
    assert all(
        f"{lab.face.url} {resource}: 403 Forbidden; let this user get, list and watch it" in line for line in told
    )
    others = set(FOLLOWED) - {resource}
    eventually(lambda: others <= set(scaler.synced_resources))
    if resource in OPTIONAL:
        eventually(lambda: scaler.synced)
        assert not scaler.lost
    else:
        eventually(lambda: set(scaler.lost) == {resource})
        assert not scaler.synced, "nothing is decided on half of a view"
    assert ours.alive


def test_once_it_is_given_all_is_seen(lab: LiveLab, processes: dict[str, OurProcess]) -> None:
    def give(lab: Lab) -> None:
        for resource in FOLLOWED:
            may(lab, without(resource), resource)

    lab.call(give)
    for ours in processes.values():
        eventually(lambda ours=ours: ours.process.controller.synced and not ours.process.controller.lost, 60)  # type: ignore[misc]
