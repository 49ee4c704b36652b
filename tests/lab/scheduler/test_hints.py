"""Which changes bring which refused pods back."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.actors.scheduler import cluster_cache
from tests.lab.scheduler.test_feasibility import TAINT, near, node_object, pod

PLUGINS = (
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "TaintToleration",
)


def helped(change: Any, wanted: Any) -> set[str]:
    return {plugin for plugin in PLUGINS if change.helps(wanted, plugin)}


def changed(old: dict[str, Any], new: dict[str, Any]) -> Any:
    return cluster_cache.of_node(node_object(**old), node_object(**new))


def test_a_new_node_may_help_everybody_whom_it_could_take() -> None:
    change = cluster_cache.of_node(None, node_object())
    assert change is not None

    assert helped(change, pod()) == set(PLUGINS)
    assert helped(change, pod(cpu="64")) == set(PLUGINS) - {"NodeResourcesFit"}
    assert helped(change, pod(nodeSelector={"disk": "fast"})) == set(PLUGINS) - {"NodeAffinity", "NodeName"}


def test_a_heartbeat_is_no_change() -> None:
    assert changed({}, {}) is None


@pytest.mark.parametrize(
    ("old", "new", "plugins"),
    [
        ({}, {"labels": {"disk": "fast"}}, {"DynamicResources", "NodeAffinity", "NodeName", "InterPodAffinity"}),
        ({"taints": [TAINT]}, {}, {"TaintToleration", "NodeUnschedulable"}),
        ({}, {"taints": [TAINT]}, {"NodeUnschedulable"}),
        ({"unschedulable": True}, {}, {"TaintToleration", "NodeUnschedulable"}),
        ({}, {"unschedulable": True}, {"TaintToleration"}),
        ({"cpu": "1"}, {"cpu": "2"}, {"DynamicResources", "NodeResourcesFit"}),
    ],
)
def test_what_changed_decides_whom_it_may_help(old: dict[str, Any], new: dict[str, Any], plugins: set[str]) -> None:
    assert helped(changed(old, new), pod()) == plugins


def test_a_pod_that_leaves_makes_room_for_others_but_not_for_itself() -> None:
    change = cluster_cache.PodGone(pod("old"))

    assert helped(change, pod("new")) == {"NodeResourcesFit", "NodePorts", "InterPodAffinity"}
    assert helped(change, pod("old")) == set()


def test_a_pod_that_comes_helps_who_wants_to_be_near() -> None:
    change = cluster_cache.PodPlaced(pod("web"))

    assert helped(change, pod("cache", **near(app="web"))) == {"InterPodAffinity"}
    assert helped(change, pod("other")) == set()


def test_devices_help_who_lacks_devices() -> None:
    assert helped(cluster_cache.DevicesChanged(), pod()) == {"DynamicResources"}
    assert helped(cluster_cache.ClaimChanged("default/c"), pod()) == {"DynamicResources"}
    assert cluster_cache.ClaimChanged("default/c").claim == "default/c"


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        ({}, {}, False),
        ({}, {"has": {"a": "b"}}, True),
        ({}, {"tolerations": [{"operator": "Exists"}]}, True),
        ({"cpu": "2"}, {"cpu": "1"}, True),
        ({"schedulingGates": [{"name": "wait"}]}, {}, True),
    ],
)
def test_what_changed_in_the_pod_itself(old: dict[str, Any], new: dict[str, Any], helps: bool) -> None:
    assert cluster_cache.pod_itself(pod(**old), pod(**new)) is helps
