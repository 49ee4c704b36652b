"""The parts of a ResourceClaim's spec that the choice of devices reads. Immutable and compared by identity.

A request has alternatives: one for `exactly`, several for `firstAvailable`. This module only holds data.
"""

from __future__ import annotations

from msgspec import Struct

from dds_core.matching.nodes import Object
from dds_core.matching.objects import expressions
from dds_core.matching.quantities import Quantity, parsed
from dds_core.model import Toleration

EXACT_COUNT, ALL = "ExactCount", "All"


class Alternative(Struct, frozen=True, eq=False):
    """The content of `exactly`, or one entry of `firstAvailable`.

    `name` is its name in results (`request` or `request/subrequest`), `request` the name of its request. `says_admin`: the spec
    sets adminAccess, to true or false. `written_tolerations` are those of the spec, unchanged, for the result.
    """

    name: str
    request: str
    device_class: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin: bool = False
    says_admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    written_tolerations: tuple[Object, ...] = ()
    capacity: dict[str, Quantity] | None = None


class Request(Struct, frozen=True, eq=False):
    """One entry of spec.devices.requests."""

    name: str
    alternatives: tuple[Alternative, ...]
    prioritized: bool = False


class Constraint(Struct, frozen=True, eq=False):
    """All devices of these requests (of every request when none is named) have the same value of the attribute `match`, or
    different values of `distinct`. Both are empty for a constraint of an unknown kind."""

    requests: frozenset[str] = frozenset()
    match: str = ""
    distinct: str = ""


class Claim(Struct, frozen=True, eq=False):
    """A claim to allocate. `config` has the entries of its spec unchanged."""

    name: str
    namespace: str = ""
    uid: str = ""
    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Object, ...] = ()

    @classmethod
    def from_object(cls, claim: Object) -> Claim:
        metadata = claim["metadata"]
        devices = (claim.get("spec") or {}).get("devices") or {}
        return cls(
            metadata.get("name") or metadata.get("generateName") or "",
            metadata.get("namespace") or "",
            metadata.get("uid") or "",
            tuple(_request(each) for each in devices.get("requests") or ()),
            tuple(_constraint(each) for each in devices.get("constraints") or ()),
            tuple(devices.get("config") or ()),
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _request(request: Object) -> Request:
    name = request["name"]
    choices = request.get("firstAvailable")
    if choices:
        return Request(name, tuple(_alternative(name, each, f"{name}/{each['name']}") for each in choices), True)
    return Request(name, (_alternative(name, request.get("exactly") or {}, name),))


def _alternative(request: str, asked: Object, name: str) -> Alternative:
    written = tuple(asked.get("tolerations") or ())
    capacity = asked.get("capacity")
    return Alternative(
        name=name,
        request=request,
        device_class=asked.get("deviceClassName") or "",
        selectors=expressions(asked.get("selectors")),
        mode=asked.get("allocationMode") or EXACT_COUNT,
        count=asked.get("count", 1),
        admin=bool(asked.get("adminAccess")),
        says_admin=asked.get("adminAccess") is not None,
        tolerations=tuple(_toleration(each) for each in written),
        written_tolerations=written,
        capacity=None
        if capacity is None
        else {key: parsed(value) for key, value in (capacity.get("requests") or {}).items()},
    )


def _toleration(toleration: Object) -> Toleration:
    return Toleration(
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
    )


def _constraint(constraint: Object) -> Constraint:
    return Constraint(
        frozenset(constraint.get("requests") or ()),
        constraint.get("matchAttribute") or "",
        constraint.get("distinctAttribute") or "",
    )
