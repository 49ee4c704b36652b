"""A reflector at a served API: whatever happens on the wire, nothing gets lost and nothing is told that was not."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

from dds_adapters.kubernetes import cluster as cluster_module
from dds_adapters.kubernetes.watch.delta_queue import LOST, STALE, SYNCED, Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.reflector import Dispensable, Timing, stop_all
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, WatchSpec, watched, watched_by_publisher
from dds_lab.api.gates import OPTIONAL_VERSIONS, Gates
from dds_lab.api.server import ApiServer
from dds_lab.crds import COMPOSABLE_RESOURCES
from dds_lab.faults.wire import Action, Cut, Delay, Duplicate, Expire, HalfOpen, Lost, Refuse, Rule, Slow
from dds_lab.latency import Fixed, Uniform
from tests.support.reflected import QUICK, Reflected, Taker, World, lab, reflected, reflecting
from tests.support.served import new_server, wall

FAULTS: dict[str, tuple[Action, float]] = {
    "cut": (Cut(Uniform(0.0, 0.3)), 1.0),
    "cut in a line": (Cut(Uniform(0.0, 0.3), mid_line=True), 1.0),
    "half open": (HalfOpen(Uniform(0.0, 0.3)), 0.7),
    "410": (Expire(), 0.7),
    "duplicates": (Duplicate(0.5), 1.0),
    "delays": (Delay(Uniform(0.0, 0.2)), 1.0),
    "409": (Refuse(409), 0.6),
    "429": (Refuse(429, 0), 0.6),
    "500": (Refuse(500), 0.6),
    "503": (Refuse(503), 0.6),
    "slow": (Slow(Uniform(0.0, 0.3)), 1.0),
    "lost answers": (Lost(), 0.6),
}
STRIKING = 2.0
CUTS = Rule(Cut(Uniform(0.05, 0.2)), end=STRIKING)
"""So that there are requests which something can happen to."""
IMPATIENT = replace(QUICK, grace=0.4, longest=1)


def stir(found: Reflected, seconds: float, random: Random) -> None:
    """Objects come, change and go, some of them made anew under their names, while what is told of them is taken."""
    world = found.world
    alive: list[str] = []
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number += 1
        dice = random.random()
        if dice < 0.4 or not alive:
            alive.append(f"node{number}")
            world.create(alive[-1])
        elif dice < 0.7:
            world.touch(random.choice(alive), number)
        else:
            name = alive.pop(random.randrange(len(alive)))
            world.delete(name)
            if dice > 0.9:
                world.create(name)
                alive.append(name)
        found.taker.take(0.02)


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_and_nothing_is_invented(name: str, tmp_path: Path) -> None:
    action, share = FAULTS[name]
    rule = Rule(action, share=share, end=STRIKING)
    cuts = () if isinstance(action, Cut | HalfOpen | Duplicate | Delay) else (CUTS,)
    with reflected(tmp_path, rule, *cuts, timing=IMPATIENT, seed=5) as found:
        stir(found, STRIKING - 0.3, Random(name))
        assert found.agrees(30)
        assert found.faults.struck[0] > 0
        assert found.taker.types().count(SYNCED) >= 1
        if name == "410":
            assert found.taker.types().count(SYNCED) > 1


def test_a_list_of_many_pages_goes_on_where_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "PAGE", 10)
    server = new_server()
    refuse = Rule(Refuse(503), share=0.5, verbs=("list",))
    with lab(tmp_path, refuse, Rule(Slow(Fixed(0)), verbs=("list",)), server=server) as (served, cluster, faults):
        world = World(served, "nodes")
        for number in range(200):
            world.create(f"n{number}")
        arrivals = DeltaQueue()
        with reflecting(cluster, WatchSpec("nodes", ("v1",)), arrivals) as (reflector, _):
            taker = Taker(arrivals, world)
            assert taker.until(reflector.synced.is_set)
            taker.take()
            assert taker.mirror == world.alive()
            assert faults.struck[0] > 3
            assert faults.struck[1] == faults.struck[0] + 20, "no page was read twice"
            first, listed = taker.taken[0], next(one for one in taker.taken if one.type == SYNCED)
            assert listed.since <= first.at, "it may be as old as its first page"


def test_what_happened_while_the_server_was_away_is_told_as_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "RENEW_SECONDS", 0.0)
    server = new_server()
    arrivals = DeltaQueue()
    with lab(tmp_path, server=server) as (served, cluster, _):
        port = int(served.url.rpartition(":")[2])
        world = World(served, "nodes")
        for name in "abcd":
            world.create(name)
        following = reflecting(cluster, WatchSpec("nodes", ("v1",)), arrivals)
        reflector, troubles = following.__enter__()
        taker = Taker(arrivals, world)
        assert taker.until(lambda: taker.mirror == world.alive())
    try:
        time.sleep(0.3)
        server.restart()
        with lab(tmp_path, server=server, port=port) as (served, _, _):
            again = World(served, "nodes")
            again.states = world.states
            again.delete("a")
            again.delete("b")
            again.create("b")
            again.touch("c", 1)
            server.restart()
            del taker.taken[:]
            assert taker.until(lambda: taker.mirror == again.alive())
            names = [(one.type, msgspec.json.decode(one.raw)["metadata"]["name"]) for one in taker.taken if one.raw]
            assert sorted(names) == [("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b"), ("MODIFIED", "c")]
            assert names.index(("DELETED", "b")) < names.index(("ADDED", "b"))
            assert troubles
    finally:
        following.__exit__(None, None, None)
    assert reflector.requests < 200


@pytest.mark.smoke
def test_history_that_is_gone_is_listed_again_and_what_is_known_is_not_told_again(tmp_path: Path) -> None:
    with reflected(tmp_path) as found:
        for name in "abc":
            found.world.create(name)
        assert found.agrees()
        before = len(found.taker.taken)
        for _ in range(3):
            found.served.run(found.served.server.restart)
            time.sleep(0.1)
        found.world.create("d")
        assert found.agrees()
        assert [one.type for one in found.taker.taken[before:] if one.raw] == ["ADDED"]


def test_a_list_that_had_to_be_made_anew_is_told_as_such(tmp_path: Path) -> None:
    with reflected(tmp_path) as found:
        found.world.create("a")
        assert found.agrees() and not synced(found)[0].anew
        found.faults.rules, found.faults.struck = (Rule(Expire(), limit=1),), [0]
        assert found.taker.until(lambda: synced(found)[-1].anew)


# -- versions, permissions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "version"), [("1.37", "v1"), ("1.36", "v1beta2"), ("1.35", "v1alpha3")])
def test_the_best_version_that_is_served_is_followed(release: str, version: str, tmp_path: Path) -> None:
    runtime = OPTIONAL_VERSIONS if release == "1.37" else (f"resource.k8s.io/{version}",)
    gates = Gates.for_version(release, {"DRADeviceTaints": True, "DRADeviceTaintRules": True}, runtime)
    server = ApiServer(gates=gates, now=wall, random=Random(1))
    rules = WatchSpec("devicetaintrules", VERSIONS["devicetaintrules"])
    with reflected(tmp_path, watched=rules, server=server) as found:
        found.taker.world = None
        taint = {"key": "example.com/dead", "effect": "NoSchedule"}
        found.world.create("dead", spec={"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint})
        assert found.agrees()
        assert found.reflector.api_version == f"resource.k8s.io/{version}"


def test_what_is_not_served_is_told_once_and_found_when_it_comes(tmp_path: Path) -> None:
    server = ApiServer(gates=Gates.for_version("1.36"), now=wall, random=Random(1))
    resources = WatchSpec("composableresources", VERSIONS["composableresources"])
    with reflected(tmp_path, watched=resources, server=server) as found:
        assert found.taker.until(lambda: LOST in found.taker.types())
        assert not found.taker.until(lambda: len(found.taker.taken) > 1, 1.0)
        assert [str(one) for one in found.troubles if "is not served in any version" in str(one)] == [
            str(found.troubles[0])
        ]
        assert not isinstance(found.troubles[0], Dispensable)
        assert found.reflector.requests > 2
        found.world.call(lambda client: client.create("customresourcedefinitions", COMPOSABLE_RESOURCES))
        assert found.taker.until(lambda: found.taker.types() == [LOST, SYNCED])


def test_who_follows_what_need_not_be_served_is_told_that_nothing_has_to_be_done(tmp_path: Path) -> None:
    server = ApiServer(gates=Gates.for_version("1.36"), now=wall, random=Random(1))
    (resources,) = (one for one in watched_by_publisher() if one.resource == "composableresources")
    with reflected(tmp_path, watched=resources, server=server) as found:
        assert found.taker.until(lambda: LOST in found.taker.types())
        (told,) = found.troubles
        assert isinstance(told, Dispensable) and "nothing to do" in str(told), told


# -- pods --------------------------------------------------------------------------------------------------------------

PODS = next(one for one in watched() if one.resource == "pods")
CLAIMING = {
    "containers": [{"name": "c", "image": "i"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
}


def node_of(taker: Taker, uid: str) -> str | None:
    for one in reversed(taker.taken):
        if one.raw and (shape := msgspec.json.decode(one.raw))["metadata"]["uid"] == uid:
            return str(shape["spec"].get("nodeName", "")) if one.type != "DELETED" else None
    return None


def bound_pods(found: Reflected) -> None:
    found.taker.world = None  # the lab itself changes pods
    found.world.call(lambda client: client.create("namespaces", {"metadata": {"name": "jobs"}}))


def test_pods_that_left_while_nobody_watched_are_asked_too(tmp_path: Path) -> None:
    refuse = Rule(Refuse(503), verbs=("get",), limit=3)
    with reflected(tmp_path, refuse, watched=PODS, namespace="jobs") as found:
        bound_pods(found)
        uids = [found.world.create(name, spec=CLAIMING) for name in ("bound", "ended", "replaced")]
        assert found.taker.until(lambda: len(found.taker.mirror) == 3)
        before = len(found.taker.taken)

        def all_at_once() -> None:
            client = found.world.client
            found.served.server.restart()
            client.bind("bound", "jobs", "node1")
            client.delete("pods", "ended", "jobs")
            client.delete("pods", "replaced", "jobs")
            client.create("pods", {"metadata": {"name": "replaced"}, "spec": CLAIMING}, "jobs")
            found.served.server.restart()

        found.served.run(all_at_once)
        assert found.taker.until(lambda: found.taker.types()[before:].count(SYNCED) >= 1)
        assert node_of(found.taker, uids[0]) == "node1"
        assert node_of(found.taker, uids[1]) is node_of(found.taker, uids[2]) is None
        assert len(found.taker.mirror) == 2
        assert found.taker.types()[-1] == SYNCED, "not before all doubts were settled"
        assert found.faults.struck[0] == 3


# -- silence, ends, troubles of others -----------------------------------------------------------------------------------


def test_what_a_silent_watch_keeps_back_comes_within_15_seconds(tmp_path: Path) -> None:
    """As in production: the connection stays open, the server keeps its watch alive, and nothing comes."""
    with reflected(tmp_path, Rule(HalfOpen(Fixed(0.2)), limit=1), timing=Timing()) as found:
        assert found.agrees()
        time.sleep(0.3)
        found.world.create("while-it-was-silent")
        assert found.agrees(15)
        assert any("broke off" in str(one) for one in found.troubles)


def test_a_quiet_resource_costs_a_request_each_time_its_watch_ends_and_no_other_connection(tmp_path: Path) -> None:
    with reflected(tmp_path, timing=replace(QUICK, longest=1)) as found:
        assert found.agrees()
        assert not found.taker.until(lambda: len(found.taker.taken) > 1, 3.5)
        assert found.reflector.requests <= 5, "one list, and a watch every second"
        pools = found.cluster._api.rest_client.pool_manager.pools
        assert [one.num_connections for one in pools._container.values()] == [1]
        assert not found.troubles


def test_a_long_silence_is_told_and_made_good_by_a_list(tmp_path: Path) -> None:
    refuse = Rule(Refuse(500), start=0.5, end=3.0)
    cut = Rule(Cut(Fixed(0.5)), limit=1)
    with reflected(tmp_path, cut, refuse, timing=replace(IMPATIENT, patience=0.2)) as found:
        found.world.create("a")
        assert found.agrees()
        assert found.taker.until(lambda: STALE in found.taker.types())
        stale = found.taker.taken[found.taker.types().index(STALE)]
        assert stale.age >= 0 and stale.resource == "nodes"
        assert found.taker.until(lambda: found.taker.types()[-1] == SYNCED)
        assert found.taker.types().count(STALE) == 1
        assert found.taker.arrivals.ages()["nodes"] < 5


@pytest.mark.parametrize("tls", [False, True])
def test_it_stops_at_once_while_it_watches(tls: bool, tmp_path: Path) -> None:
    with reflected(tmp_path, tls=tls, timing=replace(QUICK, shortest=300, longest=600)) as found:
        found.world.create("a")
        assert found.agrees()
        assert found.reflector.stop(20)
        found.world.create("b")
        assert not found.taker.until(lambda: len(found.taker.mirror) > 1, 0.3)


def test_it_stops_while_it_waits_after_a_failure(tmp_path: Path) -> None:
    with reflected(tmp_path, Rule(Refuse(429, 60))) as found:
        assert found.taker.until(lambda: bool(found.troubles))
        assert found.reflector.stop(2)


def test_nothing_is_passed_on_after_a_stop_that_came_during_a_slow_answer(tmp_path: Path) -> None:
    with reflected(tmp_path, Rule(Slow(Fixed(4.0)), verbs=("list",))) as found:
        found.world.create("a")
        assert found.taker.until(lambda: found.reflector.requests == 1)
        begun = time.monotonic()
        assert stop_all([found.reflector], 0.3) == ["nodes"]
        assert time.monotonic() - begun < 3.5
        assert found.reflector.stop(10)
        assert not found.taker.arrivals.take(0.1)
        assert found.reflector.requests == 1


def test_it_survives_whoever_it_passes_on_to(tmp_path: Path) -> None:
    """The queue fails a few times, and the one who is told of it fails always."""

    class Failing(DeltaQueue):
        left = 5

        def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
            if self.left:
                self.left -= 1
                raise MemoryError("none left")
            super().put(resource, uid, type, raw)

    told: list[str] = []

    class Deaf(list[object]):
        def append(self, one: object) -> None:
            told.append(str(one))
            raise RuntimeError("deaf")

    with lab(tmp_path) as (served, cluster, _):
        world = World(served, "nodes")
        for name in "abc":
            world.create(name)
        arrivals = Failing()
        with reflecting(cluster, WatchSpec("nodes", ("v1",)), arrivals, troubles=Deaf()):
            taker = Taker(arrivals, world)
            assert taker.until(lambda: taker.mirror == world.alive())
            world.touch("a", 1)
            arrivals.left = 2
            world.touch("b", 1)
            assert taker.until(lambda: taker.mirror == world.alive())
    assert any("MemoryError" in one for one in told)


# -- A list that is asked for is made at once, of nothing that was asked before, and costs nothing that a watch would ha


LASTING = replace(QUICK, shortest=60, longest=60)


def synced(found: Reflected) -> list[Arrival]:
    return [one for one in found.taker.taken if one.type == SYNCED]


def later_than(found: Reflected, wish: int) -> bool:
    """Whether a SYNCED comes that is of a list which was begun after the wish."""
    return found.taker.until(lambda: any(one.since > wish for one in synced(found)))


@pytest.mark.smoke
def test_a_list_follows_although_a_watch_is_open(tmp_path: Path) -> None:
    with reflected(tmp_path, timing=LASTING) as found:
        found.world.create("a")
        assert found.agrees()
        time.sleep(0.2)
        requests = found.reflector.requests
        for number in range(5):
            wish = found.taker.arrivals.instant()
            before = time.monotonic()
            found.reflector.relist()
            assert later_than(found, wish)
            assert time.monotonic() - before < 5, "it does not wait for the watch to end"
            found.world.create(f"b{number}")
            assert found.agrees()
        assert found.troubles == []
        assert found.reflector.requests <= requests + 3 * 5, (
            "a list and a watch for each, and one that may have been cut short"
        )
        assert all(0 < one.since <= one.at for one in synced(found))


def test_a_list_that_is_under_way_is_not_enough(tmp_path: Path) -> None:
    with reflected(tmp_path, Rule(Slow(Fixed(1.0)), verbs=("list",)), timing=LASTING) as found:
        found.world.create("a")
        time.sleep(0.5)
        wish = found.taker.arrivals.instant()
        found.reflector.relist()
        assert later_than(found, wish)
        first, second = synced(found)
        assert first.since < wish < second.since
        assert found.agrees()


def test_a_wish_outlives_a_server_in_trouble(tmp_path: Path) -> None:
    with reflected(tmp_path, timing=LASTING) as found:
        assert found.agrees()
        found.faults.rules, found.faults.struck = (Rule(Refuse(503), limit=3),), [0]
        wish = found.taker.arrivals.instant()
        found.reflector.relist()
        assert later_than(found, wish)
        assert found.faults.struck == [3]


@pytest.mark.parametrize("seed", range(3))
def test_wishes_at_any_time_lose_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with reflected(tmp_path, Rule(Slow(Fixed(0.02)), verbs=("list",)), timing=LASTING, seed=seed) as found:
        for number in range(40):
            found.world.create(f"n{number}")
            if random.random() < 0.5:
                wish = found.taker.arrivals.instant()
                found.reflector.relist()
            if random.random() < 0.5:
                found.taker.take(random.choice((0.0, 0.01, 0.03)))
        assert found.agrees()
        assert later_than(found, wish)
        assert STALE not in found.taker.types()
        assert found.troubles == []
