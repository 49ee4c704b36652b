"""A lab from a scenario: what is there at the start, who may change it, which releases' gates hold, what goes wrong by plan."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab import lab_settings, shipped
from dds_lab.api.discovery import Discovery
from dds_lab.api.status import ApiError
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, ScenarioError, parse
from dds_lab.setup import BadObject
from dds_lab.tally import Tally, moves
from dds_lab.time import VirtualTime

CLUSTER = """\
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe, not_with: [H100 80G]}
    - {model: H100 80G, device: nvidia-h100-80, product: NVIDIA H100 80GB PCIe, index: 7, pool_attributes: {type: gpu}}
  fabrics:
    - {id: 1, devices: {A100 40G: 4, H100 80G: 2}}
    - {id: 2, devices: {A100 40G: 1}}
"""


def lab_of(text: str, **options: Any) -> Any:
    return Lab.virtual(parse(text, "test"), **options)


def test_the_cluster_is_what_the_scenario_says() -> None:
    nodes = (
        "  nodes:\n"
        "    - {count: 2, fabric: 1, limits: {A100 40G: {min: 1, max: 3}}, labels: {zone: a}}\n"
        "    - {count: 1, first: 2, fabric: 2, cpu: 8, memory: 32Gi, pods: 10, taints: [{key: t, effect: NoSchedule}]}\n"
        "    - {count: 1, name: plain, fabric: null, fixed: {A100 40G: 2}}\n"
        "  namespaces: [team]\n"
        "parts: {scaler: false}\n"
    )
    with lab_of(CLUSTER + nodes) as lab:
        lab.run(seconds=5)
        client = lab.client("test")
        first, third, plain = (client.get("nodes", name) for name in ("node0000", "node0002", "plain0000"))
        assert first["metadata"]["labels"] == {
            "kubernetes.io/hostname": "node0000",
            "zone": "a",
            "cohdi.io/fabric": "1",
            "cohdi.io/nvidia-a100-40": "true",
            "cohdi.io/nvidia-a100-40-size-max": "3",
            "cohdi.io/nvidia-a100-40-size-min": "1",
            "cohdi.io/nvidia-h100-80": "true",
        }
        assert third["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "10"}
        assert [one["key"] for one in third["spec"]["taints"]] == ["t"]
        assert plain["metadata"]["labels"] == {"kubernetes.io/hostname": "plain0000"}
        assert {one["metadata"]["name"] for one in client.list("deviceclasses")} == {"nvidia-a100-40", "nvidia-h100-80"}
        assert client.get("namespaces", "team")
        pools = {
            one["spec"]["pool"]["name"]: len(one["spec"].get("devices") or ()) for one in client.list("resourceslices")
        }
        assert pools["nvidia-a100-40-fabric1"] == 4
        assert pools["nvidia-a100-40-fabric2"] == 1
        assert pools["plain0000"] == 2
        data = client.get("configmaps", "composable-dra-dds", "composable-dra")["data"]
        assert '"index": 7' in data["device-info"]
        assert '"cannot-coexist-with": [7]' in data["device-info"]


def test_the_operators_kinds_are_served_and_its_webhook_judges() -> None:
    spec = {"resource": {"type": "gpu", "model": "A100 40G", "size": 0, "target_node": "node0000"}}
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest", "spec": spec}
    with lab_of(CLUSTER + "  nodes: [{fabric: 1}]\n") as lab:
        client = lab.client("test")
        client.create("composabilityrequests", {**body, "metadata": {"name": "a"}})
        lab.run(seconds=0.1)  # it judges by what it has seen
        with pytest.raises(ApiError, match="admission webhook"):
            client.create("composabilityrequests", {**body, "metadata": {"name": "b"}})
        lab.restart("operator", down=10.0)
        other = {**body, "metadata": {"name": "b"}, "spec": {"resource": {**spec["resource"], "target_node": "node1"}}}
        with pytest.raises(ApiError, match="failed calling webhook") as refused:
            client.create("composabilityrequests", other)
        assert (refused.value.code, refused.value.reason) == (500, "InternalError")
        client.patch("composabilityrequests", "a", {"status": {"error": "words"}}, subresource="status")
        lab.run(seconds=11)
        with pytest.raises(ApiError, match="admission webhook"):
            client.create("composabilityrequests", {**body, "metadata": {"name": "b"}})
        client.create("composabilityrequests", other)


def test_a_manifest_that_the_server_refuses_is_named_with_its_reason() -> None:
    bad = "  objects:\n    - {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}\n"
    with (
        pytest.raises(BadObject, match=r"cluster.objects\[0\] \(Pod p\): the API server refuses it: 422 Invalid"),
        lab_of(CLUSTER + bad),
    ):
        pass
    unknown = "  objects:\n    - {apiVersion: v2, kind: Pod, metadata: {name: p}}\n"
    with pytest.raises(BadObject, match="Pod of v2 is not served; served: "), lab_of(CLUSTER + unknown):
        pass


@pytest.mark.parametrize(("version", "kept"), [("1.34", False), ("1.35", False), ("1.36", True)])
def test_an_older_release_drops_binding_conditions_silently(version: str, kept: bool) -> None:
    with lab_of(CLUSTER + f"  version: '{version}'\n  nodes: [{{fabric: 1}}]\n") as lab:
        lab.run(seconds=2)
        slices = lab.client("test").list("resourceslices")
        devices = [
            device for one in slices for device in one["spec"].get("devices") or () if not one["spec"].get("nodeName")
        ]
        assert all(bool(device.get("bindingConditions")) is kept for device in devices) and devices


def test_a_gate_may_be_served_and_not_obeyed() -> None:
    """The pool's devices have binding conditions, and a scheduler without the gate leaves them alone."""
    text = CLUSTER + "  gates: {scheduler: {DRADeviceBindingConditions: false}}\n  nodes: [{fabric: 1}]\n"
    with lab_of(text + "steps:\n  - {at: 2s, run: {name: p, devices: {nvidia-a100-40: 1}}}\n") as lab:
        lab.run(seconds=30)
        claim = lab.client("test").get("resourceclaims", "p", "default")
        assert not (claim.get("status") or {}).get("allocation")


