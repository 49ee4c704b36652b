"""The guard of an exchange: while a claim is given the devices of a node, nobody but dds may allocate them.

A ValidatingAdmissionPolicy with its binding; a ConfigMap as its parameter, with a key for each guarded device and the instant at
which that guard ends by itself; and a claim that is never allocated, on which a dry run shows whether a guard is in force. The
chart installs them, and they are made from here; dds itself makes none of them. Pure data: the doctor holds a cluster against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dds_adapters.kubernetes.watch.watched import DRA

NAME = "dds-guard"
"""Of the policy and of its binding."""
CONFIG_MAP = "dds-guards"
PROBE = "dds-probe"
"""Of the claim, and of the class that it asks for, which nobody makes."""
ADMISSION = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]

_DEVICE = "r.driver + '_' + r.pool.replace('/', '__') + '_' + r.device"
_ACCOUNT = "system:serviceaccount:"
_EXEMPT = re.compile(r"""username\s*!=\s*(['"])(.*?)\1""")


def key(driver: str, pool: str, device: str) -> str:
    """The key of a device in the ConfigMap. None of the three holds "_"; a pool's name may hold "/", a key not."""
    return "_".join((driver, pool.replace("/", "__"), device))


def policy(user: str) -> Object:
    """What it refuses, whoever asks: the step from no allocation to one that names a guarded device. `user` may do that, but not
    as a dry run: that is how it sees the guard. An allocation that was made after the end of a guard, as its timestamp says,
    passes. What fails is ignored: an error in here must never stop a cluster from scheduling.

    It spells out what an API server would add, and a doctor find as a difference."""
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
    """Where its parameter is. Without the ConfigMap nothing is guarded."""
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
    """Without `data`: what installs it leaves alone what it has never written, so that an upgrade takes no guard off."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": namespace}}


def probe(namespace: str) -> Object:
    """No pod refers to it, so it stays without an allocation. That its class does not exist is no error."""
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
    """Where a ServiceAccount is, and with it what its guard needs; "" for anybody else."""
    return user.removeprefix(_ACCOUNT).partition(":")[0] if user.startswith(_ACCOUNT) else ""


def exempt(conditions: Iterable[str]) -> str:
    """The users to whom an admission policy does not apply by its matchConditions, joined by "and"; "" for none. That of dds
    exempts the scaler."""
    return " and ".join(name for one in conditions for _, name in _EXEMPT.findall(one))
