"""A whole scenario, and what happens in it: steps one after the other, and a random mix of pods at the same time.

Only fields and bounds. `lab.steps` carries the steps out; `checks` tests whether names exist.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from dds_lab.scenario.cluster import Cluster, Profile
from dds_lab.scenario.parts import PartName, Parts
from dds_lab.scenario.trouble import Faults
from dds_lab.scenario.values import (
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
"""A node by its name, or the node of a claim or pod."""


class Run(Written):
    """A pod, and a claim of its own with the devices that it needs."""

    name: DnsName = Field(description="Name of pod and claim.")
    namespace: DnsLabel = Field(default="default", description="Namespace.")
    devices: dict[DnsName, Annotated[int, Field(ge=1, le=32)]] = Field(
        default={}, max_length=32, description="Devices by DeviceClass; one request each, in this order."
    )
    shares: dict[DnsName, dict[Text, Amount]] = Field(
        default={}, max_length=32, description="For shared devices: amount by DeviceClass and capacity."
    )
    lasts: Duration | None = Field(default=None, description="Run time; then the pod ends.")
    delete_after: Duration | None = Field(default=None, description="Run time; then pod and claim are deleted.")
    template: bool = Field(default=False, description="Create the claim from a ResourceClaimTemplate.")
    cpu: Amount | None = Field(default=None, description="CPU request.")
    memory: Amount | None = Field(default=None, description="Memory request.")
    scheduler: DnsName = Field(default="default-scheduler", description="schedulerName.")
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000_000)] = Field(default=0, description="Priority.")
    node_selector: Labels = Field(default={}, description="Required node labels.")
    grace: Number = Field(default=0, description="terminationGracePeriodSeconds.")


class Condition(Written):
    """A condition on the devices that a claim is allocated, as a scaler would set it."""

    claim: ClaimName | None = Field(default=None, description="The claim.")
    pod: ClaimName | None = Field(
        default=None,
        description="Instead of claim: the pod of a generated one.",
    )
    type: Text = Field(description="Such as FabricDeviceReady, FabricDeviceReschedule, FabricDeviceFailed.")
    status: Literal["True", "False", "Unknown"] = Field(default="True", description="Status.")
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)] = (
        Field(default="Scenario", description="One word.")
    )
    message: str = Field(default="", max_length=32_768, description="Message.")
    device: Text | None = Field(default=None, description="Only this device; by default all with binding conditions.")

    @model_validator(mode="after")
    def _one(self) -> Condition:
        if (self.claim is None) == (self.pod is None):
            raise ValueError("needs one of claim, pod")
        return self


class WaitFor(Written):
    """Wait until an object shows something."""

    object: ObjectName = Field(description="Such as resourceclaims/train-1 or pods/NAMESPACE/NAME.")
    has: Text | None = Field(default=None, description="Non-empty path, such as status.allocation.")
    lacks: Text | None = Field(default=None, description="Missing or empty path.")
    equals: str | int | bool | None = Field(default=None, description="With `has`: the value.")
    gone: bool = Field(default=False, description="The object does not exist.")
    within: Period = Field(default=300.0, description="Time limit; after it the run counts as failed.")

    @model_validator(mode="after")
    def _something(self) -> WaitFor:
        if sum((self.has is not None, self.lacks is not None, self.gone)) != 1:
            raise ValueError("needs exactly one of has, lacks, gone")
        if self.equals is not None and self.has is None:
            raise ValueError("equals needs has")
        return self


class Move(Written):
    """A device that is attached to a node, or taken from it, by hand: no operator has a part in it."""

    node: NodeRef = Field(description="The node.")
    model: Text = Field(description="The model.")


class Resize(Written):
    """Devices that come into a pool, or free ones that go."""

    fabric: Annotated[int, Field(ge=0, le=100_000)] = Field(default=1, description="Fabric.")
    model: Text = Field(description="The model.")
    by: Annotated[int, Field(ge=-100_000, le=100_000)] = Field(description="-2 removes two free ones.")


class DropOut(Written):
    """A device that falls off its bus."""

    node: NodeRef = Field(description="The node.")
    model: Text | None = Field(default=None, description="By default whatever is attached first.")
    lasts: Duration | None = Field(default=None, description="By default for good.")


class Partition(Written):
    """A device that an administrator cuts into partitions (MIG), or makes whole again; the vendor's plugin is restarted."""

    node: NodeRef = Field(description="The node.")
    model: Text | None = Field(default=None, description="By default whatever is attached first.")
    profiles: tuple[Profile, ...] = Field(default=(), max_length=7, description="Empty: one whole device.")


class Relist(Written):
    """A component whose watches break. It goes on with what it knew, then lists everything again."""

    part: PartName = Field(description="The component.")
    lasts: Duration = Field(default=0.0, description="Time without events.")


class Silence(Written):
    """A node whose kubelet and plugins are not heard any more, while its object stays."""

    node: NodeRef = Field(description="The node.")
    lasts: Duration | None = Field(default=None, description="By default for good.")


class Restart(Written):
    """A component that is stopped, forgets everything, and starts again."""

    part: PartName = Field(description="The component.")
    node: NodeRef | None = Field(default=None, description="Vendor's driver: only on this node; by default all.")
    down: Duration = Field(default=0.0, description="Downtime.")


