"""From the publisher's decisions to what is written, and to what people are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.publish.pools import SLICES, PublishPool, WithdrawPool
from dds_adapters.kubernetes.publish.probe import probe
from dds_adapters.kubernetes.publish.publisher_tasks import PoolNews, tasks_of
from dds_adapters.kubernetes.write.devices import LabelNode
from dds_adapters.kubernetes.write.events import TellPeople
from dds_adapters.kubernetes.write.scaler_tasks import Overtaken
from dds_adapters.kubernetes.write.tasks import Declined, Done, Task
from dds_core.events import Alerted, Event, NodeLabelled, PolicyChanged, Rejected, Seen, Started, difference
from dds_core.model import Taint
from dds_core.publisher.events import MachineObserved, PoolPublished, PoolWithdrawn
from dds_core.publisher.folds import apply
from dds_core.publisher.model import MANAGED_BY, Host, Machine, PoolConfig, PoolSlice
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.state import PoolState
from tests.adapters.kubernetes.publish.booth import A100, NAME, Booth, layouts, pool
from tests.support.fed_engine import START
from tests.support.roles import ALL_OF_PUBLISHER, publisher_role
from tests.support.written_objects import GPU, POOL

COOLING = "cohdi.io/nvidia-a100-40-cooling"
LIVE = PoolSlice("s", NAME, GPU, POOL, 1, owner=MANAGED_BY, devices=("nvidia-a100-40-0",))


def published(*sizes: int, **changes: Any) -> PoolPublished:
    given: dict[str, Any] = {
        "driver": GPU,
        "pool": POOL,
        "mode": "publish",
        "fabric": "1",
        "prefix": "cohdi.io",
        "model": A100,
        "generation": 1,
        "slices": layouts(*sizes),
        "why": "2 free, 0 held",
    }
    return PoolPublished(**(given | changes))


class World:
    """A publisher's state, the decisions that it folds, and what comes of them."""

    def __init__(self, mode: str = "publish", adopt: str = "none", *objects: Seen) -> None:
        self.state = PoolState()
        self.news = PoolNews()
        policy = PublishPolicy.model_validate({"mode": mode, "adopt": adopt})
        self.folds(
            Started("1", "f", 1, 3, mode),
            PolicyChanged(policy.model_dump(mode="json")),
            MachineObserved(Machine("m1", fabric="1")),
        )
        self.sees(PoolConfig("config-1", models=(A100,)), Host("n-1", "n1", "m1"), *objects)

    def folds(self, *events: Event) -> None:
        for event in events:
            apply(self.state, event, START)

    def sees(self, *objects: Seen) -> None:
        for one in objects:
            fact = difference(self.state.object(type(one), one.uid), one)
            if fact is not None:
                self.folds(fact)

    def tasks(self, decision: Any) -> tuple[Task, ...]:
        apply(self.state, decision, START)
        return tasks_of(decision, "id-1", START, self.state)

    def tells(self, event: Event, at: int = START) -> list[TellPeople]:
        apply(self.state, event, at)
        writes = [task.write for task in self.news.tell(event, at, self.state)]
        assert all(isinstance(write, TellPeople) for write in writes)
        return [write for write in writes if isinstance(write, TellPeople)]


def reasons(writes: Iterable[TellPeople]) -> list[str]:
    return [write.reason for write in writes]


# -- writes --------------------------------------------------------------------------------------------------------------


def test_a_pool_is_written_as_it_was_decided() -> None:
    (task,) = World().tasks(published(2, taint="cohdi.io/cooling", drop={"b": "2", "a": "1"}, adopt=True, generation=4))
    assert task.write == pool(2, generation=4, taint="cohdi.io/cooling", drop=(("a", "1"), ("b", "2")), adopt=True)
    assert isinstance(task.write, PublishPool)
    assert (task.decision, task.action, task.at) == ("id-1", "PoolPublished", START)
    assert (task.target, task.objects) == (f"pool/{GPU}/{POOL}", (f"resourceslices/{GPU}/{POOL}",))
    assert (task.replaces, task.needs) == (task.objects[0], "attach")


