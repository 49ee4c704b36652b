"""The operator's two kinds: whether they are served, and with the fields that the scaler reads and writes.

The decoder's own types say which fields those are, so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from dds_adapters.kubernetes import objects
from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.doctor.findings import Finding, error, ok, unknown
from dds_adapters.kubernetes.doctor.patient import Patient
from dds_adapters.kubernetes.watched import OPERATOR, VERSIONS

TYPES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "composabilityrequests": ("ComposabilityRequest", objects.RawComposabilityRequest),
    "composableresources": ("ComposableResource", objects.RawComposableResource),
}
_CHECK = "operator"
_INSTALL = "install the composable resource operator and its CustomResourceDefinitions"
_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def custom_kinds(patient: Patient) -> Iterator[Finding]:
    """Each of the two, with its fields by OpenAPI, else by its definition, else as far as discovery tells."""
    for resource, (kind, form) in TYPES.items():
        version = VERSIONS[resource][0]
        if resource not in patient.served(version):
            yield error(_CHECK, f"{resource}.{OPERATOR} are not served as {version}", _INSTALL)
            continue
        schema = _published(patient, version, kind) or _defined(patient, resource, version)
        if schema is None:
            yield unknown(_CHECK, f"{resource} are served as {version}, their fields could not be read")
            continue
        missing = [path for path in fields_of(form) if not has(schema, path)]
        if missing:
            what = (
                f"{resource} lack the field{'s' if len(missing) > 1 else ''} {', '.join('.'.join(p) for p in missing)}"
            )
            yield error(_CHECK, what, "bring the operator and its definitions to the release that the scaler needs")
        else:
            yield ok(_CHECK, f"{resource} are served as {version} with all fields that are read and written")


def fields_of(form: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """Paths of all fields below spec and status that the decoder reads."""
    found = inspect.type_info(form)
    assert isinstance(found, inspect.StructType)
    parts = [one for one in found.fields if one.encode_name in ("spec", "status")]
    return [path for part in parts for path in _leaves((part.encode_name,), part.type)]


def _leaves(path: tuple[str, ...], form: inspect.Type) -> Iterator[tuple[str, ...]]:
    if isinstance(form, inspect.UnionType):
        form = next(one for one in form.types if not isinstance(one, inspect.NoneType))
    if isinstance(form, inspect.StructType):
        for one in form.fields:
            yield from _leaves((*path, one.encode_name), one.type)
    else:
        yield path


def has(schema: Any, path: tuple[str, ...]) -> bool:
    """Whether a schema has the field, or takes any."""
    if not isinstance(schema, dict):
        return False
    if not path or schema.get(_PRESERVED):
        return True
    return has((schema.get("properties") or {}).get(path[0]), path[1:])


def _published(patient: Patient, version: str, kind: str) -> Any:
    """The kind's schema in the server's own words, None where those cannot be had."""
    path = f"/openapi/v3/apis/{version}"
    try:
        document = patient.once(path, lambda: patient.decoded(path, patient.get(path)))
    except Refused:
        return None
    schemas: dict[str, Any] = (document.get("components") or {}).get("schemas") or {}
    found = next((one for name, one in schemas.items() if name.endswith(f".{kind}")), None)
    return _resolved(found, schemas, ()) if found is not None else None


def _resolved(schema: Any, schemas: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """The schema with what it refers to in its place; one that holds itself is cut there."""
    if not isinstance(schema, dict):
        return schema
    for one in (schema, *(schema.get("allOf") or ())):
        name = str(one.get("$ref", "")).rpartition("/")[2]
        if name:
            return _resolved(schemas.get(name), schemas, (*inside, name)) if name not in inside else {}
    inner = schema.get("properties") or {}
    return schema | {"properties": {name: _resolved(one, schemas, inside) for name, one in inner.items()}}


def _defined(patient: Patient, resource: str, version: str) -> Any:
    """The schema in the CustomResourceDefinition, None where that cannot be read."""
    path = path_of("customresourcedefinitions", "apiextensions.k8s.io/v1", name=f"{resource}.{OPERATOR}")
    try:
        found = patient.decoded(path, patient.get(path))
    except Refused:
        return None
    for one in (found.get("spec") or {}).get("versions") or ():
        if f"{OPERATOR}/{one.get('name')}" == version:
            return (one.get("schema") or {}).get("openAPIV3Schema")
    return None
