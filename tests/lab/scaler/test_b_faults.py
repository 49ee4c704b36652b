"""Faults of the existing systems (B1, B2, B13, B17, B28) that only a live scaler can be free of, each by its number.

On virtual time, where minutes of scans cost nothing; what threads and sockets have a part in is over HTTP.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.decode.config import NAME as CONFIG
from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.permissions import permissions
from dds_adapters.sql import Database, upgrade
from dds_core.events import DeadlinePassed, Event, WriteDone, WriteRefused
from dds_core.log import EventLog
from dds_core.scaler.events import AttachOrdered, ConfigObserved, DevicesGiven, HandOver, NodeObserved
from dds_core.scaler.keys import FIXED, ORDERED
from dds_lab.driver import Direct
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import Cluster, Nodes
from dds_lab.scenario.scenario import Ask, Mix
from dds_lab.scenario.trouble import Faults, WireFault
from dds_lab.scenario.values import between, fixed
from dds_lab.shipped import find
from tests.project.deploy.admission import ACCOUNT
from tests.project.deploy.permitted import GROUPS, give_roles
from tests.support.as_recorded import with_ideal_operator
from tests.support.live_lab import QUICK, LiveLab, OurProcess, eventually, without_scaler
from tests.support.ours import Running, policy_for, running, told_to_us

SECOND = 1_000_000
Object = dict[str, Any]


def asked(run: Running) -> list[tuple[str, str]]:
    """(method, path) of every request that our writer makes from now on."""
    made: list[tuple[str, str]] = []
    run.ours.requests.before = lambda method, path: made.append((method, path))
    return made


# -- B1: 1.36 checks every field of a claim's status by itself


def with_roles(name: str, *without: str, seconds: float) -> tuple[Running, list[Any]]:
    """A scenario on 1.36 with our account's own roles, less some; and what the doctor says at its end."""

    def prepare(run: Running) -> None:
        give_roles(run.lab.client("admin"), without)

    policy = policy_for(name, hand_over="clear")
    with running(told_to_us(name), policy, prepare=prepare, guarded=False, groups=GROUPS) as run:
        assert run.lab.server.gates.on("DRAResourceClaimGranularStatusAuthorization")
        run.lab.run(seconds)
        api = Direct(run.lab.server, ACCOUNT, GROUPS)
        context = ExaminationContext(api, "https://lab", run.lab.time.now, policy=run.policy, namespace=NAMESPACE)
        return run, list(permissions(context))


def test_b01_with_the_generated_role_conditions_are_written() -> None:
    run, found = with_roles("first_attach", seconds=45)
    assert run.events(HandOver)
    assert run.events(WriteRefused) == []
    assert "HandOver" in [one.action for _, one in run.events(WriteDone) if isinstance(one, WriteDone)]
    assert "train-1" in run.outcomes.ran
    assert {one.level for one in found} == {"ok"}


def test_b01_without_the_permission_it_is_told_once_and_the_doctor_names_the_mend() -> None:
    run, found = with_roles("first_attach", "resourceclaims/driver", seconds=120)
    refused = [one for _, one in run.events(WriteRefused) if isinstance(one, WriteRefused)]
    assert {(one.action, one.reason) for one in refused} == {("HandOver", "Forbidden")}
    assert 1 <= len(refused) <= 12, "it is backed off"
    (told,) = [one for one in found if one.level == "error"]
    assert "resourceclaims/driver" in told.what and told.mend
    assert run.judge.of("beyond need") == []
    run.sound()


# -- B2: work grows with what is there, never with what ever was


def busy(pods: int) -> Scenario:
    """So many pods, one after the other for ever so short, and then nothing."""
    found = told_to_us("playground")
    mix = Mix(
        pods=pods, over=3.0 * pods, lasts=between(1.0, 4.0), asks=(Ask(devices={"nvidia-a100-40": 1}),), name="came"
    )
    return found.model_copy(update={"mix": (mix,), "steps": ()})


def idle_minutes(pods: int) -> tuple[Counter[str], int, int]:
    """What is logged and asked in five minutes after so many pods have come and gone, and how many deadlines wait."""
    scenario = busy(pods)
    with running(scenario, policy_for("first_attach")) as run:
        run.lab.run(3.0 * pods + 240)
        assert len(run.outcomes.ran) == pods
        assert run.attached() == {}
        made, before = asked(run), run.log.head().position
        run.lab.run(300)
        rows = Counter(row.type for row in run.log.read(after=before))
        rows.update({f"{method} {path}": 1 for method, path in made})
        deadline_queue: Any = run.ours.scaler._engine.deadline_queue
        waiting = len(deadline_queue._due)
        known = len(run.ours.scaler.state.demand.claims.rows) + len(run.ours.scaler.state.lifecycle.lives.rows)
        return rows, waiting, known


@pytest.mark.parametrize("pods", [100, pytest.param(500, marks=pytest.mark.soak)])
def test_b02_what_came_and_went_costs_nothing_any_more(pods: int) -> None:
    rows, waiting, known = idle_minutes(3)
    more_rows, more_waiting, more_known = idle_minutes(pods)
    assert more_known == known == 1, "the claim with which guards are probed"
    assert more_waiting <= waiting
    assert set(more_rows) <= set(rows)
    assert all(more_rows[name] <= count + 1 for name, count in rows.items()), (rows, more_rows)