@pytest.mark.parametrize(("adopt", "taken"), [("none", False), ("reference", True)])
def test_a_pool_that_goes_takes_the_place_of_one_that_was_to_be_written(adopt: str, taken: bool) -> None:
    world = World("publish", adopt)
    (written,) = world.tasks(published(2))
    gone = PoolWithdrawn(driver=GPU, pool=POOL, mode="publish", drop={"b": "2", "a": "1"}, why="fabric 1 is gone")
    (task,) = world.tasks(gone)
    assert task.write == WithdrawPool(GPU, POOL, (("a", "1"), ("b", "2")), taken)
    assert (task.objects, task.replaces, task.target) == (written.objects, written.replaces, written.target)


def test_labels_of_a_node_are_for_the_very_node() -> None:
    world = World()
    labels = {"cohdi.io/fabric": "1", "cohdi.io/a100-size-max": None}
    (task,) = world.tasks(NodeLabelled(node="n1", labels=labels, mode="publish", reason="r"))
    wanted = (("cohdi.io/a100-size-max", None), ("cohdi.io/fabric", "1"))
    assert task.write == LabelNode("n1", "n-1", wanted)
    assert (task.target, task.objects, task.action) == ("n1", ("nodes/n1",), "NodeLabelled")
    (gone,) = world.tasks(NodeLabelled(node="n2", labels=labels, mode="publish", reason="r"))
    assert isinstance(gone.write, Overtaken) and gone.target == "n2"


def test_nothing_is_written_in_observe_or_for_what_is_only_told() -> None:
    world = World("observe")
    assert world.tasks(published(2, mode="observe")) == ()
    assert world.tasks(NodeLabelled(node="n1", labels={}, mode="observe", reason="r")) == ()
    assert World().tasks(Alerted(of="fabric", reason="R", text="t", mode="publish")) == ()


# -- what people are told ----------------------------------------------------------------------------------------------------


def test_a_pool_is_told_when_it_is_there_for_the_first_time() -> None:
    world = World()
    (told,) = world.tells(published(2))
    assert (told.reason, told.type, told.action) == ("PoolPublished", "Normal", "Publish")
    assert told.note == f"pool {POOL} of {GPU} is published with 2 devices: 2 free, 0 held"
    assert told.regarding.reference(lambda resource: "") == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "composable-dra",
        "name": "composable-dra-dds",
        "uid": "config-1",
    }
    assert told.instance == "dds-publisher-epoch-3"
    world.sees(LIVE)
    assert world.tells(published(1)) == []
    assert World().tells(published(2, reissued=True)) == []


def test_a_pool_that_cools_down_is_told_once_and_once_when_it_is_back() -> None:
    world = World()
    world.sees(LIVE)
    world.sees(Host("n-1", "n1", "m1", {COOLING: "true"}))
    why = "2 free, 0 held; cooling down, as n1 asks"
    (told,) = world.tells(published(2, taint="cohdi.io/cooling", why=why))
    assert (told.reason, told.type) == ("PoolCooling", "Warning") and told.note.endswith(why)
    assert world.tells(published(1, taint="cohdi.io/cooling")) == []
    world.sees(Host("n-1", "n1", "m1"))
    assert reasons(world.tells(published(2))) == ["PoolAvailable"]
    assert world.tells(published(1)) == []


def test_one_that_lists_no_more_than_is_held_is_withheld_too() -> None:
    world = World()
    world.sees(LIVE, Host("n-1", "n1", "m1", {COOLING: "true"}))
    assert reasons(world.tells(published(0))) == ["PoolCooling"]
    world.sees(Host("n-1", "n1", "m1"))
    assert reasons(world.tells(published(2))) == ["PoolAvailable"]


def test_after_a_start_the_slices_say_what_was_told() -> None:
    cooling = PoolSlice(
        **{**{f: getattr(LIVE, f) for f in LIVE.__struct_fields__}, "taints": (Taint("cohdi.io/cooling"),)}
    )
    world = World()
    world.sees(cooling, Host("n-1", "n1", "m1", {COOLING: "true"}))
    assert world.tells(published(2, taint="cohdi.io/cooling")) == []
    world.sees(Host("n-1", "n1", "m1"))
    assert reasons(world.tells(published(2))) == ["PoolAvailable"]


