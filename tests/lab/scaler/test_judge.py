"""The judge finds what it is there to find: each of its rules, on the reference scaler (which keeps the reference's faults) or on
moves that a scenario makes by hand. What it says of our own scaler is worth something only because of that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dds_lab import shipped
from dds_lab.actors.objects import results
from dds_lab.actors.operator.names import DETACH_DEVICE
from dds_lab.client import Client
from dds_lab.judge.cluster_view import FAILED, READY, RESCHEDULE
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import SCHEDULER_USER, Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import parse


def judged(scenario: Scenario, seed: int = 1, seconds: float | None = None) -> Judge:
    with Lab.virtual(scenario, seed=seed) as lab:
        judge = Judge(lab)
        lab.run(seconds)
    return judge


def standing_in(name: str, **knobs: float) -> Scenario:
    """A scenario whose reference scaler has other durations."""
    found = shipped.find(name)
    scaler = found.parts.scaler
    assert scaler is not None
    parts = found.parts.model_copy(update={"scaler": scaler.model_copy(update=knobs)})
    return found.model_copy(update={"parts": parts})


def by_hand(steps: str, nodes: str = "{count: 1}", rivals: bool = False) -> Scenario:
    """Nobody acts but these steps."""
    not_with = ", not_with: [H100]" if rivals else ""
    return parse(
        f"""
cluster:
  models: [{{model: A100, device: a100, product: a{not_with}}}, {{model: H100, device: h100, product: h}}]
  fabrics: [{{id: 1, devices: {{A100: 4, H100: 4}}}}]
  nodes: [{nodes}]
