"""Whether a node fits a pod, and how well."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.actors.objects import tolerates
from dds_lab.actors.scheduler import feasibility as labels
from dds_lab.actors.scheduler.feasibility import Affinity, fits, score, static
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Pod, read, requests, units
from dds_lab.api import selectors

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"


def pod(
    name: str = "p", *, uid: str = "", cpu: str = "", memory: str = "", has: dict[str, str] | None = None, **spec: Any
) -> Pod:
    wanted = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": wanted}}
    meta = {"name": name, "namespace": "default", "uid": uid or name, "resourceVersion": "1", "labels": has or {}}
    status = {} if wanted else {"qosClass": "BestEffort"}
    return read({"metadata": meta, "spec": {"containers": [container], **spec}, "status": status})


def node_object(
    name: str = "n", *, cpu: str = "4", memory: str = "8Gi", pods: str = "10", **more: Any
) -> dict[str, Any]:
    spec = {key: value for key, value in more.items() if key in ("taints", "unschedulable")}
    has = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    return {
        "metadata": {"name": name, "labels": has},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **more.get("extra", {})}},
    }


def node(name: str = "n", **more: Any) -> Node:
    found = Node(name)
    found.take(node_object(name, **more))
    return found


def reason(refusal: Any) -> tuple[str, ...]:
    return refusal.reasons if refusal is not None else ()


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "there", "why"),
    [
        ({}, {"unschedulable": True}, "node(s) were unschedulable"),
        ({"nodeName": "other"}, {}, "node(s) didn't match the requested node name"),
        ({}, {"taints": [TAINT]}, "node(s) had untolerated taint(s)"),
        ({"nodeSelector": {"disk": "fast"}}, {}, "node(s) didn't match Pod's node affinity/selector"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "generation", "operator": "Gt", "values": ["3"]}]}]}}}},
            {"labels": {"generation": "3"}},
            "node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)  # fmt: skip
def test_what_the_node_itself_stands_against(wanted: dict[str, Any], there: dict[str, Any], why: str) -> None:
    refusal = static(pod(**wanted), node(**there))

    assert reason(refusal) == (why,)
    assert refusal is not None and not refusal.curable


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ({}, {}),
        ({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}, {"unschedulable": True}),
        ({"tolerations": [{"operator": "Exists"}]}, {"taints": [TAINT]}),
        ({"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, {"taints": [TAINT]}),
        ({}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}),
        ({"nodeSelector": {"disk": "fast"}}, {"labels": {"disk": "fast"}}),
    ],
)
def test_what_it_does_not(wanted: dict[str, Any], there: dict[str, Any]) -> None:
    assert static(pod(**wanted), node(**there)) is None


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Newer", "value": "yes"}, False),
        ({"operator": "Exists"}, True),
    ],
)
def test_tolerations(toleration: dict[str, Any], covered: bool) -> None:
    assert tolerates([toleration], TAINT) is covered


def test_cpu_memory_and_pods_count_with_what_is_on_the_node() -> None:
    place = node(cpu="2", memory="4Gi", pods="2")
    place.add(pod("old", cpu="1500m"))

    assert fits(pod(cpu="500m"), place) is None
    short = fits(pod(cpu="600m", memory="5Gi"), place)
    assert reason(short) == ("Insufficient cpu", "Insufficient memory")
    assert short is not None and not short.curable  # 5Gi never fit
    crowded = fits(pod(cpu="600m"), place)
    assert crowded is not None and crowded.curable
    place.add(pod("more"))
    assert reason(fits(pod(), place)) == ("Too many pods",)
    place.remove("old")
    assert fits(pod(cpu="2"), place) is None


def test_nominated_pods_take_room_as_if_they_were_there() -> None:
    assert reason(fits(pod(cpu="1"), node(cpu="2"), [pod("promised", cpu="1500m")])) == ("Insufficient cpu",)


def test_an_extended_resource_that_devices_stand_for_counts_only_where_it_is_a_plain_one() -> None:
    asks = pod(containers=[{"name": "c", "resources": {"limits": {"example.com/gpu": "2"}}}])

    assert reason(fits(asks, node())) == ("Insufficient example.com/gpu",)
    assert fits(asks, node(), (), ("example.com/gpu",)) is None
    plain = node(extra={"example.com/gpu": "1"})
    assert reason(fits(asks, plain, (), ("example.com/gpu",))) == ("Insufficient example.com/gpu",)


def test_host_ports_clash() -> None:
    def listening(name: str, ip: str = "") -> Pod:
        port = {"hostPort": 80, "containerPort": 80, **({"hostIP": ip} if ip else {})}
        return pod(name, containers=[{"name": "c", "ports": [port]}])

    place = node()
    place.add(listening("a", "10.0.0.1"))

    assert fits(listening("b", "10.0.0.2"), place) is None
    assert reason(fits(listening("b"), place)) == ("node(s) didn't have free ports for the requested pod ports",)


def test_what_a_pod_takes_is_the_peak_of_its_start_or_its_sum() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("500m"), {"resources": {"limits": {"cpu": "1"}}}],
        "initContainers": [container("200m", restartPolicy="Always"), container("3")],
    }
    assert requests(spec) == {"cpu": 3200}
    assert requests({**spec, "initContainers": spec["initContainers"][:1]}) == {"cpu": 1700}
    assert requests({**spec, "overhead": {"cpu": "100m"}}) == {"cpu": 3300}
    assert requests({**spec, "resources": {"requests": {"cpu": "2"}}}) == {"cpu": 2000}
    assert units("cpu", "100m") == 100 and units("memory", "1.5Ki") == 1536 and units("memory", "nonsense") == 0


def test_a_big_node_with_six_small_pods_is_as_good_as_an_empty_one_and_with_seven_it_is_not() -> None:
    """recordings/burst: two of ten equal nodes got six pods each before a third got any."""
    full, empty = node("full", cpu="64", memory="512Gi"), node("empty", cpu="64", memory="512Gi")
    for number in range(5):
        full.add(pod(str(number)))
    assert score(pod(), [full, empty]) == [99, 99]

    full.add(pod("sixth"))

    assert score(pod(), [full, empty]) == [98, 99]


def test_the_emptier_and_more_even_node_is_better() -> None:
    even, uneven, full = node("a"), node("b"), node("c")
    even.add(pod("x", cpu="1", memory="2Gi"))
    uneven.add(pod("y", cpu="2", memory="1Mi"))
    full.add(pod("z", cpu="3", memory="6Gi"))

    first, second, third = score(pod(cpu="500m", memory="1Gi"), [even, uneven, full])
    assert first > second and first > third


def test_preferred_nodes_and_soft_taints_count() -> None:
    terms = [{"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
    wanted = pod(affinity={"nodeAffinity": {PREFERRED: terms}})
    plain, liked = node("a"), node("b", labels={"disk": "fast"})
    soft = node("c", labels={"disk": "fast"}, taints=[{"key": "old", "effect": "PreferNoSchedule"}])

    low, high, between = score(wanted, [plain, liked, soft])

    assert high - low == 200
    assert high - between == 300


def cluster(**zones: str) -> NodeCache:
    nodes = NodeCache()
    for name, zone in zones.items():
        nodes.put(node_object(name, labels={ZONE: zone}))
    return nodes


def near(*, away: bool = False, key: str = ZONE, **match: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": match}}
    return {"affinity": {"podAntiAffinity" if away else "podAffinity": {REQUIRED: [term]}}}


def fitting(wanted: Pod, nodes: NodeCache) -> dict[str, tuple[str, ...]]:
    check = Affinity(wanted, nodes).check
    return {one.name: reason(check(one)) for one in nodes}


def test_a_pod_goes_near_those_it_wants_to_be_near() -> None:
    nodes = cluster(a="east", b="east", c="west")
    nodes.add_pod(pod("web", has={"app": "web"}), "a")

    found = fitting(pod("cache", **near(app="web")), nodes)

    assert found == {"a": (), "b": (), "c": ("node(s) didn't match pod affinity rules",)}


def test_the_first_of_a_group_may_start_anywhere() -> None:
    found = fitting(pod("web", has={"app": "web"}, **near(app="web")), cluster(a="east", b="west"))

    assert found == {"a": (), "b": ()}


def test_a_pod_keeps_away_and_is_kept_away() -> None:
    nodes = cluster(a="east", b="east", c="west")
    host = "kubernetes.io/hostname"
    nodes.add_pod(pod("web", has={"app": "web"}, **near(away=True, key=host, app="web")), "a")

    another = fitting(pod("web2", has={"app": "web"}, **near(away=True, app="web")), nodes)
    plain = fitting(pod("web3", has={"app": "web"}), nodes)

    refused = ("node(s) didn't match pod anti-affinity rules",)
    assert another == {"a": refused, "b": refused, "c": ()}
    assert plain == {"a": ("node(s) didn't satisfy existing pods anti-affinity rules",), "b": (), "c": ()}
    nodes.remove_pod("web")
    assert fitting(pod("web3", has={"app": "web"}), nodes) == {"a": (), "b": (), "c": ()}


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["a", "b"], True), ("In", ["c"], False), ("NotIn", ["c"], True), ("NotIn", ["b"], False),
        ("Exists", [], True), ("DoesNotExist", [], False),
    ],
)  # fmt: skip
def test_requirements(operator: str, values: list[str], holds: bool) -> None:
    found = {"matchExpressions": [{"key": "x", "operator": operator, "values": values}]}
    assert selectors.selects(found, {"x": "b"}) is holds


def test_selectors_of_nothing() -> None:
    assert selectors.selects({}, {"a": "b"}) is True
    assert labels.node_selects(None, "n", {}) is True
    assert labels.node_selects({"nodeSelectorTerms": [{}]}, "n", {}) is False
    lower = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Lt", "values": ["12"]}]}]}
    assert labels.node_selects(lower, "n", {"x": "3"}) is True
    assert labels.node_selects(lower, "n", {"x": "0_3"}) is False, "Go's ParseInt takes no underscore in base 10"


def test_zones_take_turns_in_the_order_of_nodes() -> None:
    nodes = cluster(a="east", b="east", c="west", d="west", e="north")

    assert [one.name for one in nodes] == ["a", "c", "e", "b", "d"]
    nodes.drop("a")
    nodes.put(node_object("b", labels={ZONE: "west"}))
    assert [one.name for one in nodes] == ["b", "e", "c", "d"]


def test_pods_of_a_node_that_is_gone_are_remembered_until_they_go() -> None:
    nodes = cluster(a="east")
    nodes.add_pod(pod("x", cpu="1"), "a")
    nodes.drop("a")
    assert nodes.get("a") is None
    nodes.put(node_object("a"))

    found = nodes.get("a")
    assert found is not None and found.used == {"cpu": 1000}
    nodes.drop("a")
    nodes.remove_pod("x")
    assert nodes.node_of("x") is None and len(nodes) == 0
