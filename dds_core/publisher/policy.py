"""The publisher's policy: every knob of its rules, with its unit, default and bounds, as people write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dds_core.kit.policy import PositiveSeconds, Seconds, Strict, counted, read

PublishMode = Literal["observe", "publish"]
PUBLISH_MODES: tuple[PublishMode, ...] = ("observe", "publish")


class PublishPolicy(Strict):
    """The whole effective policy of a publisher."""

    mode: PublishMode = Field(
        default="observe", description="`observe`: write nothing; `publish`: write slices and node labels."
    )
    adopt: Literal["none", "reference"] = Field(
        default="none",
        description="Whether to take over slices without a label in dds's pools (the reference driver's).",
    )
    gone_seconds: Seconds = Field(
        default=60,
        description="How long a fabric or machine is missing before it is withdrawn.",
    )
    while_cooling: Literal["taint", "withdraw"] = Field(
        default="taint",
        description="How a pool is closed in a cool-down; always `withdraw` where the API drops taints.",
    )
    label_nodes: bool = Field(default=True, description="Write the label of the fabric on nodes.")
    label_limits: bool = Field(
        default=True, description="Write the fabric's limits per machine as node labels `-size-max` and `-size-min`."
    )
    pool_devices: Annotated[int, Field(ge=1, le=100_000)] = counted(
        1_000,
        "devices",
        "More free devices of a model in a fabric are not believed: its pool stays as it is.",
    )
    read_back_seconds: PositiveSeconds = Field(
        default=30, description="After this time a pool that does not show what was written is written again."
    )
    scan_interval_seconds: Seconds = Field(
        default=300, description="Interval of level passes over pools and nodes; 0 = never."
    )


def read_publish_policy(written: Mapping[str, Any]) -> PublishPolicy:
    """A policy from what a person wrote.

    Raises PolicyError: one line naming each wrong field, what is wrong with it, and what it takes.
    """
    return read(PublishPolicy, written, "the publisher's policy")
