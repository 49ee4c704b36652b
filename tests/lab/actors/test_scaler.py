"""The simulated reference scaler: what the reference does, its faults included."""

from __future__ import annotations

from typing import Any

from dds_lab.actors.models import Model
from dds_lab.actors.publisher import ReferencePublisher
from dds_lab.actors.scaler import ReferenceScaler
from dds_lab.client import Object
from dds_lab.latency import Fixed
from dds_lab.scenario.parts import PublisherPart, ScalerPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, GPU, H100, MODELS, QUICK, Hall

POOL = "nvidia-a100-40-fabric1"
SETTINGS = ScalerPart(interval=5.0, removal=15.0, allocation=5.0)
RIVALS = (
    Model(1, A100, "nvidia-a100-40", GPU, {"productName": "a"}, conflicts=(2,)),
    Model(2, H100, "nvidia-h100-80", GPU, {"productName": "h"}),
)


class Site(Hall):
    """Everything but the scheduler, whose part the test plays."""

    def __init__(self, settings: ScalerPart = SETTINGS, models: tuple[Model, ...] = MODELS, **more: Any) -> None:
        super().__init__(operator=QUICK, **more)
        self.configure(*models)
        publisher = PublisherPart(interval=0.0, reaction=fixed(0.01), stable_names=True)
        self.start(ReferencePublisher(self.client("publisher"), self.time, publisher, self.fabric))
        self.run(1)
        self.peer = self.client("peer-dds")
        self.scaler = self.start(ReferenceScaler(self.peer, self.time, settings, Fixed(0.1)))

    def wait(self, name: str, *devices: int, node: str = "node0", pool: str = POOL) -> None:
        """A pod waits on a node for devices of a pool."""
        self.claim(name, count=len(devices))
        self.pod(name, claims=[{"name": "d0", "resourceClaimName": name}])
        stem = pool.split("-fabric")[0]
        self.allocate(name, name, node, *((pool, f"{stem}-{number}") for number in devices), conditions=True)

    def land(self, name: str, *devices: str, node: str = "node0") -> None:
        """The scheduler clears the claim and takes devices of the node."""
        self.clear(name)
        self.allocate(name, name, node, *((node, device) for device in devices))

    def clear(self, name: str) -> None:
        found = self.user.get("resourceclaims", name, "default")
        self.user.update("resourceclaims", {**found, "status": {}}, subresource="status")

    def told(self, name: str) -> list[list[str]]:
        """The conditions of a claim's devices."""
        entries = self.state("resourceclaims", name, "default").get("devices") or []
        return [[each["type"] for each in one["conditions"] if each["status"] == "True"] for one in entries]

    def sizes(self) -> dict[tuple[str, str], int]:
        found = (one["spec"]["resource"] for one in self.user.list("composabilityrequests"))
        return {(one["target_node"], one["model"]): one["size"] for one in found}

    def used(self) -> list[str]:
        """The times of last use."""
        found = (one["metadata"].get("annotations") or {} for one in self.resources())
        return [one.get("cohdi.io/last-used-time", "") for one in found]


def test_a_waiting_claim_brings_a_request_and_is_sent_back_when_its_devices_are_there() -> None:
    site = Site()
    site.wait("train", 0, 1)
    site.run(0.2)
    assert site.sizes() == {("node0", A100): 2}
    (request,) = site.user.list("composabilityrequests")
    assert request["metadata"]["name"].startswith("composability-")
    assert request["spec"]["resource"]["allocation_policy"] == "samenode"
    assert site.told("train") == []
    site.run(10)
    assert site.told("train") == [["FabricDeviceReschedule"], ["FabricDeviceReschedule"]]
    (first, _) = site.state("resourceclaims", "train", "default")["devices"]
    assert first["conditions"][0]["reason"] == "DeviceConditionUpdated"
    assert all(site.used())


def test_on_the_happy_path_the_device_is_told_ready() -> None:
    site = Site(ScalerPart(ready=True))
    site.wait("train", 0)
    site.run(10)
    assert site.told("train") == [["FabricDeviceReady"]]


def test_on_the_happy_path_a_device_is_told_to_one_claim_and_kept_while_its_claim_is_there() -> None:
    site = Site(ScalerPart(ready=True))
    site.wait("first", 0)
    site.run(10)
    site.wait("second", 1)
    site.run(1)
    assert site.told("second") == []
    site.run(60)
    assert site.told("second") == [["FabricDeviceReady"]]
    assert site.sizes() == {("node0", A100): 2}
    site.clear("first")
    site.clear("second")
    site.run(30)
    assert site.sizes() == {("node0", A100): 0}