class Step(Written):
    """One thing that happens. Steps come in the order in which they are written.

    A step comes when the one before it is done: at once, `after` a while, or when the lab's clock shows `at`.
    """

    at: Duration | None = Field(default=None, description="Earliest time.")
    after: Duration | None = Field(default=None, description="Delay after the previous step.")

    run: Run | None = Field(default=None, description="Create a pod with its claim.")
    withdraw: ClaimName | None = Field(default=None, description="Delete a `run`'s pod and claim.")
    apply: dict[str, Any] | None = Field(
        default=None, description="Create the object, or server-side apply it if it exists."
    )
    delete: ObjectName | None = Field(default=None, description="Delete an object.")
    cordon: NodeRef | None = Field(default=None, description="Make a node unschedulable.")
    uncordon: NodeRef | None = Field(default=None, description="Make it schedulable again.")
    drain: NodeRef | None = Field(default=None, description="Cordon a node and evict its pods.")
    lose_node: NodeRef | None = Field(default=None, description="Delete a node with its slices and pods.")
    silence: Silence | None = Field(
        default=None,
        description="Silence kubelet and plugins: no pod starts or ends; pods must leave an unreachable node.",
    )
    condition: Condition | None = Field(default=None, description="Set a condition on a claim's devices.")
    attach: Move | None = Field(default=None, description="Attach a device by hand, without the operator.")
    detach: Move | None = Field(default=None, description="Detach a device by hand.")
    resize: Resize | None = Field(default=None, description="Add devices to a pool, or remove free ones.")
    drop_out: DropOut | None = Field(default=None, description="A device falls off its bus.")
    partition: Partition | None = Field(
        default=None, description="Partition a device (MIG), or make it whole; the vendor's plugin restarts."
    )
    restart: Restart | None = Field(default=None, description="Restart a component, which forgets everything.")
    relist: Relist | None = Field(default=None, description="Break a component's watches; later it lists again.")
    wait_for: WaitFor | None = Field(default=None, description="Wait for a state of an object.")

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
"""Names of all actions that a step can have."""


class Ask(Written):
    """What a share of the mix's pods asks for."""

    devices: dict[DnsName, Annotated[int, Field(ge=1, le=32)]] = Field(max_length=32, description="As in `run`.")
    shares: dict[DnsName, dict[Text, Amount]] = Field(default={}, max_length=32, description="As in `run`.")
    weight: Annotated[float, Field(gt=0, le=1000)] = Field(default=1.0, description="Relative frequency.")


class Mix(Written):
    """Random pods with claims: how many, when, what they ask for, and how long they run."""

    pods: Count = Field(description="Number of pods.")
    start: Duration = Field(default=0.0, description="Earliest arrival.")
    over: Period = Field(description="Pods arrive within this time, at random.")
    lasts: Delay = Field(default=between(60.0, 600.0), description="Run time of each pod.")
    asks: tuple[Ask, ...] = Field(min_length=1, max_length=1000, description="What pods ask for.")
    name: Annotated[DnsName, Field(max_length=200)] = Field(default="mix", description="Prefix of pod names.")
    namespaces: tuple[DnsLabel, ...] = Field(
        default=("default",), min_length=1, max_length=1000, description="Each equally likely."
    )
    templates: Share = Field(default=0.0, description="Share of claims made from a template.")
    withdrawn: Share = Field(default=0.0, description="Share of pods deleted soon after they come.")
    patience: Delay = Field(default=between(0.0, 5.0), description="How soon.")
    ends: Literal["deleted", "finished"] = Field(
        default="deleted", description="After running, pod and claim are deleted, or the pod first finishes."
    )
    cpu: Amount | None = Field(default=None, description="CPU request.")
    memory: Amount | None = Field(default=None, description="Memory request.")
    node_selector: Labels = Field(default={}, description="Required node labels.")
    linger: Duration = Field(default=10.0, description="With `finished`: time until deletion.")
    keep: Number = Field(default=0, description="With `finished`: this many of the last ones stay.")


START = 1_795_219_200_000_000  # 2026-11-21T00:00:00Z


class Scenario(Written):
    """A cluster, what happens in it, and what goes wrong."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$", max_length=100)] = Field(
        default="scenario", description="By default the file's name."
    )
    about: Annotated[str, StringConstraints(max_length=500)] = Field(
        default="", description="What it shows, in one sentence."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(default=1, description="Seed of all chance.")
    start: Instant = Field(default=START, description="Start of the lab's clock.")
    duration: Period = Field(default=600.0, description="`dds lab up` goes on after it, until it is stopped.")
    speed: Annotated[float, Field(ge=0.001, le=10_000)] = Field(
        default=1.0, description="Of `dds lab up`: lab seconds per second."
    )
    cluster: Cluster = Field(default=Cluster(), description="The cluster at the start.")
    parts: Parts = Field(default=Parts(), description="Components.")
    steps: tuple[Step, ...] = Field(default=(), max_length=100_000, description="What happens, in this order.")
    mix: tuple[Mix, ...] = Field(default=(), max_length=100, description="Random pods.")
    workload: Text | None = Field(
        default=None,
        description="CSV file with one pod per row; its path is relative to the scenario's.",
    )
    faults: Faults = Field(default=Faults(), description="Planned faults.")
