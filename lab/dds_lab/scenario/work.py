"""A whole scenario, as people write it; and what happens in it: steps one after the other, and a random mix of pods beside them.

Forms and bounds only; what carries a step out is `lab.steps`, and whether the names in it exist is said by `checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from dds_lab.scenario.cluster import Cluster, Profile
from dds_lab.scenario.forms import (
    Amount,
    Count,
    Delay,
    DnsLabel,
    DnsName,
    Duration,
    Instant,
    Labels,
    Number,
    Period,
    Share,
    Text,
    Written,
    between,
)
from dds_lab.scenario.parts import PartName, Parts
from dds_lab.scenario.trouble import Faults

ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z]+(/[a-z0-9]([-a-z0-9.]*[a-z0-9])?){1,2}$", max_length=400)
]
"""`nodes/node0001`, `resourceclaims/train-1` (in the namespace default) or `pods/NAMESPACE/NAME`."""
ClaimName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9][-a-z0-9]*/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""`NAME` in the namespace default, or `NAMESPACE/NAME`."""


class NodeOf(Written):
    """The node that a claim is allocated to when the step comes, or that a pod is bound to."""

    claim: ClaimName | None = Field(default=None, description="The claim.")
    pod: ClaimName | None = Field(default=None, description="The pod.")

    @model_validator(mode="after")
    def _one(self) -> NodeOf:
        if (self.claim is None) == (self.pod is None):
            raise ValueError("needs one of claim, pod")
        return self


NodeRef = DnsName | NodeOf
"""A node by name, or the one of a claim or pod."""


class Run(Written):
    """A pod, and a claim of its own with the devices that it needs."""

    name: DnsName = Field(description="Name of the pod and of its claim.")
    namespace: DnsLabel = Field(default="default", description="Namespace.")
    devices: dict[DnsName, Annotated[int, Field(ge=1, le=32)]] = Field(
        default={}, max_length=32, description="Devices by DeviceClass. One request each, in this order."
    )
    shares: dict[DnsName, dict[Text, Amount]] = Field(
        default={}, max_length=32, description="For shared devices, by DeviceClass: how much of which capacity."
    )
    lasts: Duration | None = Field(default=None, description="The pod ends so long after it began to run.")
    delete_after: Duration | None = Field(
        default=None, description="Pod and claim are deleted so long after the pod began to run."
    )
    template: bool = Field(default=False, description="Whether the claim is made from a ResourceClaimTemplate.")
    cpu: Amount | None = Field(default=None, description="CPUs that it asks for.")
    memory: Amount | None = Field(default=None, description="Memory that it asks for.")
    scheduler: DnsName = Field(default="default-scheduler", description="schedulerName.")
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000_000)] = Field(default=0, description="Priority.")
    node_selector: Labels = Field(default={}, description="Labels that its node must have.")
    grace: Number = Field(default=0, description="terminationGracePeriodSeconds.")


class Condition(Written):
    """A condition on the devices that a claim is allocated, as a scaler would set it."""

    claim: ClaimName | None = Field(default=None, description="The claim.")
    pod: ClaimName | None = Field(
        default=None,
        description="Or the pod for which the claim was made (from a template, or for an extended resource).",
    )
    type: Text = Field(description="Such as FabricDeviceReady, FabricDeviceReschedule, FabricDeviceFailed.")
    status: Literal["True", "False", "Unknown"] = Field(default="True", description="Its status.")
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)] = (
        Field(default="Scenario", description="Its reason, one word.")
    )
    message: str = Field(default="", max_length=32_768, description="Its message.")
    device: Text | None = Field(default=None, description="Only this device; by default all with binding conditions.")

    @model_validator(mode="after")
    def _one(self) -> Condition:
        if (self.claim is None) == (self.pod is None):
            raise ValueError("needs one of claim, pod")
        return self


