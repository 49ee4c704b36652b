"""The cluster of a scenario: Kubernetes' version and gates, device models, fabrics, nodes and users.

Only fields and their bounds. `checks` tests whether names exist; `lab.setup` creates the objects.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dds_lab.api.gates import DEFAULT
from dds_lab.scenario.values import Amount, DnsLabel, DnsName, Labels, Number, Text, Written

Version = Literal["1.34", "1.35", "1.36", "1.36.3", "1.37", "1.37.1"]


class Gates(Written):
    """Feature gates by component; a gate that is not named is as in the release."""

    api: dict[Text, bool] = Field(default={}, description="Of the API server and the controllers that follow it.")
    scheduler: dict[Text, bool] = Field(
        default={},
        description="Of the scheduler. A gate that is on in one and off in the other is served but not obeyed.",
    )


Profile = Annotated[str, StringConstraints(pattern=r"^[12347]g\.[1-9][0-9]{0,2}gb$")]


class Partitions(Written):
    """The partitions of a GPU (MIG)."""

    profiles: tuple[Profile, ...] = Field(min_length=1, max_length=7, description="Profiles, such as 1g.5gb.")
    on_demand: bool = Field(
        default=True,
        description="DynamicMIG: the driver creates partitions for pods, and lists the whole GPU and all possible partitions, "
        "with counters. If false: only one partition of each profile exists.",
    )


class Model(Written):
    """A device model that a fabric can attach: one entry of the ConfigMap's device-info."""

    model: Text = Field(description="The fabric's name (cdi-model-name), and the name in this file.")
    device: Annotated[DnsLabel, Field(max_length=50)] = Field(
        description="Kubernetes' name (k8s-device-name): stem of pool, label and class."
    )
    driver: DnsName = Field(default="gpu.nvidia.com", description="DRA driver.")
    product: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="Attribute productName, in the pool and on a node."
    )
    pool_attributes: dict[Text, Annotated[str, StringConstraints(max_length=64)]] = Field(
        default={}, description="Further attributes in the pool (dra-attributes)."
    )
    memory: Amount = Field(default="40Gi", description="Listed by the vendor's driver.")
    brand: Text = Field(default="Nvidia", description="The same.")
    architecture: Text = Field(default="Ampere", description="The same.")
    compute: Text = Field(default="8.0.0", description="The same: cudaComputeCapability.")
    partitions: Partitions | None = Field(default=None, description="Partitions (MIG) that the vendor's driver lists.")
    passthrough: bool = Field(
        default=False,
        description="The vendor's driver lists each device a second time for virtual machines, as `gpu-vfio-N` with another "
        "UUID; while a pod uses one form, it hides the other.",
    )
    type: Text = Field(default="gpu", description="The fabric's name for the kind (res-type).")
    request_type: Literal["gpu", "cxlmemory"] | None = Field(
        default=None,
        description="Type of ComposabilityRequests (request-type); by default unset.",
    )
    not_with: tuple[Text, ...] = Field(
        default=(), max_length=100, description="Models that may not share a node with it (cannot-coexist-with)."
    )
    index: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="Number in device-info; by default the position in this list, from 1."
    )


class Class(Written):
    """A DeviceClass."""

    name: DnsName = Field(description="Name.")
    selectors: tuple[Annotated[str, StringConstraints(min_length=1, max_length=10_240)], ...] = Field(
        default=(), max_length=32, description="CEL expressions; all must hold."
    )
    extended_resource: Text | None = Field(default=None, description="Extended resource that the class serves.")


class Fabric(Written):
    """Machines that are cabled together, and the pool of devices that they share."""

    id: Annotated[int, Field(ge=0, le=100_000)] = Field(default=1, description="Number; nodes refer to it.")
    devices: dict[Text, Number] = Field(default={}, description="Devices in the pool at the start, by model.")


class Limit(Written):
    """How many devices of a model a node may have (the labels -size-max and -size-min)."""

    min: Number = Field(default=0, description="Devices that stay even when idle.")
    max: Number = Field(default=50, description="Maximum.")


