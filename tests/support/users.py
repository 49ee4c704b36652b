"""What a user of a lab may do."""

from __future__ import annotations

from collections.abc import Sequence

from dds_lab.lab import Lab


def may(lab: Lab, user: str, *resources: str, verbs: Sequence[str] = ("*",)) -> None:
    """Let a user do this with these resources."""
    client, name = lab.client("test"), f"{user}-{'-'.join(resources)}"[:60].rstrip("-*")
    group, role = "rbac.authorization.k8s.io", {"kind": "ClusterRole", "name": name}
    rule = {"apiGroups": ["*"], "resources": list(resources), "verbs": list(verbs)}
    client.create("clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "User", "name": user, "apiGroup": group}
    client.create(
        "clusterrolebindings",
        {"metadata": {"name": name}, "roleRef": {**role, "apiGroup": group}, "subjects": [subject]},
    )