class WaitFor(Written):
    """Wait until an object shows something."""

    object: ObjectName = Field(description="Such as resourceclaims/train-1 or pods/NAMESPACE/NAME.")
    has: Text | None = Field(
        default=None, description="A path that must be there and not be empty, such as status.allocation."
    )
    lacks: Text | None = Field(default=None, description="A path that must not be there, or be empty.")
    equals: str | int | bool | None = Field(default=None, description="With `has`: the value that must stand there.")
    gone: bool = Field(default=False, description="The object must not be there at all.")
    within: Period = Field(default=300.0, description="Give up after so long; the run then counts as failed.")

    @model_validator(mode="after")
    def _something(self) -> WaitFor:
        if sum((self.has is not None, self.lacks is not None, self.gone)) != 1:
            raise ValueError("needs exactly one of has, lacks, gone")
        if self.equals is not None and self.has is None:
            raise ValueError("equals needs has")
        return self


class Move(Written):
    """A device that is attached to a node, or taken from it, by hand: no operator has a part in it."""

    node: NodeRef = Field(description="The node, by name, or by `claim` or `pod`.")
    model: Text = Field(description="The model.")


class Resize(Written):
    """Devices that come into a pool, or free ones that go."""

    fabric: Annotated[int, Field(ge=0, le=100_000)] = Field(default=1, description="The fabric.")
    model: Text = Field(description="The model.")
    by: Annotated[int, Field(ge=-100_000, le=100_000)] = Field(description="How many: -2 takes two free ones away.")


class DropOut(Written):
    """A device that falls off its bus."""

    node: NodeRef = Field(description="The node, by name, or by `claim` or `pod`.")
    model: Text | None = Field(default=None, description="The model; by default whatever is attached first.")
    lasts: Duration | None = Field(default=None, description="It comes back after so long; by default never.")


class Partition(Written):
    """A device that an administrator cuts into partitions (MIG), or makes whole again; the vendor's plugin is restarted."""

    node: NodeRef = Field(description="The node, by name, or by `claim` or `pod`.")
    model: Text | None = Field(default=None, description="The model; by default whatever is attached first.")
    profiles: tuple[Profile, ...] = Field(
        default=(), max_length=7, description="The partitions; none: one whole device."
    )


class Relist(Written):
    """A component whose watches break. It goes on with what it knew, then lists everything again."""

    part: PartName = Field(description="The component.")
    lasts: Duration = Field(default=0.0, description="So long it hears nothing.")


class Silence(Written):
    """A node whose kubelet and plugins are not heard any more, while its object stays."""

    node: NodeRef = Field(description="The node, by name, or by `claim` or `pod`.")
    lasts: Duration | None = Field(default=None, description="It is heard again after so long; by default never.")


class Restart(Written):
    """A component that is stopped, forgets everything, and starts again."""

    part: PartName = Field(description="The component.")
    node: NodeRef | None = Field(default=None, description="For the vendor's driver: on this node; by default on all.")
    down: Duration = Field(default=0.0, description="It is away for so long.")


class Step(Written):
    """One thing that happens. Steps come in the order in which they are written.

    A step comes when the one before it is done: at once, `after` a while, or when the lab's clock shows `at`.
    """

    at: Duration | None = Field(default=None, description="Not before so long after the start.")
    after: Duration | None = Field(default=None, description="So long after the step before it was done.")

    run: Run | None = Field(default=None, description="Create a pod with its claim.")
    withdraw: ClaimName | None = Field(default=None, description="Delete the pod of a `run`, and its claim.")
    apply: dict[str, Any] | None = Field(
        default=None, description="Create an object from its manifest, or server-side apply it when it is there."
    )
    delete: ObjectName | None = Field(default=None, description="Delete an object.")
    cordon: NodeRef | None = Field(default=None, description="Make a node unschedulable.")
    uncordon: NodeRef | None = Field(default=None, description="Make it schedulable again.")
    drain: NodeRef | None = Field(default=None, description="Cordon a node and evict its pods.")
    lose_node: NodeRef | None = Field(
        default=None, description="A node goes away: its object, its slices, and its pods with it."
    )
    silence: Silence | None = Field(
        default=None,
        description="A node falls silent: nothing starts or ends there, and pods have to leave it once it is unreachable.",
    )
    condition: Condition | None = Field(default=None, description="Set a condition on a claim's devices.")
    attach: Move | None = Field(default=None, description="Attach a device by hand.")
    detach: Move | None = Field(default=None, description="Take a device away by hand.")
    resize: Resize | None = Field(default=None, description="Change how many devices a pool has.")
    drop_out: DropOut | None = Field(default=None, description="Let a device fall off its bus.")
    partition: Partition | None = Field(default=None, description="Partition a device into partitions.")
    restart: Restart | None = Field(default=None, description="Restart a component.")
    relist: Relist | None = Field(default=None, description="Break a component's watches, so that it lists again.")
    wait_for: WaitFor | None = Field(default=None, description="Wait until an object shows something.")

    @model_validator(mode="after")
    def _one_action(self) -> Step:
        given = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "does nothing"
            raise ValueError(f"{what}: a step needs exactly one of {', '.join(ACTIONS)}")
        if self.at is not None and self.after is not None:
            raise ValueError("has both at and after: give one of them")
        return self

    @property
    def action(self) -> str:
        """The name of the field that says what happens."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)


ACTIONS = tuple(name for name in Step.model_fields if name not in ("at", "after"))
"""Everything that a step can be."""


class Ask(Written):
    """What a share of the mix's pods asks for."""

    devices: dict[DnsName, Annotated[int, Field(ge=1, le=32)]] = Field(
        max_length=32, description="Devices by DeviceClass. One request each."
    )
    shares: dict[DnsName, dict[Text, Amount]] = Field(
        default={}, max_length=32, description="For shared devices, by DeviceClass: how much of which capacity."
    )
    weight: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=1.0, description="How many of the pods ask for this, in proportion to the others."
    )


