"""Makes from a scenario what actors take in another form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dds_lab.actors.models import DeviceInfo, Model
from dds_lab.actors.scheduler.scheduler_settings import GATES, SchedulerSettings
from dds_lab.api.gates import Gates
from dds_lab.latency import Latency
from dds_lab.manager import Limit, Login, ManagerSettings, NodeGroup
from dds_lab.scenario import Scenario
from dds_lab.scenario import parts as written
from dds_lab.scenario.scenario import Run
from dds_lab.scenario.workload import read_workload

SCHEME = "lab://"
"""Prefix of a node's providerID, before its machine's UUID."""

V1ALPHA3 = "resource.k8s.io/v1alpha3"


def taint_rules(scenario: Scenario) -> str:
    """The optional API version that serves DeviceTaintRules, "" for none. The real operator cannot work without."""
    operator, version = scenario.parts.operator, scenario.cluster.taint_rules
    if version is None:
        return V1ALPHA3 if operator is not None and not operator.ideal else ""
    return "" if version == "none" else version


def api_gates(scenario: Scenario) -> Gates:
    """The API server's feature gates and optional APIs."""
    cluster, version = scenario.cluster, taint_rules(scenario)
    rules = [f"{version}/devicetaintrules"] if version else []
    gates = dict(cluster.gates.api)
    if rules and cluster.version != "1.34":
        gates = {"DRADeviceTaintRules": True, "DRADeviceTaints": True, **gates}
    return Gates.for_version(cluster.version, gates, rules)


def device_info(scenario: Scenario) -> DeviceInfo:
    models = scenario.cluster.models
    numbers = {one.model: place if one.index is None else one.index for place, one in enumerate(models, start=1)}
    return DeviceInfo(
        models=tuple(
            Model(
                index=numbers[one.model],
                model=one.model,
                device=one.device,
                driver=one.driver,
                attributes={"productName": one.product, **one.pool_attributes},
                conflicts=tuple(numbers[other] for other in one.not_with),
                type=one.type,
                request_type=one.request_type or "",
            )
            for one in models
        ),
        prefix=scenario.cluster.prefix,
        fabrics=tuple(one.id for one in scenario.cluster.fabrics),
    )


def pools(scenario: Scenario) -> dict[tuple[str, str], int]:
    """The number of devices in the pools at the start, by fabric and model."""
    fabrics = scenario.cluster.fabrics
    return {(str(one.id), model): count for one in fabrics for model, count in one.devices.items()}


def manager(scenario: Scenario, knobs: written.ManagerPart, login: Login) -> ManagerSettings:
    """Its node groups are the scenario's groups of nodes."""
    cluster = scenario.cluster
    groups: dict[str, tuple[str, ...]] = {}
    for group in cluster.nodes:
        groups[group.name] = (*groups.get(group.name, ()), *group.names())
    return ManagerSettings(
        api=knobs.api,
        tenant=knobs.tenant,
        cluster=knobs.cluster,
        login=login,
        token_life=knobs.token_life,
        answer=knobs.answer.latency(),
        quotas=knobs.quotas,
        types={one.model: one.type for one in cluster.models},
        products={one.model: one.product for one in cluster.models},
        limits=tuple(
            Limit(model, limit.max, limit.min, frozenset(group.names()))
            for group in cluster.nodes
            for model, limit in group.limits.items()
        ),
        groups=tuple(NodeGroup(name, nodes) for name, nodes in groups.items()),
        scheme=SCHEME if knobs.api == "nec" else "",
    )


def scheduler(scenario: Scenario, knobs: written.SchedulerPart, allocation_delay: Latency) -> SchedulerSettings:
    """The scheduler has its own gates, so it may ignore fields that the API server stores."""
    gates = Gates.for_version(scenario.cluster.version, scenario.cluster.gates.scheduler)
    return SchedulerSettings(
        profiles=knobs.profiles,
        choice=knobs.choice,
        lead=knobs.lead,
        gates={name: gates.on(name) for name in GATES},
        release=scenario.cluster.version,
        clock_offset=knobs.clock,
        allocation_delay=allocation_delay,
    )


def operators_taint_version(scenario: Scenario, knobs: written.OperatorPart) -> str:
    """The operator writes DeviceTaintRules only in version v1alpha3, the only one that it knows. The ideal one does without."""
    return "v1alpha3" if not knobs.ideal or taint_rules(scenario) == V1ALPHA3 else ""


def limit_labels(scenario: Scenario) -> dict[str, dict[str, str]]:
    """By node the labels of its limits, without their prefix."""
    devices = {one.model: one.device for one in scenario.cluster.models}
    found = {}
    for group in scenario.cluster.nodes:
        limits = {
            f"{devices[model]}-size-{end}": str(number)
            for model, one in group.limits.items()
            for end, number in (("max", one.max), ("min", one.min))
        }
        found.update(dict.fromkeys(group.names(), limits))
    return found


def arrivals(path: str) -> Iterator[tuple[float, Run, float | None]]:
    """Time of arrival, pod and time of withdrawal (seconds) for each row of a file, in order."""
    return ((one.at, one.run, one.withdraw_after) for one in read_workload(Path(path)))
