"""What the operator's validating webhook refuses of a ComposabilityRequest, at creation and at every update. A pure
function."""

from collections.abc import Iterable

from dds_adapters.lab.client import Object


def refusal(new: Object, others: Iterable[Object]) -> str:
    """Why the request may not be so, "" when it may. `others` are all requests; one of the same name is not
    compared."""
    wanted = (new.get("spec") or {}).get("resource")
    if not wanted:
        return ""
    policy = wanted.get("allocation_policy", "samenode")
    if policy == "differentnode" and wanted.get("target_node"):
        return "when 'differentnode' is specified, 'target_node' cannot be specified"
    for other in others:
        if other["metadata"]["name"] == new["metadata"].get("name"):
            continue
        theirs = other["spec"]["resource"]
        if (theirs["type"], theirs["model"]) != (wanted["type"], wanted["model"]):
            continue
        if theirs.get("allocation_policy", "samenode") != policy:
            continue
        there = f"composabilityRequest resource {other['metadata']['name']} with type {wanted['type']}"
        if policy == "differentnode":
            return f"{there} and model {wanted['model']} already exists"
        if node_of(other) == node_of(new):
            return f"{there} and model {wanted['model']} already exists in node '{node_of(new)}'"
    return ""


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
