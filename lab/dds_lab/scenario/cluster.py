"""What a scenario's cluster is made of: its Kubernetes, device models, fabrics and nodes.

Forms and bounds only; whether names that are used exist is said by `checks`, what is made of them by `lab.setup`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dds_lab.scenario.forms import Amount, DnsLabel, DnsName, Labels, Number, Text, Written

Version = Literal["1.34", "1.35", "1.36", "1.36.3"]


class Gates(Written):
    """Feature gates by component; what is not named is as in the release."""

    api: dict[Text, bool] = Field(default={}, description="Of the API server (and the controllers that follow it).")
    scheduler: dict[Text, bool] = Field(
        default={},
        description="Of the scheduler. A gate that is on in one and off in the other is served but not obeyed.",
    )


Profile = Annotated[str, StringConstraints(pattern=r"^[12347]g\.[1-9][0-9]{0,2}gb$")]


class Partitions(Written):
    """The partitions of a GPU (MIG)."""

    profiles: tuple[Profile, ...] = Field(min_length=1, max_length=7, description="Which, such as 1g.5gb.")
    on_demand: bool = Field(
        default=True,
        description="The driver makes one when a pod gets it, so that the whole GPU and every possible partition are listed, "
        "with counters (DynamicMIG). If false, each of `profiles` was made once before, and they alone are listed.",
    )


class Model(Written):
    """A device model that a fabric can attach: one entry of the ConfigMap's device-info."""

    model: Text = Field(description="What the fabric calls it (cdi-model-name), and how this file refers to it.")
    device: Annotated[DnsLabel, Field(max_length=50)] = Field(
        description="What Kubernetes calls it (k8s-device-name): stem of pool, label and class names."
    )
    driver: DnsName = Field(default="gpu.nvidia.com", description="The DRA driver of its devices.")
    product: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="The attribute productName, in the pool and on a node."
    )
    pool_attributes: dict[Text, Annotated[str, StringConstraints(max_length=64)]] = Field(
        default={}, description="Further attributes (dra-attributes) of devices in the pool."
    )
    memory: Amount = Field(default="40Gi", description="Capacity that the vendor's driver tells of an attached device.")
    brand: Text = Field(default="Nvidia", description="Attribute that the vendor's driver tells.")
    architecture: Text = Field(default="Ampere", description="Attribute that the vendor's driver tells.")
    compute: Text = Field(
        default="8.0.0", description="Attribute cudaComputeCapability that the vendor's driver tells."
    )
    partitions: Partitions | None = Field(default=None, description="The partitions that the vendor's driver lists.")
    type: Text = Field(default="gpu", description="The fabric's word for its kind (res-type).")
    request_type: Literal["gpu", "cxlmemory"] | None = Field(
        default=None,
        description="The type of its ComposabilityRequests (request-type); by default device-info says none.",
    )
    not_with: tuple[Text, ...] = Field(
        default=(), max_length=100, description="Models that may not share a node with it (cannot-coexist-with)."
    )
    index: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="Its number in device-info; by default its place in this list, from 1."
    )


class Class(Written):
    """A DeviceClass."""

    name: DnsName = Field(description="Its name.")
    selectors: tuple[Annotated[str, StringConstraints(min_length=1, max_length=10_240)], ...] = Field(
        default=(), max_length=32, description="CEL expressions; all must hold."
    )
    extended_resource: Text | None = Field(
        default=None, description="Pods that ask for this extended resource get a device of the class."
    )


class Fabric(Written):
    """Machines that are cabled together, and the pool of devices that they share."""

    id: Annotated[int, Field(ge=0, le=100_000)] = Field(default=1, description="Its number; nodes name it.")
    devices: dict[Text, Number] = Field(default={}, description="Devices in its pool at the start, by model.")


class Limit(Written):
    """How many devices of a model a node may have (the labels -size-max and -size-min)."""

    min: Number = Field(default=0, description="Devices that stay even when idle.")
    max: Number = Field(default=50, description="Devices at most.")


