"""The policy: every knob of the engine, with its unit, default and bounds, as people write it.

A policy enters the log as a whole, as one `PolicyChanged` fact, and takes effect from there on. Nothing here reads a file
or the environment; `from_reference` takes the variables of the reference scaler as a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dds_core.errors import PolicyError
from dds_core.kit.policy import HOUR, MICROSECONDS, Count, Mode, PositiveSeconds, Seconds, Strict, counted, read

Cost = Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]

HAND_OVER_MARGIN = 60 * MICROSECONDS
"""Of the binding timeout, at most a quarter, for the hand-over: the pod has to go through the scheduler's queue once more."""


class SchedulerPolicy(Strict):
    """What we know of one scheduler profile; its bindingTimeout can be read from no API."""

    binding_timeout_seconds: PositiveSeconds = Field(
        default=600,
        description="bindingTimeout of the profile (DynamicResourcesArgs). A shorter one is learned.",
    )
    hand_over: Literal["exchange", "clear"] | None = Field(
        default=None,
        description="In `schedulers` only: overrides the policy's `hand_over`. Without it, only the "
        "kube-scheduler gets `exchange`.",
    )
    attach_budget_seconds: PositiveSeconds | None = Field(
        default=None,
        description="Time for an attach, then `AttachTimeout`; default: timeout less margin.",
    )

    @model_validator(mode="after")
    def _budget_below_timeout(self) -> SchedulerPolicy:
        if self.attach_budget_seconds is not None and self.attach_budget_seconds >= self.binding_timeout_seconds:
            raise ValueError("attach_budget_seconds must be below binding_timeout_seconds")
        return self


class LimitPolicy(Strict):
    """How many devices of a model a node may have. The node's own labels `<device>-size-max` and `-size-min` win."""

    max: Count = counted(50, "devices", "Most devices of the model on the node.")
    min: Count = counted(0, "devices", "Devices of the model that stay on the node even when idle.")
    fixed: Count = counted(
        0, "devices", "Devices of the model that belong to the machine, of those that no ComposableResource names."
    )

    @model_validator(mode="after")
    def _ordered(self) -> LimitPolicy:
        if self.min > self.max:
            raise ValueError("min must not be above max")
        return self


class DriverPolicy(Strict):
    """What is particular to the devices of one DRA driver."""

    uuid_attribute: str = Field(default="uuid", min_length=1, description="Attribute with the device's UUID.")
    parent_attributes: tuple[str, ...] = Field(
        default=("parentUUID", "parentPciAddr"),
        description="Attributes in which a partition names the UUID or PCI address of its device.",
    )
    hardware_attributes: tuple[str, ...] = Field(
        default=("resource.kubernetes.io/pciBusID", "dra.net/pciAddress", "pciAddr"),
        description="Attributes, beside the UUID, that are equal for all faces of one device.",
    )
    partition_types: tuple[str, ...] = Field(
        default=("mig", "vf", "amdgpu-partition"),
        description="Values of the attribute `type` of partitions and virtual functions.",
    )
    request_type: Literal["gpu", "cxlmemory"] = Field(
        default="gpu",
        description="`spec.resource.type` of requests, if device-info has no `request-type`.",
    )
    force_detach: bool = Field(
        default=False,
        description="`spec.resource.force_detach` of new requests: the operator detaches even while processes "
        "compute on the device. Existing requests keep theirs: changing it detaches all their "
        "devices.",
    )


