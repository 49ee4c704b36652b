"""Nobody may grant what they do not hold: the rules of a role, or of the role that a binding refers to, must be covered by
the writer's own, unless the writer may `escalate` (roles) or `bind` (bindings). As on a real server that goes for every
rule at every write, also of what was granted before.
"""

from collections.abc import Iterator

from dds_adapters.lab.api import status
from dds_adapters.lab.api.access import Access, Attributes, Rule, rule
from dds_adapters.lab.api.kinds import RBAC, Object
from dds_adapters.lab.api.requests import Call

EVERYTHING = [Rule(("*",), ("*",), ("*",)), Rule(("*",), paths=("*",))]
"""What a role that gathers the rules of others may come to grant."""
BINDINGS = ("clusterrolebindings", "rolebindings")


def check(access: Access, call: Call, new: Object) -> None:
    """ApiError 403 where the write would grant more than its writer has."""
    if call.resource.plural in BINDINGS:
        granted = _bound(access, call, new)
    else:
        granted = [rule(each) for each in new.get("rules") or ()]
        if new.get("aggregationRule"):
            granted += EVERYTHING
    if not granted or _excused(access, call, new):
        return
    own = access.rules_in(call.user, call.namespace)
    missing = [each for each in granted if not all(_covered(own, part) for part in _parts(each))]
    if missing:
        name = str(new["metadata"]["name"])
        words = "\n".join(_shown(each) for each in missing)
        message = (
            f'{call.resource.name} "{name}" is forbidden: user "{call.user.name}" (groups={_quoted(call.user.groups)}) is '
            f"attempting to grant RBAC permissions not currently held:\n{words}"
        )
        raise status.forbidden(message, status.details_of(call.resource, name))


def _bound(access: Access, call: Call, new: Object) -> list[Rule]:
    return list(access.role_rules(new.get("roleRef") or {}, call.namespace))


def _excused(access: Access, call: Call, new: Object) -> bool:
    if call.resource.plural in BINDINGS:
        reference = new.get("roleRef") or {}
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        name = str(reference.get("name", ""))
        asked = Attributes(verb="bind", group=RBAC, resource=plural, name=name, namespace=call.namespace)
    else:
        name = str(new["metadata"]["name"])
        plural = call.resource.plural
        asked = Attributes(verb="escalate", group=RBAC, resource=plural, name=name, namespace=call.namespace)
    return access.allowed(call.user, asked)


def _parts(granted: Rule) -> Iterator[Attributes]:
    """Every single permission in a rule; a wildcard counts as a name of its own, which only a wildcard covers."""
    for verb in granted.verbs:
        for path in granted.paths:
            yield Attributes(verb=verb, path=path)
        for group in granted.groups:
            for target in granted.resources:
                resource, _, subresource = target.partition("/")
                for name in granted.names or ("",):
                    yield Attributes(verb=verb, group=group, resource=resource, subresource=subresource, name=name)


def _covered(own: list[Rule], part: Attributes) -> bool:
    return any(each.allows(part) for each in own)


def _shown(granted: Rule) -> str:
    if granted.paths:
        return f"{{NonResourceURLs:{_quoted(granted.paths)}, Verbs:{_quoted(granted.verbs)}}}"
    names = f", ResourceNames:{_quoted(granted.names)}" if granted.names else ""
    shown = f"APIGroups:{_quoted(granted.groups)}, Resources:{_quoted(granted.resources)}{names}"
    return f"{{{shown}, Verbs:{_quoted(granted.verbs)}}}"


def _quoted(values: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
