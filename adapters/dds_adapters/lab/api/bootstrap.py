"""What a new cluster holds before anybody asked for it: namespaces, and the roles that every user has.

Stored objects like all others: who deletes them goes without.
"""

from typing import TYPE_CHECKING

from dds_adapters.lab.api.kinds import RBAC, Object
from dds_adapters.lab.api.requests import AUTHENTICATED, MASTERS, UNAUTHENTICATED, Call, User, Writing

if TYPE_CHECKING:
    from dds_adapters.lab.api.server import ApiServer

SERVER = User("system:apiserver", (MASTERS,))
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"]

ROLES: dict[str, tuple[list[Object], tuple[str, ...]]] = {
    "cluster-admin": (
        [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}],
        (MASTERS,),
    ),
    "system:basic-user": (
        [
            {
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                "verbs": ["create"],
            },
            {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
        ],
        (AUTHENTICATED,),
    ),
    "system:discovery": (
        [{"nonResourceURLs": [*DISCOVERY_PATHS, "/version", "/version/"], "verbs": ["get"]}],
        (AUTHENTICATED,),
    ),
    "system:public-info-viewer": (
        [{"nonResourceURLs": PUBLIC_PATHS, "verbs": ["get"]}],
        (AUTHENTICATED, UNAUTHENTICATED),
    ),
}
"""Cluster roles by name: rules, and the groups that are bound to them."""


def fill(server: "ApiServer") -> None:
    """Create all of it."""
    for name in NAMESPACES:
        _create(server, "", "namespaces", {"metadata": {"name": name}})
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    for name, (rules, groups) in ROLES.items():
        meta = {"name": name, "labels": labels}
        _create(server, RBAC, "clusterroles", {"metadata": meta, "rules": rules})
        subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        _create(server, RBAC, "clusterrolebindings", {"metadata": meta, "subjects": subjects, "roleRef": reference})


def _create(server: "ApiServer", group: str, plural: str, obj: Object) -> None:
    resource = server.registry.find(group, "v1", plural)
    assert resource is not None
    body = {"kind": resource.kind, "apiVersion": resource.api_version, **obj}
    server.perform(
        Call(verb="create", resource=resource, user=SERVER, body=body, writing=Writing(manager="kube-apiserver"))
    )
