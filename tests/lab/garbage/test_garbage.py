"""The garbage collector: what goes with its owners, what stays, and the three ways to delete an owner."""

from typing import Any

import pytest

from dds_lab.actors.garbage import Garbage
from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import ApiError, Client, Object
from dds_lab.crds import COMPOSABILITY_REQUESTS
from dds_lab.latency import Fixed
from dds_lab.time import VirtualTime

START = 1_795_219_200_000_000
SECOND = 1_000_000


class World:
    """A server with a collector, and one who may do all."""

    def __init__(self, start: bool = True) -> None:
        self.time = VirtualTime(1, START)
        self.server = ApiServer(gates=Gates.for_version("1.36"), now=self.time.now, random=self.time.random("server"))
        self.user = Client(self.server, self.time, "test")
        if self.user.find("namespaces", "default") is None:
            self.user.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        self.collector = self.started() if start else None

    def started(self) -> Garbage:
        collector = Garbage(Client(self.server, self.time, "garbage"), self.time, Fixed(0.01))
        collector.start()
        return collector

    def run(self, seconds: float = 5.0) -> None:
        self.time.run(self.time.now() + round(seconds * SECOND))

    def config(self, name: str, *owners: Object, **more: Any) -> Object:
        """A ConfigMap, which may belong to others."""
        metadata: Object = {"name": name, "namespace": "default", **more}
        if owners:
            metadata["ownerReferences"] = list(owners)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        return self.user.create("configmaps", body)

    def has(self, name: str) -> bool:
        return self.user.find("configmaps", name, "default") is not None

    def left(self) -> set[str]:
        return {obj["metadata"]["name"] for obj in self.user.list("configmaps", "default")}


@pytest.fixture
def world() -> World:
    return World()


def owner(obj: Object, **more: Any) -> Object:
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    return {**head, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], **more}


def test_dependants_go_after_their_owner_and_theirs_after_them(world: World) -> None:
    first = world.config("first")
    second = world.config("second", owner(first))
    world.config("third", owner(second))
    world.config("other")
    world.run()
    assert world.left() >= {"first", "second", "third", "other"}
    world.user.delete("configmaps", "first", "default")
    assert world.has("second"), "it takes a while"
    world.run()
    assert world.left() & {"first", "second", "third", "other"} == {"other"}


def test_one_living_owner_is_enough_and_the_dead_one_is_struck_off(world: World) -> None:
    one, two = world.config("one"), world.config("two")
    world.config("child", owner(one), owner(two))
    world.user.delete("configmaps", "one", "default")
    world.run()
    child = world.user.get("configmaps", "child", "default")
    assert [reference["name"] for reference in child["metadata"]["ownerReferences"]] == ["two"]
    world.user.delete("configmaps", "two", "default")
    world.run()
    assert not world.has("child")


def test_an_owner_that_never_was(world: World) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "nobody"}
    world.config("child", ghost)
    world.run()
    assert not world.has("child")


def test_another_object_of_the_same_name_is_not_the_owner(world: World) -> None:
    gone = world.config("same")
    world.user.delete("configmaps", "same", "default")
    world.config("same")
    world.config("child", owner(gone))
    world.run()
    assert world.left() & {"same", "child"} == {"same"}


def test_owners_of_unknown_kinds_are_left_alone(world: World) -> None:
    world.config("child", {"apiVersion": "else.where/v1", "kind": "Thing", "name": "t", "uid": "u"})
    world.run(60.0)
    assert world.has("child")


