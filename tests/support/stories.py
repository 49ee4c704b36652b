"""What happened to each claim, told so that a recording and a run of the lab can be compared: no names of nodes, no instants.

A story is the sequence of a claim's allocations and ends. Each allocation says where it is (in a pool or on a node), of how many
devices, and whether it is on the same node as the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dds_adapters.kubernetes.recording import RecordedEvent


@dataclass
class Story:
    """`steps`: such as `pool 1`, `pool 1 elsewhere`, `node 2 same`, `cleared`, `given up`, `signal FabricDeviceReady`,
    `in use`, `gone`."""

    steps: list[str] = field(default_factory=list)
    node: str = ""

    def tell(self, step: str) -> None:
        self.steps.append(step)


def stories(events: Iterable[RecordedEvent]) -> dict[str, list[str]]:
    """By claim (a claim that was made for an extended resource: by its pod), what happened to it."""
    found: dict[str, Story] = {}
    seen: dict[str, dict[str, Any]] = {}
    pods: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type == "BOOKMARK":
            continue
        obj = json.loads(event.raw)
        uid = obj["metadata"].get("uid", "")
        if event.resource == "resourceclaims":
            story = found.setdefault(_name(obj), Story())
            _claim(story, seen.get(uid), None if event.type == "DELETED" else obj)
            seen[uid] = obj
        elif event.resource == "pods":
            _pod(found, pods.get(uid), obj)
            pods[uid] = obj
    return {name: story.steps for name, story in sorted(found.items())}


def _name(claim: dict[str, Any]) -> str:
    owners = claim["metadata"].get("ownerReferences") or ()
    return str(next((owner["name"] for owner in owners if owner["kind"] == "Pod"), claim["metadata"]["name"]))


def _claim(story: Story, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
    if new is None:
        story.tell("gone")
        return
    before, after = _allocation(old), _allocation(new)
    if after is not None and after != before:
        results = after["devices"]["results"]
        where = "pool" if any(one.get("bindingConditions") for one in results) else "node"
        node = _node(after)
        moved = "" if not story.node else " same" if node == story.node else " elsewhere"
        story.node = node
        story.tell(f"{where} {len(results)}{moved}")
    if before is not None and after is None:
        story.tell("cleared")
    if after is not None and _reserved(old) and not _reserved(new):
        story.tell("given up")
    for type in sorted(_conditions(new) - _conditions(old)):
        story.tell(f"signal {type}")


def _pod(found: dict[str, Story], old: dict[str, Any] | None, new: dict[str, Any]) -> None:
    if new["spec"].get("nodeName") and not (old or {}).get("spec", {}).get("nodeName"):
        for claim in _claims_of(new):
            if claim in found:
                found[claim].tell("in use")


def _claims_of(pod: dict[str, Any]) -> list[str]:
    named = [one.get("resourceClaimName", "") for one in pod["spec"].get("resourceClaims") or ()]
    return named or [pod["metadata"]["name"]]


def _allocation(claim: dict[str, Any] | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = ((claim or {}).get("status") or {}).get("allocation")
    return found


def _reserved(claim: dict[str, Any] | None) -> bool:
    return bool(((claim or {}).get("status") or {}).get("reservedFor"))


def _conditions(claim: dict[str, Any] | None) -> set[str]:
    devices = ((claim or {}).get("status") or {}).get("devices") or ()
    return {one["type"] for device in devices for one in device.get("conditions") or () if one["status"] == "True"}


def _node(allocation: dict[str, Any]) -> str:
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            return str(one["values"][0])
    return ""