def test_a_used_device_stays_and_goes_back_when_it_has_been_idle() -> None:
    site = Site()
    site.wait("train", 0)
    site.run(8)
    site.land("train", "gpu-0")
    site.run(60)
    assert site.sizes() == {("node0", A100): 1}
    site.clear("train")
    site.run(14)
    assert site.sizes() == {("node0", A100): 1}
    site.run(7)
    assert site.sizes() == {("node0", A100): 0}
    site.run(5)
    assert site.fabric.attached("node0") == ()


def test_devices_of_another_model_are_counted_but_never_raise_a_request() -> None:
    """A request that could shrink is kept up by the node's other devices, at most to the size that it has."""
    site = Site()
    site.wait("train", 0)
    site.wait("other", 0, 1, 2, pool="nvidia-h100-80-fabric1")
    site.run(8)
    site.client("user").delete("pods", "train", "default", grace=0)
    site.client("user").delete("resourceclaims", "train", "default")
    site.run(8)
    assert site.sizes() == {("node0", A100): 1, ("node0", H100): 3}


def test_a_withdrawn_claims_device_goes_back_too() -> None:
    site = Site()
    site.wait("hasty", 0)
    site.run(1)
    site.user.delete("pods", "hasty", "default", grace=0)
    site.clear("hasty")
    site.run(30)
    assert site.sizes() == {("node0", A100): 0}
    assert site.fabric.ledger.count("detach", "done") == 1


def test_one_free_device_is_promised_to_two_claims_in_one_scan() -> None:
    """B9: what is written for the first claim is not seen for the second."""
    site = Site()
    site.user.create("composabilityrequests", wanted("by-hand", 1))
    site.run(8)
    site.scaler.stop()
    site.wait("first", 0)
    site.wait("second", 1)
    site.run(1)
    site.start(ReferenceScaler(site.client("peer-dds"), site.time, SETTINGS, Fixed(0.1)))
    site.run(1)
    assert site.told("first") == site.told("second") == [["FabricDeviceReschedule"]]


def test_a_vanished_name_fails_the_claim() -> None:
    """B11: the publisher renumbers what is free."""
    hall = Hall(operator=QUICK)
    hall.configure()
    publisher = PublisherPart(interval=0.0, reaction=fixed(0.01))
    hall.start(ReferencePublisher(hall.client("publisher"), hall.time, publisher, hall.fabric))
    hall.run(1)
    hall.start(ReferenceScaler(hall.client("peer-dds"), hall.time, SETTINGS, Fixed(0.1)))
    hall.claim("train")
    hall.pod("train", claims=[{"name": "d0", "resourceClaimName": "train"}])
    hall.allocate("train", "train", "node0", (POOL, "nvidia-a100-40-3"), conditions=True)
    hall.run(1)
    (entry,) = hall.state("resourceclaims", "train", "default")["devices"]
    assert [one["type"] for one in entry["conditions"]] == ["FabricDeviceFailed"]


def test_a_device_that_was_promised_is_not_promised_again_for_a_while() -> None:
    site = Site()
    site.wait("first", 0)
    site.run(4)
    assert site.told("first") == [["FabricDeviceReschedule"]]
    site.clear("first")
    site.wait("second", 1)
    site.run(1)
    assert site.told("second") == []
    site.run(9)
    assert site.told("second") == [["FabricDeviceReschedule"]]


def test_above_the_nodes_limit_the_newest_claim_fails() -> None:
    site = Site()
    site.user.patch("nodes", "node0", {"metadata": {"labels": {"cohdi.io/nvidia-a100-40-size-max": "1"}}})
    site.wait("old", 0)
    site.run(2)
    site.wait("new", 1)
    site.run(1)
    assert site.told("new") == [["FabricDeviceFailed"]]
    assert site.sizes() == {("node0", A100): 1}
    site.run(10)
    assert site.told("old") == [["FabricDeviceReschedule"]]


def test_a_minimum_is_attached_without_anybody_waiting() -> None:
    site = Site()
    site.user.patch("nodes", "node1", {"metadata": {"labels": {"cohdi.io/nvidia-a100-40-size-min": "2"}}})
    site.run(20)
    assert site.sizes() == {("node1", A100): 2}
    site.run(60)
    assert site.sizes() == {("node1", A100): 2}


def test_models_that_may_not_meet_lose_their_label_and_fail_claims_one_way_only() -> None:
    """B18: only the list of the first model is looked at."""
    site = Site(models=RIVALS)
    site.wait("train", 0)
    site.run(10)
    labels = site.user.get("nodes", "node0")["metadata"]["labels"]
    assert labels["cohdi.io/nvidia-a100-40"] == "true"
    assert "cohdi.io/nvidia-h100-80" not in labels
    site.wait("other", 0, pool="nvidia-h100-80-fabric1")
    site.run(1)
    assert site.told("other") == []
    site.clear("train")
    site.wait("third", 1)
    site.run(1)
    assert site.told("third") == [["FabricDeviceFailed"]]


