"""What an installation brings to guard devices: the policy as it was tried on a real control plane, its binding, the ConfigMap
with the guarded devices, and the claim with which a guard is probed.

    guarding.install(client, "writer")     # `client` is an administrator's, "writer" the user whom the policy lets
"""

from __future__ import annotations

from typing import Any

from dds_lab.client import Client

NAMESPACE = "composable-dra"
KEY = "(r.driver + '_' + r.pool.replace('/', '__') + '_' + r.device)"
ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"

Object = dict[str, Any]


def policy(user: str) -> Object:
    """The policy that refuses guarded devices to all but this user, whose dry runs it does not let either."""
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims/status"],
    }
    allocates = (
        "has(object.status) && has(object.status.allocation)"
        " && !(has(oldObject.status) && has(oldObject.status.allocation))"
    )
    refuses = (
        "!has(params.data) || !object.status.allocation.devices.results.exists(r, !has(r.shareID)"
        f" && !(has(r.adminAccess) && r.adminAccess) && {KEY} in params.data"
        " && (!has(object.status.allocation.allocationTimestamp)"
        f" || timestamp(object.status.allocation.allocationTimestamp) < timestamp(params.data[{KEY}])))"
    )
    spec = {
        "failurePolicy": "Ignore",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "allocates", "expression": allocates},
            {"name": "others", "expression": f"request.userInfo.username != '{user}' || request.dryRun"},
        ],
        "validations": [{"expression": refuses, "message": "guarded by dds"}],
    }
    return _made("ValidatingAdmissionPolicy", spec)


def binding() -> Object:
    reference = {"name": "dds-guards", "namespace": NAMESPACE, "parameterNotFoundAction": "Allow"}
    spec = {"policyName": "dds-guard", "paramRef": reference, "validationActions": ["Deny"]}
    return _made("ValidatingAdmissionPolicyBinding", spec)


def probe() -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "dds-probe"}}
    return {**made, "spec": {"devices": {"requests": [request]}}}


def install(client: Client, user: str) -> None:
    """All of it."""
    if client.find("namespaces", NAMESPACE) is None:
        client.create("namespaces", {"metadata": {"name": NAMESPACE}})
    client.create(POLICIES, policy(user))
    client.create(BINDINGS, binding())
    client.create("configmaps", {"metadata": {"name": "dds-guards"}}, NAMESPACE)
    client.create("resourceclaims", probe(), NAMESPACE)


def guarded(client: Client) -> dict[str, str]:
    """By key until when it is guarded."""
    return dict(client.get("configmaps", "dds-guards", NAMESPACE).get("data") or {})


def _made(kind: str, spec: Object) -> Object:
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": "dds-guard"}, "spec": spec}
