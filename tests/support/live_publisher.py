"""Our publisher beside a lab over HTTP, with an inventory in a file: in this process, or as a program of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dds_adapters.fabric import FabricSettings, Provider, open_provider
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.publishing import make_publisher
from dds_core.log import EventLog
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.state import PoolState
from dds_lab.scenario import Scenario
from tests.support.live_lab import LiveLab, Running

PUBLISH = PublishPolicy(mode="publish", gone_seconds=3, read_back_seconds=5)
QUICKLY = 0.2
"""Seconds between rounds."""


def without_ours(scenario: Scenario, *others: str) -> Scenario:
    """The scenario with room for our own publisher and scaler."""
    parts = scenario.parts.model_copy(update=dict.fromkeys(("publisher", "scaler", *others)))
    return scenario.model_copy(update={"parts": parts})


class Inventory:
    """The file that says what the lab's fabrics have."""

    def __init__(self, lab: LiveLab, folder: Path) -> None:
        self.path = folder / "inventory.json"  # which is YAML, too
        nodes = lab.call(lambda lab: lab.client("test").list("nodes"))
        fabrics = lab.scenario.cluster.fabrics
        self.content: dict[str, Any] = {
            "machines": [
                {"uuid": node["spec"]["providerID"].rpartition("/")[2], "fabric": str(fabric)}
                for node in nodes
                if (fabric := node["metadata"]["labels"].get("cohdi.io/fabric")) is not None
            ],
            "fabrics": {str(one.id): dict(one.devices) for one in fabrics},
        }
        self.write()

    def write(self) -> None:
        """As `content` says now; readers see the old one or the new one."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.content), encoding="utf-8")
        new.replace(self.path)

    def count(self, fabric: str, model: str, number: int) -> None:
        self.content["fabrics"][fabric][model] = number
        self.write()

    def provider(self) -> Provider:
        return open_provider(FabricSettings("file", inventory=self.path))


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


def our_publisher(
    cluster: Cluster,
    open_log: Callable[[str], EventLog],
    provider: Provider,
    policy: Callable[[], PublishPolicy] = lambda: PUBLISH,
) -> Running[PoolState]:
    """Our publisher, in a thread of this process, for as long as a block lasts."""
    settings = LiveSettings(identity="test", lease_name="dds-publisher", health=None, metrics=None)
    make = make_publisher("test", provider, config_namespace=settings.config_namespace, interval=QUICKLY)
    return Running(lambda troubles: Process(settings, cluster, open_log, policy, make, observer=troubles))
