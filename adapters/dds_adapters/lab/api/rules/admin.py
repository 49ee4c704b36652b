"""Admin access to devices: only in namespaces that an administrator labelled for it."""

from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.rules import causes
from dds_adapters.lab.api.status import Cause

LABEL = "resource.kubernetes.io/admin-access"


def check(obj: Object, namespace: Object | None) -> list[Cause]:
    """What is wrong with a new ResourceClaim or ResourceClaimTemplate in this namespace (the object)."""
    template = obj.get("kind") == "ResourceClaimTemplate"
    at = "spec.spec.devices.requests" if template else "spec.devices.requests"
    spec = obj.get("spec") or {}
    requests = ((spec.get("spec") or {} if template else spec).get("devices") or {}).get("requests") or ()
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    if labels.get(LABEL) == "true":
        return []
    why = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    return [
        causes.forbidden(f"{at}[{index}].adminAccess", why)
        for index, request in enumerate(requests)
        if (request.get("exactly") or {}).get("adminAccess")
    ]
