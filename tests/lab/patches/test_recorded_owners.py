"""managedFields as a real API server wrote them: the recorded questions about claim c1, and every change in the recordings."""

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dds_lab.api import ownership, patches
from dds_lab.api.kinds import BUILT_IN, Object
from dds_lab.api.packed import kind_node
from dds_lab.api.rules.definitions import node_of
from dds_lab.api.schema import Node
from dds_lab.api.status import ApiError
from dds_lab.conform.questions import Question, questions
from dds_lab.crds import DEFINITIONS

CLAIM = kind_node("resource.k8s.io", "v1", "ResourceClaim")
VERSION = "resource.k8s.io/v1"
UPDATER = "python-httpx"
CUSTOM = {
    definition["spec"]["names"]["kind"]: node_of(
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], root=True
    )
    for definition in DEFINITIONS
}

C1 = (
    "claim-create", "put-no-rv", "main-keeps-status", "status-allocate", "status-keeps-labels", "ssa-dds", "ssa-nic",
    "ssa-dds-true", "ssa-conflict", "ssa-force", "ssa-two-same-keys", "ssa-drop", "merge-wipes", "deallocate",
)  # fmt: skip


@cache
def asked() -> dict[str, Question]:
    return {question.id: question for question in questions()}


def entries(obj: Object | None) -> list[Object]:
    found: list[Object] = (obj or {}).get("metadata", {}).get("managedFields", [])
    return found


def timeless(managed: list[Object]) -> list[Object]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in managed]


def answered(question: Question, live: Object | None) -> Object:
    """The object after this request as `ownership` and `patches` have it; ApiError as they raise it.

    Validation, and what one resource may change of the other's part, are not their business: the body keeps the part of the
    live object that the request cannot change. The answers that this is compared with are all of the same second.
    """
    ask = question.ask
    subresource = "status" if ask.path.endswith("/status") else ""
    now = next((entry["time"] for entry in reversed(entries(question.answer.body))), "")
    if ask.type == "application/apply-patch+yaml":
        force = ask.params.get("force") == "true"
        return ownership.applied(CLAIM, live, ask.body, ask.params["fieldManager"], subresource, VERSION, now, force)
    new = ask.body if live is None or ask.method == "PUT" else patches.merge_patch(live, ask.body)
    if live is not None and subresource:
        new = {**new, "metadata": live["metadata"], "spec": live["spec"]}
    elif live is not None:
        new = {**new, "status": live["status"]}
    managed = ownership.updated(CLAIM, live, new, UPDATER, subresource, VERSION, now)
    return {**new, "metadata": {**new["metadata"], "managedFields": managed}}


def test_claim_c1() -> None:
    """The answers to the recorded sequence: owners after each write, and the two refusals word by word.

    Between status-allocate and status-keeps-labels a controller took the reservation away (its pod did not exist); that
    write is made here too.
    """
    live: Object | None = None
    for name in C1:
        question = asked()[name]
        if name == "status-keeps-labels":
            assert live is not None
            freed = {**live, "status": {key: live["status"][key] for key in live["status"] if key != "reservedFor"}}
            managed = ownership.updated(CLAIM, live, freed, "kube-controller-manager", "status", VERSION, "")
            live = {**freed, "metadata": {**live["metadata"], "managedFields": managed}}
        if question.answer.code < 400:
            outcome = answered(question, live)
            assert timeless(entries(outcome)) == timeless(entries(question.answer.body)), name
            live = question.answer.body
        else:
            with pytest.raises(ApiError) as refused:
                answered(question, live)
            assert refused.value.code == question.answer.code, name
            assert refused.value.status == question.answer.body, name


def test_applied_status_of_claim_c1() -> None:
    """What the applies make of the status: entries of others stay, forced values win, what is left out goes."""
    live: Object | None = None
    for name in C1:
        question = asked()[name]
        if question.answer.code >= 400:
            continue
        if name.startswith("ssa"):
            status = answered(question, live)["status"]
            recorded = question.answer.body["status"]
            assert list(map(written, status["devices"])) == list(map(written, recorded["devices"])), name
            assert status["allocation"] == recorded["allocation"]
        live = question.answer.body


def written(device: Object) -> Object:
    """A device's status without the null that decoding adds where there are no conditions."""
    return {key: value for key, value in device.items() if value is not None}


def test_custom_kind() -> None:
    schema = CUSTOM["ComposabilityRequest"]
    live: Object | None = None
    for name in ("cr-apply-new", "cr-apply-size", "cr-apply-conflict"):
        question = asked()[name]
        manager = question.ask.params["fieldManager"]
        version = question.ask.body["apiVersion"]
        if question.answer.code >= 400:
            with pytest.raises(ApiError) as refused:
                ownership.applied(schema, live, question.ask.body, manager, "", version, "now", False)
            assert refused.value.status == question.answer.body
            continue
        outcome = ownership.applied(schema, live, question.ask.body, manager, "", version, "now", False)
        assert timeless(entries(outcome)) == timeless(entries(question.answer.body)), name
        live = question.answer.body


# -- the recordings ----------------------------------------------------------------------------------------------------

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