def test_a_node_takes_its_slices_along(world: World) -> None:
    node = world.user.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    metadata = {"name": "s1", "ownerReferences": [owner(node, controller=True)]}
    spec = {"driver": "d.example", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    world.user.create("resourceslices", body)
    world.run()
    assert world.user.find("resourceslices", "s1") is not None
    world.user.delete("nodes", "n1")
    world.run()
    assert world.user.find("resourceslices", "s1") is None


def test_a_finalizer_of_somebody_else_keeps_the_dependant(world: World) -> None:
    top = world.config("top")
    world.config("child", owner(top), finalizers=["x.example/keep"])
    world.user.delete("configmaps", "top", "default")
    world.run()
    assert world.user.get("configmaps", "child", "default")["metadata"]["deletionTimestamp"]
    world.user.patch("configmaps", "child", {"metadata": {"finalizers": None}}, "default")
    world.run()
    assert not world.has("child")


def test_foreground_waits_for_those_that_block(world: World) -> None:
    top = world.config("top")
    world.config("blocks", owner(top, blockOwnerDeletion=True), finalizers=["x.example/keep"])
    world.config("does-not", owner(top))
    world.user.delete("configmaps", "top", "default", propagation="Foreground")
    world.run()
    assert world.left() & {"top", "blocks", "does-not"} == {"top", "blocks"}
    world.user.patch("configmaps", "blocks", {"metadata": {"finalizers": None}}, "default")
    world.run()
    assert world.left() & {"top", "blocks"} == set()


def test_foreground_without_dependants(world: World) -> None:
    world.config("top")
    world.user.delete("configmaps", "top", "default", propagation="Foreground")
    assert world.has("top")
    world.run()
    assert not world.has("top")


def test_foreground_goes_down_a_chain(world: World) -> None:
    first = world.config("first")
    second = world.config("second", owner(first, blockOwnerDeletion=True))
    world.config("third", owner(second, blockOwnerDeletion=True))
    gone: list[str] = []
    world.user.mirror("configmaps").on_change(lambda old, new: gone.append(_name(old)) if new is None else None)
    world.user.delete("configmaps", "first", "default", propagation="Foreground")
    world.run()
    assert gone == ["third", "second", "first"]


def _name(obj: Object | None) -> str:
    assert obj is not None
    name: str = obj["metadata"]["name"]
    return name


def test_orphans_are_cut_loose(world: World) -> None:
    top = world.config("top")
    world.config("child", owner(top))
    world.user.delete("configmaps", "top", "default", propagation="Orphan")
    world.run()
    assert not world.has("top")
    assert "ownerReferences" not in world.user.get("configmaps", "child", "default")["metadata"]


def test_kinds_that_come_later(world: World) -> None:
    world.user.create("customresourcedefinitions", COMPOSABILITY_REQUESTS)
    world.run()
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest", "metadata": {"name": "r"}}
    spec = {"resource": {"type": "gpu", "model": "m", "size": 1}}
    request = world.user.create("composabilityrequests", {**body, "spec": spec})
    node = world.user.create(
        "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "ownerReferences": [owner(request)]}}
    )
    world.run()
    assert world.user.get("nodes", "n")["metadata"]["uid"] == node["metadata"]["uid"]
    world.user.delete("composabilityrequests", "r")
    world.run()
    assert world.user.find("nodes", "n") is None


def test_what_went_while_nobody_looked() -> None:
    world = World(start=False)
    top = world.config("top")
    world.config("child", owner(top))
    world.user.delete("configmaps", "top", "default")
    world.run()
    assert world.has("child")
    world.started()
    world.run()
    assert not world.has("child")


def test_a_stopped_collector_does_nothing(world: World) -> None:
    top = world.config("top")
    world.config("child", owner(top))
    world.user.delete("configmaps", "top", "default")
    assert world.collector is not None
    world.collector.stop()
    world.run()
    assert world.has("child")


def test_refusals_are_tried_again() -> None:
    world = World(start=False)
    top = world.config("top")
    world.config("child", owner(top))
    client = Client(world.server, world.time, "garbage")
    refused: list[str] = []

    def often_busy(call: Any) -> None:
        if call.verb == "delete" and len(refused) < 3:
            refused.append(call.name)
            raise ApiError(429, "TooManyRequests", "busy")

    client.before = often_busy
    Garbage(client, world.time, Fixed(0.01)).start()
    world.user.delete("configmaps", "top", "default")
    world.run()
    assert refused == ["child"] * 3
    assert not world.has("child")


def test_an_idle_collector_costs_nothing(world: World) -> None:
    world.config("top")
    world.run()
    assert world.time.next_at() is None
