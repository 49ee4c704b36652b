"""The publisher's admission policies: examples for test_admission.py, and what its settings change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dds_adapters.kubernetes.doctor import api_server
from dds_adapters.kubernetes.publish import probe
from dds_adapters.kubernetes.watch.watch_spec import DRA
from dds_core.publisher.model import MANAGED_BY
from tests.project.deploy.admission import (
    ACCOUNT,
    PUBLISHER_ACCOUNT,
    Asked,
    Object,
    denials,
    policies_of,
)
from tests.project.deploy.chart import rendered

LABEL = "app.kubernetes.io/managed-by"
SLICE: Object = {
    "metadata": {"name": "a100-fabric1-gpu-nvidia-com-000", "labels": {LABEL: MANAGED_BY}},
    "spec": {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cohdi.io/a100", "operator": "Exists"}]}]},
        "devices": [{"name": "a100-0"}],
    },
}
NODE: Object = {
    "metadata": {"name": "node1", "labels": {"cohdi.io/fabric": "1", "cohdi.io/a100": "true", "zone": "a"}},
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {"capacity": {"cpu": "4"}},
}


def changed(one: Object, *path: str, to: Any) -> Object:
    """With another value at a path; None takes it away."""
    after = copy.deepcopy(one)
    here = after
    for step in path[:-1]:
        here = here.setdefault(step, {})
    if to is None:
        here.pop(path[-1])
    else:
        here[path[-1]] = to
    return after


NOBODYS = changed(SLICE, "metadata", "labels", LABEL, to=None)
OTHERS = changed(SLICE, "metadata", "labels", LABEL, to="others")
ON_NODE = changed(changed(SLICE, "spec", "nodeName", to="node1"), "spec", "nodeSelector", to=None)
EVERYWHERE = changed(changed(SLICE, "spec", "allNodes", to=True), "spec", "nodeSelector", to=None)


def slices(now: Object | None, was: Object | None = None, user: str = PUBLISHER_ACCOUNT) -> Asked:
    return Asked("resourceslices", now, was, DRA, user)


def node(now: Object, user: str = PUBLISHER_ACCOUNT, resource: str = "nodes") -> Asked:
    return Asked(resource, now, NODE, "", user)


def label(name: str, value: str | None) -> Object:
    return changed(NODE, "metadata", "labels", name, to=value)


ALLOWED: dict[str, Asked] = {
    "publish": slices(SLICE),
    "ask what is kept": slices(probe.on_trial("resource.k8s.io/v1", "gpu.nvidia.com")),
    "ask it for the doctor": slices(api_server.example()),
    "one device more": slices(changed(SLICE, "spec", "devices", to=[{"name": "a100-0"}, {"name": "a100-1"}]), SLICE),
    "withdraw": slices(None, SLICE),
    "the label of another fabric": node(label("cohdi.io/fabric", "2")),
    "no fabric any more": node(label("cohdi.io/fabric", None)),
    "a limit": node(label("cohdi.io/a100-size-max", "4")),
    "a least number": node(label("cohdi.io/a100-size-min", "1")),
}
DENIED: dict[str, tuple[Asked, str]] = {
    "publish in nobody's name": (slices(NOBODYS), "carries its label"),
    "publish in another's name": (slices(OTHERS), "carries its label"),
    "take the label off": (slices(NOBODYS, SLICE), "carries its label"),
    "take a slice over that may not be": (slices(SLICE, NOBODYS), "change and delete only"),
    "take another's slice over": (slices(SLICE, OTHERS), "change and delete only"),
    "delete what is nobody's": (slices(None, NOBODYS), "change and delete only"),
    "delete another's": (slices(None, OTHERS), "change and delete only"),
    "devices of one node": (slices(ON_NODE), "several nodes"),
    "devices of all nodes": (slices(EVERYWHERE), "several nodes"),
    "a vendor's slice away": (slices(None, ON_NODE), "several nodes"),
    "a pool label": (node(label("cohdi.io/a100", None)), "labels of a node"),
    "a cool-down": (node(label("cohdi.io/a100-cooling", "true")), "labels of a node"),
    "another's label": (node(label("zone", "b")), "labels of a node"),
    "a prefix that only begins alike": (node(label("cohdi.io.example/a-size-max", "1")), "labels of a node"),
    "cordon": (node(changed(NODE, "spec", "unschedulable", to=True)), "nothing of a node"),
    "annotate": (node(changed(NODE, "metadata", "annotations", to={"a": "b"})), "nothing of a node"),
    "a node's capacity": (
        node(changed(NODE, "status", "capacity", "cpu", to="8"), resource="nodes/status"),
        "nothing of a",
    ),
}


def _of(publisher: dict[str, Any]) -> tuple[Object, ...]:
    return policies_with({"publisher": {"enabled": True, **publisher}})


def policies_with(values: dict[str, Any]) -> tuple[Object, ...]:
    texts = rendered(values, namespace="composable-dra")
    wanted = [text for path, text in texts.items() if path.endswith("admission.yaml")]
    return tuple(one for text in wanted for one in policies_of(text))


def test_where_the_policy_adopts_nobodys_slices_may_be_taken_over_and_no_others() -> None:
    judges = _of({"policy": {"adopt": "reference"}})
    assert denials(slices(SLICE, NOBODYS), judges) == []
    assert denials(slices(None, NOBODYS), judges) == []
    assert denials(slices(SLICE, OTHERS), judges) != []
    assert denials(slices(None, ON_NODE), judges) != []


@pytest.mark.parametrize("user", [ACCOUNT, PUBLISHER_ACCOUNT])
def test_labels_of_a_former_prefix_may_be_taken_off_and_not_set(user: str) -> None:
    judges = policies_with(
        {"fabric": {"labelPrefix": "example.com", "formerLabelPrefix": "cohdi.io"}, "publisher": {"enabled": True}}
    )
    for name in ("cohdi.io/fabric", "cohdi.io/a100"):
        assert denials(node(label(name, None), user), judges) == []
        assert denials(node(label(name, "3"), user), judges) != []
    assert denials(node(label("zone", None), user), judges) != []


def test_in_the_scalers_process_one_account_may_do_both() -> None:
    judges = _of({"inProcess": True})
    assert denials(slices(SLICE, user=ACCOUNT), judges) == []
    assert denials(slices(NOBODYS, user=ACCOUNT), judges) != []
    for name in ("cohdi.io/fabric", "cohdi.io/a100-size-max", "cohdi.io/a100-cooling"):
        assert denials(node(label(name, "3"), ACCOUNT), judges) == []
    assert denials(node(label("zone", "3"), ACCOUNT), judges) != []