@pytest.mark.parametrize("version", ["resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"])
def test_taint_rules_are_served_where_the_scenario_says_so(version: str) -> None:
    before = CLUSTER + "  version: '1.36'\n"
    with lab_of(before + f"  taint_rules: {version}\n") as lab:
        assert lab.client("test").list("devicetaintrules") == []
    for without in (before + "  taint_rules: none\n", before + "parts: {operator: {kind: ideal}}\n"):
        with lab_of(without) as lab, pytest.raises(ApiError):
            lab.client("test").list("devicetaintrules")


@pytest.mark.parametrize("rules", ["none", "resource.k8s.io/v1alpha3"])
def test_1_37_is_the_default_and_serves_taint_rules_in_v1(rules: str) -> None:
    with lab_of(CLUSTER + f"  taint_rules: {rules}\n") as lab:
        discovery = Discovery(lab.server.registry, lab.server.gates)
        assert discovery.version()["gitVersion"] == "v1.37.0"
        listed = discovery.resources("resource.k8s.io", "v1") or {}
        assert {"devicetaintrules", "devicetaintrules/status"} <= {one["name"] for one in listed["resources"]}
        assert discovery.serves("resource.k8s.io", "v1alpha3") is (rules != "none")
        assert lab.server.registry.named("devicetaintrules").version == "v1"


def test_a_real_operator_has_the_version_of_taint_rules_that_it_needs() -> None:
    with lab_of(CLUSTER) as lab:
        assert lab.client("test").list("devicetaintrules.v1alpha3.resource.k8s.io") == []


RULE = """\
  - at: 5s
    apply:
      apiVersion: resource.k8s.io/v1beta2
      kind: DeviceTaintRule
      metadata: {name: rule}
      spec: {deviceSelector: {device: nobody}, taint: {key: drain, effect: NoSchedule}}
"""


@pytest.mark.parametrize(
    ("version", "named", "exits"),
    [("'1.36'", "v1.36.2", [10, 20]), ("1.36.3", "v1.36.3", []), ("'1.37'", "v1.37.0", []), ("1.37.1", "v1.37.1", [])],
)
def test_a_scheduler_that_a_taint_rule_ends_comes_back_each_time_later(
    version: str, named: str, exits: list[int]
) -> None:
    text = (
        CLUSTER + f"  version: {version}\n  taint_rules: resource.k8s.io/v1beta2\n"
        "  gates: {scheduler: {DRADeviceTaintRules: true}}\n  nodes: [{fabric: 1}]\n"
        "parts: {operator: false, scaler: false}\nsteps:\n"
        + RULE
        + "  - {at: 10s, attach: {node: node0000, model: A100 40G}}\n"
        "  - {at: 60s, attach: {node: node0000, model: H100 80G}}\n"
        "  - {at: 75s, run: {name: p, devices: {nvidia-h100-80: 1}}}\n"
        "  - {at: 100s, delete: devicetaintrules/rule}\n"
        "  - {at: 110s, attach: {node: node0000, model: A100 40G}}\n"
    )
    with lab_of(text) as lab:
        heard: list[str] = []
        lab.tell = heard.append
        lab.run(seconds=78)
        bound = bool(lab.client("test").get("pods", "p", "default")["spec"].get("nodeName"))
        assert bound is (not exits), "nobody is there to do it"
        lab.run(seconds=62)

        assert lab.steps.failures == []
        served = Discovery(lab.server.registry, lab_settings.api_gates(lab.scenario)).version()["gitVersion"]
        assert served == named
        assert [int(one.partition("restarted after ")[2].partition(" ")[0]) for one in lab.exits] == exits
        assert heard == lab.exits
        assert lab.client("test").get("pods", "p", "default")["spec"]["nodeName"] == "node0000"


