"""Facts about objects that whoever chooses devices reads: more than one component, but not each."""

from __future__ import annotations

from dds_core.events.base import observed
from dds_core.model import AttachRequest, Config, DeviceClass, Slice, TaintRule

SliceObserved, SliceGone = observed(
    Slice,
    "A ResourceSlice appeared or changed. `devices` holds the devices that differ, null for one that is no longer listed.",
    "A ResourceSlice was deleted; its devices are unknown from here on, not gone.",
    apart="devices",
)
DeviceClassObserved, DeviceClassGone = observed(
    DeviceClass,
    "A DeviceClass appeared or changed.",
    "A DeviceClass was deleted.",
)
TaintRuleObserved, TaintRuleGone = observed(
    TaintRule,
    "A DeviceTaintRule appeared or changed.",
    "A DeviceTaintRule was deleted.",
)
ConfigObserved, ConfigGone = observed(
    Config,
    "The ConfigMap of the fabric appeared or changed.",
    "Older logs only: the ConfigMap was deleted, and its models with it.",
)
AttachRequestObserved, AttachRequestGone = observed(
    AttachRequest,
    "A ComposabilityRequest appeared or changed.",
    "A ComposabilityRequest was deleted.",
)

EVENTS = (
    *(SliceObserved, SliceGone, DeviceClassObserved, DeviceClassGone, TaintRuleObserved, TaintRuleGone),
    *(ConfigObserved, ConfigGone, AttachRequestObserved, AttachRequestGone),
)