parts: {{operator: false, scaler: false, fabric: {{attach: 1s}}}}
duration: 5m
steps:
{steps}
""",
        "by hand",
    )


def test_b09_one_device_that_is_promised_to_two_claims() -> None:
    found = [finding for seed in range(1, 4) for finding in judged(shipped.find("burst"), seed).of("promised twice")]
    assert found
    assert all("announced to" in one.text for one in found)


def test_b10_an_announced_device_that_another_claim_takes() -> None:
    assert judged(shipped.find("burst"), 3).thefts


@pytest.mark.parametrize("name", ["burst", "many_devices"])
def test_b11_a_claim_that_fails_because_a_name_vanished(name: str) -> None:
    found = judged(shipped.find(name)).of("failed without cause")
    assert found
    assert all("FabricDeviceFailed" in one.text for one in found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_b14_a_device_that_is_taken_from_under_a_claim(seed: int) -> None:
    assert judged(standing_in("burst", removal=1.0, allocation=0.0), seed).rules["detached in use"]


def test_b22_b23_a_claim_that_is_failed_and_chosen_again_without_end() -> None:
    (found,) = judged(shipped.find("node_limit")).of("goes round")
    assert (
        found.text == "was allocated 8 times within a minute"
    )  # two nodes once each, once because another took what was there


def test_a_fabric_and_an_operator_that_bring_a_second_device() -> None:
    assert judged(shipped.find("faults")).of("beyond need")


def test_a_claim_that_waits_although_there_is_a_device() -> None:
    scenario = by_hand("  - {at: 1s, run: {name: w, devices: {a100: 1}}}")
    (found,) = judged(scenario).findings
    assert (found.rule, found.of) == ("waits for ever", "default/w")
    assert 150 <= (found.at - scenario.start) / 1_000_000 < 160
    assert not judged(scenario, seconds=100).findings


def test_a_claim_that_waits_with_reason_is_no_finding() -> None:
    """The node may have none, the pool is empty, or the node is closed."""
    step = "  - {at: 1s, run: {name: w, devices: {a100: 1}}}"
    assert not judged(by_hand(step, "{count: 1, limits: {A100: {max: 0}}}")).findings
    assert not judged(by_hand(f"  - {{resize: {{model: A100, by: -4}}}}\n{step}")).findings
    assert not judged(by_hand(f"  - {{cordon: node0000}}\n{step}")).findings


def test_a_closed_node_is_a_cause_to_fail_a_claim_and_none_is_not() -> None:
    run = "  - {at: 1s, run: {name: w, devices: {a100: 1}}}"
    fail = "  - {at: 3s, condition: {claim: w, type: FabricDeviceFailed}}"
    assert not judged(by_hand(f"{run}\n  - {{at: 2s, cordon: node0000}}\n{fail}"), seconds=60).findings
    assert judged(by_hand(f"{run}\n{fail}"), seconds=60).of("failed without cause")


def test_devices_that_nobody_needs_are_beyond_need() -> None:
    (found,) = judged(by_hand("  - {at: 1s, attach: {node: node0000, model: A100}}")).findings
    assert (found.rule, found.text) == ("beyond need", "1 devices with this order, 0 were needed at most")


def test_what_no_driver_lists_is_not_left_over() -> None:
    """There is no name by which anybody could keep it from others until it is gone."""
    with Lab.virtual(by_hand("  []")) as lab:
        judge = Judge(lab)
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(60)
        assert judge.view.spare(("node0000", "A100")) == 0
        lab.restart_plugin("node0000")
        lab.run(60)
        assert judge.view.spare(("node0000", "A100")) == 1


@pytest.mark.parametrize(("seconds", "found"), [(200, ["failed without cause"]), (400, [])])
def test_a_device_that_no_driver_lists_for_long_is_no_reason_not_to_fail(seconds: float, found: list[str]) -> None:
    with Lab.virtual(by_hand("  []", "{count: 1, limits: {A100: {max: 1}}}")) as lab:
        it = Played(lab, {})
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(seconds)
        it.claim("one")
        it.allocate("one", pool=1)
        it.judge.findings.clear()
        it.tell("one", FAILED)
        assert [one.rule for one in it.judge.findings] == found


def test_a_node_over_its_limit() -> None:
    step = "  - {at: 1s, attach: {node: node0000, model: A100}}"
    judge = judged(by_hand(f"{step}\n{step}", "{count: 1, limits: {A100: {max: 1}}}"))
    assert [one.text for one in judge.of("over the limit")] == ["2 devices with this order"]


def test_what_was_on_a_node_that_went_and_came_again_is_nobodys_order() -> None:
    """Its ComposableResource went with the node: for everybody it is a device that was always there, until it is taken off."""
    with Lab.virtual(by_hand("  []", "{count: 1, limits: {A100: {max: 1}}}")) as lab:
        judge = Judge(lab)
        client = lab.client("somebody")
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(5)
        node = client.get("nodes", "node0000")
        lab.lose_node("node0000")
        lab.run(1)
        client.create("nodes", {"metadata": {"name": "node0000", "labels": node["metadata"]["labels"]}})
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(5)
        assert not judge.of("over the limit")
        lab.fabric.attach("node0000", "A100", lambda _: None)
        assert [one.text for one in judge.of("over the limit")] == ["2 devices with this order"]


@pytest.mark.parametrize("order", [("A100", "H100"), ("H100", "A100")])
def test_models_that_may_not_meet_whichever_comes_first(order: tuple[str, str]) -> None:
    steps = "\n".join(f"  - {{after: 100ms, attach: {{node: node0000, model: {model}}}}}" for model in order)
    judge = judged(by_hand(steps, rivals=True))
    assert [one.text for one in judge.of("coexistence")] == [f"{order[0]} is there, or comes"]


def test_a_label_that_comes_and_goes() -> None:
    with Lab.virtual(by_hand("  []")) as lab:
        judge = Judge(lab)
        client = lab.client("somebody")
        for count in range(8):
            value: Any = None if count % 2 else "true"
            client.patch("nodes", "node0000", {"metadata": {"labels": {"cohdi.io/a100-ready": value}}})
            lab.run(1)
    assert judge.rules == {"flapping": 1}


def test_a_detach_is_judged_at_its_order_and_at_its_end() -> None:
    steps = """
  - {at: 1s, run: {name: w, devices: {a100: 1}}}
  - {after: 1s, attach: {node: node0000, model: A100}}
  - {after: 100ms, condition: {claim: w, type: FabricDeviceReschedule}}
  - wait_for: {object: pods/w, has: status.phase, equals: Running, within: 1m}
  - {after: 1s, detach: {node: node0000, model: A100}}