V1, V1BETA2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
EVERY = "deviceSelector: {}, "


def ruled(version: str, served: str, selector: str = EVERY, effect: str = "NoSchedule", gates: str = "{}") -> str:
    """A cluster with a rule of this API version, and a pod for a device of the pool."""
    rule = f"{{{selector}taint: {{key: drain, effect: {effect}}}}}"
    return (
        CLUSTER + f"  version: '{version}'\n  taint_rules: {'none' if served == V1 else served}\n  gates: {gates}\n"
        "  nodes: [{fabric: 1}]\n  objects:\n"
        f"    - {{apiVersion: {served}, kind: DeviceTaintRule, metadata: {{name: rule}}, spec: {rule}}}\n"
        "parts: {operator: {kind: ideal}, scaler: false}\n"
        "steps: [{at: 1s, run: {name: p, devices: {nvidia-a100-40: 1}}}]\n"
    )


@pytest.mark.parametrize(
    ("version", "served", "selector", "allocated"),
    [
        ("1.36", V1BETA2, EVERY, True),
        ("1.37", V1, EVERY, False),
        ("1.37", V1BETA2, EVERY, False),
        ("1.37", V1, "", False),
        ("1.37.1", V1, "", True),
    ],
)
def test_from_1_37_on_schedulers_obey_taint_rules(version: str, served: str, selector: str, allocated: bool) -> None:
    """A rule without selector taints nothing, but 1.37.0 takes it for one of all devices (kubernetes issue 141620)."""
    with lab_of(ruled(version, served, selector)) as lab:
        lab.run(seconds=20)
        claim = lab.client("test").get("resourceclaims", "p", "default")
        assert bool((claim.get("status") or {}).get("allocation")) is allocated


@pytest.mark.parametrize("on", [True, False])
def test_the_rules_of_1_37_evict_as_their_gate_says(on: bool) -> None:
    gates = f"{{api: {{DRADeviceTaintRules: {on}}}, scheduler: {{DRADeviceTaintRules: false}}}}"
    with lab_of(ruled("1.37", V1, effect="NoExecute", gates=gates)) as lab:
        lab.run(seconds=20)
        assert (lab.client("test").find("pods", "p", "default") is None) is on


def test_fabric_faults_hold_in_their_window() -> None:
    text = (
        CLUSTER + "  nodes: [{fabric: 1}]\n"
        "steps:\n"
        "  - {at: 1s, attach: {node: node0000, model: A100 40G}}\n"
        "  - {at: 20s, attach: {node: node0000, model: A100 40G}}\n"
        "  - {at: 40s, attach: {node: node0000, model: A100 40G}}\n"
        "parts: {operator: false, scaler: false}\n"
        "faults: {fabric: [{kind: refuse, since: 10s, until: 30s, words: no}]}\n"
    )
    with lab_of(text) as lab:
        lab.run(seconds=60)
        assert [one.outcome for one in lab.ledger if one.outcome != "ordered"] == ["done", "failed", "done"]
        assert lab.steps.failures == ["attach of A100 40G to node0000: no"]


def test_an_allocation_stays_in_flight_while_it_is_stalled() -> None:
    text = (
        CLUSTER + "  nodes: [{fabric: 1}]\n"
        "steps:\n"
        "  - {at: 1s, run: {name: slow, devices: {nvidia-a100-40: 1}}}\n"
        "  - {at: 2s, run: {name: quick, devices: {nvidia-a100-40: 1}}}\n"
        "faults: {allocations: [{since: 0s, takes: 60s, times: 1}]}\n"
    )
    with lab_of(text) as lab:
        lab.run(seconds=30)
        allocated = {
            one["metadata"]["name"]
            for one in lab.client("test").list("resourceclaims")
            if (one.get("status") or {}).get("allocation")
        }
        assert allocated == {"quick"}
        lab.run(seconds=40)
        assert (lab.client("test").get("resourceclaims", "slow", "default").get("status") or {}).get("allocation")


def test_a_schedulers_clock_may_be_off() -> None:
    text = (
        CLUSTER
        + "  nodes: [{fabric: 1}]\nparts: {scheduler: {clock: -10m}}\nsteps: [{run: {name: p, devices: {nvidia-a100-40: 1}}}]\n"
    )
    with lab_of(text) as lab:
        lab.run(seconds=2)
        claim = lab.client("test").get("resourceclaims", "p", "default")
        assert claim["status"]["allocation"]["allocationTimestamp"] == "2026-11-20T23:50:00Z"


