"""What is counted of a recording is what its events say, counted in another way; a scrape is what Prometheus can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dds_adapters.kubernetes.recording import replay_recording
from dds_adapters.kubernetes.watch.delta_queue import DeltaQueue
from dds_adapters.runtime.metrics import CATALOGUE, Metrics, Program, Sources
from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.fleet import Stages
from dds_adapters.runtime.operation import sources_of
from dds_core.events import Rejected, Started, WriteRefused
from dds_core.log.envelope import Envelope
from dds_core.model import Pod
from dds_core.replay import fold_log, of_steps
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.events import ClaimMoved, DeviceMoved, NodeGone
from dds_core.scaler.history import History
from dds_core.scaler.history.usage import usage
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from tests.support.commits import Committed, commits
from tests.support.world import A100, H100, World, asks, class_of

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
DELAY = 2_000
"""Microseconds from a fact to its commit."""

Labels = frozenset[tuple[str, str]]
Samples = dict[str, dict[Labels, float]]


def scraped(registry: CollectorRegistry) -> Samples:
    """The samples of a scrape, read back as Prometheus reads them."""
    found: Samples = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def value(samples: Samples, series: str, /, **labels: str) -> float:
    return samples[series][frozenset(labels.items())]


class Played:
    """A recording through the engine, committed step by step, with metrics beside it."""

    def __init__(self, name: str, policy: Policy | None = None) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, version="1.2.3", fingerprint="abc")
        self.engine = Engine()
        self.steps: list[Committed] = []
        self.models: dict[str, str] = {}
        recorded = replay_recording(RECORDINGS / f"{name}.jsonl.gz", policy or Policy(), engine=self.engine)
        for one in commits(recorded, DELAY):
            self.take(one)

    @property
    def state(self) -> State:
        return self.engine.state

    def take(self, one: Committed) -> None:
        self.steps.append(one)
        self.models.update({uid: device.model for uid, device in self.state.lifecycle.devices.rows.items()})
        self.metrics.committed([one], self.state)

    def samples(self) -> Samples:
        return scraped(self.registry)

    def claim_moves(self) -> Iterator[tuple[int, ClaimMoved]]:
        return ((one.step.at, e) for one in self.steps for e in one.step.transitions if isinstance(e, ClaimMoved))

    def device_moves(self) -> Iterator[tuple[int, DeviceMoved]]:
        return ((one.step.at, e) for one in self.steps for e in one.step.transitions if isinstance(e, DeviceMoved))


@pytest.fixture(scope="module")
def burst() -> Played:
    return Played("burst")


@pytest.mark.parametrize("name", ["burst", "node_limit", "node_lost", "shares", "extended_resource", "ready_mode"])
def test_at_every_step_the_states_are_those_of_the_picture(name: str) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="", fingerprint="")
    engine = Engine()
    for number, one in enumerate(commits(replay_recording(RECORDINGS / f"{name}.jsonl.gz", Policy(), engine=engine))):
        metrics.committed([one], engine.state)
        if number % 7:
            continue
        samples = scraped(registry)
        claims = Counter(life.state for life in engine.state.lifecycle.lives.rows.values())
        assert {dict(key)["state"]: n for key, n in samples["dds_claims"].items() if n} == claims
        devices = Counter((d.state, d.model, d.node) for d in engine.state.lifecycle.devices.rows.values())
        told = {
            tuple(dict(key)[k] for k in ("state", "model", "node")): n
            for key, n in samples.get("dds_devices", {}).items()
        }
        assert told == devices


def test_events_are_counted_by_type(burst: Played) -> None:
    samples = burst.samples()
    rows = Counter(row.type for one in burst.steps for row in one.envelopes)
    decisions = {dict(key)["type"]: n for key, n in samples["dds_decisions_total"].items()}
    decided = {type(one).__name__ for step in burst.steps for one in step.step.decisions}
    assert decisions == {name: rows[name] for name in decided}
    assert {dict(key)["mode"] for key in samples["dds_decisions_total"]} == {"observe"}
    assert value(samples, "dds_commit_delay_seconds_count") == len(burst.steps)
    assert value(samples, "dds_commit_delay_seconds_sum") == pytest.approx(len(burst.steps) * DELAY / 1e6)


def test_stages_of_the_burst(burst: Played) -> None:
    samples = burst.samples()
    moves = list(burst.claim_moves())
    ordered = [(at, move) for at, move in moves if move.trigger == "ordered"]
    waits = []
    for at, move in ordered:
        waits.append(
            at - max(t for t, m in moves if m.claim == move.claim and m.trigger == "allocated_pool" and t <= at)
        )
    assert value(samples, "dds_claim_stage_seconds_count", stage="order") == len(ordered)
    assert value(samples, "dds_claim_stage_seconds_sum", stage="order") == pytest.approx(sum(waits) / 1e6)
    first: dict[tuple[str, int], int] = {}
    for at, move in moves:
        if move.trigger == "allocated_pool":
            first.setdefault((move.claim, move.cycle), at)
    total = [
        at - first[cycle] for at, m in moves if m.trigger == "pod_bound" and (cycle := (m.claim, m.cycle)) in first
    ]
    assert value(samples, "dds_claim_stage_seconds_count", stage="total") == len(total)
    assert value(samples, "dds_claim_stage_seconds_sum", stage="total") == pytest.approx(sum(total) / 1e6)
    assert value(samples, "dds_claim_stage_seconds_count", stage="bind") <= len(total)


def test_hand_overs_land_as_the_transitions_say(burst: Played) -> None:
    samples = burst.samples()
    landed = Counter(move.landed for _, move in burst.claim_moves() if move.landed)
    assert {dict(key)["landing"]: n for key, n in samples["dds_hand_over_landings_total"].items()} == landed
    assert {dict(key)["steering"] for key in samples["dds_hand_over_landings_total"]} == {
        "none"
    }  # nobody's but the other's


def test_attaches_per_bound_device(burst: Played) -> None:
    samples = burst.samples()
    came = Counter(burst.models[m.resource] for _, m in burst.device_moves() if m.trigger == "online")
    assert {dict(key)["model"]: n for key, n in samples["dds_device_attaches_total"].items()} == came
    bound = sum(samples["dds_devices_bound_total"].values())
    assert bound >= sum(1 for _, m in burst.claim_moves() if m.trigger == "pod_bound" and m.devices)
    assert 0 < sum(came.values()) / bound < 2


def test_idle_time_is_that_of_the_spells(burst: Played) -> None:
    began: dict[str, int] = {}
    idled = 0
    for at, move in burst.device_moves():
        if move.target in ("Idle", "Marked"):
            began.setdefault(move.resource, at)
        elif move.resource in began:
            idled += at - began.pop(move.resource)
    idled += sum(burst.steps[-1].step.at - at for at in began.values())
    assert sum(burst.samples()["dds_device_idle_seconds_total"].values()) == pytest.approx(idled / 1e6)


def test_idle_time_never_goes_back() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="", fingerprint="")
    engine = Engine()
    before: dict[Labels, float] = {}
    for one in commits(replay_recording(RECORDINGS / "first_attach.jsonl.gz", Policy(), engine=engine)):
        metrics.committed([one], engine.state)
        now = scraped(registry).get("dds_device_idle_seconds_total", {})
        assert all(now.get(key, seconds) >= seconds for key, seconds in before.items())
        before = now
    assert before and sum(before.values()) > 0


@pytest.mark.parametrize("name", ["burst", "node_limit", "node_lost", "attach_failure"])
def test_device_time_never_goes_back_and_a_new_process_goes_on_with_it(name: str) -> None:
    """At every third commit the process dies, and what the next one knows is now and then what the log folds to."""
    rows: list[Envelope] = []
    every = 120 if name == "burst" else 9  # of a long log each fold takes a while
    registry, before = CollectorRegistry(), dict[Labels, float]()
    metrics = Metrics(registry, version="", fingerprint="")
    engine = Engine()
    for number, one in enumerate(commits(replay_recording(RECORDINGS / f"{name}.jsonl.gz", Policy(), engine=engine))):
        rows += one.envelopes
        if number % 3 == 0:
            registry = CollectorRegistry()
            metrics = Metrics(registry, version="", fingerprint="")
        metrics.committed([one], fold_log(rows, SCALER) if number % every == 0 else engine.state)
        now = scraped(registry).get("dds_device_seconds_total", {})
        assert all(now[key] >= seconds for key, seconds in before.items())
        before = now
    history = History().read(of_steps(replay_recording(RECORDINGS / f"{name}.jsonl.gz", Policy())))
    expected = usage(history, ["model"], str)
    for (model,), spent in expected.items():
        for state, micros in spent.items():
            assert before.get(frozenset({("state", state), ("model", model)}), 0) == pytest.approx(micros / 1e6)
    assert bool(expected) is (name != "attach_failure"), "there no resource got a device"


def test_device_time_that_is_not_in_the_log_is_not_shown(burst: Played) -> None:
    """The log was away: what the next process finds there would be less."""
    registry, middle = CollectorRegistry(), len(burst.steps) // 2
    metrics = Metrics(registry, version="", fingerprint="")
    known = fold_log([row for one in burst.steps[:middle] for row in one.envelopes], SCALER)
    metrics.committed(burst.steps[:middle], known)
    told = scraped(registry)["dds_device_seconds_total"]
    metrics.committed(burst.steps[middle : middle + 1], burst.state)
    assert scraped(registry)["dds_device_seconds_total"] == told
    metrics.committed(burst.steps[middle + 1 :], burst.state)
    assert sum(scraped(registry)["dds_device_seconds_total"].values()) > sum(told.values())


def test_a_picture_folded_anew_is_counted_through(burst: Played) -> None:
    played = Played("first_attach")
    metrics = played.metrics
    other = Played("node_limit")
    metrics.committed([], other.state)
    samples = played.samples()
    claims = Counter(life.state for life in other.state.lifecycle.lives.rows.values())
    assert {dict(key)["state"]: n for key, n in samples["dds_claims"].items() if n} == claims


def test_what_is_refused_and_what_is_rejected() -> None:
    played = Played("first_attach")
    facts = [
        WriteRefused(decision="x:1.1.2", action="AttachOrdered", target="r", code=403, reason="Forbidden", text="no"),
        Rejected(kind="resourceclaims", uid="u", name="c", field="spec", reason="is missing"),
    ]
    at = played.state.process.now
    for one in commits([played.engine.feed(fact, at) for fact in facts]):
        played.take(one)
    samples = played.samples()
    assert value(samples, "dds_write_refusals_total", action="AttachOrdered", code="403") == 1
    assert value(samples, "dds_rejected_total", resource="resourceclaims", reason="is missing") == 1


def test_what_others_keep_is_read_at_the_scrape() -> None:
    registry = CollectorRegistry()
    ages = {"pods": 1.5}
    leads = [False]
    sources: Sources = {
        c.WATCH_AGE: lambda: {(resource,): age for resource, age in ages.items()},
        c.ATTEMPTS: lambda: {("HandOver", "later"): 4},
    }
    Metrics(registry, version="", fingerprint="", sources=sources)
    Program(registry).leads("dds-scaler", lambda: leads[0])
    samples = scraped(registry)
    assert value(samples, "dds_watch_age_seconds", resource="pods") == 1.5
    assert value(samples, "dds_write_attempts_total", action="HandOver", outcome="later") == 4
    assert value(samples, "leader_election_master_status", name="dds-scaler") == 0
    leads[0], ages["nodes"] = True, 2.0
    samples = scraped(registry)
    assert value(samples, "leader_election_master_status", name="dds-scaler") == 1
    assert value(samples, "dds_watch_age_seconds", resource="nodes") == 2.0


def process(**more: Any) -> Any:
    """What is read of a process: one that does not decide yet."""
    arrivals = DeltaQueue()
    arrivals.heard("pods", 60.0)
    writer = SimpleNamespace(counts={("HandOver", "later"): 4})
    return SimpleNamespace(**{"arrivals": arrivals, "writer": writer, "controller": None, "clock": None, **more})


def test_what_is_read_of_a_process() -> None:
    def read(**more: Any) -> dict[str, Any]:
        return {named.name: dict(values()) for named, values in sources_of(process(**more)).items()}

    before = read()
    assert before.pop("dds_watch_age_seconds").keys() == {("pods",)}
    assert before == {
        "dds_write_attempts_total": {("HandOver", "later"): 4},
        "dds_log_lag_seconds": {(): 0},
        "dds_log_available": {(): 1},
    }
    controller = SimpleNamespace(oldest_pending=1_000_000, away=True)
    after = read(controller=controller, clock=SimpleNamespace(now=lambda: 1_250_000))
    assert after["dds_log_lag_seconds"] == {(): 0.25}
    assert after["dds_log_available"] == {(): 0}
    controller.oldest_pending = None
    assert read(controller=controller)["dds_log_lag_seconds"] == {(): 0.0}


def test_a_gauge_that_fails_does_not_break_the_scrape(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()

    def broken() -> dict[tuple[str, ...], float]:
        raise RuntimeError("dictionary changed size during iteration")

    Metrics(registry, version="", fingerprint="", sources={c.WATCH_AGE: broken, c.AVAILABLE: lambda: {(): 1}})
    scraped(registry)
    samples = scraped(registry)
    assert "dds_watch_age_seconds" not in samples
    assert value(samples, "dds_log_available") == 1
    assert value(samples, "dds_scrape_errors_total", metric="dds_watch_age_seconds") >= 1
    assert caplog.messages == ["dds_watch_age_seconds cannot be read (RuntimeError); logged once"]


def test_a_group_that_cannot_be_counted_does_not_reach_who_decides(caplog: pytest.LogCaptureFixture) -> None:
    played = Played("first_attach")
    last = played.steps[-1]
    broken = Committed(last.step._replace(caused=[None]), last.envelopes)  # type: ignore[list-item]
    played.metrics.committed([broken], played.state)
    assert value(played.samples(), "dds_uncounted_groups_total") == 1
    assert "a group cannot be counted (TypeError)" in caplog.text


def test_every_request_is_counted() -> None:
    registry = CollectorRegistry()
    program = Program(registry)
    program.asked("PATCH", 200, 0.02)
    program.asked("PATCH", 0, 10.0)
    samples = scraped(registry)
    assert value(samples, "rest_client_requests_total", method="PATCH", code="200") == 1
    assert value(samples, "rest_client_requests_total", method="PATCH", code="0") == 1
    assert value(samples, "rest_client_request_duration_seconds_sum", verb="PATCH") == pytest.approx(10.02)


def test_names_and_labels_are_those_of_the_catalogue(burst: Played) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="1", fingerprint="2", sources=sources_of(process()))
    program = Program(registry)
    program.asked("GET", 200, 0.1)
    program.leads("dds-scaler", lambda: True)
    for one in burst.steps:
        metrics.committed([one], burst.state)
    families = {family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())}
    named = {one.name.removesuffix("_total") if one.kind == "counter" else one.name: one for one in CATALOGUE}
    assert families.keys() == named.keys()
    for name, family in families.items():
        assert (family.type, family.documentation) == (named[name].kind, named[name].help)
        labels = {frozenset(sample.labels.keys() - {"le"}) for sample in family.samples}
        assert labels <= {frozenset(named[name].labels)}


def test_names_are_as_the_ecosystem_has_them() -> None:
    for one in CATALOGUE:
        assert one.name.startswith(("dds_", "rest_client_", "leader_election_"))
        assert (one.kind == "counter") == one.name.endswith("_total"), one.name
        assert one.kind != "histogram" or (one.name.endswith("_seconds") and list(one.buckets) == sorted(one.buckets))
        assert one.help.endswith(".")
        assert not {"claim", "uid", "pod"} & set(one.labels)
        assert "name" not in one.labels or one.name == "leader_election_master_status", "that of the Lease"


def test_groups_committed_together_count_as_one_by_one(burst: Played) -> None:
    registry = CollectorRegistry()
    Metrics(registry, version="1.2.3", fingerprint="abc").committed(burst.steps, burst.state)
    together, alone = scraped(registry), burst.samples()
    for name in ("dds_claims", "dds_claim_stage_seconds_sum", "dds_transitions_total"):
        assert together[name] == pytest.approx(alone[name]), name
    assert sum(together["dds_device_attaches_total"].values()) == sum(alone["dds_device_attaches_total"].values())


def test_after_a_start_what_was_there_before_is_counted(burst: Played) -> None:
    middle = len(burst.steps) // 2
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="", fingerprint="")
    rows = [row for one in burst.steps[:middle] for row in one.envelopes]
    engine = Engine(fold_log(rows, SCALER))
    at = engine.state.process.now
    idle = {(d.model, d.node) for d in engine.state.lifecycle.devices.rows.values() if d.state == "Idle"}
    started = Started(code="x", fingerprint="f", projection=1, epoch=2, mode="observe")
    for one in commits([engine.feed(started, at)]):
        metrics.committed([one], engine.state)
    samples = scraped(registry)
    claims = Counter(life.state for life in engine.state.lifecycle.lives.rows.values())
    assert claims
    assert {dict(key)["state"]: n for key, n in samples["dds_claims"].items() if n} == claims
    told = {
        (dict(key)["model"], dict(key)["node"]): n
        for key, n in samples.get("dds_device_idle_seconds_total", {}).items()
    }
    assert told == dict.fromkeys(idle, 0.0)  # it counts from here on


def test_a_node_that_is_gone_is_told_of_no_longer() -> None:
    played = Played("first_attach")
    assert played.samples()["dds_device_idle_seconds_total"]
    gone = [NodeGone(uid=uid) for uid in list(played.state.fleet.nodes.rows)]
    for one in commits([played.engine.feed(fact, played.state.process.now) for fact in gone]):
        played.take(one)
    assert not played.samples().get("dds_device_idle_seconds_total")


def test_a_wait_that_a_start_finds_is_measured_from_its_beginning() -> None:
    registry = CollectorRegistry()
    stages = Stages(registry)
    second = 1_000_000
    found = ClaimMoved(
        claim="c", trigger="allocated_pool", source="", target="Pending", cycle=1, attempt=1, began=70 * second
    )
    stages.moved(found, 100 * second)
    stages.moved(ClaimMoved("c", "ordered", "Pending", "Attaching", 1, 1), 101 * second)
    stages.moved(ClaimMoved("c", "pod_bound", "Attaching", "Bound", 1, 1), 130 * second)
    samples = scraped(registry)
    assert value(samples, "dds_claim_stage_seconds_sum", stage="order") == 31
    assert value(samples, "dds_claim_stage_seconds_sum", stage="total") == 60
    assert len(stages) == 0


# -- who waits without an allocation -------------------------------------------------------------------------------------


def test_who_waits_without_an_allocation_is_counted_by_model_and_reason() -> None:
    world = World("attach")
    world.node("node0")
    world.pool(A100, 1)
    world.waits("first", "node0")
    for name, model in (("a", A100), ("b", A100), ("c", H100)):
        world.claim(name, requests=(asks("r0", model.device),))
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="1", fingerprint="f")
    world.state.process.synced = False
    metrics.look(world.state)
    assert "dds_unallocated_claims" not in scraped(registry), "what is not listed yet does not lack"
    world.state.process.synced = True
    metrics.look(world.state)
    samples = scraped(registry)
    assert value(samples, "dds_unallocated_claims", model="A100 40G", reason="in-use") == 2
    assert value(samples, "dds_unallocated_claims", model="H100 80G", reason="no-device") == 1
    world.observe(replace(class_of(A100), extended_resource="example.com/gpu"))
    world.pod("d", waiting="Unschedulable", extended_resources={"example.com/gpu": 1})
    metrics.committed([], world.state)
    metrics.look(world.state)
    assert value(scraped(registry), "dds_unallocated_claims", model="A100 40G", reason="in-use") == 3, (
        "a pod without a claim"
    )
    world.gone(world.get(Pod, "d"))
    world.finish("a", "b", "c")
    metrics.look(world.state)
    assert len(scraped(registry)["dds_unallocated_claims"]) == 2, "nothing was committed since"
    metrics.committed([], world.state)
    metrics.look(world.state)
    assert "dds_unallocated_claims" not in scraped(registry)


def test_a_fault_of_the_count_does_not_stop_who_decides(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, version="1", fingerprint="f")
    broken: Any = SimpleNamespace()
    metrics.look(broken)
    assert value(scraped(registry), "dds_uncounted_groups_total") == 1
    assert "claims that wait cannot be counted (AttributeError)" in caplog.text