class Policy(Strict):
    """The whole effective policy."""

    mode: Mode = Field(
        default="observe",
        description="What is carried out ([modes](#modes)).",
    )
    scan_interval_seconds: Seconds = Field(
        default=60,
        description="Interval of level passes over the fleet; 0 = never.",
    )
    no_removal_seconds: Seconds = Field(
        default=600,
        description="How long a device idles before it goes back. One that came too late for a claim stays at "
        "least until the claim's next attempt, 30 s after its cool-down.",
    )
    idle: Literal["fixed", "adaptive"] = Field(
        default="fixed",
        description="For `no_removal_seconds`, or learned ([above](#how-long-a-device-idles)).",
    )
    attach_cost: Cost = Field(
        default=1.0,
        description="Cost of detaching and attaching a device, for `adaptive`.",
        json_schema_extra={"unit": "any"},
    )
    idle_hour_cost: Cost = Field(
        default=6.0,
        description="Cost of an idle device per hour, in the same unit.",
        json_schema_extra={"unit": "any"},
    )
    no_allocation_seconds: Seconds = Field(
        default=60,
        description="How long a device that was handed over stays reserved.",
    )
    scheduler: SchedulerPolicy = Field(default=SchedulerPolicy(), description="For schedulers not in `schedulers`.")
    schedulers: dict[str, SchedulerPolicy] = Field(default={}, description="By schedulerName.")
    cool_down_seconds: PositiveSeconds = Field(
        default=120,
        description="How long a model that failed a claim is kept from the scheduler on the node; longer when "
        "repeated.",
    )
    device_ready: Literal["listed", "online"] = Field(
        default="listed",
        description="When an attached device is given to a claim: once its node's driver lists it and the operator has its id "
        "(`listed`), or once the operator says Online, up to 30 s later.",
    )
    operator_nudge: Literal["auto", "off"] = Field(
        default="auto",
        description="Whether an annotation of dds makes the operator look at a device when dds knows more, instead of at "
        "its next look (every 30 s).",
    )
    detaches_per_hour: Count = counted(60, "devices an hour", "Devices marked to go back in the fleet.")
    detach_without_fence: Literal["best_effort", "never"] = Field(
        default="best_effort",
        description="Whether to detach where devices cannot be held; the fence then relies on watching.",
    )
    rebalance: bool = Field(
        default=True,
        description="When a claim waits and the pool is empty, free the longest-idle device elsewhere (mode `detach`).",
    )
    hand_over: Literal["exchange", "clear"] = Field(
        default="exchange",
        description="`exchange`: dds gives the claim the device, where possible; `clear`: the scheduler is "
        "signalled and steered.",
    )
    guard_seconds: PositiveSeconds = Field(
        default=60,
        description="Longest time that a device is guarded.",
    )
    adoption: Literal["none", "reference", "all"] = Field(
        default="reference", description="Requests that dds may resize: its own (`none`), the reference's too, or all."
    )
    prewarm: bool = Field(default=False, description="Order ahead of demand, up to the minimum of each node and model.")
    limit: LimitPolicy = Field(default=LimitPolicy(), description="For models and nodes not in `limits`.")
    limits: dict[str, LimitPolicy] = Field(default={}, description="By model or `<node>/<model>`, which wins.")
    driver: DriverPolicy = Field(default=DriverPolicy(), description="For drivers not in `drivers`.")
    drivers: dict[str, DriverPolicy] = Field(default={}, description="By DRA driver name.")

    @model_validator(mode="after")
    def _idle_at_most_a_day(self) -> Policy:
        if self.learns_idle and not MICROSECONDS <= self.longest_idle <= 24 * HOUR:
            raise ValueError("attach_cost / idle_hour_cost must be from one second to one day")
        return self

    @property
    def observes(self) -> bool:
        """Whether nothing is carried out."""
        return self.mode == "observe"

    @property
    def longest_idle(self) -> int:
        """Microseconds, whole seconds of them. No device is kept idle for longer by the choice of this time."""
        worth = int(3600 * self.attach_cost / self.idle_hour_cost)
        return (worth if self.learns_idle else self.no_removal_seconds) * MICROSECONDS

    @property
    def learns_idle(self) -> bool:
        """Whether a device may idle for less, by what was learned."""
        return self.idle == "adaptive"

    def limit_of(self, node: str, model: str) -> LimitPolicy:
        return self.limits.get(f"{node}/{model}") or self.limits.get(model) or self.limit

    def driver_of(self, name: str) -> DriverPolicy:
        return self.drivers.get(name, self.driver)

    def scheduler_of(self, name: str) -> SchedulerPolicy:
        return self.schedulers.get(name, self.scheduler)

    def hand_over_of(self, scheduler: str) -> str | None:
        """`exchange` or `clear`; None where the policy says `exchange`, but not for this scheduler."""
        own = self.schedulers.get(scheduler, SchedulerPolicy()).hand_over
        return own if self.hand_over == "exchange" else own or "clear"

    def attach_budget(self, scheduler: str, learned_timeout: int | None = None) -> int:
        """Microseconds from the start of an attempt until its claim is failed.

        learned_timeout: microseconds after which this scheduler was seen to give up, None when never seen.
        """
        knobs = self.scheduler_of(scheduler)
        timeout = knobs.binding_timeout_seconds * MICROSECONDS
        if learned_timeout is not None:
            timeout = min(timeout, learned_timeout)
        margin = min(HAND_OVER_MARGIN, timeout // 4)
        budget = timeout - margin
        if knobs.attach_budget_seconds is not None:
            budget = min(budget, knobs.attach_budget_seconds * MICROSECONDS)
        return budget


def read_policy(written: Mapping[str, Any]) -> Policy:
    """A policy from what a person wrote. Raises PolicyError: one line naming each wrong field, what is wrong with it, and what
    it takes."""
    return read(Policy, written)


_REFERENCE = {
    "SCAN_INTERVAL": "scan_interval_seconds",
    "DEVICE_NO_REMOVAL_DURATION": "no_removal_seconds",
    "DEVICE_NO_ALLOCATION_DURATION": "no_allocation_seconds",
}


def from_reference(variables: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a policy that the reference scaler's environment variables set, in whole seconds.

    Raises PolicyError for a value that is not an integer from 0 to 86400, as the reference does.
    """
    fields: dict[str, Any] = {}
    for name, field in _REFERENCE.items():
        text = variables.get(name)
        if text is None:
            continue
        if not (text.isascii() and text.isdigit() and int(text) <= 86_400):
            raise PolicyError(f"{name}={text!r} is not a whole number of seconds from 0 to 86400; correct or unset it")
        fields[field] = int(text)
    return fields