# -- B13: what changes is acted on, not found by the next scan

NO_SCANS = {"scan_interval_seconds": 86_400}


def latency(run: Running, change: Callable[[], object], shown: Callable[[], bool], most: float = 10.0) -> float:
    """Seconds from a change to what it leads to."""
    began = run.lab.time.now()
    change()
    while not shown():
        run.lab.run(0.01)
        assert run.lab.time.now() - began < most * SECOND, "nothing comes of it"
    return (run.lab.time.now() - began) / SECOND


def happens(run: Running, *types: type[Event]) -> Callable[[], bool]:
    """Whether there is one more event of these types than now."""
    before = len(run.events(*types))
    return lambda: len(run.events(*types)) > before


def test_b13_a_device_that_comes_online_is_handed_over_within_a_second() -> None:
    """Its resource says Online, and its driver's slice has it: from the later of the two."""
    shown: dict[str, int] = {}

    def follow(run: Running) -> None:
        def resource(old: Object | None, new: Object | None) -> None:
            if ((new or {}).get("status") or {}).get("state") == "Online":
                shown.setdefault("online", run.lab.time.now())

        def published(old: Object | None, new: Object | None) -> None:
            if new is not None and new["spec"].get("nodeName") and new["spec"].get("devices"):
                shown.setdefault("published", run.lab.time.now())

        client = run.lab.client("onlooker")
        client.mirror("composableresources").on_change(resource)
        client.mirror("resourceslices").on_change(published)

    with running(told_to_us("first_attach"), policy_for("first_attach", **NO_SCANS), prepare=follow) as run:
        run.lab.run(45)
    handed, _ = run.events(DevicesGiven)[0]
    assert 0 < handed - max(shown["online"], shown["published"]) < SECOND


def test_b13_a_configmap_that_changes_is_acted_on_within_a_second() -> None:
    def switch(run: Running, mode: str) -> None:
        run.lab.client("somebody").patch("configmaps", CONFIG, {"data": {"mode": mode}}, namespace=NAMESPACE)

    def sizes(run: Running) -> Callable[[], bool]:
        return lambda: bool(run.lab.client("test").list("composabilityrequests"))

    policy = policy_for("first_attach", **NO_SCANS)
    with running(told_to_us("first_attach"), policy, prepare=lambda run: switch(run, "observe")) as run:
        run.lab.run(20)
        assert not sizes(run)()
        assert latency(run, lambda: switch(run, "detach"), sizes(run)) < 1.0
        assert latency(run, lambda: switch(run, "observe"), happens(run, ConfigObserved)) < 1.0


def test_b13_a_node_that_may_have_more_is_used_within_a_second() -> None:
    with running(told_to_us("node_limit"), policy_for("node_limit", cool_down_seconds=3, **NO_SCANS)) as run:
        run.lab.run(30)
        assert run.lab.ledger.count("attach", "ordered") == 2
        node = run.lab.client("test").list("nodes")[0]
        label = next(key for key in node["metadata"]["labels"] if key.endswith("-size-max"))

        def raised() -> None:
            run.lab.client("somebody").patch("nodes", node["metadata"]["name"], {"metadata": {"labels": {label: "2"}}})

        assert latency(run, raised, happens(run, NodeObserved)) < 1.0


def test_b13_a_request_that_somebody_changes_is_known_within_a_second() -> None:
    with running(told_to_us("ready_mode"), policy_for("ready_mode", **NO_SCANS)) as run:
        run.lab.run(3)
        state = run.ours.scaler.state
        (request,) = run.lab.client("test").list("composabilityrequests")
        uid = request["metadata"]["uid"]

        def resized() -> None:
            body = {"spec": {"resource": {"size": request["spec"]["resource"]["size"] + 1}}}
            run.lab.client("somebody").patch("composabilityrequests", request["metadata"]["name"], body)

        def seen() -> bool:
            known = state.fleet.requests.get(uid)
            return known is not None and known.size == request["spec"]["resource"]["size"] + 1

        assert latency(run, resized, seen) < 1.0


# -- B17: nodes


def test_b17_nodes_are_written_on_change_alone_and_only_those_of_a_fabric() -> None:
    found = told_to_us("coexistence")
    outside = Nodes(count=2, name="control-plane", fabric=None)
    cluster = found.cluster.model_copy(update={"nodes": (*found.cluster.nodes, outside)})
    with running(found.model_copy(update={"cluster": cluster}), policy_for("coexistence")) as run:
        made = asked(run)
        run.lab.run()
        run.lab.run(120)
        nodes = [path for method, path in made if "/nodes/" in path and method != "GET"]
        assert nodes, "there was something to be written"
        assert not [path for path in nodes if "control-plane" in path]
        scans = len(run.events(DeadlinePassed))
        made.clear()
        run.lab.run(600)
        assert [path for method, path in made if "/nodes/" in path] == []
        assert len(run.events(DeadlinePassed)) >= scans


