"""Random fleets with both our programs in them: nothing that must not happen does, and in the end all is as it should be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dds_core.engine import EngineOf
from dds_core.errors import Fenced
from dds_core.scaler.component import SCALER
from dds_lab.check.draw import Draw
from dds_lab.check.field import FIELD_FROM, KINDS, Blow
from dds_lab.check.fleets import LEARNS_FROM, fleet_of
from dds_lab.check.playing import FleetRun, fleet_run, played
from dds_lab.check.subjects import unsound_with
from dds_lab.scenario.checks import problems
from tests.core.golden.replays import log_of, policy_of, recorded, replayed

FEW = (8, 13, 16, 18)
CORPUS = {
    1: "partitions of a small GPU, and three fabrics",
    3: "a log whose answers are lost, and a leader that stands still",
    5: "four models on one node, and pools that are too small",
    6: "a device that falls off its bus before anybody saw it",
    7: "an API server that is away, and another policy for a while",
    12: "a pod that wants more than one node may have, and another node that is lost",
    14: "all that can befall processes within fifteen minutes",
    15: "a scaler that attaches only, and an order that is carried out half an hour late",
    17: "four models, kills and pauses",
    20: "three fabrics and two replicas",
    25: "a fabric that refuses everything and attaches some of it",
    32: "a device that comes to its node again before its old resource is gone",
    34: "a claim of four choices that the fabric refuses one after the other",
    50: "a device that is sick while a claim comes, and well when the one ordered for it is there",
    51: "fifteen devices that go back at once",
    68: "pods that no node can serve",
    91: "a claim that has devices which somebody else takes off",
    92: "an order that is taken back when its device has come",
    96: "a device that fell out of its machine and came to another node",
    138: "a claim that goes on naming a device which was taken off its node",
    164: "a resource that the operator has made and not ordered a device for yet, for want of hands",
    166: "devices that got the names of those which were taken from under claims",
    236: "a claim that is deleted under three pods while the scheduler is away",
    252: "an operator with one worker and dozens of orders",
    257: "an operator that ends while the fabric answers",
    263: "an operator with one worker, and a claim for thirty devices",
    274: "a start that is not told at once whether devices can be held, and an operator without news while it orders",
    278: "a device that two resources of its node name, one of them marked to go, the other promised",
    280: "an operator with one hand, which counts what it is still to take off",
    326: "an operator that hears nothing and orders again, and rivals of what it names nowhere",
    434: "a node that is lost with devices in its machine, and pods that run for long on the other one",
    446: "a claim that comes as what the fabric refused for it is taken back",
    482: "a device that comes to another node while its old one shows it still",
    571: "a device that its node lists no more, where no second one may be",
    626: "a process that ends while the API server does not answer, with guards to take off",
    666: "a pod for two devices, and six nodes that may have one each before those that may have four",
    681: "a size that is asked back in part before it was lowered",
    1076: "a device that is attached and not listed yet, as the one that was promised is taken",
    1091: "the real operator, and a device that another node has before its own is seen without it",
    10096: "a review whose answer is a conflict, and devices that would go back unguarded from then on",
    10135: "a publisher that hears nothing of claims for two minutes",
    10225: "a start that is not told at once where devices are guarded, with a guard of a hold that went meanwhile",
    10251: "claims that are refused on one node after the other",
    10714: "a sick device that its driver lists no more, and that has the one place of its node",
    10812: "a claim of three choices that is given its second as it waits for its third",
    11063: "a pod for two devices, and five nodes that may have one each",
    11158: "rivals on the one node that is left, of which one pod after the other takes the same device",
    11199: "a size that is asked back as its device is being taken off already",
    20116: "a manager that is silent for minutes, and an operator that orders from it again",
    20191: "a policy that is live for a while, and a cool-down that ends in observe",
    20288: "a device that came to another node, and a claim that holds it where it was",
    21112: "a dozen GPUs in parts on one node",
    21114: "a manager whose answers are odd until the end",
    21144: "a device that falls off its bus as it is announced",
    21170: "a claim that pods share, and a scheduler that ends as it is handed over",
    21271: "a device that nobody knows and that the operator takes off at last",
    21290: "a device that comes to its node again before its old resource is gone, and that the operator takes off once more",
    30365: "a claim that is told of two devices, loses one of them, and is told that it fails",
    30442: "a manager that moves a machine to another fabric and back",
    30467: "a policy that observes only while a claim is promised a device",
    30765: "a device that goes back, and is given to its node again before the operator has forgotten it",
    30767: "a claim that a full node cannot have, and the node is empty when that can be told",
    30808: "pods for two devices, and nodes that may have one each",
    30824: "a pod that is nominated as two devices are being taken off",
    30859: "a claim that comes when the operator has taken a device off and its news is late",
    31036: "a limit that its publisher has just taken away",
    31092: "a fabric that hangs, and an operator that tries again by itself when nobody waits any more",
    32003: "a pod for thirty devices that comes again and again, and a rival on its node",
    32128: "an attach that succeeds at last, just as it is called off",
    33039: "two claims of a pod, of which the second failed and the first is allocated again and again",
    40016: "an order for nobody, just before a claim gives two devices of a pool back",
    40218: "a guard that ended while no process ran, and a start that is not told at once where it stands",
    40245: "a pod of two claims that the fabric refuses on one node after the other",
    40311: "a device that is announced as the pod of its claim ends, and to another claim before the first is deleted",
    44329: "a device that a claim has already, and that its driver lists no more when the claim is exchanged",
    46282: "a device whose resource hangs long after the next one has its name",
    50008: "devices that must wait to go back, and a policy that learns",
    51063: "a device that a claim gets a moment after it has gone",
    52041: "a claim that does not take its device in time",
    60115: "a device that is listed again the moment it is taken off, as it was not for long",
    60135: "a node whose minimum is a device that its driver does not list",
    61179: "a node that has what it may have, while a claim is exchanged there",
    61242: "a scheduler whose clock is ahead, and an exchange before it wrote anything",
    62341: "a device that came while it hid, and the others of its request, which the operator cannot take off",
    63654: "an operator with one worker, and an order that the fabric refused at first",
    64147: "a claim of three on a fabric that takes longer for three than the scheduler waits, and nothing may idle",
    64165: "a full node, of whose devices the operator was to take two off, which claims had",
    65228: "devices stolen from claims that are handed over, one of which is cleared",
    65372: "an operator that tries minutes later to take off what claims had",
    65934: "a full node of which a device was to go, and was asked back too late, and the fabric refuses to take it",
    64611: "a log that was away while a pool was withdrawn and a claim got a device of it",
    65423: "a device stolen a second before those of others are announced",
    70087: "a clock that steps around the end of a guard",
    80053: "a device that its driver lists in its second form seconds after the claim on the first has ended",
    80160: "a second form that comes back while its device is being held to go",
    80333: "partitions of a device share counters: a claim that looks at all devices of a node cannot have them together",
    80412: "a claim counted on a device whose detach was called off too late, and nothing was made for its size",
}
"""Seeds that have to stay clean, with what they are rich in. One that finds something comes here when that is mended."""
FIELD = {
    "shared network": 70043,
    "shared later": 70081,
    "finalizers": 70020,
    "placed": 70016,
    "monitors": 70007,
    "forms": 70015,
    "replaced class": 70011,
    "taint rule": 70009,
    "no driver": 70030,
    "clock": 70087,
    "empty pools": 70061,
    "wrong description": 70034,
    "warnings": 70032,
    "functions": 70009,
}
"""A seed for each kind of the field, with that kind alone. All but those of `no driver`, `empty pools` and `warnings` find
something while the mend of their kind is taken out."""


@pytest.mark.parametrize("seed", FEW)
def test_a_few_fleets(seed: int) -> None:
    assert played(seed) == ()


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", CORPUS)
def test_fleets_that_stay_clean(seed: int) -> None:
    assert played(seed) == (), CORPUS[seed]


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", FIELD)
def test_a_kind_of_the_field_by_itself(kind: str) -> None:
    with fleet_run(fleet_of(FIELD[kind], {kind})) as run:
        assert run.fleet.kinds == (kind,) and run.play() == ()


def test_seeds_of_the_field_draw_every_kind() -> None:
    drawn = Counter(kind for seed in range(FIELD_FROM, FIELD_FROM + 120) for kind in fleet_of(seed).kinds)
    assert drawn.keys() == KINDS.keys() == FIELD.keys()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("turn", range(10))
def test_two_hundred_fleets(turn: int) -> None:
    seeds = range(turn * 20 + 1000, turn * 20 + 1020)
    assert {seed: found for seed in seeds if (found := played(seed))} == {}


def test_a_seed_draws_the_same_each_time_and_a_scenario_that_can_be_played() -> None:
    for seed in range(30):
        fleet = fleet_of(seed)
        assert fleet == fleet_of(seed) and list(problems(fleet.scenario)) == []
    draw = Draw(1)
    assert [draw.whole(0, 9) for _ in range(8)] == [1, 8, 7, 2, 4, 4, 6, 7]


def test_a_clock_that_steps_is_drawn_and_a_log_that_does_not_allow_for_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device of the recording goes back at once, as it has idled for long enough by then; just then the clock steps back."""
    fleets = [fleet_of(seed) for seed in range(FIELD_FROM, FIELD_FROM + 60)]
    steps = [[blow.which for blow in one.blows if blow.kind == "clock"] for one in fleets]
    assert [bool(one) for one in steps] == ["clock" in one.kinds for one in fleets]
    assert min(map(min, filter(None, steps))) < -60 and max(map(max, filter(None, steps))) > 0
    quick = {"mode": "detach", "hand_over": "clear", "no_removal_seconds": 1}
    log = log_of(replayed("many_devices", policy=policy_of("many_devices").model_copy(update=quick)))
    at = [one.at for one in recorded("many_devices")][73]

    def clock(instant: int) -> int:
        return instant if instant < at else instant - 60_000_000

    assert unsound_with(clock, log, SCALER) == []
    due = EngineOf.due
    monkeypatch.setattr(
        EngineOf, "due", lambda self, until: due(self, until) if until >= self.state.process.now else None
    )
    assert "deadline idle" in unsound_with(clock, log, SCALER)[0]


