"""The autoscaler's policy: every knob of its rules, and the groups of servers, as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from dds_core.autoscaler.model import Template
from dds_core.errors import InputError
from dds_core.kit.policy import PositiveSeconds, Seconds, Strict, counted, read
from dds_core.matching.quantities import parse
from dds_core.model import BLOCKING, Taint

AutoscaleMode = Literal["observe", "autoscale"]
AUTOSCALE_MODES: tuple[AutoscaleMode, ...] = ("observe", "autoscale")

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_NEEDED = ("cpu", "memory", "pods")
Number = Annotated[int, Field(ge=0, le=10_000)]


def _group_name(given: str) -> str:
    if not _NAME.fullmatch(given):
        raise ValueError("takes at most 40 small letters, digits and dashes")
    return given


GroupName = Annotated[str, AfterValidator(_group_name)]
"""Of a group of servers, here and in the settings of machine providers."""


class KeptTaint(Strict):
    """A taint that a fresh server keeps."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = BLOCKING[0]  # type: ignore[assignment]


class ServerTemplate(Strict):
    """What a fresh server of a group is once it has registered."""

    capacity: dict[str, str] = Field(description="Allocatable quantities; cpu, memory and pods are required.")
    labels: dict[str, str] = Field(default={}, description="All labels of a fresh node, also those of device pools.")
    devices: dict[str, Number] = Field(
        default={}, description="Most devices that it takes, by cdi-model-name; a model without entry has no limit."
    )
    taints: tuple[KeptTaint, ...] = Field(
        default=(), description="Taints (key, value, effect) that a fresh node keeps."
    )
    os: str = Field(default="linux", description="kubernetes.io/os.")
    arch: str = Field(default="amd64", description="kubernetes.io/arch.")

    @field_validator("capacity")
    @classmethod
    def _is_whole(cls, given: dict[str, str]) -> dict[str, str]:
        missing = [name for name in _NEEDED if name not in given]
        if missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        for name, text in given.items():
            try:
                parse(text)
            except InputError:
                raise ValueError(f"{name} is no quantity: {text[:40]!r}") from None
        return given

    def made(self, more: Mapping[str, str] | None = None) -> Template:
        """`more`: what else it can be asked for; what the capacity says counts."""
        taints = tuple(Taint(one.key, one.value, one.effect) for one in self.taints)
        return Template(self.labels, taints, {**(more or {}), **self.capacity}, self.os, self.arch)


class ServerGroup(Strict):
    """Servers that are alike and can be composed or powered on."""

    name: GroupName = Field(
        description="At most 40 lower-case letters, digits and dashes; the id for Cluster Autoscaler."
    )
    minimum: Number = counted(0, "servers", "Fewest servers that Cluster Autoscaler keeps.")
    maximum: Number = Field(
        description="Most servers that Cluster Autoscaler makes.", json_schema_extra={"unit": "servers"}
    )
    template: ServerTemplate = Field(description="A fresh server.")

    @model_validator(mode="after")
    def _is_range(self) -> ServerGroup:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is more than maximum {self.maximum}")
        return self


class AutoscalePolicy(Strict):
    """The whole effective policy of an autoscaler."""

    mode: AutoscaleMode = Field(
        default="observe",
        description="`observe`: show no group to Cluster Autoscaler, order no server; `autoscale`: do both.",
    )
    groups: tuple[ServerGroup, ...] = Field(default=(), description="The groups of servers.")
    compose_seconds: PositiveSeconds = Field(
        default=900, description="Time for a server's node to appear before its order has failed."
    )
    close_for_devices: bool = Field(default=True, description="Add no server while a device will do for a waiting pod.")
    scan_interval_seconds: Seconds = Field(
        default=300, description="Interval of level passes over orders and servers; 0 = never."
    )

    @field_validator("groups")
    @classmethod
    def _are_told_apart(cls, given: tuple[ServerGroup, ...]) -> tuple[ServerGroup, ...]:
        names = [one.name for one in given]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is there twice")
        return given

    def group(self, name: str) -> ServerGroup | None:
        return next((one for one in self.groups if one.name == name), None)


def read_autoscale_policy(written: Mapping[str, Any]) -> AutoscalePolicy:
    """A policy from what a person wrote.

    Raises PolicyError: one line naming each wrong field, what is wrong with it, and what it takes.
    """
    return read(AutoscalePolicy, written, "the autoscaler's policy")
