"""The publisher by exactly the roles of its deployment: no verb is missing, none is there for nothing, and no write is one that
the admission policies would refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dds_adapters.fabric import FabricSettings
from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.doctor import fleet
from dds_adapters.kubernetes.doctor.permissions import publisher_permissions
from dds_adapters.web.reviews import ALLOWED, Reviews
from dds_core.events import NodeLabelled, WriteRefused
from dds_core.publisher.events import PoolPublished, PoolWithdrawn
from dds_core.publisher.policy import PublishPolicy
from dds_lab.api.requests import User
from dds_lab.driver import Direct, OurPublisher, by_manager
from dds_lab.manager import Limit, ManagerSettings
from tests.project.deploy.admission import PUBLISHER_ACCOUNT
from tests.project.deploy.permitted import GROUPS, Uses, give_roles, needed
from tests.support.doctor_lab import DoctorLab
from tests.support.publishing import ENDPOINT, PublishRun, Surroundings, change_models, publishing, write_login, written

CLUSTER = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
  - {model: NVIDIA H100, device: nvidia-h100, product: H100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 4, NVIDIA H100: 2}}
nodes:
  - {count: 2, fabric: 1}
"""
STEPS = "steps:\n  - {at: 10s, run: {name: train, devices: {nvidia-a100: 1}, lasts: 60s, delete_after: 60s}}\n"
AROUND = Surroundings(manager=ManagerSettings(api="cm", limits=(Limit("NVIDIA A100", most=3),)))


def _begun(run: PublishRun, folder: Path, uses: Uses, without: tuple[str, ...] = ()) -> None:
    """Let our publisher begin as its ServiceAccount with its roles, and every request of it be looked at."""
    give_roles(run.lab.client("admin"), without, component="publisher")
    uses.follow(run.lab.server)
    manager = run.around.manager
    write_login(manager.login, folder)
    settings = FabricSettings(
        manager.api, endpoint=ENDPOINT, tenant=manager.tenant, cluster=manager.cluster, credentials=folder
    )
    reach = by_manager(run.manager, settings)
    run.publishers.append(
        OurPublisher(run.lab, run.log, run.around.policy, reach, user=PUBLISHER_ACCOUNT, groups=GROUPS)
    )
    run.ours.start()


def _story() -> Uses:
    """A pod that takes a device out of a pool and gives it back; then a model goes, and its pool with it."""
    uses = Uses(PUBLISHER_ACCOUNT)
    with TemporaryDirectory() as folder, publishing(written(CLUSTER, STEPS), AROUND, begin=False) as run:
        for name in ("node0000", "node0001"):
            run.lab.client("admin").patch("nodes", name, {"metadata": {"labels": {"cohdi.io/fabric": None}}})
        _begun(run, Path(folder), uses)
        run.lab.run(120)
        change_models(run.lab, lambda entries: entries.pop())
        run.lab.run(120)
        assert "train" in run.outcomes.ran
        for one in (PoolPublished, PoolWithdrawn, NodeLabelled):
            assert run.events(one), one
        assert run.events(WriteRefused) == []
    assert uses.judged > 4
    return uses


def _reviews() -> Uses:
    """What `dds doctor` and whoever reads the metrics make it ask."""
    uses, clinic = Uses(PUBLISHER_ACCOUNT), DoctorLab()
    give_roles(clinic.admin, component="publisher")
    uses.follow(clinic.lab.server)
    policy = PublishPolicy(mode="publish")
    for check in (publisher_permissions, fleet.classes):
        found = clinic.look(check, user=PUBLISHER_ACCOUNT, groups=GROUPS, publishing=policy)
        assert {one.level for one in found} == {"ok"}, found
    clinic.lab.server.access.register("the-scraper", User("prometheus", ("system:masters",)))
    reviews = Reviews(Direct(clinic.lab.server, PUBLISHER_ACCOUNT, GROUPS))
    assert reviews.judge("Bearer the-scraper") == ALLOWED
    return uses


FEATURES: dict[str, Callable[[], Uses]] = {"a model's life": _story, "reviews": _reviews}


@cache
def _driven(feature: str) -> Uses:
    return FEATURES[feature]()


@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_is_missing_and_nothing_would_be_refused(feature: str) -> None:
    uses = _driven(feature)
    assert sorted(set(uses.lacked)) == []
    assert sorted(set(uses.denied)) == []


def test_nothing_is_there_for_nothing() -> None:
    """What the program alone asks for (to follow the cluster, its identity, a Lease) `test_start` looks at."""
    used = set[tuple[str, str, str]]().union(*(_driven(feature).used for feature in FEATURES))
    programs = (rbac.WATCH, rbac.ELECTION, rbac.MACHINES)
    rules = [rule for rule in rbac.PUBLISHER_RULES if rule.of not in programs]
    assert sorted(needed(rules) - used) == []


@pytest.mark.parametrize("resource", ["resourceslices", "nodes"])
def test_a_missing_rule_is_noticed_and_ends_nothing(resource: str) -> None:
    uses = Uses(PUBLISHER_ACCOUNT)
    with TemporaryDirectory() as folder, publishing(written(CLUSTER), AROUND, begin=False, sound=False) as run:
        _begun(run, Path(folder), uses, (resource,))
        run.lab.run(60)
        assert any(resource in one for one in uses.lacked), uses.lacked
        assert run.ours.crashed is None
