"""The allow-list of a recording: only the fields that the decoder reads get into it.

The list is made of the decoder's own types, so the two cannot differ; only the fields of the metadata are listed here. A string
in an unexpected place is removed, and messages of other programs are scrubbed as they are in events. Not even a digest of an
allocated configuration is kept: that would need the whole configuration. This module must never let a field through because it
looks harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import inspect

from dds_adapters.kubernetes.decode import config, decoding, raw_objects
from dds_adapters.kubernetes.decode.config import MAX_PREFIX, MODES
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.decode.translate import RESOURCES as RESOURCES_BY_NAME
from dds_core.errors import InputError
from dds_core.matching import quantities
from dds_core.text import scrub

# -- the ConfigMap's texts: YAML that people write, which may contain anything
#
# Each text is parsed as the decoder does it, and written again with the known fields only. A text that cannot be parsed is
# replaced by another one that cannot be parsed. No key or value may pass that the decoder does not read.

_UNREADABLE = "["
_TEXTS = ("cdi-model-name", "k8s-device-name", "driver-name")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")


def known_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the ConfigMap's data that dds reads. A value that is no text stays unchanged (the decoder rejects it)."""
    return {
        name: rewritten(text) if isinstance(text, str) else text
        for name, rewritten in _REWRITTEN.items()
        if (text := data.get(name)) is not None
    }


def _device_info(text: str) -> str:
    found = _parsed(text)
    if found is _BROKEN:
        return _UNREADABLE
    if not isinstance(found, list):
        return json.dumps(_bare(found))
    return f"[{', '.join(_entry(one) for one in found)}]"


def _entry(found: Any) -> str:
    if not isinstance(found, config.Mapping):
        return json.dumps(_bare(found))
    parts: list[tuple[str, str]] = []
    for name in ("index", *_TEXTS, "dra-attributes", "cannot-coexist-with"):
        if name in found:
            parts.append((name, _value(name, found[name])))
            if name in found.repeated:  # keep the error: a repeated field
                parts.append(parts[-1])
    return _table(parts)


def _value(name: str, found: Any) -> str:
    if name == "dra-attributes" and isinstance(found, config.Mapping):
        parts = [(key, json.dumps(_leaf(value, text=True))) for key, value in found.items()]
        return _table([*parts, *(part for part in parts if part[0] in found.repeated)])
    if name == "cannot-coexist-with" and isinstance(found, list):
        return json.dumps([_leaf(one) for one in found])
    return json.dumps(_leaf(found, text=name in _TEXTS))


def _table(parts: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in parts)}}}"


def _fabrics(text: str) -> str:
    found = _parsed(text)
    if found is _BROKEN:
        return _UNREADABLE
    return json.dumps([_leaf(one) for one in found] if isinstance(found, list) else _bare(found))


def _leaf(found: Any, *, text: bool = False) -> Any:
    return found if text and isinstance(found, str) else _bare(found)


def _bare(found: Any) -> Any:
    """An empty value of the same type; numbers and booleans stay, since they reveal nothing."""
    return type(found)() if isinstance(found, str | list) else {} if isinstance(found, dict) else found


_BROKEN = object()


def _parsed(text: str) -> Any:
    try:
        return config.parse("", text)
    except Fault:
        return _BROKEN


def _prefix(text: str) -> str:
    return text if len(text) <= MAX_PREFIX and _PREFIX.fullmatch(text) else ""


def _mode(text: str) -> str:
    return text if text in ("", *MODES) else "unknown"


_REWRITTEN: Mapping[str, Callable[[str], str]] = {
    "device-info": _device_info,
    "label-prefix": _prefix,
    "fabric-id-range": _fabrics,
    "mode": _mode,
}


# -- the allow-list

_INSTANT = re.compile(r"[0-9T:.+Zz -]{1,40}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_,:]{0,127}")
_NAMES = ("uid", "name", "namespace")

_ALL = (*_NAMES, "creationTimestamp", "deletionTimestamp")
METADATA: Mapping[str, tuple[str, ...]] = {
    "resourceclaims": (*_ALL, "annotations", "ownerReferences", "finalizers"),
    "resourceslices": (*_ALL, "labels"),
    "deviceclasses": _ALL,
    "devicetaintrules": _ALL,
    "nodes": (*_ALL, "labels"),
    "pods": _ALL,
    "configmaps": _ALL,
    "composabilityrequests": (*_ALL, "generateName", "labels"),
    "composableresources": (*_ALL, "labels", "annotations"),
}
"""Fields of the metadata that are kept, by resource. Labels are kept if rules or selectors depend on them."""

