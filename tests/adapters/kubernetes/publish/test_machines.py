"""Which machine a node is, where BareMetalHosts say so: whichever comes first, and however they change."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from dds_adapters.kubernetes import UnknownResource
from dds_adapters.kubernetes.publish.decode import BareMetalHosts, PublisherTranslator
from dds_adapters.kubernetes.watch.watch_spec import watched_by_publisher
from dds_core.events import Event, Rejected, encode
from dds_core.publisher.events import HostObserved
from dds_core.publisher.model import Host
from tests.adapters.kubernetes.samples import DictView, raw_of, sample

ANNOTATION = "cluster-manager.cdi.io/machine"


def node(name: str = "n1", provider: str = "baremetalhost:///openshift-machine-api/host-1/bmh-1") -> dict[str, Any]:
    obj = sample("nodes")
    obj["metadata"].update(name=name, uid=f"uid-{name}")
    obj["spec"]["providerID"] = provider
    return obj


def bare_metal_host(machine: str | None = "Machine-1", uid: str = "bmh-1") -> dict[str, Any]:
    annotations = {"annotations": {ANNOTATION: machine, "other": "secret-9"}} if machine is not None else {}
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": "host-1", "namespace": "openshift-machine-api", "uid": uid, **annotations},
        "spec": {"bmc": {"address": "idrac://secret-9", "credentialsName": "secret-9"}, "online": True},
    }


class Cluster:
    """What is seen of a cluster with BareMetalHosts; a translator may be made anew at any time."""

    def __init__(self) -> None:
        self.view = DictView()
        self.hosts = BareMetalHosts()
        self.events: list[Event] = []
        self.anew()

    def anew(self) -> None:
        self.translator = PublisherTranslator(self.view, hosts=self.hosts)

    def sees(self, resource: str, obj: dict[str, Any], type: str = "MODIFIED") -> list[Event]:
        events = list(self.translator.translate(resource, type, raw_of(obj)))
        for event in events:
            self.view.fold(event)
        self.events += events
        return events

    def machine(self, name: str = "n1") -> str:
        found = self.view.object(Host, f"uid-{name}")
        assert isinstance(found, Host)
        return found.machine


STEPS = [("nodes", node()), ("baremetalhosts", bare_metal_host()), ("nodes", node("n2", "fsas-cdi://other"))]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_whichever_comes_first(order: tuple[int, ...]) -> None:
    cluster = Cluster()
    for place in order:
        cluster.sees(*STEPS[place], type="ADDED")
    assert (cluster.machine(), cluster.machine("n2")) == ("machine-1", "")
    for resource, obj in STEPS:
        assert cluster.sees(resource, obj) == []


def test_what_a_host_says_later_counts() -> None:
    cluster = Cluster()
    cluster.sees("nodes", node())
    cluster.sees("baremetalhosts", bare_metal_host(None))
    assert cluster.machine() == ""
    for machine in ("machine-1", "machine-2"):
        (fact,) = cluster.sees("baremetalhosts", bare_metal_host(machine))
        assert isinstance(fact, HostObserved) and json.loads(encode(fact))["changes"] == {"machine": machine}
    assert [type(one) for one in cluster.sees("baremetalhosts", bare_metal_host(), "DELETED")] == [HostObserved]
    assert cluster.machine() == ""


def test_a_node_that_comes_under_another_host_is_another_machine() -> None:
    cluster = Cluster()
    for machine in ("1", "2"):
        cluster.sees("baremetalhosts", bare_metal_host(f"machine-{machine}", f"bmh-{machine}"))
    cluster.sees("nodes", node())
    cluster.sees("nodes", node(provider="metal3://bmh-2"))
    assert cluster.machine() == "machine-2"
    assert cluster.sees("baremetalhosts", bare_metal_host("x", "bmh-1")) == []


def test_after_a_start_a_machine_stays_until_its_host_is_seen() -> None:
    cluster = Cluster()
    for resource, obj in STEPS:
        cluster.sees(resource, obj)
    cluster.hosts = BareMetalHosts()
    cluster.anew()
    assert cluster.sees("nodes", node()) == []
    assert cluster.sees("baremetalhosts", bare_metal_host()) == []
    cluster.anew()
    assert cluster.sees("nodes", node()) == [] and cluster.machine() == "machine-1"


def test_a_node_that_is_gone_is_nobodys_machine() -> None:
    cluster = Cluster()
    cluster.sees("nodes", node())
    cluster.sees("nodes", node(), "DELETED")
    assert cluster.sees("baremetalhosts", bare_metal_host()) == []


def test_of_a_host_nothing_else_is_read() -> None:
    cluster = Cluster()
    for resource, obj in STEPS:
        cluster.sees(resource, obj)
    assert not any(b"secret-9" in encode(event) for event in cluster.events)


BROKEN: list[dict[str, Any]] = [
    {},
    {"metadata": {}},
    {"metadata": {"uid": 5}},
    {"metadata": {"uid": "u", "annotations": []}},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_host_stops_nothing(broken: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.sees("nodes", node(provider=""))
    assert [type(event) for event in cluster.sees("baremetalhosts", broken)] == [Rejected]
    assert not any(isinstance(event, HostObserved) for event in cluster.sees("baremetalhosts", broken, "DELETED"))
    assert cluster.sees("baremetalhosts", bare_metal_host()) == [] and cluster.machine() == ""


def test_a_host_that_became_unreadable_can_still_go() -> None:
    cluster = Cluster()
    cluster.sees("nodes", node())
    cluster.sees("baremetalhosts", bare_metal_host())
    broken = {"metadata": {"uid": "bmh-1", "annotations": []}}
    assert [type(event) for event in cluster.sees("baremetalhosts", broken)] == [Rejected]
    assert cluster.machine() == "machine-1"
    cluster.sees("baremetalhosts", broken, "DELETED")
    assert cluster.machine() == ""


def test_they_are_followed_only_where_they_are_wanted() -> None:
    assert "baremetalhosts" not in [one.resource for one in watched_by_publisher()]
    (first, *_) = watched_by_publisher(bare_metal_hosts=True)
    assert (first.resource, first.versions) == ("baremetalhosts", ("metal3.io/v1alpha1",))
    with pytest.raises(UnknownResource):
        PublisherTranslator(DictView()).translate("baremetalhosts", "ADDED", b"{}")