class NodeTaint(Written):
    """A taint of a node."""

    key: Text = Field(description="Key.")
    value: str = Field(default="", max_length=63, description="Value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(default="NoSchedule", description="Effect.")


class Nodes(Written):
    """A group of equal nodes. They are numbered: node0000, node0001, …"""

    count: Annotated[int, Field(ge=1, le=10_000)] = Field(default=1, description="Number of nodes.")
    name: Annotated[DnsName, Field(max_length=200)] = Field(default="node", description="Prefix of the names.")
    first: Number = Field(default=0, description="First number.")
    cpu: Amount = Field(default="64", description="CPUs for pods.")
    memory: Amount = Field(default="512Gi", description="Memory for pods.")
    pods: Annotated[int, Field(ge=1, le=1000)] = Field(default=250, description="Maximum number of pods.")
    fabric: Annotated[int, Field(ge=0, le=100_000)] | None = Field(default=1, description="Its fabric; null: none.")
    limits: dict[Text, Limit] = Field(
        default={}, description="By model: limits of attached devices (labels -size-min, -size-max)."
    )
    fixed: dict[Text, Annotated[int, Field(ge=0, le=64)]] = Field(
        default={}, description="Built-in devices that never move, by model."
    )
    labels: Labels = Field(default={}, description="Further labels.")
    taints: tuple[NodeTaint, ...] = Field(default=(), max_length=50, description="Taints.")

    def names(self) -> list[str]:
        """The names of the group's nodes."""
        return [f"{self.name}{number:04}" for number in range(self.first, self.first + self.count)]


class NodeDriver(Written):
    """A DRA driver whose devices are on nodes from the start and never move, such as a NIC's."""

    name: DnsName = Field(description="Name.")
    suffix: DnsLabel = Field(description="Slices are named NODE-SUFFIX.")
    devices: tuple[dict[str, Any], ...] = Field(
        min_length=1, max_length=128, description="Devices of each node, as in a ResourceSlice."
    )
    nodes: tuple[DnsName, ...] = Field(default=(), max_length=10_000, description="Only these nodes; by default all.")


class User(Written):
    """A user with a token, for clients of `dds lab up`. `admin`, who may do everything, always exists."""

    name: Text = Field(description="User and kubeconfig context.")
    groups: tuple[Text, ...] = Field(default=(), max_length=20, description="Besides system:authenticated.")


class Cluster(Written):
    """The cluster at the start."""

    version: Version = Field(
        default=DEFAULT,
        description="Kubernetes release whose APIs, defaults and faults apply; 1.36 is 1.36.2, 1.37 is 1.37.0.",
    )
    gates: Gates = Field(default=Gates(), description="Feature gates that differ from the release.")
    taint_rules: Literal["none", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"] | None = Field(
        default=None,
        description="Optional API version that serves DeviceTaintRules; 1.37 serves v1 besides. By default v1alpha3 with a real "
        "operator, whose detaches hang without, else none.",
    )
    prefix: DnsName = Field(default="cohdi.io", description="Prefix of the fabric's labels (label-prefix).")
    config: bool = Field(default=True, description="Create the ConfigMap composable-dra/composable-dra-dds.")
    models: tuple[Model, ...] = Field(
        default=(), max_length=1000, description="Device models, the entries of device-info."
    )
    classes: tuple[Class, ...] | None = Field(
        default=None,
        max_length=1000,
        description="DeviceClasses; by default one per model, named like its `device`.",
    )
    fabrics: tuple[Fabric, ...] = Field(default=(), max_length=1000, description="Fabrics.")
    nodes: tuple[Nodes, ...] = Field(
        default=(), max_length=10_000, description="Groups of equal nodes: node0000, node0001, …"
    )
    drivers: tuple[NodeDriver, ...] = Field(
        default=(), max_length=100, description="Further DRA drivers, such as a NIC's, with fixed devices."
    )
    namespaces: tuple[DnsLabel, ...] = Field(
        default=(), max_length=1000, description="Besides default, kube-system and composable-dra."
    )
    objects: tuple[dict[str, Any], ...] = Field(
        default=(), max_length=10_000, description="Further objects of any kind."
    )
    users: tuple[User, ...] = Field(default=(), max_length=100, description="Besides admin, for `dds lab up`.")

    def node_names(self) -> list[str]:
        """Every node's name, in order."""
        return [name for group in self.nodes for name in group.names()]
