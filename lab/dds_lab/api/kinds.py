"""The kinds that the API server can serve, with their discovery data.

What an object may hold is in `schema` and `rules`. `registry` decides by the gates which versions are served.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

Object = dict[str, Any]
"""The JSON shape of an API object. It is never changed in place once it was passed to the API or came from it."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same for custom resources, in the order of a real server."""
ONE_BY_ONE = ("create", "delete", "get", "list", "patch", "update", "watch")
ASKED_ONLY = ("create",)

RESOURCE = "resource.k8s.io"
RBAC = "rbac.authorization.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Resource:
    """One plural in one version of one group, as paths of the API name it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage_version: str = ""
    """The version in which objects are stored; the resource's own if empty."""
    storage: str = ""
    """Storage key of another resource with the same objects (events.k8s.io shares those of the core group)."""
    custom: bool = False

    def __hash__(self) -> int:
        """Resources are keys of many tables, looked up at every call: hash only what identifies them."""
        return hash((self.group, self.version, self.plural))

    @cached_property
    def key(self) -> str:
        """The storage key, the same for all versions: `plural.group`, or `plural` in the core group."""
        return self.storage or self.name

    @cached_property
    def name(self) -> str:
        """`plural.group` as messages and RBAC name the resource; `plural` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def stored_api_version(self) -> str:
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def kept(self) -> bool:
        """Whether objects are stored. Reviews are only answered."""
        return "get" in self.verbs


def _resource(
    group: str, version: str, kind: str, plural: str, namespaced: bool, *subresources: str, **more: Any
) -> Resource:
    return Resource(group, version, plural, kind.lower(), kind, namespaced, frozenset(subresources), **more)


BUILT_IN: tuple[Resource, ...] = (
    _resource("", "v1", "ConfigMap", "configmaps", True, short_names=("cm",)),
    _resource("", "v1", "Event", "events", True, short_names=("ev",)),
    _resource("", "v1", "Namespace", "namespaces", False, "status", "finalize", short_names=("ns",), verbs=ONE_BY_ONE),
    _resource("", "v1", "Node", "nodes", False, "status", short_names=("no",)),
    _resource("", "v1", "Pod", "pods", True, "status", "binding", "eviction", short_names=("po",), categories=("all",)),
    _resource("", "v1", "Secret", "secrets", True),
    _resource("", "v1", "ServiceAccount", "serviceaccounts", True, short_names=("sa",)),
    _resource("events.k8s.io", "v1", "Event", "events", True, short_names=("ev",), storage="events"),
    _resource("coordination.k8s.io", "v1", "Lease", "leases", True),
    _resource(RBAC, "v1", "ClusterRole", "clusterroles", False),
    _resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    _resource(RBAC, "v1", "Role", "roles", True),
    _resource(RBAC, "v1", "RoleBinding", "rolebindings", True),
    _resource(AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=ASKED_ONLY),
    _resource(AUTHENTICATION, "v1", "TokenReview", "tokenreviews", False, verbs=ASKED_ONLY),
    _resource(AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True, verbs=ASKED_ONLY),
    _resource(AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=ASKED_ONLY),
    _resource(AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=ASKED_ONLY),
    _resource(AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=ASKED_ONLY),
    _resource(
        EXTENSIONS,
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        "status",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
    _resource(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
        "status",
        categories=("api-extensions",),
    ),
    _resource(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        False,
        categories=("api-extensions",),
    ),
    _resource(RESOURCE, "v1", "DeviceClass", "deviceclasses", False),
    _resource(RESOURCE, "v1", "ResourceClaim", "resourceclaims", True, "status"),
    _resource(RESOURCE, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True),
    _resource(RESOURCE, "v1", "ResourceSlice", "resourceslices", False),
    _resource(RESOURCE, "v1beta2", "DeviceTaintRule", "devicetaintrules", False, "status", storage_version="v1beta2"),
    _resource(RESOURCE, "v1alpha3", "DeviceTaintRule", "devicetaintrules", False, "status", storage_version="v1beta2"),
)
"""Everything that can be served. `registry` leaves out what gates and runtime configuration switch off."""


@dataclass(frozen=True)
class Column:
    """A printer column. `path` is a simple JSONPath (".spec.size"); `type` an OpenAPI type, or "date", which is shown as an
    age."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
