"""The guarded devices of a lab, and where they are."""

from __future__ import annotations

from dds_adapters.kubernetes import guard
from dds_lab.client import Client

NAMESPACE = "composable-dra"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"


def guarded(client: Client) -> dict[str, str]:
    """By key until when it is guarded."""
    return dict(client.get("configmaps", guard.CONFIG_MAP, NAMESPACE).get("data") or {})
