"""The server's failures: one exception that carries the whole Status body.

The builders give a real server's codes, reasons, details and, as far as known, words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dds_core.errors import DdsError
from dds_lab.api.kinds import Object, Resource


@dataclass(frozen=True)
class Cause:
    """One problem of an object: `reason` (FieldValueRequired, …), message, and path of the field."""

    reason: str
    message: str
    field: str


class ApiError(DdsError):
    """The API server refuses a request. `status` is the Status object for the client, `code` and `headers` are the answer's."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None, **headers: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status: Object = failure(code, reason, message, details)

    @property
    def causes(self) -> list[Object]:
        """The causes in the Status: reason, message and field of each."""
        causes: list[Object] = self.status.get("details", {}).get("causes", [])
        return causes


class NotAPage(ApiError):
    """A path in no API group. A real server answers in plain text instead of a Status."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def failure(code: int, reason: str, message: str, details: Object | None = None) -> Object:
    """A Status of a failure. Without a `reason` the field is left out, as on a real server."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    status["code"] = code
    return status


def success(details: Object | None = None, code: int = 0) -> Object:
    """A Status of a success that has no object to show."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def details_of(resource: Resource, name: str, kind: str = "", **more: Any) -> Object:
    """`details` of a Status: name, group and kind (by default the plural), empty ones left out."""
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural, **more}
    return {key: value for key, value in details.items() if value not in ("", None)}


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.name} "{name}" not found', details_of(resource, name))


def no_such_path() -> ApiError:
    """404: the path names a known group, but nothing in it."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{resource.name} "{name}" already exists', details_of(resource, name))


CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = CHANGED, kind: str = "") -> ApiError:
    """409: the object is not as the writer expects. `kind` replaces the plural where a real server does so."""
    where = f"{kind}.{resource.group}" if kind and resource.group else kind or resource.name
    message = f'Operation cannot be fulfilled on {where} "{name}": {why}'
    return ApiError(409, "Conflict", message, details_of(resource, name, kind))


def apply_conflict(causes: Iterable[Cause]) -> ApiError:
    """409: a server-side apply would change fields that other managers own."""
    found = list(causes)
    first = found[0]
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: {first.message}: {first.field}"
    else:
        owners: dict[str, list[str]] = {}
        for cause in found:
            owner = cause.message.replace("conflict with", "conflicts with", 1)
            owners.setdefault(owner, []).append(f"- {cause.field}")
        words = "\n".join(f"{owner}:\n" + "\n".join(fields) for owner, fields in sorted(owners.items()))
        message = f"Apply failed with {len(found)} conflicts: {words}"
    return ApiError(409, "Conflict", message, {"causes": [_cause(cause) for cause in found]})


def invalid(kind: str, name: str, causes: Iterable[Cause], group: str = "") -> ApiError:
    """422: a well-formed object with errors, given with every cause. `kind` and `group` are those of the object."""
    found = list(causes)
    seen = list(dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in found))
    words = seen[0] if len(seen) == 1 else f"[{', '.join(seen)}]"
    where = f"{kind}.{group}" if group else kind
    details: Object = {"name": name, "group": group, "kind": kind, "causes": [_cause(cause) for cause in found]}
    kept = {key: value for key, value in details.items() if value != ""}
    return ApiError(422, "Invalid", f'{where} "{name}" is invalid: {words}', kept)


def invalid_object(resource: Resource, name: str, causes: Iterable[Cause]) -> ApiError:
    return invalid(resource.kind, name, causes, resource.group)


def rejected_patch() -> ApiError:
    """422: a JSON patch cannot be applied. A real server does not say why."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def forbidden(message: str, details: Object | None = None) -> ApiError:
    return ApiError(403, "Forbidden", message, details)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Iterable[str]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return ApiError(406, "NotAcceptable", message)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def too_large() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


def expired(message: str) -> ApiError:
    """410: the history that a client needs is gone."""
    return ApiError(410, "Expired", message)


def too_old(asked: int, oldest: int) -> ApiError:
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large_resource_version(asked: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details, retry_after="1")


def too_many_requests(message: str = "too many requests, please try again later", seconds: int = 1) -> ApiError:
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": seconds}, retry_after=str(seconds))


def unavailable(message: str = "the server is currently unable to handle the request") -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def timeout(message: str) -> ApiError:
    return ApiError(504, "Timeout", f"Timeout: {message}", {})


def internal(message: str) -> ApiError:
    """500 without a reason: a real server has no kind of error for it."""
    return ApiError(500, "", message)


def _cause(cause: Cause) -> Object:
    shown = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    return {key: value for key, value in shown.items() if value != ""}
