"""From what a scenario says to the settings of the actors: one function for each part, and nothing else."""

from __future__ import annotations

from dds_lab.actors.claims import ClaimsSettings
from dds_lab.actors.fabric import FabricSettings, Pool
from dds_lab.actors.kubelet import KubeletSettings
from dds_lab.actors.models import DeviceInfo, Model
from dds_lab.actors.nodes import NodesSettings
from dds_lab.actors.operator import OperatorSettings
from dds_lab.actors.publisher import Limits, PublisherSettings
from dds_lab.actors.scaler import ScalerSettings
from dds_lab.actors.scheduler.settings import GATES, Profile, SchedulerSettings
from dds_lab.actors.taints import TaintsSettings
from dds_lab.actors.vendor import DeviceModel, NodeDevicesSettings, VendorSettings
from dds_lab.actors.workloads import Ask, MixSettings, Run
from dds_lab.api.gates import Gates
from dds_lab.latency import Latency
from dds_lab.manager import Limit, Login, ManagerSettings, NodeGroup
from dds_lab.scenario import Scenario, work
from dds_lab.scenario import parts as written

SCHEME = "lab://"
"""What a node's providerID has before its machine's UUID."""


def api_gates(scenario: Scenario) -> Gates:
    """The API server's feature gates and what it serves."""
    cluster = scenario.cluster
    rules = {f"{cluster.taint_rules}/devicetaintrules": True} if cluster.taint_rules else {}
    gates = dict(cluster.gates.api)
    if rules and cluster.version != "1.34":
        gates = {"DRADeviceTaintRules": True, "DRADeviceTaints": True, **gates}
    return Gates.for_version(cluster.version, gates, rules)


def device_info(scenario: Scenario) -> DeviceInfo:
    """The ConfigMap's content."""
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
            )
            for one in models
        ),
        prefix=scenario.cluster.prefix,
        fabrics=tuple(one.id for one in scenario.cluster.fabrics),
    )


def fabric(scenario: Scenario) -> FabricSettings:
    """The hardware."""
    knobs = scenario.parts.fabric
    return FabricSettings(
        pools=tuple(
            Pool(str(one.id), model, count) for one in scenario.cluster.fabrics for model, count in one.devices.items()
        ),
        attach=knobs.attach.latency(),
        detach=knobs.detach.latency(),
        refusal=knobs.refusal.latency(),
        in_flight=knobs.in_flight,
        in_flight_per_machine=knobs.in_flight_per_machine,
        timeout=knobs.timeout,
    )


def manager(scenario: Scenario, knobs: written.Manager, login: Login) -> ManagerSettings:
    """The hardware's manager; its node groups are the scenario's groups of nodes."""
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
        types={one.model: one.type for one in cluster.models},
        products={one.model: one.product for one in cluster.models},
        quotas=knobs.quotas,
        limits=tuple(
            Limit(model, limit.max, limit.min, frozenset(group.names()))
            for group in cluster.nodes
            for model, limit in group.limits.items()
        ),
        groups=tuple(NodeGroup(name, nodes) for name, nodes in groups.items()),
        scheme=SCHEME if knobs.api == "nec" else "",
    )


def scheduler(scenario: Scenario, knobs: written.Scheduler, allocation_delay: Latency) -> SchedulerSettings:
    """The scheduler; its gates are its own, so that what the server keeps may not be obeyed."""
    gates = Gates.for_version(scenario.cluster.version, scenario.cluster.gates.scheduler)
    return SchedulerSettings(
        profiles={name: Profile(binding_timeout=one.binding_timeout) for name, one in knobs.profiles.items()},
        gates={name: gates.on(name) for name in GATES},
        clock_offset=knobs.clock,
        allocation_delay=allocation_delay,
    )


def claims(knobs: written.Claims) -> ClaimsSettings:
    """The claim controller."""
    return ClaimsSettings(look=knobs.look.latency())


def nodes(knobs: written.Controllers) -> NodesSettings:
    """Node lifecycle."""
    return NodesSettings(grace=knobs.silent, orphaned=knobs.orphaned.latency())