def test_a_device_that_is_not_ours_ends_every_scan() -> None:
    """B3: one object stops the cluster."""
    site = Site()
    site.wait("foreign", 0, pool="elsewhere-fabric1", node="node1")
    site.run(1)
    site.wait("train", 0)
    site.run(30)
    assert site.sizes() == {}
    site.clear("foreign")
    site.run(6)
    assert site.sizes() == {("node0", A100): 1}


def test_a_label_that_is_no_number_stops_the_nodes_after_it() -> None:
    site = Site(nodes=3)
    site.user.patch("nodes", "node1", {"metadata": {"labels": {"cohdi.io/nvidia-a100-40-size-max": "many"}}})
    for number, node in enumerate(("node0", "node1", "node2")):
        site.wait(f"train-{number}", number, node=node)
    site.run(30)
    assert site.sizes() == {("node0", A100): 1}


def test_an_entry_of_another_driver_gets_the_condition_and_the_device_none() -> None:
    """B6: entries that are there are taken as they are."""
    site = Site()
    site.claim("train", count=2)
    site.pod("train", claims=[{"name": "d0", "resourceClaimName": "train"}])
    found = site.allocate(
        "train", "train", "node0", (POOL, "nvidia-a100-40-0"), (POOL, "nvidia-a100-40-1"), conditions=True
    )
    entry = {"driver": GPU, "pool": POOL, "device": "nvidia-a100-40-1", "conditions": []}
    site.user.update(
        "resourceclaims", {**found, "status": {**found["status"], "devices": [entry]}}, subresource="status"
    )
    site.run(10)
    assert all(
        one["device"] != "nvidia-a100-40-0" for one in site.state("resourceclaims", "train", "default")["devices"]
    )


def test_a_request_of_somebody_else_is_taken_over() -> None:
    """B21."""
    site = Site()
    site.user.create("composabilityrequests", wanted("by-hand", 0))
    site.wait("train", 0)
    site.run(1)
    assert [one["metadata"]["name"] for one in site.user.list("composabilityrequests")] == ["by-hand"]
    assert site.sizes() == {("node0", A100): 1}


def test_a_resting_cluster_is_not_written_to_unless_use_is_refreshed() -> None:
    for refresh, quiet in ((False, True), (True, False)):
        site = Site(ScalerPart(refresh=refresh))
        site.wait("train", 0)
        site.run(8)
        site.land("train", "gpu-0")
        site.run(10)
        story = site.story("composableresources", "metadata", "resourceVersion")
        site.run(600)
        assert (story == []) is quiet
        site.clear("train")
        site.run(10)
        assert site.sizes() == {("node0", A100): 1}


def test_each_claim_and_slice_keeps_a_timer_of_its_own_even_when_it_is_gone() -> None:
    """B2. The times of last use tell when there was a scan."""

    def seconds(timers: bool) -> list[int]:
        site = Site(ScalerPart(interval=10.0, timers=fixed(0.1) if timers else None))
        site.run(2)
        site.wait("train", 0)
        site.run(12)
        site.land("train", "gpu-0")
        site.run(10)
        site.claim("other", count=1)
        site.run(1)
        site.user.delete("resourceclaims", "other", "default")
        site.run(20)
        story = site.story("composableresources", "metadata", "annotations", "cohdi.io/last-used-time")
        site.run(40)
        return [int(str(at)[17:19]) for _, at in story]

    alone, many = seconds(timers=False), seconds(timers=True)
    assert len({one % 10 for one in alone}) == 1 and len(alone) == 4
    assert len({one % 10 for one in many}) == 3 and len(many) == 12, "slices, claim, claim that is gone"


def test_a_scan_that_answers_a_listing_too_early_leaves_the_device_to_the_next_one() -> None:
    for early, told in ((0.0, [["FabricDeviceReschedule"]]), (1.0, [])):
        site = Site(SETTINGS.model_copy(update={"interval": 20.0, "early": early}))
        site.wait("train", 0)
        site.run(10)
        assert (site.states(), site.told("train")) == (["Online"], told)
        site.run(20)
        assert site.told("train") == [["FabricDeviceReschedule"]]


def wanted(name: str, size: int) -> Object:
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": {"name": name},
        "spec": {"resource": {"type": "gpu", "model": A100, "size": size, "target_node": "node0"}},
    }


def test_a_node_that_is_gone_is_thought_of_no_more() -> None:
    site = Site()
    site.wait("train", 0)
    site.run(10)
    site.land("train", "gpu-0")
    site.run(20)
    site.user.delete("nodes", "node0")
    site.run(120)
    asked: list[str] = []
    site.peer.before = lambda call: asked.append(call.resource.plural)
    site.run(60)
    assert asked == []
