"""The publisher as one that decides: what has to be known before it does, and what answers become."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from dds_adapters.fabric.provider import FabricAway
from dds_adapters.fabric.survey import LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer
from dds_adapters.kubernetes.publish.pools import NOT_KEPT
from dds_adapters.kubernetes.watch.delta_queue import ADDED, LOST, MODIFIED, STALE, SYNCED, Arrival
from dds_adapters.kubernetes.watch.watch_spec import PUBLISHER as FOLLOWED
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.loop import Arriving
from dds_adapters.runtime.publisher import Answered, Probed, PublisherController, RoundEnded
from dds_core.errors import DdsError, LogUnreachable
from dds_core.events import Capabilities, WriteRefused
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import DROPPED
from dds_core.publisher.model import Limit, Machine, Stock
from dds_core.publisher.policy import PublishPolicy
from dds_core.replay import verify
from tests.adapters.runtime.test_scaler import SECOND, START, Shaky

INFO = [
    {
        "index": 1,
        "cdi-model-name": "A100",
        "driver-name": "gpu.nvidia.com",
        "k8s-device-name": "a100",
        "cannot-coexist-with": [],
        "dra-attributes": {"productName": "NVIDIA A100"},
    }
]
CONFIG: dict[str, Any] = {
    "metadata": {"name": "composable-dra-dds", "namespace": "composable-dra", "uid": "config"},
    "data": {"label-prefix": "cohdi.io", "fabric-id-range": "[1]", "device-info": json.dumps(INFO)},
}
NODE = {"metadata": {"name": "n0", "uid": "uid-n0"}, "spec": {"providerID": "cdi://m0"}}


def resource(**status: str) -> dict[str, Any]:
    """A ComposableResource on the node."""
    spec = {"type": "gpu", "model": "A100", "target_node": "n0"}
    return {"metadata": {"name": "gpu-1", "uid": "r-1"}, "spec": spec, "status": {"state": "Attaching", **status}}


MACHINES = MachinesAnswer((Machine("m0", "n0", "1"),))


class Run:
    """A publisher in mode publish, whose ConfigMap and node have come."""

    def __init__(self, mode: Any = "publish", log: Shaky | None = None, **more: Any) -> None:
        self.log = log or Shaky("test/publisher", cluster="c", recorded_at=START)
        self.told: list[DdsError] = []
        self.tasks: list[Task] = []
        self.now = START
        self.publisher = PublisherController(
            self.log, PublishPolicy(mode=mode), code="t", on_error=self.told.append, **more
        )
        self.publisher.open(self.now)

    def turn(self, *came: Arriving) -> None:
        self.now += SECOND
        self.tasks += self.publisher.turn(came, (), self.now)

    def see(self, resource: str, obj: dict[str, Any], type: str = ADDED) -> Arrival:
        return Arrival(resource, type, msgspec.json.encode(obj), self.now)

    def listed(self, *but: str) -> None:
        """Everything was listed, but these."""
        objects = [self.see("configmaps", CONFIG), self.see("nodes", NODE)]
        marks = [Arrival(one, SYNCED, b"", self.now) for one in FOLLOWED if one not in but]
        self.turn(*objects, *marks)

    def answered(self, free: int = 2) -> None:
        self.turn(Answered(MACHINES, self.now), Answered(StockAnswer(Stock("1", "A100", free)), self.now))

    def ended(self) -> None:
        self.turn(RoundEnded(self.publisher.state.models, self.now))

    def probed(self, **dropped: Any) -> None:
        self.turn(Probed(Capabilities(**dropped), self.now))

    def all(self) -> None:
        self.listed()
        self.answered()
        self.probed()
        self.ended()

    def synced(self) -> bool:
        return self.publisher.synced

    def doubts(self) -> bool:
        return self.publisher.doubtful

    def types(self) -> Counter[str]:
        return Counter(row.type for row in self.log.read())

    def sound(self) -> bool:
        return verify(self.log.read(), component=PUBLISHER).ok


def test_it_decides_once_all_was_listed_the_api_probed_and_a_round_has_ended() -> None:
    for last in ("listed", "probed", "ended"):
        run = Run()
        if last == "listed":
            run.listed("resourceclaims")
        else:
            run.listed()
        run.answered()
        if last != "probed":
            run.probed()
        if last != "ended":
            run.ended()
        assert not run.synced() and run.types()["PoolPublished"] == 0, last
        match last:
            case "listed":
                run.turn(Arrival("resourceclaims", SYNCED, b"", run.now))
            case "probed":
                run.probed()
            case _:
                run.ended()
        assert run.synced() and run.types()["PoolPublished"] == 1
        assert [task.action for task in run.tasks if task.action] == ["PoolPublished", "NodeLabelled"]
        assert run.sound()


def test_a_round_about_other_models_is_none() -> None:
    run = Run()
    run.listed()
    run.probed()
    run.turn(RoundEnded((), run.now))
    assert not run.synced()
    run.ended()
    assert run.synced()


def test_a_fabric_that_never_answers_does_not_keep_it_from_deciding() -> None:
    run = Run()
    run.listed()
    run.probed()
    error = FabricAway("no connection comes about", where="fm.machines")
    run.turn(Answered(NoAnswer("machines", error), run.now), Answered(NoAnswer("machines", error), run.now))
    run.ended()
    assert run.synced() and run.types()["FabricFailed"] == 1
    run.answered()
    assert run.types()["FabricAnswered"] == 1 and run.types()["PoolPublished"] == 1
    assert run.sound()


def test_without_an_operator_there_is_nothing_to_wait_for() -> None:
    run = Run()
    run.listed("composableresources")
    run.turn(Arrival("composableresources", LOST, b"", run.now))
    run.answered()
    run.probed()
    run.ended()
    assert run.synced() and not run.publisher.lost


def test_answers_that_say_the_same_make_no_fact() -> None:
    run = Run()
    run.all()
    before = run.log.head().position
    for _ in range(3):
        run.answered()
        run.turn(Answered(LimitsAnswer("m0", None), run.now), RoundEnded(run.publisher.state.models, run.now))
    assert run.log.head().position == before
    run.turn(Answered(LimitsAnswer("m0", {"A100": Limit(3, 1)}), run.now))
    assert run.types()["MachineObserved"] == 2


def test_an_answer_that_crossed_an_arrival_counts_for_nothing() -> None:
    """Asked before the device was attached it still counts it, and one more would be offered than there is."""
    run = Run()
    run.all()
    run.turn(run.see("composableresources", resource()))
    asked = run.now
    run.turn(run.see("composableresources", resource(device_id="GPU-1"), MODIFIED))
    run.turn(Answered(StockAnswer(Stock("1", "A100", 2), asked), run.now))
    assert run.types()["StockObserved"] == 1 and run.publisher.state.in_doubt("1", "A100")
    run.turn(Answered(StockAnswer(Stock("1", "A100", 2), run.now + 1), run.now))
    assert run.types()["StockObserved"] == 2 and not run.publisher.state.in_doubt("1", "A100")
    run.turn(run.see("composableresources", resource(device_id="GPU-1", state="Online"), MODIFIED))
    run.turn(Answered(StockAnswer(Stock("1", "A100", 1), asked), run.now))
    assert run.types()["StockObserved"] == 2, "nor does one that is older than that"
    run.turn(Answered(StockAnswer(Stock("1", "A100", 1), run.now), run.now))
    assert run.types()["StockObserved"] == 3
    assert run.sound()


def test_a_view_that_is_back_counts_again_although_a_round_about_new_models_is_not_over() -> None:
    run = Run()
    run.all()
    run.turn(Arrival("nodes", STALE, b"", run.now, 150))
    other = {**CONFIG, "data": {**CONFIG["data"], "device-info": json.dumps([{**INFO[0], "cdi-model-name": "B200"}])}}
    run.turn(run.see("configmaps", other, MODIFIED))
    run.turn(Arrival("nodes", SYNCED, b"", run.now))
    assert run.types()["Stale"] == 1 and run.types()["Synced"] == 2 and not run.publisher.state.process.stale
    assert run.sound()


def test_in_mode_observe_nothing_is_to_be_written() -> None:
    run = Run("observe")
    run.all()
    assert run.types()["PoolPublished"] == 1 and run.tasks == []
    assert run.publisher.limit == "observe" and Run().publisher.limit == "attach"


def test_what_the_api_drops_is_a_fact_whenever_it_changes() -> None:
    run = Run()
    run.listed()
    run.answered()
    run.probed(binding_conditions=False)
    run.ended()
    types = run.types()
    assert types["Capabilities"] == 1 and types["PoolPublished"] == 0 and types["Alerted"] == 1
    run.turn(Probed(None, run.now))
    assert run.types()["Capabilities"] == 1, "who does not say says nothing new"
    run.probed()
    assert run.types()["Capabilities"] == 2 and run.types()["PoolPublished"] == 1
    assert run.sound()


def test_a_probe_that_fails_lets_it_go_on_as_if_everything_was_kept() -> None:
    run = Run()
    run.listed()
    run.answered()
    run.turn(Probed(None, run.now))
    run.ended()
    assert run.types()["PoolPublished"] == 1


def test_what_a_write_taught_stands_while_the_probe_says_nothing() -> None:
    """Taken for kept again, a slice of ordinary devices would be there until it is deleted."""
    run = Run()
    run.all()
    refused = WriteRefused("d", "PoolPublished", "pool/gpu.nvidia.com/a100-fabric1", 422, DROPPED)
    run.publisher.turn((), (refused,), run.now)
    later = Run(log=run.log)
    later.listed()
    later.answered()
    later.turn(Probed(None, later.now))
    later.ended()
    assert later.synced() and not later.publisher.state.cluster.capabilities.binding_conditions
    assert later.sound()
    later.probed()
    assert later.publisher.state.cluster.capabilities.binding_conditions, "until the API server says that it keeps them"


def test_a_write_that_was_kept_otherwise_has_the_api_server_asked_again() -> None:
    """A gate that is off since an upgrade: pools would cool down by taints that nobody keeps."""
    run = Run()
    run.all()
    assert not run.doubts()
    refused = WriteRefused("d", "PoolPublished", "pool/gpu.nvidia.com/a100-fabric1", 422, NOT_KEPT)
    run.publisher.turn((), (refused,), run.now)
    assert run.doubts() and run.publisher.state.cluster.capabilities == Capabilities()
    run.probed(device_taints=False)
    assert not run.doubts() and not run.publisher.state.cluster.capabilities.device_taints
    assert run.sound()


def test_what_a_write_taught_outlives_a_picture_that_is_built_anew() -> None:
    run = Run()
    run.all()
    refused = WriteRefused("d", "PoolPublished", "pool/gpu.nvidia.com/a100-fabric1", 422, DROPPED)
    run.publisher.turn((), (refused,), run.now)
    run.turn(Answered("no answer at all", run.now))  # type: ignore[arg-type]
    run.turn(Arrival("nodes", STALE, b"", run.now), Arrival("nodes", SYNCED, b"", run.now))
    assert not run.publisher.state.cluster.capabilities.binding_conditions


def test_the_next_start_knows_what_was_published_and_waits_for_a_round_of_its_own() -> None:
    run = Run()
    run.all()
    again = Run(log=run.log)
    again.listed()
    again.probed()
    assert not again.synced() and again.publisher.state.pools
    again.answered()
    again.ended()
    assert again.synced() and again.types()["Started"] == 2
    assert again.sound()


def test_answers_wait_in_order_while_the_log_is_away() -> None:
    run = Run()
    run.all()
    run.log.before = True
    with pytest.raises(LogUnreachable):
        run.answered(5)
    run.log.before = False
    run.turn()
    run.turn()
    stock = run.publisher.state.stock("1", "A100")
    assert stock is not None and stock.free == 5
    assert run.sound()


def test_what_was_decided_before_the_log_went_is_written_with_what_follows_from_the_news_since() -> None:
    """A pool was withdrawn with a device that a claim had got meanwhile, and shown again a moment later."""
    run = Run()
    run.all()
    run.log.before = True
    with pytest.raises(LogUnreachable):
        run.answered(5)
    run.log.before = False
    run.tasks.clear()
    run.turn()
    assert not run.tasks and run.publisher.due() == run.publisher.state.process.now, "another turn is to follow at once"
    run.answered(4)
    assert [task.action for task in run.tasks if task.action] == ["PoolPublished", "PoolPublished"]
    run.turn()
    assert run.publisher.due() != run.publisher.state.process.now
    assert run.sound()


def test_what_cannot_be_taken_in_is_left_out_alone() -> None:
    run = Run()
    run.all()

    class Strange:
        at = START + 100 * SECOND

    run.turn(Strange(), Answered(StockAnswer(Stock("1", "A100", 4)), run.now))
    stock = run.publisher.state.stock("1", "A100")
    assert stock is not None and stock.free == 4
    assert [error.where for error in run.told] == ["Strange"]
    assert run.sound()


def test_a_node_is_the_machine_that_its_bare_metal_host_names() -> None:
    run = Run(bare_metal_hosts=True)
    named = {"metadata": {"name": "h", "uid": "m0", "annotations": {"cluster-manager.cdi.io/machine": "real-machine"}}}
    run.listed()
    run.turn(run.see("baremetalhosts", named), Arrival("baremetalhosts", SYNCED, b"", run.now))
    (host,) = run.publisher.state.cluster.hosts.rows.values()
    assert host.machine == "real-machine"
