"""The knobs of the parts that live in the cluster: scheduler, operator and fabric with its manager, vendor's driver, publisher,
scaler, kubelet.

Forms, bounds and defaults as people write them; `lab.setup` turns them into the actors' own settings. A part that is
`false` is not started, so that another one (yours) can take its place.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, StringConstraints, WrapSerializer

from dds_lab.scenario.forms import Delay, DnsName, Duration, Number, Offset, Period, Text, Written, between, fixed

_PartT = TypeVar("_PartT")


def _absent(written: Any) -> Any:
    """`false` says that the part is not there."""
    if written is False:
        return None
    return {} if written is True or written is None else written


Uuid = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


def _as_absent(part: Written | None, dump: SerializerFunctionWrapHandler) -> Any:
    return False if part is None else dump(part)


Part = Annotated[_PartT | None, BeforeValidator(_absent), WrapSerializer(_as_absent, when_used="json")]
"""A part with its knobs, or `false`."""


class Profile(Written):
    """A scheduler profile: what pods name as schedulerName."""

    binding_timeout: Period = Field(
        default=600.0,
        description="bindingTimeout of the plugin DynamicResources: how long a pod waits for its devices.",
    )


class Scheduler(Written):
    """The scheduler."""

    profiles: dict[DnsName, Profile] = Field(
        default={"default-scheduler": Profile()}, description="By schedulerName.", min_length=1
    )
    clock: Offset = Field(default=0.0, description="Its host's clock is so far ahead (+) or behind (-).")


class Fabrics(Written):
    """The hardware behind the operator: how long moving a device takes."""

    attach: Delay = Field(default=between(1.0, 6.0), description="Time that an attach takes.")
    detach: Delay = Field(default=between(0.4, 0.6), description="Time that a detach takes.")
    attach_of: dict[Text, Delay] = Field(default={}, description="By model, where it differs.")
    detach_of: dict[Text, Delay] = Field(default={}, description="By model, where it differs.")
    refusal: Delay = Field(default=fixed(0.01), description="Time until the fabric says no.")
    in_flight: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="Orders at once; 0: any number. Further ones wait."
    )
    in_flight_per_machine: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="Orders at once on one machine; 0: any number."
    )
    timeout: Period = Field(default=180.0, description="How long the operator waits for an answer that does not come.")


class Operator(Written):
    """The composable-resource operator."""

    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=1, description="Orders that it has under way at once.")
    look: Delay = Field(default=between(0.005, 0.015), description="Time that one look at an object takes.")
    poll: Period = Field(
        default=30.0, description="It looks again after so long, while something is not as it should be."
    )
    watch_slices: bool = Field(
        default=False, description="Whether it looks as soon as a slice shows the device, instead of at the next poll."
    )
    plugin_rest: Duration = Field(
        default=10.0, description="It does not restart a vendor's plugin that is younger than this."
    )
    sync: Duration = Field(default=60.0, description="It asks the fabric so often what is attached; 0s: never.")
    orphan: Duration = Field(default=600.0, description="A device that nobody knows is taken away after so long.")
    stale_writes: bool = Field(
        default=True, description="Whether a change at the wrong moment makes it order a second device (a real fault)."
    )
    webhook: bool = Field(default=True, description="Whether its validating webhook is there.")
    deletes_with_node: bool = Field(default=True, description="Whether requests and resources go when their node goes.")


class Manager(Written):
    """A manager of the hardware with a REST API, for programs that ask one. It shares the hardware with the operator."""

    api: Literal["fm", "cm", "nec"] = Field(
        default="fm",
        description="Which API: the fabric manager's; the cluster manager's too, with limits of machines; CDIM's.",
    )
    tenant: Uuid = Field(default="3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10", description="The tenant that it has.")
    cluster: Uuid = Field(default="9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24", description="With `cm`: the cluster.")
    token_life: Period = Field(default=300.0, description="A login is good for so long.")
    answer: Delay = Field(default=between(0.005, 0.02), description="Time that an answer takes.")
    quotas: dict[Text, Number] = Field(
        default={}, description="Devices that the tenant may have attached in all, by model; by default any number."
    )
    certificate: Literal["good", "expired", "other_name", "unknown_authority"] = Field(
        default="good", description="With `fm` and `cm`: the certificate that `dds lab up` shows."
    )


class Vendor(Written):
    """The vendor's DRA driver on each node. It lists its devices when its plugin starts, and never again."""

    start: Delay = Field(default=between(2.0, 5.0), description="From a plugin's restart to its slice.")
    first_start: Delay = Field(default=fixed(0.02), description="The same for a node that is new.")
    binding: Duration = Field(
        default=0.0, description="A plugin that starts so soon after an attach misses the device (a real fault)."
    )
    hot_plug: bool = Field(default=False, description="Whether it notices by itself that devices come and go.")
    names: Literal["minor", "position"] = Field(
        default="minor", description="What devices are called after: their minor number, or their place in the list."
    )


