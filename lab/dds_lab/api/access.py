"""Authentication by token, impersonation, and RBAC authorisation by the stored roles and bindings.

Compiled rules are cached until a role or a binding changes. No other objects are read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from dds_lab.api import status
from dds_lab.api.kinds import AUTHENTICATION, RBAC, Object
from dds_lab.api.requests import AUTHENTICATED, NOBODY, Call, GranularCheck, User
from dds_lab.api.selectors import exact_name
from dds_lab.api.status import ApiError, Cause
from dds_lab.api.store import Change, Store

NODE_NAME = "authentication.kubernetes.io/node-name"
"""The key in a user's `extra` for the node of a service account's token."""

REMEMBERED_USERS = 1_000
"""Limit for the users whose grants are cached. Impersonation allows any number of users."""

ROLE_TABLES = tuple(f"{plural}.{RBAC}" for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"))


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """What needs a permission: a verb on a resource, or (with `path`) on a path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def target(self) -> str:
        """`resource` or `resource/subresource`, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rule(msgspec.Struct, frozen=True):
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, asked: Attributes) -> bool:
        if not ("*" in self.verbs or asked.verb in self.verbs):
            return False
        if asked.path:
            return any(_path_matches(path, asked.path) for path in self.paths)
        if not ("*" in self.groups or asked.group in self.groups):
            return False
        if self.names and asked.name not in self.names:
            return False
        target = asked.target
        return "*" in self.resources or target in self.resources or (
            bool(asked.subresource) and f"*/{asked.subresource}" in self.resources
        )  # fmt: skip


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def rule(shape: Object) -> Rule:
    def texts(name: str) -> tuple[str, ...]:
        return tuple(shape.get(name) or ())

    return Rule(
        texts("verbs"), texts("apiGroups"), texts("resources"), texts("resourceNames"), texts("nonResourceURLs")
    )


OnUse = Callable[[User, Attributes, bool], None]
"""Called with each permission that a request needs and whether the user has it; not for questions of reviews."""


class Grant(msgspec.Struct, frozen=True):
    """Rules that a binding gives in a namespace, or everywhere ("")."""

    namespace: str
    rules: tuple[Rule, ...]


class Access:
    """Tokens and their users, and the authoriser over the stored RBAC objects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tokens: dict[str, User] = {}
        self._grants: dict[tuple[str, str], list[Grant]] | None = None
        self._of_user: dict[tuple[str, tuple[str, ...]], list[Grant]] = {}
        self.on_use: OnUse | None = None
        for key in ROLE_TABLES:
            store.subscribe(key, self._forget)

    def register(self, token: str, user: User) -> None:
        """Make a bearer token stand for a user, who is also in system:authenticated."""
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        self._tokens[token] = User(user.name, groups, user.uid, user.extra)

    def revoke(self, token: str) -> None:
        self._tokens.pop(token, None)

    def user_of(self, token: str) -> User | None:
        return self._tokens.get(token)

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """The user of a request: of the bearer token, else anonymous; or the impersonated one if that is allowed. ApiError 401
        for an unknown token, 403 for a refused impersonation."""
        user = NOBODY
        given = headers.get("authorization", "")
        if given:
            scheme, _, token = given.strip().partition(" ")
            found = self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
            if found is None:
                raise status.unauthorized()
            user = found
        if any(name.startswith("impersonate-") for name in headers):
            return self._impersonated(user, headers)
        return user

    def _impersonated(self, user: User, headers: Mapping[str, str]) -> User:
        name = headers.get("impersonate-user", "")
        groups = _several(headers.get("impersonate-group", ""))
        uid = headers.get("impersonate-uid", "")
        extra = {
            unquote(key.removeprefix("impersonate-extra-")): _several(value)
            for key, value in headers.items()
            if key.startswith("impersonate-extra-")
        }
        if not (name or groups or uid or extra):
            return user
        if not name:
            raise status.internal("requested to impersonate without impersonating a user")
        self._check_impersonation(user, name, groups, uid, extra)
        if name.startswith("system:serviceaccount:") and not groups:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}")
        if name != "system:anonymous" and AUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, uid, extra)

    def _check_impersonation(
        self, user: User, name: str, groups: Iterable[str], uid: str, extra: Mapping[str, tuple[str, ...]]
    ) -> None:
        account = name.split(":")
        if name.startswith("system:serviceaccount:") and len(account) == 4:
            whom = Attributes(verb="impersonate", resource="serviceaccounts", namespace=account[2], name=account[3])
        else:
            whom = Attributes(verb="impersonate", resource="users", name=name)
        wanted = [whom, *(Attributes(verb="impersonate", resource="groups", name=group) for group in groups)]
        more = [("uids", "", uid)] if uid else []
        more += [("userextras", key, each) for key in extra for each in extra[key]]
        wanted += [
            Attributes(verb="impersonate", group=AUTHENTICATION, resource=resource, subresource=subresource, name=value)
            for resource, subresource, value in more
        ]
        for asked in wanted:
            if not self.allowed(user, asked):
                raise refusal(user, asked)

    def allowed(self, user: User, asked: Attributes) -> bool:
        return user.master or any(
            each.allows(asked)
            for grant in self._grants_of(user)
            if not grant.namespace or (grant.namespace == asked.namespace and not asked.path)
            for each in grant.rules
        )

    def check(self, user: User, asked: Attributes) -> None:
        """ApiError 403 unless the user is allowed."""
        if not self._used(user, asked):
            raise refusal(user, asked)

    def _used(self, user: User, asked: Attributes) -> bool:
        found = self.allowed(user, asked)
        if self.on_use is not None:
            self.on_use(user, asked, found)
        return found

    def check_granular(self, call: Call, checks: list[GranularCheck]) -> None:
        """Permissions beyond the one on the path. A refusal is an invalid field (422), as on a real server."""
        causes = [cause for each in checks if (cause := self._granular_cause(call.user, call, each)) is not None]
        if causes:
            raise status.invalid_object(call.resource, call.name, causes)

    def _granular_cause(self, user: User, call: Call, check: GranularCheck) -> Cause | None:
        own_node = check.node and check.node in user.extra.get(NODE_NAME, ())
        verbs = [verb for verb in check.verbs if own_node or not verb.startswith("associated-node:")]
        resource, _, subresource = check.resource.partition("/")
        asked = [
            Attributes(
                verb=verb, group=call.resource.group, resource=resource, subresource=subresource,
                name=check.name, namespace=check.namespace,
            )
            for verb in verbs
        ]  # fmt: skip
        if any(self._used(user, each) for each in asked):
            return None
        words = refusal(user, asked[-1]).what
        shown = f"[{' '.join(verbs)}]" if check.name else verbs[-1]
        why = f'changing {check.what or check.field} requires resource="{check.resource}", verb="{shown}" permission: {words}'
        return Cause("FieldValueForbidden", f"Forbidden: {why}", check.field)

    def rules_in(self, user: User, namespace: str) -> list[Rule]:
        """All rules that a user has in a namespace."""
        everything = Rule(("*",), ("*",), ("*",), (), ("*",))
        found = [each for grant in self._grants_of(user) if grant.namespace in ("", namespace) for each in grant.rules]
        return [everything, *found] if user.master else found

    def _forget(self, change: Change) -> None:
        self._grants = None
        self._of_user.clear()

    def _grants_of(self, user: User) -> list[Grant]:
        key = (user.name, user.groups)
        found = self._of_user.get(key)
        if found is None:
            if self._grants is None:
                self._grants = self._compiled()
            found = list(self._grants.get(("User", user.name), ()))
            for group in user.groups:
                found += self._grants.get(("Group", group), ())
            if len(self._of_user) >= REMEMBERED_USERS:
                self._of_user.clear()
            self._of_user[key] = found
        return found

    def _compiled(self) -> dict[tuple[str, str], list[Grant]]:
        grants: dict[tuple[str, str], list[Grant]] = {}
        for key in (f"clusterrolebindings.{RBAC}", f"rolebindings.{RBAC}"):
            table = self._store.table(key)
            for path in table.paths:
                binding = table.records[path].object
                namespace = binding["metadata"].get("namespace", "")
                rules = self.role_rules(binding.get("roleRef") or {}, namespace)
                for subject in binding.get("subjects") or ():
                    grants.setdefault(_subject(subject, namespace), []).append(Grant(namespace, rules))
        return grants

    def role_rules(self, reference: Object, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role that a binding refers to; none if it does not exist."""
        if reference.get("kind") == "ClusterRole":
            found = self._store.get(f"clusterroles.{RBAC}", str(reference.get("name", "")))
        else:
            found = self._store.get(f"roles.{RBAC}", f"{namespace}/{reference.get('name', '')}")
        return tuple(rule(each) for each in found.object.get("rules") or ()) if found is not None else ()


def _several(value: str) -> tuple[str, ...]:
    """The values of a header that may be sent more than once."""
    return tuple(filter(None, (each.strip() for each in value.split(","))))


def _subject(subject: Object, namespace: str) -> tuple[str, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return kind, name


def refusal(user: User, asked: Attributes) -> ApiError:
    """ApiError 403 in a real server's words."""
    if asked.path:
        return status.forbidden(f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"', {})
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f'{what} "{asked.name}"' if asked.name else what
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {asked.verb} resource "{asked.target}" '
        f'in API group "{asked.group}" {where}'
    )
    details: dict[str, Any] = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return status.forbidden(message, {key: value for key, value in details.items() if value})


def attributes_of(call: Call, verb: str = "") -> Attributes:
    """The permission that a call needs; `verb` replaces the call's own."""
    resource = call.resource
    selected = exact_name(call.reading.fields) if call.verb in ("list", "watch") else ""
    return Attributes(
        verb=verb or call.verb, group=resource.group, resource=resource.plural, subresource=call.subresource,
        name=call.name or selected, namespace=call.namespace,
    )  # fmt: skip