class Mix(Written):
    """Random pods with claims: how many, when, what they ask for, and how long they run."""

    pods: Count = Field(description="Pods in all.")
    start: Duration = Field(default=0.0, description="The first may come so long after the start.")
    over: Period = Field(description="They arrive within so long, at random.")
    lasts: Delay = Field(default=between(60.0, 600.0), description="How long each runs.")
    asks: tuple[Ask, ...] = Field(min_length=1, max_length=1000, description="What they ask for.")
    name: Annotated[DnsName, Field(max_length=200)] = Field(
        default="mix", description="What stands before the numbers in their names."
    )
    namespaces: tuple[DnsLabel, ...] = Field(
        default=("default",), min_length=1, max_length=1000, description="Namespaces, each as likely."
    )
    templates: Share = Field(default=0.0, description="Share of claims that are made from a template.")
    withdrawn: Share = Field(default=0.0, description="Share of pods that are deleted soon after they came.")
    patience: Delay = Field(default=between(0.0, 5.0), description="How soon after.")
    ends: Literal["deleted", "finished"] = Field(
        default="deleted", description="Whether a pod that has run is deleted with its claim, or first ends by itself."
    )
    cpu: Amount | None = Field(default=None, description="CPUs that each pod asks for.")
    memory: Amount | None = Field(default=None, description="Memory that each pod asks for.")
    node_selector: Labels = Field(default={}, description="Labels that their nodes must have.")
    linger: Duration = Field(default=10.0, description="With `finished`: it is deleted so long after its end.")
    keep: Number = Field(default=0, description="With `finished`: so many of the last ones stay.")


START = 1_795_219_200_000_000  # 2026-11-21T00:00:00Z


class Scenario(Written):
    """A cluster, what happens in it, and what goes wrong."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$", max_length=100)] = Field(
        default="scenario", description="Its name; by default the file's."
    )
    about: Annotated[str, StringConstraints(max_length=500)] = Field(
        default="", description="What it shows, in a sentence."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(default=1, description="All chance comes from it.")
    start: Instant = Field(default=START, description="The instant at which it begins.")
    duration: Period = Field(
        default=600.0, description="How long it lasts; `dds lab up` goes on after that until it is stopped."
    )
    speed: Annotated[float, Field(ge=0.001, le=10_000)] = Field(
        default=1.0, description="Of `dds lab up`: how many seconds of the lab pass in a second."
    )
    cluster: Cluster = Field(default=Cluster(), description="The cluster before anything happens.")
    parts: Parts = Field(default=Parts(), description="What lives in it.")
    steps: tuple[Step, ...] = Field(default=(), max_length=100_000, description="What happens, in this order.")
    mix: tuple[Mix, ...] = Field(default=(), max_length=100, description="Random pods besides.")
    workload: Text | None = Field(
        default=None,
        description="A CSV file of pods that come besides, a row each; its path is relative to the scenario's.",
    )
    faults: Faults = Field(default=Faults(), description="What goes wrong.")
