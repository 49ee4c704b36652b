"""Parses the path and query of an HTTP request, without knowing what the server serves.

As on a real server, `watch=` is true and unknown parameters are ignored.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from dds_lab.api import status
from dds_lab.api.requests import Deleting, Reading, Writing
from dds_lab.api.status import ApiError, Cause

NAMESPACE_SUBRESOURCES = ("status", "finalize")
LONGEST_MANAGER = 128
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Place(msgspec.Struct, frozen=True):
    """The parts of a path under /api or /apis that names a resource, an object or a subresource."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def place(path: str) -> Place | None:
    """The parts of a path. None if it names no resource (discovery, health, …)."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
        else:
            return Place(group, version, "namespaces", "", rest[1], "/".join(rest[2:]))
    plural, name, subresource = (*rest[:2], "/".join(rest[2:])) if len(rest) > 1 else (rest[0], "", "")
    return Place(group, version, plural, namespace, name, subresource)


class Query:
    def __init__(self, text: str) -> None:
        self._values: dict[str, str] = {}
        self._lists: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            self._values.setdefault(name, value)
            self._lists.setdefault(name, []).append(value)

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def texts(self, name: str) -> list[str]:
        return self._lists.get(name, [])

    def flag(self, name: str) -> bool | None:
        """None if not given; any value but 0 and false is true."""
        value = self._values.get(name)
        return None if value is None else value.lower() not in ("0", "false")

    def number(self, name: str) -> int | None:
        """None if not given or empty. ApiError 400 unless it is an integer."""
        value = self._values.get(name, "")
        if not value:
            return None
        digits = value[1:] if value[0] in "+-" else value
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise status.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        return int(value)


def reading(query: Query) -> Reading:
    """Options of get, list and watch. ApiError 400 for a number that is none."""
    limit, timeout = query.number("limit"), query.number("timeoutSeconds")
    return Reading(
        labels=query.text("labelSelector"),
        fields=query.text("fieldSelector"),
        limit=max(0, limit or 0),
        cont=query.text("continue"),
        version=query.text("resourceVersion"),
        match=query.text("resourceVersionMatch"),
        timeout=float(timeout) if timeout else None,
        bookmarks=bool(query.flag("allowWatchBookmarks")),
        initial_events=query.flag("sendInitialEvents"),
    )


def writing(query: Query, verb: str, agent: str, how: str = "merge") -> Writing:
    """Options of create, update and patch. Without fieldManager, the first word of the User-Agent is the manager. ApiError
    422."""
    options = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}[verb]
    refused = _refuser(options)
    validation = query.text("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        supported = 'supported values: "", "Ignore", "Strict", "Warn"'
        raise refused("fieldValidation", "FieldValueNotSupported", f'Unsupported value: "{validation}": {supported}')
    manager = query.text("fieldManager")
    if len(manager) > LONGEST_MANAGER or not manager.isprintable():
        why = f"Too long: may not be more than {LONGEST_MANAGER} bytes"
        raise refused("fieldManager", "FieldValueTooLong", why)
    force = query.flag("force")
    if force is not None and how != "apply":
        raise refused("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch")
    if not manager and how != "apply":
        manager = agent.partition("/")[0].strip()[:LONGEST_MANAGER] or "unknown"
    return Writing(
        dry_run=_dry_run(query.texts("dryRun"), refused),
        manager=manager,
        validation=validation,
        how=how,
        force=bool(force),
    )


def deleting(query: Query, body: Any) -> Deleting:
    """Options of delete, from the body (a DeleteOptions object or None), else from the query. ApiError 400 or 422."""
    refused = _refuser("DeleteOptions")
    options: dict[str, Any] = body if isinstance(body, dict) else {}
    if body is not None and not isinstance(body, dict):
        raise status.bad_request("the body of a deletion must be a DeleteOptions object")
    if options.get("kind") not in (None, "", "DeleteOptions"):
        raise status.bad_request(f"converting ({options['kind']}) to (DeleteOptions): unknown conversion")
    preconditions = _typed(options, "preconditions", dict) or {}
    grace = options.get("gracePeriodSeconds", query.number("gracePeriodSeconds"))
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise _wrong_type("gracePeriodSeconds")
    propagation = _typed(options, "propagationPolicy", str) or query.text("propagationPolicy")
    orphan = options.get("orphanDependents", query.flag("orphanDependents"))
    if propagation and orphan is not None:
        why = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        raise refused("propagationPolicy", "FieldValueInvalid", why)
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        supported = 'supported values: "Foreground", "Background", "Orphan"'
        why = f'Unsupported value: "{propagation}": {supported}'
        raise refused("propagationPolicy", "FieldValueNotSupported", why)
    if orphan:
        propagation = "Orphan"
    return Deleting(
        dry_run=_dry_run(_typed(options, "dryRun", list) or query.texts("dryRun"), refused),
        uid=_typed(preconditions, "uid", str),
        version=_typed(preconditions, "resourceVersion", str),
        grace=grace,
        propagation=propagation,
    )


_Refuser = Callable[[str, str, str], ApiError]


def _refuser(kind: str) -> _Refuser:
    def refused(field: str, reason: str, message: str) -> ApiError:
        return status.invalid(kind, "", [Cause(reason, message, field)], "meta.k8s.io")

    return refused


def _dry_run(values: list[Any], refused: _Refuser) -> bool:
    if not values:
        return False
    if values != ["All"]:
        wrong = f'Unsupported value: {msgspec.json.encode(values).decode()}: supported values: "All"'
        raise refused("dryRun", "FieldValueNotSupported", wrong)
    return True


def _typed(options: dict[str, Any], name: str, type: type) -> Any:
    value = options.get(name)
    if value is not None and not isinstance(value, type):
        raise _wrong_type(name)
    return value


def _wrong_type(name: str) -> ApiError:
    return status.bad_request(f"json: cannot unmarshal value into Go struct field DeleteOptions.{name}")