class NodeTaint(Written):
    """A taint of a node."""

    key: Text = Field(description="Its key.")
    value: str = Field(default="", max_length=63, description="Its value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="NoSchedule", description="What it does to pods that do not tolerate it."
    )


class Nodes(Written):
    """A group of equal nodes. They are numbered: node0000, node0001, …"""

    count: Annotated[int, Field(ge=1, le=10_000)] = Field(default=1, description="How many.")
    name: Annotated[DnsName, Field(max_length=200)] = Field(
        default="node", description="What stands before the number."
    )
    first: Number = Field(default=0, description="The first number.")
    cpu: Amount = Field(default="64", description="CPUs that pods may use.")
    memory: Amount = Field(default="512Gi", description="Memory that pods may use.")
    pods: Annotated[int, Field(ge=1, le=1000)] = Field(default=250, description="Pods at most.")
    fabric: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=1, description="The fabric that its machine is cabled to; null: none."
    )
    limits: dict[Text, Limit] = Field(default={}, description="Bounds on attached devices, by model.")
    fixed: dict[Text, Annotated[int, Field(ge=0, le=64)]] = Field(
        default={}, description="Devices that are built in and never move, by model."
    )
    labels: Labels = Field(default={}, description="Further labels.")
    taints: tuple[NodeTaint, ...] = Field(default=(), max_length=50, description="Taints.")

    def names(self) -> list[str]:
        """The names of the group's nodes."""
        return [f"{self.name}{number:04}" for number in range(self.first, self.first + self.count)]


class NodeDriver(Written):
    """A DRA driver whose devices are on nodes from the start and never move, such as a NIC's."""

    name: DnsName = Field(description="The driver's name.")
    suffix: DnsLabel = Field(description="Its slices are called <node>-<suffix>.")
    devices: tuple[dict[str, Any], ...] = Field(
        min_length=1, max_length=128, description="The devices that each node has, as a ResourceSlice lists them."
    )
    nodes: tuple[DnsName, ...] = Field(default=(), max_length=10_000, description="Only these nodes; by default all.")


class User(Written):
    """Somebody with a token, for clients of `dds lab up`. `admin`, who may do all, is always there."""

    name: Text = Field(description="The user name, and the name of the kubeconfig's context.")
    groups: tuple[Text, ...] = Field(default=(), max_length=20, description="Groups besides system:authenticated.")


class Cluster(Written):
    """The cluster before anything happens."""

    version: Version = Field(
        default="1.36", description="The Kubernetes release whose defaults hold, and whose faults; `1.36` is 1.36.2."
    )
    gates: Gates = Field(default=Gates(), description="Feature gates that differ from the release.")
    taint_rules: Literal["resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"] | None = Field(
        default=None, description="The version in which DeviceTaintRules are served; by default they are not."
    )
    prefix: DnsName = Field(default="cohdi.io", description="What the fabric's labels begin with (label-prefix).")
    config: bool = Field(
        default=True, description="Whether the ConfigMap composable-dra/composable-dra-dds is there at the start."
    )
    models: tuple[Model, ...] = Field(default=(), max_length=1000, description="Device models.")
    classes: tuple[Class, ...] | None = Field(
        default=None,
        max_length=1000,
        description="DeviceClasses; by default one for each model, named as its `device`.",
    )
    fabrics: tuple[Fabric, ...] = Field(default=(), max_length=1000, description="Fabrics.")
    nodes: tuple[Nodes, ...] = Field(default=(), max_length=10_000, description="Nodes, in groups.")
    drivers: tuple[NodeDriver, ...] = Field(default=(), max_length=100, description="Further DRA drivers on nodes.")
    namespaces: tuple[DnsLabel, ...] = Field(
        default=(), max_length=1000, description="Namespaces besides default, kube-system and composable-dra."
    )
    objects: tuple[dict[str, Any], ...] = Field(
        default=(), max_length=10_000, description="Further objects that are there at the start: manifests of any kind."
    )
    users: tuple[User, ...] = Field(default=(), max_length=100, description="Users besides admin.")

    def node_names(self) -> list[str]:
        """Every node's name, in order."""
        return [name for group in self.nodes for name in group.names()]