def test_seeds_draw_everything() -> None:
    fleets = [fleet_of(seed) for seed in range(120)]
    clusters = [one.scenario.cluster for one in fleets]
    assert {len(one.fabrics) for one in clusters} == {1, 2, 3} and {len(one.models) for one in clusters} == {1, 2, 3, 4}
    assert min(len(one.node_names()) for one in clusters) == 1 and max(len(one.node_names()) for one in clusters) >= 15
    assert {one.replicas for one in fleets} == {1, 2, 3} and {one.policy.mode for one in fleets} == {
        "observe", "attach", "detach",
    }  # fmt: skip
    kinds = {blow.kind for one in fleets for blow in one.blows}
    assert kinds == {"kill", "stop", "pause", "cut", "log", "log-answer", "api", "policy"}
    steps = {step.action for one in fleets for step in one.scenario.steps}
    assert steps >= {"cordon", "drain", "silence", "drop_out", "resize", "restart", "relist", "lose_node", "withdraw"}
    assert {one.publish is None for one in fleets} == {True, False}
    operators = [one.scenario.parts.operator for one in fleets]
    real = [one for one in operators if one is not None and one.kind == "real"]
    assert 0.7 < len(real) / len(operators) < 0.9 and {one.api for one in real} == {"fm", "cm"}
    assert {fleet_of(LEARNS_FROM + seed).policy.idle for seed in range(20)} == {"fixed", "adaptive"}


