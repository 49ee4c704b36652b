"""The guard of a hand-over: while dds gives a claim the devices of a node, only dds may allocate them.

A guard consists of a ValidatingAdmissionPolicy with its binding; a ConfigMap as its parameter, which maps each guarded device to
the instant at which its guard ends; and a claim that is never allocated, on which a dry run shows whether a guard is in force.
The chart installs these objects, generated from here; dds does not create them. The doctor compares a cluster with them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dds_adapters.kubernetes.watch.watch_spec import DRA
from dds_core.model import PROBE as PROBE

NAME = "dds-guard"
"""Of the policy and of its binding."""
CONFIG_MAP = "dds-guards"
ADMISSION = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]

_DEVICE = "r.driver + '_' + r.pool.replace('/', '__') + '_' + r.device"
_ACCOUNT = "system:serviceaccount:"
_EXEMPT = re.compile(r"""username\s*!=\s*(['"])(.*?)\1""")


def key(driver: str, pool: str, device: str) -> str:
    """The key of a device in the ConfigMap. None of the three contains "_"; a pool's name may contain "/", a key may not."""
    return "_".join((driver, pool.replace("/", "__"), device))


def policy(user: str) -> Object:
    """The admission policy: it refuses to allocate a guarded device to a claim that has no allocation. `user` (dds) may do so,
    but not in a dry run: with a dry run dds tests the guard. An allocation whose timestamp is after the guard's end passes.
    Errors are ignored (failurePolicy): an error of the policy must never stop a cluster from scheduling.

    All defaults are spelled out: the API server would add them, and the doctor would report a difference."""
    return {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [
                    {
                        "apiGroups": [DRA],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE"],
                        "resources": ["resourceclaims/status"],
                        "scope": "*",
                    }
                ],
            },
            "matchConditions": [
                {
                    "name": "allocates",
                    "expression": "has(object.status) && has(object.status.allocation)"
                    " && !(has(oldObject.status) && has(oldObject.status.allocation))",
                },
                {
                    "name": "is-not-the-scaler",
                    "expression": f"request.userInfo.username != '{user}' || request.dryRun",
                },
            ],
            "variables": [
                {
                    "name": "devices",
                    "expression": "object.status.allocation.?devices.results.orValue([])"
                    f".filter(r, !has(r.shareID) && !(has(r.adminAccess) && r.adminAccess)).map(r, {_DEVICE})",
                },
                {
                    "name": "guarded",
                    "expression": "variables.devices.filter(k, has(params.data) && k in params.data"
                    " && (!has(object.status.allocation.allocationTimestamp)"
                    " || timestamp(object.status.allocation.allocationTimestamp) < timestamp(params.data[k])))",
                },
            ],
            "validations": [
                {
                    "expression": "size(variables.guarded) == 0",
                    "message": "dds is giving this device to another claim just now",
                    "messageExpression": "'dds is giving ' + variables.guarded.join(', ') + ' to another claim just now'",
                }
            ],
        },
    }


def binding(namespace: str) -> Object:
    """Where the policy's parameter is. Without the ConfigMap nothing is guarded."""
    return {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {
            "policyName": NAME,
            "paramRef": {"name": CONFIG_MAP, "namespace": namespace, "parameterNotFoundAction": "Allow"},
            "validationActions": ["Deny"],
        },
    }


def config_map(namespace: str) -> Object:
    """Without `data`: an installer leaves alone a field that it has never written, so an upgrade removes no guard."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": namespace}}


def probe(namespace: str) -> Object:
    """The probe claim. It stays without an allocation, since no pod refers to it. That its class does not exist is no error."""
    request = {
        "name": "device",
        "exactly": {"deviceClassName": PROBE, "allocationMode": "ExactCount", "count": 1},
    }
    return {
        "apiVersion": f"{DRA}/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": PROBE, "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }


def namespace_of(user: str) -> str:
    """The namespace of a ServiceAccount, where the guard's objects are too; "" for any other user."""
    return user.removeprefix(_ACCOUNT).partition(":")[0] if user.startswith(_ACCOUNT) else ""


def exempt(conditions: Iterable[str]) -> str:
    """The users whom an admission policy exempts by its matchConditions, joined by "and"; "" for none. dds's policy exempts the
    scaler."""
    return " and ".join(name for one in conditions for _, name in _EXEMPT.findall(one))