def taints(scenario: Scenario) -> TaintsSettings:
    """Eviction by device taints."""
    return TaintsSettings(rules=scenario.cluster.taint_rules is not None)


def kubelet(knobs: written.Kubelet) -> KubeletSettings:
    """The kubelets."""
    return KubeletSettings(start=knobs.start.latency(), stop=knobs.stop.latency())


def operator(scenario: Scenario, knobs: written.Operator) -> OperatorSettings:
    """The operator; it writes DeviceTaintRules in the only version that it knows."""
    rules = scenario.cluster.taint_rules or ""
    return OperatorSettings(
        workers=knobs.workers,
        look=knobs.look.latency(),
        poll=knobs.poll,
        watch_slices=knobs.watch_slices,
        plugin_rest=knobs.plugin_rest,
        taint_version="v1alpha3" if rules.endswith("v1alpha3") else "",
        sync=knobs.sync,
        orphan=knobs.orphan,
        stale_writes=knobs.stale_writes,
        deletes_with_node=knobs.deletes_with_node,
    )


def vendors(scenario: Scenario, knobs: written.Vendor) -> list[VendorSettings]:
    """The vendors' drivers, one for each driver name among the models."""
    models = scenario.cluster.models
    return [
        VendorSettings(
            models=tuple(
                DeviceModel(one.model, one.product, one.memory, one.brand, one.architecture, one.compute)
                for one in models
                if one.driver == driver
            ),
            driver=driver,
            start=knobs.start.latency(),
            first_start=knobs.first_start.latency(),
            binding=knobs.binding,
            hot_plug=knobs.hot_plug,
            names=knobs.names,
            always_next=True,
        )
        for driver in dict.fromkeys(one.driver for one in models)
    ]


def node_drivers(scenario: Scenario) -> list[NodeDevicesSettings]:
    """Further drivers on nodes."""
    return [
        NodeDevicesSettings(one.name, one.suffix, one.devices, frozenset(one.nodes)) for one in scenario.cluster.drivers
    ]


def publisher(scenario: Scenario, knobs: written.Publisher) -> PublisherSettings:
    """The pools' publisher."""
    devices = {one.model: one.device for one in scenario.cluster.models}
    return PublisherSettings(
        interval=knobs.interval,
        reaction=knobs.reaction.latency(),
        stable_names=knobs.stable_names,
        limits=tuple(
            Limits(devices[model], limit.max, limit.min, frozenset(group.names()))
            for group in scenario.cluster.nodes
            for model, limit in group.limits.items()
        ),
    )


def scaler(knobs: written.Scaler) -> ScalerSettings:
    """The stand-in scaler."""
    return ScalerSettings(
        interval=knobs.interval,
        removal=knobs.removal,
        allocation=knobs.allocation,
        ready=knobs.ready,
        refresh=knobs.refresh,
    )


def run(wanted: work.Run) -> Run:
    """A pod with its claim."""
    return Run(
        name=wanted.name,
        namespace=wanted.namespace,
        devices=wanted.devices,
        shares=wanted.shares,
        lasts=wanted.lasts,
        delete_after=wanted.delete_after,
        template=wanted.template,
        cpu=wanted.cpu or "",
        memory=wanted.memory or "",
        scheduler=wanted.scheduler,
        priority=wanted.priority,
        node_selector=wanted.node_selector,
        grace=wanted.grace,
    )


def mix(wanted: work.Mix) -> MixSettings:
    """Random pods."""
    return MixSettings(
        pods=wanted.pods,
        over=wanted.over,
        asks=tuple(Ask(one.devices, one.weight, one.shares) for one in wanted.asks),
        start=wanted.start,
        lasts=wanted.lasts.latency(),
        name=wanted.name,
        namespaces=wanted.namespaces,
        templates=wanted.templates,
        withdrawn=wanted.withdrawn,
        patience=wanted.patience.latency(),
        ends=wanted.ends,
        linger=wanted.linger,
        keep=wanted.keep,
        cpu=wanted.cpu or "",
        memory=wanted.memory or "",
        node_selector=wanted.node_selector,
    )