def test_nothing_is_drawn_that_nobody_could_serve() -> None:
    """A scheduler that hears nothing while claims are exchanged; parts that are more than the whole; a device that is lost for
    good; more work than the nodes have time for."""
    for fleet in map(fleet_of, range(60, 120)):
        scenario, schedulers = fleet.scenario, fleet.policy.schedulers.values()
        said = {fleet.policy.hand_over, fleet.another.hand_over, *(one.hand_over for one in schedulers)}
        exchanges = "exchange" in said
        for step in scenario.steps:
            assert not (exchanges and step.relist and step.relist.part == "scheduler" and step.relist.lasts)
            assert step.drop_out is None or step.drop_out.lasts is not None
        assert all(model.memory != "16Gi" for model in scenario.cluster.models if model.partitions)
        assert scenario.parts.operator is not None
    (first, second) = fleet_of(111).scenario.mix
    assert first.lasts.between is not None and second.lasts.between is not None
    assert second.pods * second.lasts.between[1] <= 900, "one node, of which one pod takes all"


def test_a_pod_waits_until_its_claim_is_deleted() -> None:
    """Its reservation keeps the claim, and so it stays pending for ever."""
    with fleet_run(fleet_of(236)) as run:
        run.lab.run(357)
        waiting = [one.partition(":")[0] for one in run._waiting()]
        run.lab.run(2)
        assert waiting == ["odd0-0", "odd0-1", "odd0-2"] and run._waiting() == []


