"""`dds autoscale` as a program between a lab and a client as Cluster Autoscaler is one, over mTLS; its servers are in an
inventory, and who powers them on is this test."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from dds_adapters.autoscaler.server import TlsFiles
from dds_adapters.sql import Database, upgrade
from dds_core import __version__
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.autoscaler.records import DELETED_BY_CA, STARTING
from dds_lab.scenario import parse
from tests.adapters.autoscaler.caller import Caller, ask, calling
from tests.adapters.autoscaler.served import write
from tests.realtime.publisher.test_program import fabric
from tests.support.certificates import Authority
from tests.support.commands import fine
from tests.support.live_lab import QUICK, LiveLab, eventually
from tests.support.serve_program import LEASE, Program

CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
POLICY = read_autoscale_policy(
    {
        "mode": "autoscale",
        "groups": [{"name": "big", "maximum": 4, "template": {"capacity": CAPACITY, "labels": {"pool": "yes"}}}],
    }
)
MACHINES = "machines: {kind: inventory, servers: servers.yaml, requests: requests.yaml}"


class Rack:
    """The inventory, and the person who looks after it."""

    def __init__(self, folder: Path, running: list[str], spare: list[str]) -> None:
        self.folder = folder
        self.states = {**dict.fromkeys(running, "running"), **dict.fromkeys(spare, "stopped")}
        (folder / "machines.yaml").write_text(MACHINES, encoding="utf-8")
        (folder / "requests.yaml").write_text("{}", encoding="utf-8")
        self._write()

    def wanted(self) -> dict[str, str]:
        """What is asked of that person."""
        found = yaml.safe_load((self.folder / "requests.yaml").read_text(encoding="utf-8"))
        return found.get("servers") or {}

    def set(self, id: str, state: str) -> None:
        self.states[id] = state
        self._write()

    def _write(self) -> None:
        servers = [
            {"id": id, "group": "big", "providerID": provider_id(id), "state": state}
            for id, state in self.states.items()
        ]
        fresh = self.folder / "servers.new"
        fresh.write_text(yaml.safe_dump({"servers": servers}), encoding="utf-8")
        fresh.rename(self.folder / "servers.yaml")


def provider_id(id: str) -> str:
    return f"metal://{id}"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    scenario = parse("cluster: {nodes: []}\nparts: {scaler: false, publisher: false}\nsteps: []", "test")
    with LiveLab(scenario, tmp_path) as lab:
        yield lab


@pytest.fixture
def log(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    return url


@pytest.fixture
def ca() -> Authority:
    return Authority.made()


class Site:
    """All that a test has to do with."""

    def __init__(self, lab: LiveLab, log: str, folder: Path, ca: Authority) -> None:
        self.lab, self.log, self.folder, self.ca = lab, log, folder, ca
        self.files = TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        write(self.files, ca.issued(), ca)
        self.rack = Rack(folder, ["s0", "s1"], ["s2", "s3"])
        for name in ("s0", "s1"):
            self.node(name)

    def program(self, *options: str, policy: AutoscalePolicy = POLICY) -> Program:
        files = self.files
        tls = (
            "--grpc-cert-file", str(files.certificate), "--grpc-key-file", str(files.key),
            "--grpc-client-ca-file", str(files.client_ca), "--grpc-bind-address", "127.0.0.1:0",
        )  # fmt: skip
        machines = ("--machines", str(self.folder / "machines.yaml"), "--machines-interval", "1")
        return Program(self.lab, self.log, self.folder, policy, *tls, *machines, *options, command="autoscale")

    def caller(self, program: Program) -> Any:
        port = int(program.address("gRPC").rpartition(":")[2])
        return calling(port, self.ca, self.ca.issued("127.0.0.2"))

    def node(self, name: str, *taints: dict[str, str]) -> None:
        """What its kubelet does."""
        status = {"allocatable": CAPACITY, "conditions": [{"type": "Ready", "status": "True"}]}
        spec = {"providerID": provider_id(name), "taints": list(taints)}
        body = {"metadata": {"name": name, "labels": {"pool": "yes"}}, "spec": spec}
        self.lab.call(lambda lab: lab.client("test").create("nodes", body))
        self.lab.call(lambda lab: lab.client("test").patch("nodes", name, {"status": status}, subresource="status"))

    def nodes(self) -> dict[str, Any]:
        return {one["metadata"]["name"]: one for one in self.lab.call(lambda lab: lab.client("test").list("nodes"))}

    def types(self) -> Counter[str]:
        with Database(self.log) as database:
            return Counter(row.type for row in database.log("lab/autoscaler").read())


@pytest.fixture
def site(lab: LiveLab, log: str, tmp_path: Path, ca: Authority) -> Site:
    return Site(lab, log, tmp_path, ca)


def refreshed(caller: Caller) -> bool:
    """Cluster Autoscaler begins a loop; it tries again where it cannot."""
    try:
        caller.Refresh()
    except grpc.RpcError:
        return False
    return True


def target(caller: Caller) -> int:
    return int(caller.NodeGroupTargetSize(ask.OfGroup(id="big")).size)


def states(caller: Caller) -> Counter[int]:
    return Counter(one.status.state for one in caller.NodeGroupNodes(ask.OfGroup(id="big")).instances)


def group_of(caller: Caller, name: str) -> str:
    node = ask.Node(name=name, providerID=provider_id(name))
    return str(caller.NodeGroupForNode(ask.OfNode(node=node)).group.id)


def test_a_server_comes_and_goes_and_nothing_is_ordered_twice_though_dds_is_killed(site: Site) -> None:
    with site.program() as first, site.caller(first) as caller:
        eventually(lambda: refreshed(caller))
        assert (target(caller), group_of(caller, "s0"), group_of(caller, "foreign")) == (2, "big", "")
        caller.NodeGroupIncreaseSize(ask.Change(id="big", delta=1))
        assert target(caller) == 3 and states(caller)[2] == 1, "from the return on"
        first.kill()
    with site.program() as second, site.caller(second) as caller:
        eventually(lambda: refreshed(caller))
        assert target(caller) == 3
        eventually(lambda: list(site.rack.wanted().values()) == ["running"])
        (name,) = site.rack.wanted()
        site.rack.set(name, "running")
        site.node(name, {"key": STARTING.key, "effect": STARTING.effect})
        eventually(lambda: not site.nodes()[name]["spec"].get("taints"), 10)
        eventually(lambda: refreshed(caller) and group_of(caller, name) == "big")
        assert target(caller) == 3 and site.types()["ServerOrdered"] <= 2
        assert list(site.rack.wanted().values()) == ["running"], "one server for one order"
        taint = [{"key": DELETED_BY_CA, "effect": "NoSchedule"}]
        site.lab.call(lambda lab: lab.client("test").patch("nodes", name, {"spec": {"taints": taint}}))
        nodes = [ask.Node(name=name, providerID=provider_id(name))]
        caller.NodeGroupDeleteNodes(ask.Nodes(id="big", nodes=nodes))
        assert target(caller) == 2
        caller.NodeGroupDeleteNodes(ask.Nodes(id="big", nodes=nodes))
        assert target(caller) == 2, "what was asked once is not counted twice"
        eventually(lambda: site.rack.wanted().get(name) == "stopped")
        second.kill()
    with site.program() as third, site.caller(third) as caller:
        eventually(lambda: refreshed(caller))
        assert target(caller) == 2 and name in site.nodes()
        site.rack.set(name, "stopped")
        eventually(lambda: name not in site.nodes(), 10)
        assert third.end() == 0
    assert (_count(site.rack.states, "running"), site.types()["AskRefused"]) == (2, 0)


def _logs(log: str) -> set[str]:
    with Database(log) as database:
        return {head.log for head in database.heads()}


def _count(states: dict[str, str], state: str) -> int:
    return sum(one == state for one in states.values())


def test_who_is_not_there_yet_and_what_is_not_allowed_is_told_in_words(site: Site) -> None:
    (site.folder / "servers.yaml").rename(site.folder / "away.yaml")
    with site.program() as ours, site.caller(ours) as caller:
        code, words = caller.refused("Refresh")
        assert code is grpc.StatusCode.UNAVAILABLE and "the provider of servers has not answered yet" in words
        eventually(lambda: ours.says("servers.yaml"))
        (site.folder / "away.yaml").rename(site.folder / "servers.yaml")
        eventually(lambda: refreshed(caller))
        refused: Callable[..., tuple[grpc.StatusCode, str]] = caller.refused
        assert refused("NodeGroupIncreaseSize", ask.Change(id="none", delta=1))[0] is grpc.StatusCode.NOT_FOUND
        code, words = refused("NodeGroupIncreaseSize", ask.Change(id="big", delta=9))
        assert code is grpc.StatusCode.FAILED_PRECONDITION and "its maximum is 4" in words
        assert refused("NodeGroupDecreaseTargetSize", ask.Change(id="big", delta=-1))[0] is code
        assert target(caller) == 2
        assert ours.metric('dds_autoscaler_rpcs_total{code="NOT_FOUND",method="NodeGroupIncreaseSize"}') == 1
        assert ours.end() == 0


def test_a_provider_that_hangs_delays_no_call_and_many_calls_at_a_time_count_each_once(site: Site) -> None:
    """The inventory becomes a pipe that nobody writes into: whoever reads it waits."""
    with site.program() as ours, site.caller(ours) as caller:
        eventually(lambda: refreshed(caller))
        kept = site.folder / "servers.kept"
        (site.folder / "servers.yaml").rename(kept)
        os.mkfifo(site.folder / "servers.yaml")
        time.sleep(1.5)  # it is asked for by now
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            grown = [pool.submit(caller.NodeGroupIncreaseSize, ask.Change(id="big", delta=1)) for _ in range(2)]
            seen = [pool.submit(refreshed, caller) for _ in range(4)]
            assert all(one.result() for one in seen) and all(one.result() is not None for one in grown)
            assert target(caller) == 4
            coming = [one.id for one in caller.NodeGroupNodes(ask.OfGroup(id="big")).instances if one.status.state == 2]
            request = ask.Nodes(id="big", nodes=[ask.Node(name=id, providerID=id) for id in coming[:1]])
            for one in [pool.submit(caller.NodeGroupDeleteNodes, request) for _ in range(4)]:
                one.result()
        assert target(caller) == 3, "given up once, however often that is asked"
        assert time.monotonic() - began < 5
        pipe = site.folder / "servers.yaml"
        kept.rename(site.folder / "servers.new")
        hung = os.open(pipe, os.O_RDWR)
        (site.folder / "servers.new").rename(pipe)
        os.write(hung, b"servers: [")
        os.close(hung)
        eventually(lambda: list(site.rack.wanted().values()) == ["running"])
        eventually(lambda: refreshed(caller) and states(caller) == {1: 2, 2: 1})
        assert ours.end() == 0


def test_all_three_in_one_program(tmp_path: Path, log: str) -> None:
    """Scaler, publisher and autoscaler, each with its log and lease; what one is asked for does not wait for the others."""
    scenario = parse(
        "cluster: {nodes: [{count: 1}]}\n"
        "parts: {manager: {api: cm, answer: 1ms}, scaler: false, publisher: false}\nsteps: []",
        "test",
    )
    with LiveLab(scenario, tmp_path) as lab:
        (node,) = lab.call(lambda lab: lab.client("test").list("nodes"))
        inventory = {"id": "s0", "group": "big", "providerID": node["spec"]["providerID"], "state": "running"}
        (tmp_path / "servers.yaml").write_text(yaml.safe_dump({"servers": [inventory]}), encoding="utf-8")
        (tmp_path / "requests.yaml").write_text("{}", encoding="utf-8")
        (tmp_path / "machines.yaml").write_text(MACHINES, encoding="utf-8")
        (tmp_path / "groups.json").write_text(POLICY.model_dump_json(), encoding="utf-8")
        labelled = {"metadata": {"labels": {"pool": "yes"}}}
        lab.call(lambda lab: lab.client("test").patch("nodes", node["metadata"]["name"], labelled))
        options = (
            "--publish", *fabric(lab), *LEASE, "--autoscale", "--autoscale-policy", str(tmp_path / "groups.json"),
            "--machines", str(tmp_path / "machines.yaml"), "--grpc-bind-address", "127.0.0.1:0",
        )  # fmt: skip
        with Program(lab, log, tmp_path, QUICK, *options) as ours:
            with calling(int(ours.address("gRPC").rpartition(":")[2].partition(",")[0])) as caller:
                eventually(lambda: refreshed(caller) and target(caller) == 1)
                assert {one.id for one in caller.NodeGroupNodes(ask.OfGroup(id="big")).instances} == {
                    inventory["providerID"]
                }
            leases = {one["metadata"]["name"] for one in lab.call(lambda lab: lab.client("test").list("leases"))}
            assert leases == {"dds-scaler", "dds-publisher", "dds-autoscaler"}
            eventually(lambda: ours.probe().code == 200)
            assert "autoscaler-nodes" in ours.probe().text
            assert ours.metric(
                f'dds_autoscaler_build_info{{fingerprint="{AUTOSCALER.fingerprint}",version="{__version__}"}}'
            )
            eventually(lambda: len(_logs(log)) == 3)
            said = fine("status", log, "--name", "lab/scaler")
            assert [f"log lab/{name}" in said for name in ("scaler", "publisher", "autoscaler")] == [True] * 3
            assert ours.end() == 0