def test_chaos_strikes_by_seed_and_nothing_falls_over() -> None:
    kinds = ("restart_scheduler", "restart_operator", "restart_vendor", "lose_node", "drop_out", "drain", "shrink")
    chaos = ", ".join(f"{kind}: 3m" for kind in kinds)
    text = (
        CLUSTER + "  nodes: [{count: 8, fabric: 1}]\nduration: 40m\n"
        "mix: [{pods: 60, over: 30m, lasts: {between: [1m, 3m]}, asks: [{devices: {nvidia-a100-40: 1}}]}]\n"
        f"faults: {{chaos: {{{chaos}, drained_for: 2m}}}}\n"
    )
    numbers = []
    for _ in range(2):
        tally = Tally()
        with lab_of(text, seed=3) as lab:
            tally.follow(lab.client("tally"))
            lab.run()
            numbers.append((tally.pods, tally.bound, tally.allocations, moves(lab.ledger), lab.server.store.revision))
            assert len(lab.client("test").list("nodes")) < 8
    assert numbers[0] == numbers[1]
    assert numbers[0][0] == 60
    assert numbers[0][1] > 10


def test_a_mix_brings_its_pods_in_its_time_and_they_all_end() -> None:
    text = (
        CLUSTER + "  nodes: [{count: 4, fabric: 1}]\n  namespaces: [one, two]\nduration: 20m\n"
        "mix: [{pods: 50, start: 1m, over: 9m, lasts: 20s, namespaces: [one, two], templates: 0.5, withdrawn: 0.1, cpu: 1,"
        " asks: [{devices: {nvidia-a100-40: 1}, weight: 3}, {devices: {nvidia-h100-80: 1}}]}]\n"
    )
    tally = Tally()
    with lab_of(text) as lab:
        tally.follow(lab.client("tally"))
        lab.run(seconds=60)
        assert tally.pods == 0
        lab.run(seconds=541)
        assert tally.pods == 50
        lab.run()
        client = lab.client("test")
        assert client.list("pods") == client.list("resourceclaims") == []


def test_scenarios_are_found_by_name_and_by_path(tmp_path: Any) -> None:
    assert isinstance(shipped.find("burst"), Scenario)
    path = tmp_path / "mine.yaml"
    path.write_text("about: mine\n")
    assert shipped.find(str(path)).about == "mine"
    with pytest.raises(ScenarioError, match="did you mean burst"):
        shipped.find("brust")


@pytest.mark.parametrize("name", shipped.names())
def test_every_scenario_says_what_it_shows_and_its_settings_can_be_made(name: str) -> None:
    scenario = shipped.find(name)
    assert scenario.about
    assert scenario.name == name
    lab_settings.pools(scenario)
    lab_settings.device_info(scenario)
    assert lab_settings.api_gates(scenario).version == scenario.cluster.version


# -- virtual time: it goes from timer to timer, and nowhere else


def test_a_cancelled_timer_lets_nothing_come_early() -> None:
    time = VirtualTime(seed=1, start=0)
    called: list[int] = []
    time.after(1.0, lambda: called.append(time.now())).cancel()
    time.after(30.0, lambda: called.append(time.now()))
    time.run(10_000_000)
    assert called == []
    assert time.now() == 10_000_000
    time.run(30_000_000)
    assert called == [30_000_000]


def test_calls_of_one_instant_come_in_the_order_in_which_they_were_asked_for() -> None:
    time = VirtualTime(seed=1, start=0)
    called: list[str] = []
    for name in "abc":
        time.after(1.0, lambda name=name: called.append(name))  # type: ignore[misc]
    time.run(1_000_000)
    assert called == ["a", "b", "c"]


@pytest.mark.parametrize("fault", ["{kind: hang, operation: check}", "{kind: warning, operation: detach}"])
def test_a_fault_of_the_fabric_that_its_operation_cannot_have(fault: str) -> None:
    with pytest.raises(ScenarioError):
        parse(CLUSTER + f"faults: {{fabric: [{fault}]}}\n", "faults")


def test_a_real_operator_in_a_whole_lab_attaches_and_detaches_and_its_restarts_of_plugins_are_counted() -> None:
    text = (
        CLUSTER + "  nodes: [{fabric: 1}]\nparts: {scaler: {}}\nduration: 5m\nsteps:\n"
        "  - {at: 20s, run: {name: p, devices: {nvidia-a100-40: 1}}}\n  - {at: 3m, withdraw: p}\n"
    )
    with lab_of(text) as lab:
        lab.run(seconds=170)
        assert lab.plugin_restarts()["node0000"] >= 1
        assert len(lab.fabric.attached("node0000")) == 1
        lab.run(seconds=130)
        assert lab.ledger.attached() == {}