"""
    found = judged(by_hand(steps)).of("detached in use")
    assert [one.text.split()[1] for one in found] == ["ordered", "done"]
    assert "hold it" in found[0].text and "default/w" in found[0].text


STRICT = Measure()


class Played:
    """A scaler and a scheduler played by hand on one node, with so many devices that are attached for the claims of `waiting`: by
    name the devices that each has of the node, and how many of the pool it waits for."""

    def __init__(self, lab: Lab, waiting: dict[str, tuple[tuple[str, ...], int]], measure: Measure = STRICT) -> None:
        self._lab = lab
        self._client = lab.client("somebody")
        self._chosen = itertools.count()
        self.judge = Judge(lab, measure)
        self._waiting = waiting
        for name, (has, count) in waiting.items():
            self.claim(name, count=count + len(has))
        lab.run(15)
        for name, (has, count) in waiting.items():
            self.allocate(name, *has, pool=count)

    def claim(self, name: str, count: int = 1, *, waits: bool = True) -> None:
        """`waits`: a pod of its name does."""
        asked = {"name": "r0", "exactly": {"deviceClassName": "a100", "count": count}}
        spec = {"devices": {"requests": [asked]}}
        self._client.create("resourceclaims", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        if waits:
            self.pod(name, name)

    def pod(self, name: str, *claims: str) -> None:
        """One that waits with these claims, and that no scheduler of the lab looks at."""
        refs = [{"name": one, "resourceClaimName": one} for one in claims]
        spec = {"containers": [{"name": "c", "image": "pause"}], "schedulerName": "played", "resourceClaims": refs}
        self._client.create("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        self._lab.run(0.1)

    def end(self, pod: str) -> None:
        self._client.delete("pods", pod, "default", grace=0)
        self._lab.run(0.1)

    def allocate(self, name: str, *devices: str, pool: int = 0, node: str = "node0000", by: str = "somebody") -> None:
        """Devices of the node by name, and so many of the pool."""
        common: dict[str, Any] = {"request": "r0", "driver": "gpu.nvidia.com"}
        conditions = {"bindingConditions": [READY], "bindingFailureConditions": [RESCHEDULE, FAILED]}
        results = [{**common, "pool": node, "device": one} for one in devices]
        for number in itertools.islice(self._chosen, pool):
            results.append({**common, "pool": "a100-fabric1", "device": f"a100-{number}", **conditions})
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [here]}}
        self._status(name, self._lab.client(by), allocation=allocation)

    def take(self, name: str, *devices: str) -> None:
        """A claim that comes and is given devices of the node at once."""
        self.claim(name, len(devices))
        self.allocate(name, *devices)

    def tell(self, name: str, what: str = RESCHEDULE) -> None:
        told = {
            "type": what,
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-11-20T00:00:00Z",
        }
        claim = self._client.get("resourceclaims", name, "default")
        of = [one for one in results(claim) if one.get("bindingConditions")]
        keys = [{key: one[key] for key in ("driver", "pool", "device")} for one in of]
        self._status(name, devices=[{**one, "conditions": [told]} for one in keys])

    def operator_says(self, state: str, error: str, **more: str) -> None:
        name = "gpu-1"
        if self._client.find("composableresources", name) is None:
            spec = {"type": "gpu", "model": "A100", "target_node": "node0000"}
            kind = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource"}
            self._client.create("composableresources", {**kind, "metadata": {"name": name}, "spec": spec})
        self._client.patch(
            "composableresources", name, {"status": {"state": state, "error": error, **more}}, subresource="status"
        )
        self._lab.run(0.1)

    def clear(self, name: str) -> None:
        self._status(name, allocation=None, devices=None)

    def _status(self, name: str, client: Client | None = None, **status: Any) -> None:
        (client or self._client).patch("resourceclaims", name, {"status": status}, "default", subresource="status")
        self._lab.run(0.1)

    def order(self) -> list[str]:
        """One more device is attached; what the judge has found by then."""
        self._lab.fabric.attach("node0000", "A100", lambda _: None)
        self._lab.run(3)
        return [f"{one.rule}: {one.text}" for one in self.judge.findings]


def devices(count: int) -> Scenario:
    steps = [f"  - {{at: {number + 2}s, attach: {{node: node0000, model: A100}}}}" for number in range(count)]
    return by_hand("\n".join(steps))


def test_a_device_that_is_taken_was_meant_for_one_that_needs_another_in_any_case() -> None:
    """Two were told, the first has been cleared since. Whose device the third has taken nothing tells: three are needed."""
    with Lab.virtual(devices(2)) as lab:
        it = Played(lab, {"first": ((), 1), "second": ((), 1)})
        it.judge.findings.clear()
        it.tell("first")
        it.tell("second")
        it.clear("first")
        it.take("third", "gpu-0")
        assert len(it.judge.thefts) == 1
        assert it.order() == []
        assert it.order() == ["beyond need: 4 devices with this order, 3 were needed at most"]


def test_a_claim_that_is_seen_before_the_slice_of_its_pool_needs_its_device() -> None:
    """In a real cluster each resource comes by a watch of its own."""
    found = devices(1)
    alone = found.model_copy(update={"parts": found.parts.model_copy(update={"publisher": None})})
    with Lab.virtual(alone) as lab:
        it = Played(lab, {"one": (("gpu-0",), 1)})
        it.judge.findings.clear()
        device = {"name": "a100-0", "attributes": {"productName": {"string": "a"}}}
        pool = {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "pool": pool, "allNodes": True, "devices": [device]}
        lab.client("somebody").create("resourceslices", {"metadata": {"name": "pool"}, "spec": spec})
        assert it.order() == []
        assert it.order() == ["beyond need: 3 devices with this order, 2 were needed at most"]


def test_a_device_that_is_sick_when_another_is_ordered_justifies_it_even_if_it_is_well_again_soon() -> None:
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"one": ((), 1)})
        it.judge.findings.clear()
        it.operator_says("Online", error="the device is in a critical state")
        lab.fabric.attach("node0000", "A100", lambda _: None)
        it.operator_says("Online", error="")
        lab.run(3)
        assert it.judge.findings == []
        assert it.order() == ["beyond need: 3 devices with this order, 1 were needed at most"]


@pytest.mark.parametrize(
    ("named", "by", "found"), [(False, "somebody", 1), (True, "somebody", 0), (False, SCHEDULER_USER, 0)]
)
def test_a_device_that_no_resource_names_is_given_by_no_exchange(named: bool, by: str, found: int) -> None:
    """The scheduler may choose it: no scaler names a device to it."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"one": ((), 1)})
        if named:
            (there,) = lab.fabric.attached("node0000")
            it.operator_says("Online", error="", device_id=there.device.serial)
        it.clear("one")
        it.allocate("one", "gpu-0", by=by)
        assert len(it.judge.of("given unexplained")) == found


