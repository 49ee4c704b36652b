"""Questions that are asked by creating an object: who am I, whose is this token, may I, may they, what may I.

Nothing is stored. The answers come from `access` and from nowhere else.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dds_lab.api import ownership, status
from dds_lab.api.access import Access, Attributes
from dds_lab.api.checking import check_identity, unknown_fields
from dds_lab.api.kinds import Object
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call, Outcome, User
from dds_lab.api.status import Cause

ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """The kinds that are answered and forgotten."""

    def __init__(self, registry: Registry, access: Access, now_text: Callable[[], str]) -> None:
        self._registry = registry
        self._access = access
        self._now_text = now_text
        self._answers: Mapping[str, Callable[[Call, Object], Object]] = {
            "selfsubjectaccessreviews": self._may_i,
            "subjectaccessreviews": self._may_they,
            "localsubjectaccessreviews": self._may_they,
            "selfsubjectrulesreviews": self._what_may_i,
            "selfsubjectreviews": self._who_am_i,
            "tokenreviews": self._whose_token,
        }

    def create(self, call: Call) -> Outcome:
        """The object that was sent, with its status filled in; 201."""
        check_identity(call, call.body, at_create=True)
        decoded, unknown = self._registry.strategy(call.resource).decode(call.body)
        warnings = unknown_fields(call, unknown)
        spec = decoded.get("spec") or {}
        answer = self._answers[call.resource.plural](call, spec)
        shown = {
            "kind": call.resource.kind,
            "apiVersion": call.resource.api_version,
            "metadata": self._metadata(call, decoded),
        }
        if call.resource.plural != "selfsubjectreviews":
            shown["spec"] = spec
        return Outcome(code=201, object={**shown, "status": answer}, warnings=warnings)

    def _metadata(self, call: Call, decoded: Object) -> Object:
        schema = self._registry.strategy(call.resource).schema
        version = call.resource.api_version
        managed = ownership.updated(schema, None, decoded, call.writing.manager, "", version, self._now_text())
        meta = decoded.get("metadata") or {}
        return {**meta, "managedFields": managed} if managed else meta

    def _may_i(self, call: Call, spec: Object) -> Object:
        return self._verdict(call.user, _asked(call, spec))

    def _may_they(self, call: Call, spec: Object) -> Object:
        groups = tuple(spec.get("groups") or ())
        if not (spec.get("user") or groups):
            message = "at least one of user or group must be specified"
            raise _invalid(call, "FieldValueInvalid", f'Invalid value: "": {message}', "spec.user")
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", groups, spec.get("uid") or "", extra)
        asked = _asked(call, spec)
        if call.namespace and asked.namespace != call.namespace:
            message = f'Invalid value: "{asked.namespace}": must match metadata.namespace'
            raise _invalid(call, "FieldValueInvalid", message, "spec.resourceAttributes.namespace")
        return self._verdict(user, asked)

    def _verdict(self, user: User, asked: Attributes) -> Object:
        if self._access.allowed(user, asked):
            return {"allowed": True, "reason": "" if user.master else "RBAC: allowed by a binding"}
        return {"allowed": False}

    def _what_may_i(self, call: Call, spec: Object) -> Object:
        namespace = spec.get("namespace") or ""
        if not namespace:
            raise status.bad_request("no namespace on request")
        rules = self._access.rules_in(call.user, namespace)
        resources: list[Object] = [
            _without_empty(
                {
                    "verbs": list(rule.verbs),
                    "apiGroups": list(rule.groups),
                    "resources": list(rule.resources),
                    "resourceNames": list(rule.names),
                }
            )
            for rule in rules
            if rule.resources
        ]
        paths: list[Object] = [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
        ]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def _who_am_i(self, call: Call, spec: Object) -> Object:
        return {"userInfo": _user_info(call.user)}

    def _whose_token(self, call: Call, spec: Object) -> Object:
        token = spec.get("token") or ""
        if not token:
            raise _invalid(call, "FieldValueRequired", "Required value: token is required", "spec.token")
        user = self._access.user_of(token)
        if user is None:
            return {"user": {}}
        audiences = spec.get("audiences")
        found: Object = {"authenticated": True, "user": _user_info(user)}
        return {**found, "audiences": audiences} if audiences else found


def _user_info(user: User) -> Object:
    extra = {key: list(values) for key, values in user.extra.items()}
    return _without_empty({"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra})


def _without_empty(shape: Object) -> Object:
    return {key: value for key, value in shape.items() if value}


def _asked(call: Call, spec: Object) -> Attributes:
    of_resource: Any = spec.get("resourceAttributes")
    of_path: Any = spec.get("nonResourceAttributes")
    if (of_resource is None) == (of_path is None):
        raise _invalid(call, "FieldValueInvalid", f"Invalid value: null: {ONE_OF}", "spec.resourceAttributes")
    if of_path is not None:
        return Attributes(verb=of_path.get("verb") or "", path=of_path.get("path") or "/")
    return Attributes(
        verb=of_resource.get("verb") or "",
        group=of_resource.get("group") or "",
        resource=of_resource.get("resource") or "",
        subresource=of_resource.get("subresource") or "",
        name=of_resource.get("name") or "",
        namespace=of_resource.get("namespace") or "",
    )


def _invalid(call: Call, reason: str, message: str, field: str) -> status.ApiError:
    return status.invalid_object(call.resource, "", [Cause(reason, message, field)])
