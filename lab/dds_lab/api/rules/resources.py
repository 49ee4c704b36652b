"""Amounts of cpu, memory and other resources: of nodes, of containers."""

from dds_lab.api import names, quantities
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes
from dds_lab.api.status import Cause

STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})
OWN_DOMAIN = "kubernetes.io/"
WHOLE = frozenset({"pods"})


def is_extended(name: str) -> bool:
    """A resource of some device or driver: a name with a domain that is not Kubernetes' own."""
    return "/" in name and OWN_DOMAIN not in name and not name.startswith("requests.")


def amount(name: str, value: str, at: str) -> list[Cause]:
    """One resource: its name, and an amount that is not negative, and whole where only whole ones are."""
    found = causes.invalids(at, name, names.qualified_name(name))
    exact = quantities.nanos(value)
    if exact < 0:
        found.append(causes.invalid(at, value, "must be greater than or equal to 0"))
    elif (name in WHOLE or is_extended(name)) and exact % quantities.NANO:
        found.append(causes.invalid(at, value, "must be an integer"))
    return found


def of_container(given: Object, claims: frozenset[str], at: str) -> list[Cause]:
    """`resources` of a container; `claims` are the names in the pod's resourceClaims."""
    found: list[Cause] = []
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{at}.{field}[{name}]"
            found += amount(name, value, where)
            if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
                why = "must be a standard resource type or fully qualified"
                found.append(causes.invalid(where, name, why))
    for name, value in requests.items():
        where = f"{at}.requests"
        limit = limits.get(name)
        if limit is not None and quantities.nanos(value) > quantities.nanos(limit):
            found.append(causes.invalid(where, value, f"must be less than or equal to {name} limit of {limit}"))
        elif is_extended(name) and limit is None:
            found.append(causes.required(f"{at}.limits", "Limit must be set for non overcommitable resources"))
        elif is_extended(name) and quantities.nanos(value) != quantities.nanos(limit):
            found.append(causes.invalid(where, value, f"must be equal to {name} limit of {limit}"))
    return found + _claims(given.get("claims") or [], claims, f"{at}.claims")


def _claims(given: list[Object], known: frozenset[str], at: str) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(given):
        name, request = claim.get("name") or "", claim.get("request") or ""
        where = f"{at}[{index}]"
        if not name:
            found.append(causes.required(where))
        elif name not in known:
            found.append(causes.not_found(where, name))
        if (
            (name, request) in seen
            or ((name, "") in seen and request)
            or (not request and any(name == one for one, _ in seen))
        ):
            found.append(causes.duplicate(where, f"{name}/{request}" if request else name))
        seen.add((name, request))
    return found
