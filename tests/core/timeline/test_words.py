"""Every event has words, and they name things, not uids."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.autoscaler import events as a
from dds_core.events import TYPES, Decision
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    ClaimRequest,
    Condition,
    Config,
    Consumer,
    Device,
    DeviceClass,
    FabricResource,
    Model,
    Node,
    Pod,
    Result,
    Slice,
    Taint,
    TaintRule,
)
from dds_core.publisher import events as p
from dds_core.publisher.model import FreeDevice, Host, Limit, Machine, PoolConfig, PoolModel, PoolSlice, SliceLayout
from dds_core.publisher.timeline import PublisherKnown
from dds_core.scaler import events as e
from dds_core.scaler.timeline.words import Known
from dds_core.timeline import telling
from dds_core.timeline.telling import decision_words, fact_words

MODEL = Model(1, "A100 40G", "nvidia-a100-40", "gpu.nvidia.com")
RESULT = Result("r0", "gpu.nvidia.com", "pool-fabric1", "gpu-0")


def tell(*versions: e.Seen, known: telling.Known | None = None) -> list[str]:
    """The sentences of the last of several versions of an object."""
    of_publisher = isinstance(versions[0], Host | PoolSlice | PoolConfig)
    known = known if known is not None else PublisherKnown() if of_publisher else Known()
    words: list[str] = []
    before: e.Seen | None = None
    for after in versions:
        fact = e.difference(before, after)
        assert fact is not None
        words = fact_words(fact, known.learn(fact), known)
        before = after
    return words


CLAIM = Claim("c", "ns", "train", requests=(ClaimRequest("r0", ("a100", "h100"), 2),))
POD = Pod("p", "ns", "job", scheduler="default-scheduler")
RESOURCE = FabricResource("r", "gpu-x", "req", model="A100", node="node0")
NODE = Node("n", "node0", labels={"a": "1", "b": "2"})
ATTACHED = AttachRequest("q", "req", model="A100", node="node0", size=1)
HOST = Host("n", "node0", "uuid-0", {"a": "1"})
POOL = PoolSlice("ps", "dds-0", "gpu.nvidia.com", "a100-fabric1", 2, devices=("a100-0",))
POOL_MODEL = PoolModel(1, "A100 40G", "a100", "gpu.nvidia.com")
SLICE = Slice("s", "s", "gpu.nvidia.com", "node0", node="node0", devices={"gpu-0": Device({"uuid": "GPU-1"})})


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ((CLAIM,), ["claim ns/train asks for 2 of a100 or h100"]),
        ((Claim("c", "ns", "train"),), ["claim ns/train is there"]),
        (
            (CLAIM, replace(CLAIM, allocation=Allocation((replace(RESULT, consumed={"bw": "3Gi"}),), "node0"))),
            ["claim ns/train: allocated gpu-0 of pool pool-fabric1 (bw 3Gi) on node0"],
        ),
        (
            (replace(CLAIM, allocation=Allocation((RESULT,))), CLAIM),
            ["claim ns/train: its allocation was cleared"],
        ),
        (
            (CLAIM, replace(CLAIM, consumers=(Consumer("p", "job"),))),
            ["claim ns/train: reserved for pod job"],
        ),
        ((replace(CLAIM, consumers=(Consumer("p"),)), CLAIM), ["claim ns/train: reserved for nobody any more"]),
        (
            (CLAIM, replace(CLAIM, conditions=(Condition("d", "p", "gpu-0", "Ready", "True", reason="Why"),))),
            ["claim ns/train: condition Ready=True on gpu-0 (Why)"],
        ),
        (
            (replace(CLAIM, conditions=(Condition("d", "p", "gpu-0", "Ready", "True"),)), CLAIM),
            ["claim ns/train: condition Ready on gpu-0 was taken away"],
        ),
        ((CLAIM, replace(CLAIM, deleting=True)), ["claim ns/train is being deleted"]),
        ((POD,), ["pod ns/job is there, for scheduler default-scheduler"]),
        ((POD, replace(POD, nominated="node0")), ["pod ns/job is nominated to node0"]),
        ((replace(POD, nominated="node0"), POD), ["pod ns/job: its nomination was taken back"]),
        ((POD, replace(POD, waiting="Unschedulable")), ["pod ns/job waits: Unschedulable"]),
        ((replace(POD, waiting="Unschedulable"), POD), ["pod ns/job is tried again"]),
        ((POD, replace(POD, node="node0", phase="Running")), ["pod ns/job is bound to node0", "pod ns/job is Running"]),
        ((POD, replace(POD, deleting=True)), ["pod ns/job is being deleted"]),
        ((RESOURCE,), ["resource gpu-x was made: one A100 for node0, for request req"]),
        (
            (RESOURCE, replace(RESOURCE, uuid="GPU-1", state="Online")),
            ["resource gpu-x is device GPU-1", "resource gpu-x is Online"],
        ),
        ((RESOURCE, replace(RESOURCE, error="no port")), ["resource gpu-x reports: no port"]),
        ((replace(RESOURCE, error="no port"), RESOURCE), ["resource gpu-x reports no error any more"]),
        ((replace(RESOURCE, marked=True), RESOURCE), ["resource gpu-x is no longer marked to be detached"]),
        ((replace(RESOURCE, uuid="GPU-1"), RESOURCE), ["resource gpu-x names no device any more"]),
        ((RESOURCE, replace(RESOURCE, deleting=True)), ["resource gpu-x is being deleted"]),
        ((ATTACHED, replace(ATTACHED, size=3)), ["request req was raised from 1 to 3"]),
        ((ATTACHED, replace(ATTACHED, error="bad")), ["request req reports: bad"]),
        ((replace(ATTACHED, error="bad"), ATTACHED), ["request req reports no error any more"]),
        ((ATTACHED, replace(ATTACHED, state="Running")), ["request req is Running"]),
        ((ATTACHED, replace(ATTACHED, deleting=True)), ["request req is being deleted"]),
        ((SLICE,), ["node0 lists gpu-0 (GPU-1)"]),
        ((SLICE, replace(SLICE, devices={})), ["node0 no longer lists gpu-0 (GPU-1)"]),
        (
            (
                SLICE,
                replace(SLICE, devices={"gpu-0": Device({"uuid": "GPU-1"}, taints=(Taint("k", "v", "NoSchedule"),))}),
            ),
            ["node0: device gpu-0 is tainted k=v:NoSchedule"],
        ),
        (
            (Slice("s", "s", "d", "pool-fabric1", devices={f"gpu-{n}": Device() for n in range(9)}),),
            ["pool pool-fabric1 lists 9 devices (gpu-0 … gpu-8)"],
        ),
        ((NODE,), ["node node0 is there"]),
        (
            (NODE, replace(NODE, labels={"a": "9"})),
            ["node node0: label a=9", "node node0: label b was taken off"],
        ),
        ((replace(NODE, unschedulable=True), NODE), ["node node0 is open for pods again"]),
        ((NODE, replace(NODE, taints=(Taint("k", "", "NoSchedule"),))), ["node node0 is tainted k:NoSchedule"]),
        ((NODE, replace(NODE, deleting=True)), ["node node0 is being deleted"]),
        ((Config("cm", models=(MODEL,), mode="observe"),), ["the ConfigMap knows A100 40G; mode observe"]),
        (
            (TaintRule("t", "rule", "gpu.nvidia.com", taint=Taint("k", "", "NoExecute")),),
            ["taint rule rule puts k:NoExecute on gpu.nvidia.com/*/*"],
        ),
        ((DeviceClass("dc", "a100"),), []),
        ((HOST,), ["node node0 is there", "node node0 is machine uuid-0"]),
        (
            (HOST, replace(HOST, machine="", labels={"a": "2"})),
            ["node node0 names no machine", "node node0: label a=2"],
        ),
        ((HOST, replace(HOST, labels={})), ["node node0: label a was taken off"]),
        (
            (POOL,),
            [
                "slice dds-0 of pool a100-fabric1 is there, generation 2",
                "slice dds-0 of pool a100-fabric1 lists a100-0",
            ],
        ),
        (
            (POOL, replace(POOL, devices=("a100-1",), generation=3, ordinary=("a100-1",))),
            [
                "slice dds-0 of pool a100-fabric1 lists a100-1",
                "slice dds-0 of pool a100-fabric1 no longer lists a100-0",
                "slice dds-0 of pool a100-fabric1 is of generation 3",
                "slice dds-0 of pool a100-fabric1 lists a100-1 without binding conditions",
            ],
        ),
        (
            (POOL, replace(POOL, taints=(Taint("cooling", "", "NoSchedule"),))),
            ["slice dds-0 of pool a100-fabric1: devices are tainted cooling:NoSchedule"],
        ),
        (
            (PoolSlice("x", "own", "d", "p", node="node0", devices=("gpu-0",), uuids={"gpu-0": "GPU-1"}),),
            ["slice own of node0 is there", "slice own of node0 lists gpu-0 (GPU-1)"],
        ),
        ((PoolConfig("cm", models=(POOL_MODEL,), mode="observe"),), ["the ConfigMap knows A100 40G; mode observe"]),
    ],
)
def test_a_change_is_told_in_sentences(versions: tuple[e.Seen, ...], words: list[str]) -> None:
    assert tell(*versions) == words


def test_what_is_gone_is_told_by_its_name() -> None:
    known = Known()
    tell(CLAIM, known=known)
    gone = e.ClaimGone("c")
    assert fact_words(gone, known.learn(gone), known) == ["claim ns/train is gone"]
    assert known.name("c") == "ns/train"
    unknown = e.PodGone("nobody")
    assert fact_words(unknown, known.learn(unknown), known) == []


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (e.Started("1.0", "f", 1, 3, "observe"), "dds 1.0 started in mode observe, epoch 3"),
        (e.PolicyChanged({"mode": "attach"}), "the policy was set, mode attach"),
        (e.Capabilities(guards="dds"), "devices can be guarded, in namespace dds"),
        (e.Capabilities(unguarded="no policy is there"), "no device can be guarded: no policy is there"),
        (
            p.MachineObserved(Machine("u-0", "server-0", "1", {"A100": Limit(4, 1), "H100": Limit()})),
            "machine u-0 (server-0) is in fabric 1, may have at most 4 and at least 1 of A100",
        ),
        (p.MachineObserved(Machine("u-0")), "machine u-0 is in no fabric"),
        (p.MachineGone("u-0"), "the fabric does not name machine u-0 any more"),
        (
            p.StockObserved("1", "A100", 3, (FreeDevice("x"), FreeDevice("y", healthy=False))),
            "fabric 1 has free 3 of A100, not healthy: y",
        ),
        (p.StockObserved("1", "A100", 3, whole=True), "fabric 1 has 3 of A100"),
        (
            p.FabricFailed("stock/1/A100", "503 from the manager"),
            "the fabric gave no good answer about A100 in fabric 1: 503 from the manager",
        ),
        (p.FabricAnswered("machines"), "the fabric answers about the list of machines"),
        (p.FabricAnswered("limits/u-0"), "the fabric answers about the limits of machine u-0"),
        (e.WriteDone("id", "PoolPublished", "pool/d/p"), "PoolPublished of pool p was carried out"),
        (e.Synced(), "all resources were listed"),
        (e.Stale("pods", 90), "nothing was heard of pods for 90 s; deadlines wait"),
        (e.ClaimsListed("c", 1), "all claims were listed for ns/train"),
        (e.WriteDone("id", "HandOver", "c"), "HandOver of ns/train was carried out"),
        (e.Superseded("id", "HandOver", "c"), "HandOver of ns/train was dropped for a newer decision"),
        (e.DeadlinePassed("budget", "c", 5), "the time for the attach is used up (ns/train)"),
        (e.Rejected("Pod", "p", "job", "spec", "is odd", "ns"), "Pod ns/job is not as expected: spec is odd"),
        (e.Rejected("Node", "n", "node0", "spec", "is odd"), "Node node0 is not as expected: spec is odd"),
    ],
)
def test_a_fact_about_ourselves_is_told(fact: e.Event, words: str) -> None:
    known = Known()
    tell(CLAIM, known=known)
    assert fact_words(fact, known.learn(fact), known) == [words]


def test_what_the_api_keeps_is_told_of_a_publisher_without_what_it_has_no_use_for() -> None:
    known = PublisherKnown()
    whole, without = e.Capabilities(), e.Capabilities(binding_conditions=False, device_taints=False)
    assert fact_words(whole, known.learn(whole), known) == ["the API server keeps all of a slice"]
    told = "the API server drops binding conditions, taints of slices"
    assert fact_words(without, known.learn(without), known) == [told]


SIGNAL = e.Signal("c", (e.Entry("d", "p", "gpu-0", "FabricDeviceReschedule", "r", "m"),))
SWAP = e.Swap("c", (Result("r0", "d", "node0", "gpu-0"),), ())
PROMISE = e.ReservedDevice(0, "GPU-1", "d", "p", "gpu-0")
DECISIONS: list[tuple[Any, str]] = [
    (e.AttachOrdered("node0", "A100", "attach", "req", "gpu", 1, "demand", None, "", ("c",)), "make request req: 1 of"),
    (
        e.AttachOrdered("node0", "A100", "attach", "req", "gpu", 2, "prewarm", 1),
        "raise request req from 1 to 2 of A100",
    ),
    (e.Reserved("c", "attach", "node0", 1, 1, (PROMISE,)), "promise GPU-1 to ns/train"),
    (e.ReservationDropped("c", "attach", "late"), "take back what was promised to ns/train: late"),
    (
        e.HandOver("p", "node0", "clear", (SIGNAL,), "attach"),
        "set FabricDeviceReschedule on gpu-0 of ns/train, so that",
    ),
    (
        e.HandOver("p", "node0", "clear", (SIGNAL,), "attach", why="the policy says clear"),
        "set FabricDeviceReschedule on gpu-0 of ns/train, so that pod p is scheduled again "
        "(hand-over to node0, clear, not exchanged: the policy says clear)",
    ),
    (
        e.ExchangeBegun("p", "node0", (SWAP,), 1_767_225_660_000_000, "attach"),
        "guard gpu-0 on node0 until 00:01:00.000, to give to ns/train",
    ),
    (
        e.AllocationCleared(claim="c", mode="attach", node="node0", attempt=1),
        "clear the allocation of ns/train, to set it to the devices of node0 at once",
    ),
    (
        e.DevicesGiven(claim="c", mode="attach", node="node0", attempt=1, swap=SWAP, version="7", instead=("a100-3",)),
        "exchange a100-3 for gpu-0 in ns/train",
    ),
    (e.ExchangeEnded(claim="c", mode="attach", reason="so"), "end the exchange of ns/train: so"),
    (e.GuardLifted("c", (("d", "node0", "gpu-0"),), "attach"), "take the guard off gpu-0"),
    (e.Steered("p", "node0", ("c",), "attach"), "nominate node0 for pod p and clear the allocation of ns/train"),
    (
        e.ClaimFailed("c", "attach", 1, 1, "AttachFailed", "no", "node0"),
        "give up this attempt of ns/train: AttachFailed: no",
    ),
    (e.FailureSignalled("c", "attach", 1, SIGNAL), "set FabricDeviceReschedule on gpu-0 of ns/train, so that the"),
    (e.CoolDown("node0", "A100", "attach", 0, "no"), "keep the scheduler from A100 on node0 until 00:00:00.000: no"),
    (
        e.CoolDown("node0", "A100", "attach", 0, "no", times=3),
        "keep the scheduler from A100 on node0 until 00:00:00.000: no, 3 times in a row",
    ),
    (e.CoolDownOver("node0", "A100", "attach"), "let the scheduler choose A100 on node0 again"),
    (
        a.GroupShown("big", "autoscale", 0, 4, 2, ("n1",), ("n2",), "", {"n2": "why"}),
        "show big with a target of 2 between 0 and 4",
    ),
    (a.GroupHidden("big", "autoscale"), "show no group big"),
    (a.AskRefused("big", "autoscale", "refused", "no"), "refuse that: no"),
    (a.ServerOrdered("big-1", "big", "autoscale"), "order a server for big as big-1"),
    (
        a.OrderFailed("big-1", "big", "autoscale", code="Full", text="none left"),
        "tell that big-1 has failed: Full: none left",
    ),
    (a.ServerReturned("big-1", "big", "autoscale"), "give what came of big-1 back (big)"),
    (a.NodeRemoved("n1", "uid", "autoscale"), "delete node n1: its server is gone"),
    (a.NodeOpened("n1", "uid", "autoscale"), "take the start-up taint off n1, which has its labels"),
    (a.PodAdvised("p", "server", "n1 is full", "autoscale"), "leave pod p to a server: n1 is full"),
    (e.NodeLabelled("node0", {"a": "1", "b": None}, "attach", "x"), "label node0 with a=1 and take b off node0: x"),
    (
        e.VictimMarked("r", "detach", "gpu-x", "node0", "A100", "GPU-1", "d", "p", "g", "idle"),
        "mark GPU-1 on node0 to go",
    ),
    (e.VictimUnmarked("r", "detach", "gpu-x", "wanted"), "take the mark off gpu-x: wanted"),
    (e.ClaimsListWanted("r", "detach", 1), "list all claims for r, to be sure that nobody else has its devices"),
    (
        e.DetachOrdered("node0", "A100", "detach", "req", "u", 0, 1, ("r",)),
        "lower request req from 1 to 0, so that r goes",
    ),
    (
        e.HoldBegun("r", "detach", "gpu-x", "node0", "A100", "GPU-1", (("d", "node0", "gpu-0"),), 0, "idle for 60 s"),
        "guard gpu-0 on node0 until 00:00:00.000, to hold GPU-1: idle for 60 s",
    ),
    (
        e.DeviceHeld("r", "detach", "dds-hold-gpu-x", "gpu-x", "node0", (("d", "node0", "gpu-0"),)),
        "hold gpu-0 on node0 with claim dds-hold-gpu-x",
    ),
    (
        e.HoldEnded("r", "detach", "dds-hold-gpu-x", "node0", (("d", "node0", "gpu-0"),), "a claim waits for it"),
        "hold gpu-0 on node0 no more: a claim waits for it",
    ),
    (e.UsedStamped("r", "detach", "gpu-x", 1), "note on gpu-x when it was last used"),
    (
        e.OperatorNudged("r", "attach", "gpu-x", "node0", "list"),
        "make the operator look at gpu-x on node0: its device has come, and the node's driver does not list it yet",
    ),
    (
        e.OperatorNudged("r", "attach", "gpu-x", "node0", "settle"),
        "make the operator look at gpu-x on node0: the node's driver lists its device",
    ),
    (
        e.OperatorNudged("r", "attach", "gpu-x", "node0", "attach"),
        "make the operator look at gpu-x on node0: its device should have come by now",
    ),
    (
        e.OperatorNudged("r", "detach", "gpu-x", "node0", "detach"),
        "make the operator look at gpu-x on node0: its device should be off by now",
    ),
    (
        p.PoolPublished(
            driver="d",
            pool="p",
            mode="attach",
            fabric="1",
            prefix="cohdi.io",
            model=POOL_MODEL,
            generation=3,
            slices=(SliceLayout("s-0", ("a-0", "a-1")), SliceLayout("s-1", ("a-2",))),
            taint="cohdi.io/cooling",
            why="it cools down",
        ),
        "publish pool p with 3 devices in 2 slices at generation 3, tainted cohdi.io/cooling: it cools down",
    ),
    (
        p.PoolWithdrawn(driver="d", pool="p", mode="attach", why="its fabric is gone"),
        "withdraw pool p: its fabric is gone",
    ),
    (e.Alerted("c", "Odd", "look", "attach"), "call a person: Odd: look"),
]


@pytest.mark.parametrize(("decision", "words"), DECISIONS)
def test_a_decision_is_told(decision: Decision, words: str) -> None:
    known = Known()
    tell(CLAIM, known=known)
    assert decision_words(decision, known).startswith(f"dds decided to {words}")
    assert decision_words(replace(decision, mode="observe"), known).startswith(f"dds would {words}")
    assert decision_words(replace(decision, reissued=True), known).startswith(f"dds decided again to {words}")


def test_no_decision_is_without_words() -> None:
    kinds = {kind for kind in TYPES.values() if issubclass(kind, Decision)}
    assert kinds == {type(decision) for decision, _ in DECISIONS}
