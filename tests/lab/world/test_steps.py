"""Each kind of step does what it says, through the API and the hardware; a step that cannot is told and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dds_lab.client import Object
from dds_lab.lab import Lab
from dds_lab.scenario import parse

HEAD = """\
duration: 1h
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics:
    - {id: 1, devices: {A100 40G: 4}}
  nodes:
    - {count: 3, fabric: 1}
parts:
  scheduler: {profiles: {default-scheduler: {binding_timeout: 30s}}}
  fabric: {attach: 1s, detach: 1s}
  vendor: {start: 10ms}
  publisher: {interval: 0s}
  operator: {kind: ideal}
  scaler: {interval: 5s, removal: 10s, allocation: 5s}
"""


@contextmanager
def told(*steps: str, more: str = "") -> Iterator[Lab]:
    text = HEAD + more + "steps:\n" + "".join(f"  - {step}\n" for step in steps)
    with Lab.virtual(parse(text, "test")) as lab:
        yield lab


def find(lab: Lab, resource: str, name: str, namespace: str = "default") -> Object | None:
    namespaced = resource in ("pods", "resourceclaims", "resourceclaimtemplates")
    return lab.client("test").find(resource, name, namespace if namespaced else "")


def state(lab: Lab, name: str) -> str:
    pod = find(lab, "pods", name)
    return str((pod or {}).get("status", {}).get("phase", "")) if pod is not None else "gone"


def test_a_run_brings_a_pod_to_its_devices_and_ends_as_it_says() -> None:
    with told(
        "{at: 1s, run: {name: ends, devices: {nvidia-a100-40: 1}, lasts: 5s}}",
        "{at: 1s, run: {name: goes, devices: {nvidia-a100-40: 1}, delete_after: 5s, template: true}}",
        "{at: 1s, run: {name: plain, cpu: 1, memory: 1Gi}}",
    ) as lab:
        lab.run(seconds=60)
        assert (state(lab, "ends"), state(lab, "goes"), state(lab, "plain")) == ("Succeeded", "gone", "Running")
        assert find(lab, "resourceclaims", "goes") is None
        assert find(lab, "resourceclaimtemplates", "goes") is None
        assert lab.steps.finished
        assert lab.steps.failures == []


def test_steps_come_in_their_order_and_not_before_their_time() -> None:
    with told(
        "{at: 10s, run: {name: a}}",
        "{after: 5s, run: {name: b}}",
        "run: {name: c}",
        "{at: 12s, run: {name: d}}",
        "{at: 30s, run: {name: e}}",
    ) as lab:
        made: dict[str, float] = {}
        begun = lab.time.now()

        def note(old: Object | None, new: Object | None) -> None:
            if old is None and new is not None:
                made[new["metadata"]["name"]] = (lab.time.now() - begun) / 1e6

        lab.client("test").mirror("pods").on_change(note)
        lab.run(seconds=60)
    assert made == {"a": 10, "b": 15, "c": 15, "d": 15, "e": 30}


def test_a_wait_ends_when_the_object_shows_it_and_fails_when_its_time_is_up() -> None:
    with told(
        "run: {name: p, devices: {nvidia-a100-40: 1}}",
        "wait_for: {object: resourceclaims/p, has: status.allocation}",
        "wait_for: {object: pods/default/p, has: status.phase, equals: Running, within: 1m}",
        "withdraw: p",
        "wait_for: {object: pods/p, gone: true}",
        "wait_for: {object: nodes/node0001, lacks: spec.unschedulable}",
        "wait_for: {object: nodes/node0001, has: 'status.conditions[0].status', equals: 'True'}",
        "wait_for: {object: pods/never, has: spec, within: 20s}",
        "wait_for: {object: gadgets/g, has: spec, within: 20s}",
        "run: {name: afterwards}",
    ) as lab:
        lab.run(seconds=55)
        late, unknown = lab.steps.failures
        assert late == "steps[7] (wait_for): pods/never has spec did not come about within 20 s"
        assert unknown.startswith("steps[8] (wait_for): 404 NotFound")
        assert state(lab, "afterwards") == "Running"


def test_nodes_are_cordoned_drained_and_lost_by_name_or_by_what_is_on_them() -> None:
    with told(
        "run: {name: p, devices: {nvidia-a100-40: 1}}",
        "wait_for: {object: pods/p, has: status.phase, equals: Running}",
        "cordon: node0002",
        "uncordon: node0002",
        "drain: {pod: p}",
        "{after: 1s, run: {name: q, devices: {nvidia-a100-40: 1}}}",
        "wait_for: {object: resourceclaims/q, has: status.allocation}",
        "lose_node: {claim: q}",
    ) as lab:
        lab.run(seconds=60)
        nodes = {
            one["metadata"]["name"]: one["spec"].get("unschedulable", False) for one in lab.client("t").list("nodes")
        }
        assert state(lab, "p") == "gone"
        assert len(nodes) == 2
        assert list(nodes.values()).count(True) == 1
        assert lab.steps.failures == []


def test_a_condition_is_set_on_the_devices_that_wait_for_it() -> None:
    with told(
        "run: {name: p, devices: {nvidia-a100-40: 2}}",
        "{after: 1s, condition: {claim: p, type: FabricDeviceReady, message: there}}",
        "{after: 1s, condition: {pod: t, type: FabricDeviceFailed, reason: Broken}}",
    ) as lab:
        lab.run(seconds=1.5)
        claim = find(lab, "resourceclaims", "p")
        assert claim is not None
        entries = claim["status"]["devices"]
        assert [one["type"] for entry in entries for one in entry["conditions"]] == ["FabricDeviceReady"] * 2
        lab.run(seconds=2)
        assert "no claim was made for the pod" in lab.steps.failures[0]


def test_devices_are_attached_and_detached_by_hand() -> None:
    with told(
        "{at: 1s, attach: {node: node0001, model: A100 40G}}",
        "{at: 5s, detach: {node: node0001, model: A100 40G}}",
        "{at: 10s, detach: {node: node0001, model: A100 40G}}",
    ) as lab:
        lab.run(seconds=3)
        assert len(lab.fabric.attached("node0001")) == 1
        assert _devices(lab, "node0001") == 1
        lab.run(seconds=5)
        assert _devices(lab, "node0001") == 0
        lab.run(seconds=5)
        assert lab.steps.failures == [
            "steps[2] (detach): node0001: no device of model A100 40G is attached; attach one before"
        ]
        assert [(one.operation, one.outcome) for one in lab.ledger] == [
            ("attach", "ordered"),
            ("attach", "done"),
            ("detach", "ordered"),
            ("detach", "done"),
        ]


def test_pools_shrink_and_grow_and_say_when_there_is_too_little() -> None:
    with told(
        "resize: {model: A100 40G, by: -3}",
        "resize: {model: A100 40G, by: 5}",
        "resize: {model: A100 40G, by: -9}",
    ) as lab:
        lab.run(seconds=1)
        assert lab.fabric.free("1", "A100 40G") == 0
        assert lab.steps.failures == ["steps[2] (resize): fabric 1: only 6 devices of A100 40G were free; take fewer"]


def test_a_device_drops_out_and_comes_back() -> None:
    with told(
        "attach: {node: node0000, model: A100 40G}",
        "{at: 5s, drop_out: {node: node0000, lasts: 10s}}",
        "{at: 6s, drop_out: {node: node0001}}",
    ) as lab:
        lab.run(seconds=6)
        assert lab.fabric.attached("node0000") == ()
        assert "no such device is attached" in lab.steps.failures[0]
        lab.run(seconds=10)
        assert len(lab.fabric.attached("node0000")) == 1


@pytest.mark.parametrize(
    "part", ["scheduler", "claims", "controllers", "kubelet", "operator", "vendor", "publisher", "scaler"]
)
def test_every_part_can_be_restarted_in_the_middle_and_all_comes_to_a_good_end(part: str) -> None:
    with told(
        "run: {name: p, devices: {nvidia-a100-40: 1}, lasts: 10s}",
        "{after: 700ms, restart: {part: " + part + ", down: 1s}}",
        "wait_for: {object: pods/p, has: status.phase, equals: Succeeded, within: 3m}",
    ) as lab:
        lab.run(seconds=900)  # an operator that restarts forgets its order; what came of it is found after ten minutes
        assert lab.steps.failures == []
        assert lab.ledger.attached() == {}


def test_a_part_whose_watches_break_goes_on_with_what_it_knew() -> None:
    run = "run: {name: p, devices: {nvidia-a100-40: 1}}"
    with told("{at: 1s, relist: {part: scheduler, lasts: 30s}}", f"{{after: 1s, {run}}}") as lab:
        lab.run(seconds=25)
        assert state(lab, "p") == "Pending"
        assert not (find(lab, "resourceclaims", "p") or {}).get("status")
        lab.run(seconds=60)
        assert state(lab, "p") == "Running"


def test_a_device_is_cut_into_parts_and_made_whole_again() -> None:
    with told(
        "attach: {node: node0000, model: A100 40G}",
        "{after: 3s, partition: {node: node0000, profiles: [3g.20gb, 4g.20gb, 1g.5gb]}}",
        "{after: 3s, partition: {node: node0000}}",
        "partition: {node: node0001, model: A100 40G, profiles: [1g.5gb]}",
        more="",
    ) as lab:
        lab.run(seconds=5)
        assert listed(lab) == ["gpu-0-mig-3g20gb-9-0", "gpu-0-mig-1g5gb-19-4"], "what does not fit is not made"
        lab.run(seconds=3)
        assert listed(lab) == ["gpu-0"]
        assert "no such device is attached" in lab.steps.failures[0]


def listed(lab: Lab) -> list[str]:
    slices = find(lab, "resourceslices", "node0000-gpu-nvidia-com")
    return [one["name"] for one in (slices or {"spec": {}})["spec"].get("devices") or ()]


def test_a_plugin_of_one_node_is_restarted() -> None:
    with told("{at: 20s, restart: {part: vendor, node: node0001}}") as lab:
        lab.run(seconds=25)
        assert lab.plugin_age("node0001") < 6 < 20 < lab.plugin_age("node0000")


def test_manifests_are_created_then_applied_and_objects_deleted() -> None:
    claim = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, labels: {x: '1'}}, spec: {devices: {}}}"
    with told(
        f"apply: {claim}",
        f"apply: {claim.replace(chr(39) + '1' + chr(39), chr(39) + '2' + chr(39))}",
        "apply: {apiVersion: v1, kind: Namespace, metadata: {name: team}}",
        "apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: team}, data: {a: b}}",
        "delete: configmaps/team/m",
        "delete: configmaps/team/m",
        "apply: {apiVersion: v1, kind: Gadget, metadata: {name: m}}",
        "apply: {apiVersion: v1, kind: Pod, metadata: {name: m}, spec: {}}",
        "delete: gadgets/m",
    ) as lab:
        lab.run(seconds=1)
        found = find(lab, "resourceclaims", "c")
        assert found is not None
        assert found["metadata"]["labels"] == {"x": "2"}
        assert lab.client("t").find("configmaps", "m", "team") is None
        assert lab.client("t").find("namespaces", "team") is not None
        kinds = [failure.split(":")[0] for failure in lab.steps.failures]
        assert kinds == ["steps[6] (apply)", "steps[7] (apply)", "steps[8] (delete)"]
        assert "Gadget of v1 is not served; served: " in lab.steps.failures[0]
        assert "422 Invalid" in lab.steps.failures[1]


def _devices(lab: Lab, node: str) -> int:
    found: list[Any] = lab.client("test").list("resourceslices", fields=f"spec.nodeName={node}")
    return sum(len(one["spec"].get("devices") or ()) for one in found)


def test_pods_leave_a_silent_node_and_are_gone_once_it_is_heard_again() -> None:
    with told(
        "{at: 5s, run: {name: train, devices: {nvidia-a100-40: 1}, grace: 30}}",
        "wait_for: {object: pods/train, has: status.phase, equals: Running, within: 60s}",
        "{silence: {node: {pod: train}, lasts: 20m}}",
        "{after: 1m, restart: {part: controllers}}",
        "restart: {part: kubelet}",
    ) as lab:
        lab.run(seconds=120)
        node = (find(lab, "pods", "train") or {})["spec"]["nodeName"]
        (device,) = lab.fabric.attached(node)
        taints = [one["key"] for one in (find(lab, "nodes", node) or {})["spec"]["taints"]]
        assert set(taints) == {"node.kubernetes.io/unreachable"}
        assert "deletionTimestamp" not in (find(lab, "pods", "train") or {})["metadata"]
        lab.run(seconds=600)
        assert "deletionTimestamp" in (find(lab, "pods", "train") or {})["metadata"]  # nobody there ends it
        assert lab.fabric.users(device.device.serial) == ("default/train",)
        assert (find(lab, "resourceclaims", "train") or {})["status"]["reservedFor"]
        lab.run(seconds=900)
        assert state(lab, "train") == "gone"
        assert "taints" not in (find(lab, "nodes", node) or {})["spec"]
        assert lab.fabric.attached(node) == ()
        assert lab.steps.failures == []