def test_a_pool_that_goes_is_told_with_why() -> None:
    world = World()
    world.sees(LIVE)
    gone = PoolWithdrawn(driver=GPU, pool=POOL, mode="publish", drop={NAME: "s"}, why="fabric 1 is gone")
    (told,) = world.tells(gone)
    assert (told.reason, told.note) == ("PoolWithdrawn", f"pool {POOL} of {GPU} is withdrawn: fabric 1 is gone")


def test_an_alert_is_a_warning_and_what_is_wrong_with_the_config_map_too() -> None:
    world = World()
    (told,) = world.tells(Alerted(of=f"pool/{GPU}/{POOL}", reason="PoolOwnedByOther", text="by nobody", mode="publish"))
    assert (told.reason, told.type, told.note) == ("PoolOwnedByOther", "Warning", "by nobody")
    bad = Rejected("ConfigMap", "config-1", "composable-dra-dds", "data.device-info[B].capacity", "is bad", "elsewhere")
    (told,) = world.tells(bad)
    assert (told.reason, told.regarding.namespace) == ("Rejected", "elsewhere")
    assert told.note == "data.device-info[B].capacity is bad; it is left aside until that is mended"
    assert world.tells(Rejected("ResourceClaim", "c-1", "c", "spec", "is bad", "default")) == []


def test_events_of_one_instant_have_names_of_their_own() -> None:
    world = World()
    first, second = world.tells(published(2)), world.tells(published(2, pool=f"{POOL}0"))
    assert first[0].name != second[0].name
    assert World().tells(published(2))[0].name == first[0].name


def test_nothing_is_told_in_observe() -> None:
    world = World("observe")
    assert world.tells(published(2, mode="observe")) == []
    assert world.tells(Rejected("ConfigMap", "config-1", "composable-dra-dds", "data", "is bad")) == []


# -- permissions ---------------------------------------------------------------------------------------------------------------


def test_every_write_is_allowed_by_the_role_and_nothing_of_the_scalers() -> None:
    booth = Booth()
    booth.node("n1")
    meta = {"metadata": {"name": "composable-dra"}}
    booth.admin.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", **meta})
    writer = booth.grant("dds-publisher", publisher_role("cluster"))
    uid = booth.get("nodes", "n1")["metadata"]["uid"]
    assert probe(writer, "resource.k8s.io/v1", GPU).binding_conditions
    assert booth.carry_out(pool(2), writer) == Done()
    assert booth.carry_out(pool(3), writer) == Done()
    drop = ((NAME, str(booth.slice()["metadata"]["uid"])),)
    assert booth.carry_out(WithdrawPool(GPU, POOL, drop), writer) == Done()
    assert booth.carry_out(LabelNode("n1", uid, (("cohdi.io/fabric", "1"),)), writer) == Done()
    (told,) = World().tells(published(2))
    assert booth.carry_out(told, writer) == Done()
    for resource, path in (("pods", "/api/v1"), ("resourceclaims", "/apis/resource.k8s.io/v1")):
        answer = writer.ask("POST", f"{path}/namespaces/default/{resource}", body=b"{}")
        assert answer.code == 403


def test_a_power_that_is_off_takes_its_writes() -> None:
    booth = Booth()
    role = publisher_role("cluster", ALL_OF_PUBLISHER - {"publish"})
    writer = booth.grant("dds-publisher", role)
    result = booth.carry_out(pool(2), writer)
    assert isinstance(result, Declined) and result.code == 403
    rules = publisher_role("cluster", rbac.needed(PublishPolicy(), rbac.PUBLISHER_RULES))["rules"]
    verbs = {verb for rule in rules for verb in rule["verbs"] if SLICES in rule["resources"]}
    assert verbs == {"list", "watch"}


def test_the_publishers_lease_and_config_map_are_named() -> None:
    (leases, named) = publisher_role("lease")["rules"]
    assert (leases["verbs"], named["resourceNames"]) == (["create"], ["dds-publisher"])
    (config,) = publisher_role("config")["rules"]
    assert config["resourceNames"] == ["composable-dra-dds"]
    assert publisher_role("config")["metadata"] == {"name": "dds-publisher-config", "namespace": "composable-dra"}
