"""The autoscaler by exactly the roles of its deployment, over HTTP, with servers of cluster-api in the same cluster: no verb is
missing, none is there for nothing, and no write is one that the admission policy would refuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_adapters.autoscaler.server import Server
from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.doctor import autoscaling
from dds_adapters.kubernetes.doctor.permissions import autoscaler_permissions
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_adapters.machines import ClusterApiSettings
from dds_adapters.machines.clusterapi import ClusterApi as Provider
from dds_adapters.runtime.autoscaling import make_autoscaler
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.process import Process
from dds_adapters.web.reviews import ALLOWED, Reviews
from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.autoscaler.records import STARTING
from dds_core.autoscaler.state import Fleet
from dds_core.events import WriteRefused
from dds_core.log import MemoryLog
from dds_lab.api.requests import User
from dds_lab.driver import Direct
from dds_lab.scenario import parse
from dds_lab.scenario.cluster import User as Named
from tests.adapters.autoscaler.caller import Caller, ask, calling
from tests.project.deploy.admission import AUTOSCALER_ACCOUNT
from tests.project.deploy.permitted import GROUPS, Uses, give_roles, needed
from tests.support.cluster_api import NAMESPACE, ClusterApi
from tests.support.doctor_lab import DoctorLab
from tests.support.live_lab import LiveLab, Running, eventually

BIG, SMALL = "big", "small"
CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
POLICY = read_autoscale_policy(
    {
        "mode": "autoscale",
        "groups": [
            {"name": name, "maximum": 4, "template": {"capacity": CAPACITY, "labels": {"pool": "yes"}}}
            for name in (BIG, SMALL)
        ],
    }
)
MACHINES = ClusterApiSettings.model_validate(
    {
        "kind": "cluster-api",
        "groups": {
            BIG: {"kind": "MachineDeployment", "namespace": NAMESPACE, "name": BIG},
            SMALL: {"kind": "MachineSet", "namespace": NAMESPACE, "name": SMALL},
        },
    }
)
ELECTION = LeaseSettings(duration=10.0, renew_deadline=8.0, retry_period=0.4)
SETTINGS = LiveSettings(
    identity="test", leader_elect=True, lease=ELECTION, lease_name=rbac.AUTOSCALER, health=None, metrics=None
)
POD = {
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "train", "resources": {"requests": {"cpu": "64"}}}]},
}
"""It fits on no server, of which people are told."""


class Site:
    """A lab with cluster-api, and what Cluster Autoscaler would do in it."""

    def __init__(self, lab: LiveLab, uses: Uses, without: tuple[str, ...]) -> None:
        self.lab = lab
        self.server = lab.lab.server
        self.capi = ClusterApi(self)  # type: ignore[arg-type]  # of a served lab it needs these two alone
        self.capi.make("MachineDeployment", BIG, 1)
        self.capi.make("MachineSet", SMALL, 0)
        self.capi.settle()
        self.logs: list[MemoryLog] = []
        lab.call(lambda lab: give_roles(lab.client("admin"), without, component="autoscaler"))
        lab.call(lambda lab: uses.follow(lab.server))

    def run(self, what: Callable[[], Any]) -> Any:
        return self.lab.call(lambda lab: what())

    def client(self, what: Callable[[Any], Any]) -> Any:
        return self.lab.call(lambda lab: what(lab.client("admin")))

    def registers(self, machine: str, *taints: dict[str, str]) -> None:
        spec = {"providerID": f"metal://{machine}", "taints": list(taints)}
        status = {"allocatable": CAPACITY, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {"metadata": {"name": machine, "labels": {"pool": "yes"}}, "spec": spec}
        self.client(lambda client: client.create("nodes", node))
        self.client(lambda client: client.patch("nodes", machine, {"status": status}, subresource="status"))

    def node(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.client(lambda client: client.find("nodes", name))
        return found

    def open_log(self, cluster: str) -> MemoryLog:
        self.logs.append(MemoryLog("lab/autoscaler", cluster=cluster, recorded_at=time.time_ns() // 1000))
        return self.logs[-1]

    def types(self) -> set[str]:
        return {row.type for log in self.logs for row in log.read()}


@contextmanager
def running(folder: Path, uses: Uses, *without: str) -> Iterator[tuple[Site, Running[Fleet], Caller]]:
    """The autoscaler as its ServiceAccount; without rules for these resources."""
    scenario = parse("cluster: {nodes: []}\nparts: {scaler: false, publisher: false}\nsteps: []", "test")
    users = (*scenario.cluster.users, Named(name=AUTOSCALER_ACCOUNT, groups=GROUPS))
    cluster = scenario.cluster.model_copy(update={"users": users, "taint_rules": "resource.k8s.io/v1beta2"})
    servers: list[Server] = []

    def listen(face: GrpcFrontend) -> Server:
        servers.append(Server(face, "127.0.0.1:0"))
        return servers[-1]

    with LiveLab(scenario.model_copy(update={"cluster": cluster}), folder) as lab:
        site = Site(lab, uses, without)
        account = lab.cluster(AUTOSCALER_ACCOUNT)
        make = make_autoscaler("test", Provider(MACHINES.groups, account), listen, interval=0.5)
        try:
            with Running[Fleet](
                lambda troubles: Process(SETTINGS, account, site.open_log, lambda: POLICY, make, observer=troubles)
            ) as ours:
                eventually(lambda: (servers and servers[0].port) or not ours.alive)
                with calling(servers[0].port) as caller:
                    yield site, ours, caller
        finally:
            account.close()


def answered(call: Callable[[], object]) -> bool:
    """Cluster Autoscaler tries again what fails."""
    try:
        call()
    except grpc.RpcError:
        return False
    return True


def _story(folder: Path) -> Uses:
    """A server of each group is ordered for a pod that waits; the one of the deployment comes, and is given back."""
    uses = Uses(AUTOSCALER_ACCOUNT)
    with running(folder, uses) as (site, ours, caller):
        (first,) = site.capi.machines()
        site.registers(first)
        site.client(lambda client: client.create("pods", POD, "default"))
        eventually(lambda: answered(caller.Refresh))
        for group in (BIG, SMALL):
            caller.NodeGroupIncreaseSize(ask.Change(id=group, delta=1))
        eventually(lambda: site.capi.get("MachineDeployment", BIG)["spec"]["replicas"] == 2)
        eventually(lambda: site.capi.get("MachineSet", SMALL)["spec"]["replicas"] == 1)
        site.capi.settle()
        (second,) = [name for name in site.capi.machines() if name.startswith(BIG) and name != first]
        site.registers(second, {"key": STARTING.key, "effect": STARTING.effect})
        eventually(lambda: not (site.node(second) or {"spec": {"taints": 1}})["spec"].get("taints"))
        eventually(lambda: answered(caller.Refresh))
        node = ask.Node(name=second, providerID=f"metal://{second}")
        eventually(lambda: answered(lambda: caller.NodeGroupDeleteNodes(ask.Nodes(id=BIG, nodes=[node]))))
        eventually(lambda: site.capi.get("MachineDeployment", BIG)["spec"]["replicas"] == 1)
        site.capi.settle()
        eventually(lambda: site.node(second) is None)
        eventually(lambda: ("events.k8s.io", "events", "create") in uses.used)
        assert site.node(first) is not None
        assert ours.troubles.lines == []
        assert WriteRefused.__name__ not in site.types()
    assert uses.judged >= 2, "the taint and the Node"
    return uses


def _reviews(folder: Path) -> Uses:
    """What `dds doctor` and whoever reads the metrics make it ask."""
    uses, clinic = Uses(AUTOSCALER_ACCOUNT), DoctorLab(taint_rules="resource.k8s.io/v1beta2")
    give_roles(clinic.admin, component="autoscaler")
    uses.follow(clinic.lab.server)
    for check, level in ((autoscaler_permissions, "ok"), (autoscaling.cluster_autoscaler, "note")):
        asked: dict[str, Any] = {"autoscaling": AutoscalePolicy(mode="autoscale"), "has_machines": True}
        found = clinic.look(check, user=AUTOSCALER_ACCOUNT, groups=GROUPS, **asked)
        assert {one.level for one in found} == {level}, found
    clinic.lab.server.access.register("the-scraper", User("prometheus", ("system:masters",)))
    reviews = Reviews(Direct(clinic.lab.server, AUTOSCALER_ACCOUNT, GROUPS))
    assert reviews.judge("Bearer the-scraper") == ALLOWED
    return uses


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> list[Uses]:
    return [drive(tmp_path_factory.mktemp("lab")) for drive in (_story, _reviews)]


def test_nothing_is_missing_and_nothing_would_be_refused(driven: list[Uses]) -> None:
    assert sorted({lacked for uses in driven for lacked in uses.lacked}) == []
    assert sorted({denied for uses in driven for denied in uses.denied}) == []


def test_nothing_is_there_for_nothing(driven: list[Uses]) -> None:
    used = set[tuple[str, str, str]]().union(*(uses.used for uses in driven))
    assert sorted(needed(rbac.AUTOSCALER_RULES) - used) == []


def test_a_missing_rule_is_told_and_ends_nothing(tmp_path: Path) -> None:
    uses = Uses(AUTOSCALER_ACCOUNT)
    with running(tmp_path, uses, "machinedeployments") as (_, ours, caller):
        eventually(lambda: any("machinedeployments" in line for line in ours.troubles.lines))
        eventually(lambda: answered(caller.Refresh))  # of the other group the servers are known
        assert ours.alive
    assert "get machinedeployments" in uses.lacked