class Publisher(Written):
    """The publisher of the pools' slices and of the fabric's node labels."""

    interval: Duration = Field(
        default=5.0, description="It looks at the fabric so often; 0s: whenever something changes."
    )
    reaction: Delay = Field(
        default=between(0.005, 0.02), description="With an interval of 0s: from a change to the look."
    )
    stable_names: bool = Field(
        default=False, description="Whether a device keeps its name. The reference numbers what is free (a real fault)."
    )


class Scaler(Written):
    """A stand-in for a device scaler, after the reference one with its faults. Switch it off to run another one."""

    interval: Period = Field(default=5.0, description="Scan interval (SCAN_INTERVAL).")
    removal: Duration = Field(
        default=15.0, description="An idle device goes back after so long (DEVICE_NO_REMOVAL_DURATION)."
    )
    allocation: Duration = Field(
        default=5.0, description="A device is not promised again for so long (DEVICE_NO_ALLOCATION_DURATION)."
    )
    refresh: bool = Field(
        default=True,
        description="Whether it writes the time of last use at every scan, as the reference does; else at its begin and end.",
    )
    ready: bool = Field(
        default=False, description="Whether it sets FabricDeviceReady, so that pods keep the pool's device."
    )


class Kubelet(Written):
    """The kubelets: what becomes of a pod that has a node."""

    start: Delay = Field(default=between(0.03, 0.12), description="From bound to running.")
    stop: Delay = Field(default=between(0.5, 2.0), description="From being deleted to gone, at most the grace period.")


class Claims(Written):
    """The controller of resource claims: it makes them from templates, and releases and deallocates them."""

    look: Delay = Field(default=between(0.003, 0.008), description="Time that one look at a pod or a claim takes.")


class Controllers(Written):
    """The other controllers: node lifecycle, garbage collection, eviction by device taints."""

    silent: Duration = Field(default=40.0, description="A node that says nothing counts as unreachable after so long.")
    orphaned: Delay = Field(
        default=between(40.0, 60.0), description="From the end of a node's object to that of the pods that were on it."
    )


class Parts(Written):
    """Everything that lives in the cluster besides the API server."""

    scheduler: Part[Scheduler] = Field(default=Scheduler(), description="The scheduler.")
    claims: Part[Claims] = Field(default=Claims(), description="The controller of resource claims.")
    controllers: Part[Controllers] = Field(default=Controllers(), description="Other controllers.")
    kubelet: Part[Kubelet] = Field(default=Kubelet(), description="The kubelets.")
    fabric: Fabrics = Field(default=Fabrics(), description="The hardware.")
    operator: Part[Operator] = Field(default=Operator(), description="The composable-resource operator.")
    manager: Part[Manager] = Field(default=None, description="The hardware's manager; by default there is none.")
    vendor: Part[Vendor] = Field(default=Vendor(), description="The vendor's driver.")
    publisher: Part[Publisher] = Field(default=Publisher(), description="The pools' publisher.")
    scaler: Part[Scaler] = Field(default=Scaler(), description="The stand-in scaler.")


PartName = Literal[
    "scheduler", "claims", "controllers", "kubelet", "operator", "manager", "vendor", "publisher", "scaler"
]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