@pytest.mark.parametrize("first", ["H100", "A100"])
def test_a_claim_keeps_what_comes_under_the_name_of_a_device_that_it_had(first: str) -> None:
    """It waits for one of the pool besides, and each counts once, of whatever model the one that went was."""
    steps = f"  - {{at: 2s, attach: {{node: node0000, model: {first}}}}}"
    with Lab.virtual(by_hand(steps)) as lab:
        it = Played(lab, {"wide": (("gpu-0",), 1)})
        (gone,) = lab.fabric.attached("node0000")
        lab.fabric.detach("node0000", gone.device.resource, lambda _: None)
        lab.run(10)
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(10)
        lab.restart("vendor", down=1.0)
        lab.run(20)
        it.judge.findings.clear()
        assert it.order() == []
        assert it.order() == ["beyond need: 3 devices with this order, 2 were needed at most"]


def operated(claims: int, attach: str, operator: str, limit: int = 9) -> Scenario:
    """Pods with a claim each wait on one node that has an operator."""
    runs = "\n".join(f"  - {{at: 1s, run: {{name: w{number}, devices: {{a100: 1}}}}}}" for number in range(claims))
    return parse(
        f"""
cluster:
  models: [{{model: A100, device: a100, product: a}}]
  fabrics: [{{id: 1, devices: {{A100: 4}}}}]
  nodes: [{{count: 1, limits: {{A100: {{max: {limit}}}}}}}]
parts: {{scaler: false, fabric: {{attach: {attach}}}, operator: {operator}}}
duration: 5m
steps:
{runs}
""",
        "operated",
    )


def request(lab: Lab, size: int) -> None:
    resource = {
        "type": "gpu",
        "model": "A100",
        "target_node": "node0000",
        "size": size,
        "allocation_policy": "samenode",
    }
    kind = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest"}
    wanted = {**kind, "metadata": {"name": "wanted"}, "spec": {"resource": resource}}
    lab.client("somebody").create("composabilityrequests", wanted)


