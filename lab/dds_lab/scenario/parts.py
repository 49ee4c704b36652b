"""Settings of the simulated parts: scheduler, operator, fabric with its manager, vendor's driver, publisher, scaler, kubelet.

Only fields, bounds and defaults; `lab.lab_settings` turns them into the actors' settings. A part that is `false` is not started,
so that a program of your own can take its place.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    WrapSerializer,
    model_validator,
)

from dds_lab.scenario.values import (
    Delay,
    DnsName,
    Duration,
    Number,
    Offset,
    Period,
    Share,
    Text,
    Written,
    between,
    fixed,
)

_PartT = TypeVar("_PartT")


def _absent(written: Any) -> Any:
    if written is False:
        return None
    return {} if written is True or written is None else written


Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


def _as_absent(part: Written | None, dump: SerializerFunctionWrapHandler) -> Any:
    return False if part is None else dump(part)


Part = Annotated[_PartT | None, BeforeValidator(_absent), WrapSerializer(_as_absent, when_used="json")]
"""A part's settings, or `false` for a part that is not started."""


class Profile(Written):
    """A scheduler profile: what pods name as schedulerName."""

    binding_timeout: Period = Field(
        default=600.0,
        description="bindingTimeout of the plugin DynamicResources.",
    )


Choice = Literal["least", "most", "random"]


class SchedulerPart(Written):
    """The scheduler."""

    profiles: dict[DnsName, Profile] = Field(
        default={"default-scheduler": Profile()}, description="By schedulerName.", min_length=1
    )
    choice: Choice = Field(
        default="least",
        description="Preferred nodes: `least` or `most` allocated (scoringStrategy), or `random`: any that fits.",
    )
    lead: Share | None = Field(
        default=None, description="How often the first of two equal nodes is taken; otherwise each is as likely."
    )
    clock: Offset = Field(default=0.0, description="Offset of its host's clock, ahead (+) or behind (-).")


class Fabrics(Written):
    """The hardware behind the operator."""

    attach: Delay = Field(default=between(1.0, 6.0), description="Time of an attach.")
    detach: Delay = Field(default=between(0.4, 0.6), description="Time of a detach.")
    attach_of: dict[Text, Delay] = Field(default={}, description="By model, where it differs.")
    detach_of: dict[Text, Delay] = Field(default={}, description="By model, where it differs.")
    refusal: Delay = Field(default=fixed(0.01), description="Time until the fabric refuses.")
    in_flight: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="Maximum parallel orders, others wait; 0: no limit."
    )
    in_flight_per_machine: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="The same for one machine."
    )
    slots: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="Devices of a model that a machine has room for, besides built-in ones; 0: no limit."
    )
    timeout: Period = Field(default=180.0, description="The operator's wait for an answer.")


_FORMER = {"workers", "watch_slices", "plugin_rest", "stale_writes"}


class OperatorPart(Written):
    """The composable-resource operator."""

    kind: Literal["real", "ideal"] = Field(
        default="real",
        description="`real`: as the real one, faults included: one worker, polls, writes that lose; `ideal`: 16 workers, reacts "
        "to slices at once, and orders twice only after a lost answer.",
    )
    api: Literal["fm", "cm"] = Field(
        default="fm",
        description="With `real`: the manager's interface. `fm`: an order blocks the worker; `cm`: it is a wanted number, "
        "accepted at once, and its result is found at the next poll.",
    )
    look: Delay = Field(default=between(0.005, 0.015), description="Time to process an object.")
    poll: Period = Field(default=30.0, description="Interval of looking again.")
    sync: Duration = Field(default=60.0, description="Interval of asking the fabric; 0s: never.")
    orphan: Duration = Field(default=600.0, description="Detach an unknown device after this.")
    webhook: bool = Field(default=True, description="Run its validating webhook.")
    deletes_with_node: bool = Field(default=True, description="Delete requests and resources with their node.")

    @model_validator(mode="before")
    @classmethod
    def _former(cls, written: Any) -> Any:
        """Earlier scenarios describe each `kind` by these fields: what they say is read, and they are gone."""
        if not isinstance(written, dict) or not _FORMER & written.keys():
            return written
        ideal = written.get("watch_slices") is True or written.get("workers", 1) != 1
        return {"kind": "ideal" if ideal else "real"} | {key: one for key, one in written.items() if key not in _FORMER}

    @property
    def ideal(self) -> bool:
        return self.kind == "ideal"


class ManagerPart(Written):
    """A manager of the hardware with a REST API, for programs that ask one. It shares the hardware with the operator."""

    api: Literal["fm", "cm", "nec"] = Field(
        default="fm",
        description="`fm`: fabric manager; `cm`: cluster manager too, with limits of machines; `nec`: CDIM.",
    )
    tenant: Uuid = Field(default="3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10", description="Tenant.")
    cluster: Uuid = Field(default="9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24", description="With `cm`.")
    token_life: Period = Field(default=300.0, description="Lifetime of a login.")
    answer: Delay = Field(default=between(0.005, 0.02), description="Response time.")
    quotas: dict[Text, Number] = Field(
        default={}, description="Maximum attached devices of the tenant, by model; by default no limit."
    )
    certificate: Literal["good", "expired", "other_name", "unknown_authority"] = Field(
        default="good", description="With `fm` and `cm`: the certificate that `dds lab up` shows."
    )


