"""managedFields as a real API server wrote them, after every change in the recordings. The recorded answers are compared whole in
../conform."""

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dds_lab.api import ownership
from dds_lab.api.kinds import BUILT_IN, Object
from dds_lab.api.packed import kind_node
from dds_lab.api.rules.definitions import node_of
from dds_lab.api.schema import Node
from dds_lab.crds import DEFINITIONS

CUSTOM = {
    definition["spec"]["names"]["kind"]: node_of(
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], root=True
    )
    for definition in DEFINITIONS
}


def entries(obj: Object | None) -> list[Object]:
    found: list[Object] = (obj or {}).get("metadata", {}).get("managedFields", [])
    return found


RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))
BY_ADMISSION = {"nodes": {"taints"}, "pods": {"tolerations", "priority", "preemptionPolicy"}}
"""Fields of the spec that admission adds, after the owners of a new object have been noted."""


@cache
def schema_of(api_version: str, kind: str) -> Node:
    for resource in BUILT_IN:
        if (resource.api_version, resource.kind) == (api_version, kind):
            return kind_node(resource.group, resource.version, resource.kind)
    return CUSTOM[kind]


def noted(resource: str, old: Object | None, new: Object) -> list[Object]:
    """What may have been before the server when it noted the owners of a change that led to `new`."""
    body = {**new, "metadata": {key: value for key, value in new["metadata"].items() if key != "managedFields"}}
    if old is None and resource in BY_ADMISSION:
        body["spec"] = {key: value for key, value in new["spec"].items() if key not in BY_ADMISSION[resource]}
    if old is not None and resource == "resourceclaims" and "devices" in old["status"].keys() - new["status"].keys():
        # Devices go with the allocation even where the writer left them; the server sees to that after it noted the owners.
        return [body, {**body, "status": {**new["status"], "devices": old["status"]["devices"]}}]
    return [body]


def explained(resource: str, old: Object | None, new: Object) -> bool:
    """Whether some write of one of those named in `new`, or of somebody who took nothing, gives its managedFields."""
    recorded = entries(new)
    node = schema_of(new["apiVersion"], new["kind"])
    writers = [(entry["manager"], entry.get("subresource", ""), entry.get("time", "")) for entry in recorded]
    for manager, subresource, time in [*writers, ("somebody", "status", ""), ("somebody", "", "")]:
        for body in noted(resource, old, new):
            if ownership.updated(node, old, body, manager, subresource, new["apiVersion"], time) == recorded:
                return True
    return any(applies_give(node, old, new, entry) for entry in recorded if is_fresh_apply(entry, old))


def is_fresh_apply(entry: Object, old: Object | None) -> bool:
    return entry["operation"] == "Apply" and entry not in entries(old)


def applies_give(node: Node, old: Object | None, new: Object, entry: Object) -> bool:
    """The same for an apply: its configuration is what its fields pick from the new object."""
    config = {**picked(new, entry["fieldsV1"]), "apiVersion": new["apiVersion"], "kind": new["kind"]}
    outcome = ownership.applied(
        node, old, config, entry["manager"], entry.get("subresource", ""), new["apiVersion"], entry["time"], False
    )
    return entries(outcome) == entries(new) and outcome["status"] == new["status"]


def picked(value: Any, fields: Object) -> Any:
    """The parts of a value that a set of fields names."""
    if not fields:
        return value
    if isinstance(value, list):
        found = []
        for element, below in fields.items():
            keys = json.loads(element[2:]) if element.startswith("k:") else {}
            found += [picked(item, below) for item in value if keys and keys.items() <= item.items()]
        return found
    return {name[2:]: picked(value[name[2:]], below) for name, below in fields.items() if name != "."}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_recording(path: Path) -> None:
    """Each recorded change of an object is one write, and gives the recorded owners exactly: names, fields, order, times.

    The binding of a pod is left out: a real server notes no owner of what it changes.
    """
    live: dict[str, Object] = {}
    seen: Counter[str] = Counter()
    for line in gzip.decompress(path.read_bytes()).splitlines():
        event = json.loads(line)
        new, resource = event["object"], event["resource"]
        uid = new.get("metadata", {}).get("uid", "")
        old = live.get(uid)
        live[uid] = new
        if event["type"] not in ("ADDED", "MODIFIED") or not entries(new) or (old is None and len(entries(new)) > 1):
            continue
        if old is not None and resource == "pods" and "nodeName" in new["spec"].keys() - old["spec"].keys():
            assert entries(new) == entries(old)
            continue
        assert explained(resource, old, new), (
            f"{resource} {new['metadata']['name']} {new['metadata']['resourceVersion']}"
        )
        seen[resource] += 1
    assert seen["resourceclaims"] or seen["pods"]
    assert sum(seen.values()) > 10