@pytest.mark.parametrize(("size", "found"), [(1, []), (2, ["2 devices with this order, 1 were needed at most"])])
def test_a_device_that_the_operator_orders_twice_and_names_nowhere_is_no_scalers(size: int, found: list[str]) -> None:
    """It ends while the fabric answers. What is ordered beside it is beyond need all the same."""
    with Lab.virtual(operated(1, attach="10s", operator="{kind: ideal}")) as lab:
        judge, strict = Judge(lab, Measure(twice=True)), Judge(lab)
        lab.run(5)
        request(lab, size)
        lab.run(5)
        lab.restart("operator", down=10.0)
        lab.run(60)
        assert lab.ledger.count("attach", "done") == 2 * size
        assert [one.text for one in judge.of("beyond need")] == found
        assert len(strict.of("beyond need")) == 2 * size - 1


@pytest.mark.parametrize(("size", "found"), [(1, 0), (2, 2)])
def test_a_device_that_the_operator_orders_twice_exceeds_no_scalers_limit(size: int, found: int) -> None:
    with Lab.virtual(operated(1, attach="10s", operator="{kind: ideal}", limit=1)) as lab:
        judge, strict = Judge(lab, Measure(twice=True)), Judge(lab)
        lab.run(5)
        request(lab, size)
        lab.run(5)
        lab.restart("operator", down=10.0)
        lab.run(60)
        assert len(judge.of("over the limit")) == found
        assert len(strict.of("over the limit")) == 2 * size - 1


def test_what_the_operator_was_asked_for_in_time_it_may_carry_out_late() -> None:
    """Not what was asked for when nobody needed it any more."""
    with Lab.virtual(operated(3, attach="40s", operator="{}")) as lab:
        judge, client = Judge(lab), lab.client("somebody")
        lab.run(5)
        request(lab, 3)
        lab.run(1)
        for number in range(3):
            client.delete("pods", f"w{number}", "default")
        lab.run(130)
        assert lab.ledger.count("attach", "done") == 3 and judge.findings == []
        client.patch("composabilityrequests", "wanted", {"spec": {"resource": {"size": 4}}})
        lab.run(60)
        assert [one.text for one in judge.findings] == ["4 devices with this order, 0 were needed at most"]


def replaced(lab: Lab, model: str) -> None:
    """The only device of the node goes, and one of this model gets its name."""
    (device,) = lab.fabric.attached("node0000")
    lab.fabric.detach("node0000", device.device.resource, lambda _: None)
    lab.run(5)
    lab.fabric.attach("node0000", model, lambda _: None)
    lab.run(5)
    lab.restart_plugin("node0000")
    lab.run(30)


def test_a_device_that_got_the_name_of_one_that_a_claim_has_is_for_nobody_else() -> None:
    scenario = by_hand("  - {at: 2s, attach: {node: node0000, model: A100}}", "{count: 1, limits: {A100: {max: 1}}}")
    with Lab.virtual(scenario) as lab:
        it = Played(lab, {"one": (("gpu-0",), 0)})
        replaced(lab, "A100")
        it.claim("other")
        it.allocate("other", pool=1)
        it.judge.findings.clear()
        it.tell("other", FAILED)
        assert it.judge.view.unheld(("node0000", "A100")) == [] and it.judge.findings == []


def test_a_device_that_got_the_name_of_one_of_another_model_justifies_one_more() -> None:
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"one": (("gpu-0",), 0)})
        replaced(lab, "H100")
        it.judge.findings.clear()
        lab.fabric.attach("node0000", "H100", lambda _: None)
        lab.run(5)
        assert [one.text for one in it.judge.findings] == ["2 devices with this order, 1 were needed at most"]