class VendorPart(Written):
    """The vendor's DRA driver on each node. It lists its devices when its plugin starts, and never again."""

    start: Delay = Field(default=between(2.0, 5.0), description="From a plugin's restart to its slice.")
    first_start: Delay = Field(default=fixed(0.02), description="The same on a new node.")
    binding: Duration = Field(
        default=0.0, description="A plugin that starts this soon after an attach misses the device (real fault)."
    )
    hot_plug: bool = Field(default=False, description="Notice devices that come and go.")
    names: Literal["minor", "position"] = Field(
        default="minor", description="Device names: minor number, or position in the list."
    )


class PublisherPart(Written):
    """The publisher of the pools' slices and of the fabric's node labels."""

    interval: Duration = Field(default=5.0, description="Interval of asking the fabric; 0s: at every change.")
    reaction: Delay = Field(default=between(0.005, 0.02), description="With interval 0s: delay after a change.")
    stable_names: bool = Field(
        default=False, description="Keep device names; the reference numbers free devices (real fault)."
    )


class ScalerPart(Written):
    """The simulated reference scaler, with its faults."""

    interval: Period = Field(default=5.0, description="SCAN_INTERVAL.")
    removal: Duration = Field(default=15.0, description="DEVICE_NO_REMOVAL_DURATION: idle time before a detach.")
    allocation: Duration = Field(
        default=5.0, description="DEVICE_NO_ALLOCATION_DURATION: time until a device is promised again."
    )
    refresh: bool = Field(
        default=True,
        description="Write the time of last use at every scan, like the reference, not only at begin and end.",
    )
    phase: Duration = Field(
        default=0.0, description="The first scan is so much earlier than an interval after the start."
    )
    early: Share = Field(
        default=0.0,
        description="How often the scan after a change of a slice comes before the operator writes that the device is there.",
    )
    timers: Delay | None = Field(
        default=None,
        description="Each claim and slice scans at an interval of its own, for ever, as in the reference; it begins so long "
        "after the object came. Otherwise all have one.",
    )
    ready: bool = Field(default=False, description="Set FabricDeviceReady: pods keep the pool's device.")


class KubeletPart(Written):
    """The kubelets: what becomes of a pod that has a node."""

    start: Delay = Field(default=between(0.03, 0.12), description="From bound to running.")
    stop: Delay = Field(default=between(0.5, 2.0), description="From deletion to gone, at most the grace period.")
    job: Delay = Field(default=fixed(10.0), description="Run time of a Job's pod without the annotation `run-for`.")


class ClaimsPart(Written):
    """The controller of resource claims: it makes them from templates, and releases and deallocates them."""

    look: Delay = Field(default=between(0.003, 0.008), description="Time to process a pod or claim.")


class ControllersPart(Written):
    """The other controllers: node lifecycle, garbage collection, eviction by device taints."""

    silent: Duration = Field(default=40.0, description="A silent node counts as unreachable after this.")
    orphaned: Delay = Field(default=between(40.0, 60.0), description="From a Node's deletion to that of its pods.")


class Parts(Written):
    """Everything that lives in the cluster besides the API server."""

    scheduler: Part[SchedulerPart] = Field(default=SchedulerPart(), description="The scheduler.")
    claims: Part[ClaimsPart] = Field(
        default=ClaimsPart(),
        description="ResourceClaim controller.",
    )
    controllers: Part[ControllersPart] = Field(
        default=ControllersPart(),
        description="Node lifecycle, garbage collection, eviction by device taints, workloads.",
    )
    kubelet: Part[KubeletPart] = Field(default=KubeletPart(), description="Kubelets.")
    fabric: Fabrics = Field(default=Fabrics(), description="The hardware behind the operator.")
    operator: Part[OperatorPart] = Field(default=OperatorPart(), description="Composable-resource operator.")
    manager: Part[ManagerPart] = Field(
        default=None,
        description="REST API of the hardware; by default absent.",
    )
    vendor: Part[VendorPart] = Field(
        default=VendorPart(),
        description="Vendor's DRA driver on each node; lists devices only when its plugin starts.",
    )
    publisher: Part[PublisherPart] = Field(
        default=PublisherPart(), description="Publisher of pool slices and node labels."
    )
    scaler: Part[ScalerPart] = Field(default=ScalerPart(), description="Simulated reference scaler, with its faults.")


PartName = Literal[
    "scheduler", "claims", "controllers", "kubelet", "operator", "manager", "vendor", "publisher", "scaler"
]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