# -- F5: a fence that ends the scheduler


GATES = {part: {"DRADeviceTaintRules": True} for part in ("api", "scheduler")}


@pytest.mark.parametrize("version", ["1.36", "1.36.3"])
def test_f5_no_detach_ends_a_scheduler(version: str) -> None:
    """Of 1.36.0 to 1.36.2 it exits when a slice changes while there is a taint rule; each of our detaches brought both.

    An ideal operator: the detaches of the real one hang where DeviceTaintRules are served as v1beta2 only.
    """
    found = with_ideal_operator(told_to_us("two_claims"))
    served = {"version": version, "taint_rules": "resource.k8s.io/v1beta2", "gates": GATES}
    cluster = Cluster.model_validate({**found.cluster.model_dump(exclude_unset=True), **served})
    seen: list[str] = []

    def follow(run: Running) -> None:
        mirror = run.lab.client("onlooker").mirror("devicetaintrules")
        mirror.on_change(lambda old, new: seen.append("rule"))

    with running(found.model_copy(update={"cluster": cluster}), prepare=follow) as run:
        run.lab.run()
        run.lab.run(180)
        assert run.lab.ledger.count("detach", "done") == 2
        assert run.lab.exits == []
    assert not seen
    run.sound()


# -- B28: what an operator of the scaler needs


def test_b28_a_dry_run_writes_nothing_at_all() -> None:
    scenario = told_to_us("burst")
    with running(scenario, policy_for("burst", mode="observe")) as run:
        made = asked(run)
        run.lab.run()
        assert run.events(AttachOrdered), "it says what it would do"
        assert {method for method, path in made if "selfsubjectreviews" not in path} <= {"GET"}
        assert run.lab.client("test").list("composabilityrequests") == []
        by_us = {
            one["source"].get("component") or one.get("reportingController")
            for one in run.lab.client("t").list("events")
        }
        assert "dds" not in str(by_us)
        assert run.lab.ledger.count("attach", "ordered") == 0


def test_b28_users_read_of_it_in_kubernetes_events() -> None:
    with running(told_to_us("first_attach"), policy_for("first_attach")) as run:
        run.lab.run()
        ours = [
            one
            for one in run.lab.client("test").list("events")
            if "dds" in str(one.get("reportingComponent") or one.get("source"))
        ]
    reasons = {one["reason"] for one in ours}
    assert {"AttachOrdered", "DeviceAttached", "Exchanged"} <= reasons
    assert all(one["message"] for one in ours)


def test_b28_a_stop_finishes_the_writes_that_run(tmp_path: Path) -> None:
    """The answer to the order comes late: the stop waits for it, and its outcome is in the log."""
    late = WireFault(action="slow", wait=fixed(12.0), verbs=("create",), resources=("composabilityrequests",))
    scenario = without_scaler(find("first_attach")).model_copy(update={"faults": Faults(wire=(late,))})
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    logs: list[EventLog] = []
    with Database(url) as database, LiveLab(scenario, tmp_path, speed=4.0) as lab:

        def opened(uid: str) -> EventLog:
            logs.append(database.open_log("lab/scaler", cluster=uid, recorded_at=time.time_ns() // 1000))
            return logs[-1]

        with OurProcess(lab.cluster(), opened, lambda: QUICK) as ours:
            eventually(lambda: lab.call(lambda lab: lab.client("test").list("composabilityrequests")))
            assert ours.process.writer.running
            began = time.monotonic()
        assert time.monotonic() - began < 10
        done = [row.type for row in logs[-1].read(types={"WriteDone"})]
    assert done == ["WriteDone"]


# -- what our scaler keeps in memory once claims and pods have gone: nothing of them, or it would grow with every job


@pytest.mark.parametrize("name", ["first_attach", "many_devices", "attach_failure", "node_limit", "burst"])
def test_nothing_is_kept_of_what_is_gone(name: str) -> None:
    with running(told_to_us(name)) as run:
        run.lab.run()
        run.lab.run(400)
        scaler, state = run.ours.scaler, run.ours.scaler.state
        there = {
            obj["metadata"]["uid"]
            for kind in ("pods", "resourceclaims", "composableresources")
            for obj in run.lab.client("somebody").list(kind)
        }
        assert set(state.demand.pods) | set(state.demand.claims) | set(state.fleet.resources) <= there
        assert (
            set(state.lifecycle.lives)
            | set(state.lifecycle.devices)
            | set(state.health.erring)
            | set(state.give_back.fences)
            <= there
        )
        for table in (
            state.hand_over.hand_overs,
            state.failing.failures,
            state.hand_over.reservations,
            state.fleet.orders,
            state.notes.refusals,
        ):
            assert not table
        assert not scaler._wishes and not scaler._questions._naming and len(run.ours.outbox) == 0
        of_nodes = ("cooling", ORDERED, FIXED[0])
        assert all(
            of in ("fleet", "") or of in there for kind, of in state.notes.fired_deadlines if kind not in of_nodes
        )
