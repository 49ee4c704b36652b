"""What a publisher shows to Prometheus: what it knows of the fabric and of its pools, beside a scaler without a clash."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dds_adapters.fabric.provider import FabricAway
from dds_adapters.fabric.survey import NoAnswer
from dds_adapters.kubernetes.watch.delta_queue import ADDED
from dds_adapters.runtime.loop import Committed
from dds_adapters.runtime.metrics import (
    CATALOGUE,
    GROUP_CATALOGUE,
    POOL_CATALOGUE,
    Calls,
    GroupMetrics,
    Metrics,
    Named,
    PoolMetrics,
    Program,
    catalogue,
)
from dds_adapters.runtime.operation import sources_of
from dds_adapters.runtime.publisher import Answered
from dds_core.engine import Step
from dds_core.events import Synced, WriteRefused
from tests.adapters.runtime.test_metrics import process, scraped, value
from tests.adapters.runtime.test_publisher import Run

SLICE = {
    "metadata": {"name": "s", "uid": "s", "labels": {"app.kubernetes.io/managed-by": "dds-publisher"}},
    "spec": {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
        },
        "devices": [{"name": name, "bindingConditions": ["FabricDeviceReady"]} for name in ("a100-0", "a100-1")],
    },
}
CLAIM = {
    "metadata": {"name": "c", "uid": "c", "namespace": "default"},
    "spec": {},
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "r", "driver": "gpu.nvidia.com", "pool": "a100-fabric1", "device": "a100-0"}]
            }
        }
    },
}


class Shown:
    """A publisher with its metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ages = {"machines": 2.0, "stock/1/A100": 3.0, "limits/m0": 4.0, "limits/m1": 9.0}
        self.metrics = PoolMetrics(self.registry, version="1", ages=lambda: self.ages)
        self.run = Run(listeners=(self.metrics,))
        self.run.all()

    def samples(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        self.metrics.look(self.run.publisher.state)
        return scraped(self.registry)


def test_what_is_known_of_the_fabric_is_shown() -> None:
    shown = Shown()
    samples = shown.samples()
    assert value(samples, "dds_publisher_free_devices", fabric="1", model="A100") == 2
    age = "dds_publisher_answer_age_seconds"
    assert value(samples, age, question="machines", fabric="", model="") == 2
    assert value(samples, age, question="stock", fabric="1", model="A100") == 3
    assert value(samples, age, question="limits", fabric="", model="") == 9, "the oldest of them"
    assert value(samples, "dds_publisher_failing_questions", question="stock") == 0
    shown.run.turn(Answered(NoAnswer("stock/1/A100", FabricAway("no")), shown.run.now))
    assert value(shown.samples(), "dds_publisher_failing_questions", question="stock") == 1
    shown.run.turn(Answered(NoAnswer("entries", FabricAway("odd")), shown.run.now))
    assert value(shown.samples(), "dds_publisher_failing_questions", question="entries") == 1


def test_what_is_published_is_shown() -> None:
    shown = Shown()
    run = shown.run
    run.turn(run.see("resourceslices", SLICE, ADDED), run.see("resourceclaims", CLAIM, ADDED))
    samples = shown.samples()
    pool = {"driver": "gpu.nvidia.com", "pool": "a100-fabric1"}
    assert value(samples, "dds_publisher_pool_devices_held", **pool) == 1
    assert value(samples, "dds_publisher_pool_tainted", **pool) == 0
    assert value(samples, "dds_publisher_api_keeps", field="binding_conditions") == 1
    run.probed(binding_conditions=False)
    assert value(shown.samples(), "dds_publisher_api_keeps", field="binding_conditions") == 0


def test_its_log_is_counted_under_names_of_its_own() -> None:
    shown = Shown()
    shown.run.publisher.turn((), [WriteRefused("id", "PoolPublished", "pool/d/p", 403, "Forbidden")], shown.run.now)
    samples = shown.samples()
    assert value(samples, "dds_publisher_decisions_total", type="PoolPublished", mode="publish") == 1
    assert value(samples, "dds_publisher_write_refusals_total", action="PoolPublished", code="403") == 1
    assert value(samples, "dds_publisher_synced") == 1
    assert not any(name.startswith("dds_") and not name.startswith("dds_publisher_") for name in samples)


def test_a_group_that_cannot_be_counted_does_not_reach_who_decides(caplog: pytest.LogCaptureFixture) -> None:
    shown = Shown()
    broken = Committed(Step(1, Synced(), [None]), [])  # type: ignore[list-item]
    shown.metrics.committed([broken], shown.run.publisher.state)
    assert value(shown.samples(), "dds_publisher_uncounted_groups_total") == 1
    assert "a group cannot be counted (TypeError)" in caplog.text


def test_calls_are_counted_and_measured() -> None:
    registry = CollectorRegistry()
    calls = Calls(registry)
    calls.observe("fm.machines", 0.2, "200")
    calls.observe("fm.machines", 10.0, "timeout")
    samples = scraped(registry)
    assert value(samples, "dds_publisher_fabric_calls_total", call="fm.machines", outcome="timeout") == 1
    assert value(samples, "dds_publisher_fabric_call_duration_seconds_sum", call="fm.machines") == pytest.approx(10.2)


def test_all_three_are_shown_in_one_place_and_all_that_is_shown_is_in_the_catalogues() -> None:
    registry = CollectorRegistry()
    sources = sources_of(process())
    Metrics(registry, version="1", fingerprint="2", sources=sources)
    PoolMetrics(registry, version="1", sources=sources)
    Calls(registry)
    GroupMetrics(registry, version="1", sources=sources)
    catalogue.counters(catalogue.RPCS, registry)
    Program(registry).leads("dds-publisher", lambda: True)
    families = {one.name: one for one in text_string_to_metric_families(generate_latest(registry).decode())}
    every = (*CATALOGUE, *POOL_CATALOGUE, *GROUP_CATALOGUE)
    named = {one.name.removesuffix("_total") if one.kind == "counter" else one.name: one for one in every}
    assert len(named) == len(every)
    assert families.keys() == named.keys()
    for name, family in families.items():
        assert (family.type, family.documentation) == (named[name].kind, named[name].help)


@pytest.mark.parametrize(
    ("catalogue", "start"), [(POOL_CATALOGUE, "dds_publisher_"), (GROUP_CATALOGUE, "dds_autoscaler_")]
)
def test_names_are_as_the_ecosystem_has_them(catalogue: tuple[Named, ...], start: str) -> None:
    for one in catalogue:
        assert one.name.startswith(start)
        assert (one.kind == "counter") == one.name.endswith("_total"), one.name
        assert one.kind != "histogram" or (one.name.endswith("_seconds") and list(one.buckets) == sorted(one.buckets))
        assert one.help.endswith(".")
        assert not {"claim", "uid", "pod", "machine", "node"} & set(one.labels)
