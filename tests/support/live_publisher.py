"""Our publisher beside a lab over HTTP: its policy, and what it has published."""

from __future__ import annotations

from typing import Any

from dds_core.publisher.policy import PublishPolicy
from tests.support.live_lab import LiveLab

PUBLISH = PublishPolicy(mode="publish", gone_seconds=3, read_back_seconds=5)


def pool_slices(lab: LiveLab) -> list[dict[str, Any]]:
    """The slices that are nobody's node's."""
    slices = lab.call(lambda lab: lab.client("test").list("resourceslices"))
    return [one for one in slices if "nodeName" not in one["spec"]]


def devices(lab: LiveLab) -> dict[str, list[str]]:
    """By pool the names of its devices."""
    found: dict[str, list[str]] = {}
    for one in sorted(pool_slices(lab), key=lambda one: str(one["metadata"]["name"])):
        names = [device["name"] for device in one["spec"].get("devices") or ()]
        found.setdefault(one["spec"]["pool"]["name"], []).extend(names)
    return found