@pytest.mark.parametrize(("took", "found"), [(True, []), (False, ["failed without cause"])])
def test_a_claim_may_be_failed_for_a_device_that_somebody_had_meanwhile(took: bool, found: list[str]) -> None:
    """It is told some time after it was decided, and the device may be free again by then."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"one": ((), 1)})
        it.judge.findings.clear()
        if took:
            it.take("other", "gpu-0")
            it.clear("other")
        it.tell("one", FAILED)
        assert [one.rule for one in it.judge.findings] == found


@pytest.mark.parametrize(("other", "found"), [(True, []), (False, ["failed without cause"])])
def test_a_claim_may_be_failed_where_more_waited_meanwhile_than_the_node_may_have(
    other: bool, found: list[str]
) -> None:
    with Lab.virtual(by_hand("  []", "{count: 1, limits: {A100: {max: 1}}}")) as lab:
        it = Played(lab, {"one": ((), 1)})
        if other:
            it.claim("other")
            it.allocate("other", pool=1)
            it.clear("other")
        it.tell("one", FAILED)
        assert [one.rule for one in it.judge.findings] == found


@pytest.mark.parametrize(("limit", "found"), [(", limits: {A100: {max: 0}}", []), ("", ["failed without cause"])])
def test_a_claim_may_be_failed_for_a_limit_that_has_just_gone(limit: str, found: list[str]) -> None:
    with Lab.virtual(by_hand("  []", f"{{count: 1{limit}}}")) as lab:
        judge = Judge(lab, Measure(news=60))
        it = Played(lab, {})
        lab.run(61)  # the node has been ready for long
        label = f"{lab.scenario.cluster.prefix}/a100-size-max"
        lab.client("publisher").patch("nodes", "node0000", {"metadata": {"labels": {label: None}}})
        lab.run(1)
        it.claim("one")
        it.allocate("one", pool=1)
        it.tell("one", FAILED)
        assert [one.rule for one in judge.findings] == found


@pytest.mark.parametrize(("labels", "found"), [({DETACH_DEVICE: "GPU"}, False), ({}, True)])
def test_a_device_that_the_operator_takes_for_nobodys_is_taken_off_by_no_scaler(
    labels: dict[str, str], found: bool
) -> None:
    """No resource named it, and somebody was given it: the operator makes one to take it off."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {})
        it.take("one", "gpu-0")
        (attached,) = lab.fabric.attached("node0000")
        kind = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource"}
        named = dict.fromkeys(labels, attached.device.serial)
        spec = {"type": "gpu", "model": "A100", "target_node": "node0000"}
        body = {**kind, "metadata": {"name": "gpu-1", "labels": named}, "spec": spec}
        lab.client("operator").create("composableresources", body)
        lab.run(1)
        lab.fabric.detach("node0000", attached.device.resource, lambda _: None)
        lab.run(5)
        assert bool(it.judge.of("detached in use")) == found


@pytest.mark.parametrize(("unlisted", "found"), [(302, []), (290, ["done"])])
def test_a_device_that_comes_back_the_moment_it_is_taken_off_could_not_be_kept_from_anybody(
    unlisted: float, found: list[str]
) -> None:
    """Seed 60115: its driver had not listed it for so long that it went back without a name by which it could be held."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {})
        lab.run(100)
        client = lab.client("somebody")
        (listed,) = [
            one for one in client.list("resourceslices") if one["spec"].get("nodeName") and one["spec"]["devices"]
        ]
        lab.end_part("vendor")
        client.delete("resourceslices", listed["metadata"]["name"])
        lab.run(unlisted)
        (attached,) = lab.fabric.attached("node0000")
        lab.fabric.detach("node0000", attached.device.resource, lambda _: None)
        client.create("resourceslices", {"metadata": {"name": "again"}, "spec": listed["spec"]})
        lab.run(0.1)
        it.take("one", "gpu-0")
        lab.run(10)
        assert [one.text.split()[1] for one in it.judge.of("detached in use")] == found


def test_of_two_devices_that_were_meant_for_a_claim_one_is_taken() -> None:
    """It gave one of the node up when it was cleared. The other one that it was told of is still meant for it."""
    with Lab.virtual(devices(3)) as lab:
        it = Played(lab, {"wide": (("gpu-0",), 1), "other": ((), 1)})
        it.judge.findings.clear()
        it.tell("wide")
        it.tell("other")
        it.clear("wide")
        it.take("thief", "gpu-0")
        it.take("second-thief", "gpu-2")
        assert it.order() == []


def test_a_device_is_meant_for_a_claim_from_when_it_can_take_it() -> None:
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"slow": ((), 1)})
        it.judge.findings.clear()
        it.tell("slow")
        lab.run(4)
        it.clear("slow")
        lab.run(3)
        it.claim("late")
        it.allocate("late", pool=1)
        assert it.order() == []


def test_a_device_that_came_later_was_not_meant_for_a_claim_that_was_told_before() -> None:
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"first": ((), 1), "second": ((), 1)})
        it.judge.findings.clear()
        it.tell("first")
        it.clear("first")
        assert it.order() == []
        it.take("third", "gpu-0")
        lab.restart_plugin("node0000")
        lab.run(5)
        it.tell("second")
        assert it.judge.rules == {}
        assert [one.of for one in it.judge.thefts] == ["default/first"]


@pytest.mark.parametrize(("ends", "found"), [(True, []), (False, ["promised twice"])])
def test_a_device_is_meant_for_no_claim_whose_pod_went_once_it_is_cleared(ends: bool, found: list[str]) -> None:
    """Before the claim itself is deleted, the device may be announced to another."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"first": ((), 1), "second": ((), 1)})
        it.judge.findings.clear()
        it.tell("first")
        if ends:
            it.end("first")
        it.clear("first")
        it.tell("second")
        assert [one.rule for one in it.judge.findings] == found


