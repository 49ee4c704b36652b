"""What an installation brings to guard devices, made in a lab.

guarding.install(client, "writer")     # `client` is an administrator's, "writer" the user whom the policy lets
"""

from __future__ import annotations

from dds_adapters.kubernetes import guard
from dds_lab.client import Client

NAMESPACE = "composable-dra"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"


def install(client: Client, user: str) -> None:
    """All of it."""
    if client.find("namespaces", NAMESPACE) is None:
        client.create("namespaces", {"metadata": {"name": NAMESPACE}})
    client.create(POLICIES, guard.policy(user))
    client.create(BINDINGS, guard.binding(NAMESPACE))
    client.create("configmaps", guard.config_map(NAMESPACE), NAMESPACE)
    client.create("resourceclaims", guard.probe(NAMESPACE), NAMESPACE)


def guarded(client: Client) -> dict[str, str]:
    """By key until when it is guarded."""
    return dict(client.get("configmaps", guard.CONFIG_MAP, NAMESPACE).get("data") or {})
