"""Role, ClusterRole and their bindings."""

from dds_lab.api import names
from dds_lab.api.kinds import RBAC, Object
from dds_lab.api.rules import causes, meta
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

SUBJECTS = ("ServiceAccount", "User", "Group")


class Roles(BuiltIn):
    """Roles of a namespace or of the cluster; only the latter may name paths that are no resources."""

    name_check: meta.NameCheck = staticmethod(names.path_segment)

    def check(self, obj: Object) -> list[Cause]:
        namespaced = self.resource.namespaced
        rules = obj.get("rules") or ()
        return [cause for index, rule in enumerate(rules) for cause in _rule(rule, namespaced, f"rules[{index}]")]


def _rule(rule: Object, namespaced: bool, at: str) -> list[Cause]:
    found: list[Cause] = []
    if not rule.get("verbs"):
        found.append(causes.required(f"{at}.verbs", "verbs must contain at least one value"))
    paths = rule.get("nonResourceURLs")
    if paths:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            found.append(causes.invalid(f"{at}.nonResourceURLs", paths, why))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(causes.invalid(f"{at}.nonResourceURLs", paths, why))
        return found
    if not rule.get("apiGroups"):
        found.append(causes.required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(causes.required(f"{at}.resources", "resource rules must supply at least one resource"))
    return found


class Bindings(BuiltIn):
    """Bindings of a role to subjects; the role never changes."""

    name_check: meta.NameCheck = staticmethod(names.path_segment)

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        role = obj.get("roleRef") or {}
        made = obj if role.get("apiGroup") else {**obj, "roleRef": {**role, "apiGroup": RBAC}}
        subjects = made.get("subjects")
        if subjects and any(_lacks_group(subject) for subject in subjects):
            filled = [{**subject, "apiGroup": RBAC} if _lacks_group(subject) else subject for subject in subjects]
            made = {**made, "subjects": filled}
        return made

    def check(self, obj: Object) -> list[Cause]:
        role = obj.get("roleRef") or {}
        found: list[Cause] = []
        known = ("Role", "ClusterRole") if self.resource.namespaced else ("ClusterRole",)
        if role.get("apiGroup") != RBAC:
            found.append(causes.not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (RBAC,)))
        if role.get("kind") not in known:
            found.append(causes.not_supported("roleRef.kind", role.get("kind") or "", known))
        if not role.get("name"):
            found.append(causes.required("roleRef.name"))
        else:
            found += causes.invalids("roleRef.name", role["name"], names.path_segment(role["name"]))
        for index, subject in enumerate(obj.get("subjects") or ()):
            found += _subject(subject, f"subjects[{index}]")
        return found

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        found = self.check(new)
        if new.get("roleRef") != old.get("roleRef"):
            found.append(causes.invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return found


def _lacks_group(subject: Object) -> bool:
    return subject.get("kind") in ("User", "Group") and not subject.get("apiGroup")


def _subject(subject: Object, at: str) -> list[Cause]:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    found = [] if name else [causes.required(f"{at}.name")]
    if kind == "ServiceAccount":
        if name:
            found += causes.invalids(f"{at}.name", name, names.dns_subdomain(name))
        if group:
            found.append(causes.not_supported(f"{at}.apiGroup", group, ("",)))
        if not subject.get("namespace"):
            found.append(causes.required(f"{at}.namespace"))
    elif kind in SUBJECTS:
        if group != RBAC:
            found.append(causes.not_supported(f"{at}.apiGroup", group, (RBAC,)))
    else:
        found.append(causes.not_supported(f"{at}.kind", kind, SUBJECTS))
    return found