LABELS: Mapping[str, tuple[str, ...]] = {
    "resourceslices": (decoding.MANAGED_BY,),
    "composableresources": (decoding.MANAGED_BY, decoding.READY_TO_DETACH),
}
"""The only labels that are kept of these resources; of the other resources with labels above, all are kept."""

SCRUBBED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "composabilityrequests": (("status", "error"),),
    "composableresources": (("status", "error"),),
}
"""Messages of other programs: kept without secrets."""

_API_VERSIONS = ("", *decoding.CORE, *decoding.DRA, *decoding.TAINT_RULES, *decoding.OPERATOR)
_OTHER = "other"


@dataclass(frozen=True)
class _Shape:
    """What the decoder expects at a place: a leaf ("string", "instant" or other), fields, a map of one shape, or a list."""

    leaf: str = ""
    fields: Mapping[str, _Shape] = field(default_factory=dict)
    each: _Shape | None = None
    many: _Shape | None = None


class Allowed:
    """The allow-list of one resource."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._metadata = METADATA[resource]
        self._shape = _shape(inspect.type_info(_TYPES[resource]))
        self._known: set[str] = set()
        self._encode = msgspec.json.Encoder().encode

    def kept(self, type: str, raw: bytes) -> bytes | None:
        """The JSON of an object with the allowed fields only; None for an object that is not recorded: a pod that has no claims
        and waits for no extended resource, a ConfigMap other than that of dds, or anything that is no JSON object."""
        try:
            found = msgspec.json.decode(raw)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        projected = _project(found, self._shape)
        self._narrow(projected)
        kept = self._encode(projected)
        return kept if self._matters(type, projected, kept) else None

    def _narrow(self, obj: dict[str, Any]) -> None:
        meta = obj.get("metadata")
        if isinstance(meta, dict):
            for name in [name for name in meta if name not in self._metadata]:
                del meta[name]
            _keep_only(meta, "labels", LABELS.get(self._resource))
            _keep_flags(meta)
            if isinstance(finalizers := meta.get("finalizers"), list):
                meta["finalizers"] = [one for one in finalizers if one == decoding.PROTECTION]
            _change(meta, ("labels", decoding.READY_TO_DETACH), lambda text: "")  # only its presence matters
            if isinstance(owners := meta.get("ownerReferences"), list):
                meta["ownerReferences"] = [o for o in owners if isinstance(o, dict) and o.get("kind") == "Pod"]
        known = RESOURCES_BY_NAME[self._resource].name
        _change(obj, ("kind",), lambda text: text if text in ("", known) else _OTHER)
        _change(obj, ("apiVersion",), lambda text: text if text in _API_VERSIONS else _OTHER)
        if self._resource == "configmaps" and isinstance(obj.get("data"), dict):
            obj["data"] = known_data(obj["data"])
        if self._resource == "pods":
            _keep_extended(obj)
        for path in SCRUBBED.get(self._resource, ()):
            _change(obj, path, scrub)
        for conditions in _conditions(obj, self._resource):
            for one in conditions:
                _change(one, ("reason",), _reason)

    def _matters(self, type: str, obj: dict[str, Any], raw: bytes) -> bool:
        meta = obj.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        if self._resource == "configmaps":
            return (meta.get("namespace"), meta.get("name")) == (config.NAMESPACE, config.NAME)
        if self._resource != "pods":
            return True
        uid = meta.get("uid")
        uid = uid if isinstance(uid, str) else ""
        if type == "DELETED":
            known = uid in self._known
            self._known.discard(uid)
            return known
        if uid not in self._known and not _refers_to_claims(obj) and not _waits_for_extended(raw):
            return False
        self._known.add(uid)
        return True


def _keep_extended(pod: dict[str, Any]) -> None:
    """Of what containers ask for, keep only extended resources. A value of a wrong type stays, without its name: the decoder
    rejects it in the same way."""
    spec = pod.get("spec")
    for part in ("initContainers", "containers"):
        containers = spec.get(part) if isinstance(spec, dict) else None
        for one in containers if isinstance(containers, list) else ():
            resources = one.get("resources") if isinstance(one, dict) else None
            requests = resources.get("requests") if isinstance(resources, dict) else None
            if isinstance(resources, dict) and isinstance(requests, dict):
                resources["requests"] = dict(_extended(requests))


def _extended(requests: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, amount in requests.items():
        if not isinstance(amount, str | int | float) or isinstance(amount, bool):
            yield "", amount
        elif decoding.is_extended(name):
            try:
                quantities.parse(str(amount))
            except InputError:
                amount = ""
            yield name, amount


def _refers_to_claims(pod: dict[str, Any]) -> bool:
    spec, status = pod.get("spec"), pod.get("status")
    spec, status = (one if isinstance(one, dict) else {} for one in (spec, status))
    return bool(spec.get("resourceClaims") or status.get("extendedResourceClaimStatus"))


def _waits_for_extended(raw: bytes) -> bool:
    try:
        return bool(decoding.pod(raw).extended_resources)
    except Fault:
        return False


def _keep_only(meta: dict[str, Any], part: str, names: tuple[str, ...] | None) -> None:
    if names is not None and isinstance(meta.get(part), dict):
        meta[part] = {name: value for name, value in meta[part].items() if name in names}


def _keep_flags(meta: dict[str, Any]) -> None:
    """Keep only annotations with the value "true": dds reads no others."""
    annotations = meta.get("annotations")
    if isinstance(annotations, dict):
        meta["annotations"] = {name: value for name, value in annotations.items() if value == "true"}


def _conditions(obj: dict[str, Any], resource: str) -> list[list[Any]]:
    status = obj.get("status")
    if not isinstance(status, dict):
        return []
    devices = status.get("devices")
    holders: list[Any] = []
    if resource == "pods":
        holders = [status]
    elif resource == "resourceclaims" and isinstance(devices, list):
        holders = devices
    return [one["conditions"] for one in holders if isinstance(one, dict) and isinstance(one.get("conditions"), list)]


def _reason(text: str) -> str:
    """A reason is one word; any other text is scrubbed, as in the decoder."""
    return text if not text or _WORD.fullmatch(text) else scrub(text)


def _change(obj: Any, path: tuple[str, ...], change: Callable[[str], str]) -> None:
    for part in path[:-1]:
        obj = obj.get(part) if isinstance(obj, dict) else None
    if isinstance(obj, dict) and isinstance(obj.get(path[-1]), str):
        obj[path[-1]] = change(obj[path[-1]])


# -- shapes from the decoder's types

_TYPES: Mapping[str, type] = {
    "resourceclaims": raw_objects.RawClaim,
    "resourceslices": raw_objects.RawSlice,
    "deviceclasses": raw_objects.RawDeviceClass,
    "devicetaintrules": raw_objects.RawTaintRule,
    "nodes": raw_objects.RawNode,
    "pods": raw_objects.RawPod,
    "configmaps": raw_objects.RawConfigMap,
    "composabilityrequests": raw_objects.RawComposabilityRequest,
    "composableresources": raw_objects.RawComposableResource,
}


def _shape(form: inspect.Type) -> _Shape:
    if isinstance(form, inspect.UnionType):  # always a type or null
        return next(_shape(one) for one in form.types if not isinstance(one, inspect.NoneType))
    if isinstance(form, inspect.StructType):
        return _Shape(fields={one.encode_name: _shape(one.type) for one in form.fields})
    if isinstance(form, inspect.DictType):
        return _Shape(each=_shape(form.value_type))
    if isinstance(form, inspect.VarTupleType):
        return _Shape(many=_shape(form.item_type))
    if isinstance(form, inspect.DateTimeType):
        return _Shape(leaf="instant")
    return _Shape(leaf="string" if isinstance(form, inspect.StrType) else "other")


def _project(value: Any, shape: _Shape) -> Any:
    """The expected parts of a value. An unexpected part becomes an empty value of its JSON type, so that the decoder rejects it
    in the same way and it reveals nothing."""
    if isinstance(value, dict):
        if shape.each is not None:
            return {name: _project(one, shape.each) for name, one in value.items()}
        return {name: _project(value[name], inner) for name, inner in shape.fields.items() if name in value}
    if isinstance(value, list):
        return [_project(one, shape.many) for one in value] if shape.many is not None else []
    if isinstance(value, str):
        if shape.leaf == "instant":
            return value if _INSTANT.fullmatch(value) else ""
        return value if shape.leaf == "string" else ""
    return value
