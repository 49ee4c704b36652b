"""What people do to a cluster, and a random mix of it."""

from __future__ import annotations

import pytest

from dds_lab.actors.kubelet import Kubelet
from dds_lab.actors.workloads import Mix, Workloads
from dds_lab.client import ApiError
from dds_lab.scenario.parts import KubeletPart
from dds_lab.scenario.scenario import Ask, Run
from dds_lab.scenario.scenario import Mix as MixSettings
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import GPU, QUICK, Hall

RUNNING = KubeletPart(start=fixed(0.1), stop=fixed(0.1))


class Yard(Hall):
    """A hall with users and kubelets; `place` puts a pod on a node, as a scheduler would."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed=seed, operator=QUICK)
        self.start(Kubelet(self.client("kubelet"), self.time, RUNNING, self.fabric, {GPU: self.vendor}))
        self.work = self.start(Workloads(self.client("people"), self.time))

    def place(self, name: str, node: str = "node0") -> None:
        self.user.bind(name, "default", node)
        self.run(1)

    def names(self, resource: str) -> list[str]:
        return [one["metadata"]["name"] for one in self.user.list(resource)]


def test_a_pod_comes_with_a_claim_of_its_own() -> None:
    yard = Yard()
    yard.work.run(
        Run(name="train", devices={"a100": 2, "nic": 1}, shares={"nic": {"bandwidth": "2Gi"}}, cpu="4", lasts=90.0)
    )
    claim = yard.user.get("resourceclaims", "train", "default")
    first, second = claim["spec"]["devices"]["requests"]
    assert (first["name"], first["exactly"]["deviceClassName"], first["exactly"]["count"]) == ("r0", "a100", 2)
    assert second["exactly"]["capacity"] == {"requests": {"bandwidth": "2Gi"}}
    pod = yard.user.get("pods", "train", "default")
    assert pod["spec"]["resourceClaims"] == [{"name": "d0", "resourceClaimName": "train"}]
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4"}
    assert list(pod["metadata"]["annotations"].values()) == ["90"]


def test_a_claim_may_come_from_a_template() -> None:
    yard = Yard()
    yard.work.run(Run(name="train", devices={"a100": 1}, template=True, priority=7, node_selector={"zone": "a"}))
    assert yard.names("resourceclaims") == []
    assert yard.names("resourceclaimtemplates") == ["train"]
    spec = yard.user.get("pods", "train", "default")["spec"]
    assert spec["resourceClaims"] == [{"name": "d0", "resourceClaimTemplateName": "train"}]
    assert spec["nodeSelector"] == {"zone": "a"}


def test_withdrawing_what_is_not_there_is_nothing() -> None:
    yard = Yard()
    yard.work.run(Run(name="train", devices={"a100": 1}))
    yard.work.withdraw("train")
    yard.work.withdraw("train")
    assert yard.names("pods") == yard.names("resourceclaims") == []


def test_a_condition_is_set_on_devices_with_binding_conditions_and_replaced_later() -> None:
    yard = Yard()
    yard.claim("train", count=2)
    yard.pod("train", claims=[{"name": "d0", "resourceClaimName": "train"}])
    yard.allocate("train", "train", "node0", ("pool", "a"), ("pool", "b"), conditions=True)
    assert yard.work.node_of_claim("train") == "node0"
    yard.work.condition("train", "default", "FabricDeviceReady", "False", reason="Test")
    yard.work.condition("train", "default", "FabricDeviceReady", "True", reason="Test", device="b")
    entries = yard.state("resourceclaims", "train", "default")["devices"]
    states = {one["device"]: [(each["type"], each["status"]) for each in one["conditions"]] for one in entries}
    assert states == {"a": [("FabricDeviceReady", "False")], "b": [("FabricDeviceReady", "True")]}


def test_a_condition_on_a_claim_that_is_not_there_says_so() -> None:
    with pytest.raises(ApiError) as told:
        Yard().work.condition("nobody", "default", "FabricDeviceReady", "True", reason="Test")
    assert told.value.code == 404


# -- the mix

MIX = MixSettings(
    pods=200,
    over=1000.0,
    asks=(Ask(devices={"a100": 1}, weight=3.0), Ask(devices={"h100": 2}, weight=1.0)),
    lasts=fixed(5.0),
)


def mixed(settings: MixSettings, seed: int = 1, seconds: float = 1200.0) -> Yard:
    yard = Yard(seed)
    yard.start(Mix(yard.work, yard.time, settings))
    yard.run(seconds)
    return yard


def test_as_many_pods_come_as_are_wanted_spread_over_the_time() -> None:
    yard = mixed(MIX, seconds=500.0)
    assert 70 <= len(yard.names("pods")) <= 130
    yard.run(501)
    assert len(yard.names("pods")) == 200


def test_what_they_ask_for_follows_the_weights() -> None:
    yard = mixed(MIX)
    asked = [
        one["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] for one in yard.user.list("resourceclaims")
    ]
    assert 120 <= asked.count("a100") <= 175


def test_the_same_seed_gives_the_same_mix_and_another_one_another() -> None:
    def arrivals(seed: int) -> list[str]:
        found = mixed(MIX, seed, 300.0).user.list("resourceclaims")
        return [
            f"{one['metadata']['name']} {one['metadata']['creationTimestamp']} {one['spec']['devices']}"
            for one in found
        ]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


def test_withdrawn_pods_go_before_they_run() -> None:
    yard = mixed(MixSettings(pods=100, over=100.0, asks=(Ask(devices={}),), withdrawn=1.0))
    assert yard.names("pods") == []


def test_pods_that_end_by_themselves_are_deleted_later_and_some_stay() -> None:
    settings = MixSettings(
        pods=4, over=4.0, asks=(Ask(devices={}),), lasts=fixed(5.0), ends="finished", linger=10.0, keep=1, name="job"
    )
    yard = mixed(settings, seconds=10.0)
    for name in yard.names("pods"):
        yard.user.bind(name, "default", "node0")
    yard.run(10)
    phases = {(one.get("status") or {}).get("phase") for one in yard.user.list("pods")}
    assert phases == {"Succeeded"}
    yard.run(20)
    assert len(yard.names("pods")) == 1


def test_namespaces_and_templates_are_used_in_their_shares() -> None:
    yard = Yard()
    yard.user.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    settings = MixSettings(
        pods=100, over=10.0, asks=(Ask(devices={"a100": 1}),), namespaces=("default", "team"), templates=0.5
    )
    yard.start(Mix(yard.work, yard.time, settings))
    yard.run(20)
    assert 30 <= len(yard.user.list("pods", "team")) <= 70
    assert 30 <= len(yard.names("resourceclaimtemplates")) <= 70


def test_a_mix_minds_its_own_pods_only() -> None:
    yard = Yard()
    yard.start(
        Mix(yard.work, yard.time, MixSettings(pods=1, over=1.0, asks=(Ask(devices={}),), ends="finished", linger=1.0))
    )
    for name in ("mix-more-1", "mix-x", "mixed-1"):
        yard.work.run(Run(name=name))
    yard.run(5)
    for name in yard.names("pods"):
        yard.user.patch("pods", name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    yard.run(10)
    assert yard.names("pods") == ["mix-more-1", "mix-x", "mixed-1"]


def test_a_mix_goes_on_when_the_api_does_not_take_one_of_its_pods() -> None:
    yard = Yard()
    settings = MixSettings(pods=50, over=10.0, asks=(Ask(devices={"a100": 1}),), namespaces=("default", "not-there"))
    mix = yard.start(Mix(yard.work, yard.time, settings))
    yard.run(20)
    assert 10 < mix.refused < 40
    assert len(yard.names("pods")) == 50 - mix.refused