@pytest.mark.parametrize(("later", "found"), [(6, []), (4, ["promised twice"])])
def test_a_device_that_was_not_taken_in_time_may_be_announced_to_another(later: float, found: list[str]) -> None:
    """Seed 52041: also where processes may be away, for which it is needed for longer."""
    with Lab.virtual(devices(1)) as lab:
        it = Played(lab, {"first": ((), 1), "second": ((), 1)}, Measure(kept=60.0))
        it.judge.findings.clear()
        it.tell("first")
        it.clear("first")
        lab.run(later)
        it.tell("second")
        assert [one.rule for one in it.judge.findings] == found


@pytest.mark.parametrize(("together", "found"), [(True, []), (False, ["goes round default/two"])])
def test_a_claim_is_refused_on_a_node_with_another_one_of_its_pod(together: bool, found: list[str]) -> None:
    """One of them is told, and all are allocated elsewhere: a refusal on each node."""
    refuses = "\nfaults: {fabric: [{kind: refuse, since: 0s, until: 5m, share: 1.0}]}"
    with Lab.virtual(by_hand(f"  []{refuses}", "{count: 6}")) as lab:
        it = Played(lab, {})
        for name in ("one", "two"):
            it.claim(name, waits=not together)
        if together:
            it.pod("both", "one", "two")
        for number in range(6):
            for name in ("one", "two"):
                it.allocate(name, pool=1, node=f"node000{number}")
            lab.fabric.attach(f"node000{number}", "A100", lambda _: None)
            lab.run(3)
            it.tell("one", FAILED)
            for name in ("one", "two"):
                it.clear(name)
        assert [f"{one.rule} {one.of}" for one in it.judge.findings] == found


# -- attaches and detaches in vain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "found"), [(2, []), (3, ["attached in vain"])])
def test_a_device_and_its_replacement_may_come_for_a_claim_and_no_third(size: int, found: list[str]) -> None:
    """One pod waits for one device, and somebody asks for `size` of them, one after the other."""
    scenario = parse(
        f"""
cluster:
  models: [{{model: A100, device: a100, product: a}}]
  fabrics: [{{id: 1, devices: {{A100: 4}}}}]
  nodes: [{{count: 1}}]
parts: {{scaler: false, operator: {{kind: ideal}}, fabric: {{attach: 1s}}}}
duration: 2m
steps:
  - {{at: 1s, run: {{name: one, devices: {{a100: 1}}}}}}
  - at: 2s
    apply:
      apiVersion: cro.hpsys.ibm.ie.com/v1alpha1
      kind: ComposabilityRequest
      metadata: {{name: theirs}}
      spec: {{resource: {{type: gpu, model: A100, size: {size}, target_node: node0000, allocation_policy: samenode}}}}
""",
        "it",
    )
    with Lab.virtual(scenario) as lab:
        judge = Judge(lab, Measure(waste=2.0))
        lab.run(60)
    assert [one.rule for one in judge.of("attached in vain")] == found


@pytest.mark.parametrize(("idle", "found"), [(0.0, 0), (30.0, 1)])
def test_a_device_that_goes_before_it_has_idled_is_detached_in_vain(idle: float, found: int) -> None:
    """A scaler that gives back after 15 s, held against a policy of 30."""
    with Lab.virtual(standing_in("first_attach", removal=15.0)) as lab:
        judge = Judge(lab, Measure(idle=idle))
        lab.run(120)
    assert len(judge.of("detached in vain")) == found
