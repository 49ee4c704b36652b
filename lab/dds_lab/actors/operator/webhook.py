"""What the operator's validating webhook refuses of a ComposabilityRequest, at creation and at every update.

Pure functions; what they compare with is told to them.
"""

from collections.abc import Iterable

from dds_lab.client import Object


def refusal(new: Object, others: Iterable[Object]) -> str:
    """Why the request may not be so, "" when it may. `others` are all requests, or at least its kin."""
    wanted = (new.get("spec") or {}).get("resource")
    if not wanted:
        return ""
    policy = wanted.get("allocation_policy", "samenode")
    if policy == "differentnode" and wanted.get("target_node"):
        return "when 'differentnode' is specified, 'target_node' cannot be specified"
    for other in others:
        if other["metadata"]["name"] == new["metadata"].get("name") or kin(other) != kin(new):
            continue
        there = f"composabilityRequest resource {other['metadata']['name']} with type {wanted['type']}"
        node = "" if policy == "differentnode" else f" in node '{node_of(new)}'"
        return f"{there} and model {wanted['model']} already exists{node}"
    return ""


def kin(request: Object) -> tuple[str, ...]:
    """What two requests must have in common to be in each other's way: policy, type, model, and for samenode the node."""
    wanted = request["spec"]["resource"]
    policy: str = wanted.get("allocation_policy", "samenode")
    alike = (policy, wanted["type"], wanted["model"])
    return alike if policy == "differentnode" else (*alike, node_of(request))


def node_of(request: Object) -> str:
    """The node that a samenode request counts for: its target, else that of its first resource, else "" (which also
    conflicts)."""
    target: str = request["spec"]["resource"].get("target_node", "")
    if target:
        return target
    resources = (request.get("status") or {}).get("resources") or {}
    first = next(iter(sorted(resources)), None)
    node: str = resources[first].get("node_name", "") if first is not None else ""
    return node