def test_a_pod_is_not_waited_for_while_others_run_on_all_that_its_node_may_have() -> None:
    """The other node is lost, with devices in its machine."""
    with fleet_run(fleet_of(434)) as run:
        run.lab.run(2000)
        (pod,) = [one for one in run.lab.client("looking").list("pods") if one["metadata"]["name"] == "mix1-7"]
        assert not pod["spec"].get("nodeName") and run._waiting() == []
        assert run._is_enough({"default/last-1-tesla-t4"})


def test_a_pod_is_not_waited_for_while_others_run_on_a_rival_of_its_model() -> None:
    """The other node is lost. On the one that is left each pod takes the H100 as soon as the one before ends, so that no T4 may
    come. A rival that no claim has would be no excuse: it can be taken off."""
    with fleet_run(fleet_of(11158)) as run:
        run.lab.run(3300)
        view, mine = run.judge.view, {"default/last-1-tesla-t4"}
        (uid,) = [one.uid for one in view.claims.values() if one.cells["node0000", "H100 80G"]]
        assert run._waiting() == [] and not run._is_enough(mine)
        del view.claims[uid]
        assert view.attached(("node0000", "H100 80G")) and run._is_enough(mine)


def _with(seed: int, *blows: Blow) -> FleetRun:
    with fleet_run(replace(fleet_of(seed), blows=blows, replicas=2)) as run:
        run.lab.run(300)
    return run


def test_a_leader_that_stood_still_finds_that_another_one_leads() -> None:
    run = _with(8, Blow(60.0, "pause", "scaler", 90.0))
    first, second = run.processes["scaler"]
    assert not first.alive and first.leads() == 0.0
    assert first.crashed is None or isinstance(first.crashed, Fenced)
    assert second.controller.epoch == first.controller.epoch + 1


def test_who_is_killed_is_followed_by_another_when_its_lease_is_over_and_who_stops_at_once() -> None:
    killed, stopped = (_with(8, Blow(60.0, kind, "scaler", 250.0)) for kind in ("kill", "stop"))
    for run, soonest, latest in ((killed, 90.0, 130.0), (stopped, 60.0, 80.0)):
        began = list(run.logs["scaler"].read(types={"Started"}))
        assert len(began) == 2
        assert soonest < (began[1].occurred_at - run.fleet.scenario.start) / 1e6 < latest
