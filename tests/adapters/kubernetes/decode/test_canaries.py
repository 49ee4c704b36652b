"""Secrets never get into an event: a canary is put into every field of every kind, and must not be seen again.

What may be kept as it is written is listed here, field by field. Everything else is either not read at all, or foreign text
whose secrets are removed, or refused without being quoted.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dds_adapters.kubernetes import RESOURCES
from dds_core.events import encode
from tests.adapters.kubernetes.samples import Watched, sample

CANARY = "CanaryQ7"
SECRETS = (f"password={CANARY}", f"Bearer {CANARY}", f'{{"token": "{CANARY}"}}', f"https://u:{CANARY}@h/")

_META = ("metadata/uid", "metadata/name")
_LABELS = ("metadata/labels/*",)
_TAINT = ("key", "value", "effect")

KEPT: dict[str, tuple[str, ...]] = {
    "resourceclaims": (
        *_META,
        "metadata/namespace",
        "metadata/ownerReferences/0/uid",
        "spec/devices/requests/0/name",
        *(f"spec/devices/requests/0/exactly/{f}" for f in ("deviceClassName", "selectors/0/cel/expression")),
        *(f"status/allocation/devices/results/0/{f}" for f in ("request", "driver", "pool", "device", "shareID")),
        "status/allocation/devices/results/0/bindingConditions/*",
        "status/allocation/devices/results/0/bindingFailureConditions/*",
        "status/allocation/devices/results/0/consumedCapacity/*",
        "status/allocation/nodeSelector/*",
        *(f"status/reservedFor/0/{f}" for f in ("uid", "name", "resource")),
        *(f"status/devices/0/{f}" for f in ("driver", "pool", "device", "shareID")),
        *(f"status/devices/0/conditions/0/{f}" for f in ("type", "status")),
    ),
    "resourceslices": (
        *_META,
        "spec/driver",
        "spec/pool/name",
        "spec/nodeSelector/*",
        "spec/devices/0/name",
        *(f"spec/devices/0/attributes/{f}" for f in ("uuid/string", "driverVersion/version")),
        "spec/devices/0/bindingConditions/*",
        "spec/devices/0/bindingFailureConditions/*",
        *(f"spec/devices/0/taints/0/{f}" for f in _TAINT),
        *(f"spec/devices/0/consumesCounters/0/{f}" for f in ("counterSet",)),
    ),
    "deviceclasses": (*_META, "spec/selectors/0/cel/expression", "spec/extendedResourceName"),
    "devicetaintrules": (
        *_META,
        "spec/deviceSelector/*",
        *(f"spec/taint/{f}" for f in _TAINT),
    ),
    "nodes": (*_META, *_LABELS, *(f"spec/taints/0/{f}" for f in _TAINT)),
    "pods": (
        *_META,
        "metadata/namespace",
        "spec/nodeName",
        "spec/schedulerName",
        *(f"spec/tolerations/0/{f}" for f in ("key", "operator", "value", "effect")),
        "spec/resourceClaims/0/resourceClaimName",
        "status/phase",
        "status/nominatedNodeName",
        "status/resourceClaimStatuses/0/resourceClaimName",
        "status/extendedResourceClaimStatus/resourceClaimName",
    ),
    "configmaps": ("metadata/uid",),
    "composabilityrequests": (
        *_META,
        *_LABELS,
        "metadata/generateName",
        *(f"spec/resource/{f}" for f in ("type", "model", "allocation_policy", "target_node")),
        "status/state",
    ),
    "composableresources": (
        *_META,
        "metadata/labels/app.kubernetes.io|managed-by",
        *(f"spec/{f}" for f in ("type", "model", "target_node")),
        *(f"status/{f}" for f in ("state", "device_id", "cdi_device_id")),
    ),
}
FOREIGN_WORDS = {  # kept after their secrets were removed
    "resourceclaims": ("status/devices/0/conditions/0/reason",),
    "pods": ("status/conditions/0/reason",),
    "composabilityrequests": ("status/error",),
    "composableresources": ("status/error",),
}


def places(obj: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value in the object, leaves and containers."""
    if path:
        yield path
    inside = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def said(path: tuple[str | int, ...]) -> str:
    return "/".join(str(part).replace("/", "|") for part in path)


def at(obj: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        obj = obj[part]
    return obj


def planted(obj: Any, path: tuple[str | int, ...], value: Any) -> Any:
    new = copy.deepcopy(obj)
    at(new, path[:-1])[path[-1]] = value
    return new


def leaks(resource: str, obj: Any) -> bool:
    """Whether the canary is in any event: of the object alone, or as a change of a good one."""
    fresh, known = Watched(), Watched()
    known.sees(resource, sample(resource))
    events = (*fresh.sees(resource, obj), *known.sees(resource, obj), *known.sees(resource, obj, "DELETED"))
    return any(CANARY.encode() in encode(event) for event in events)


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(re.escape(one).replace(r"\*", ".*"), path) for one in patterns)


ALL = [(resource, path) for resource in RESOURCES for path in places(sample(resource))]
TEXTS = [(r, path) for r, path in ALL if isinstance(at(sample(r), path), str)]


@pytest.mark.parametrize(("resource", "path"), TEXTS, ids=lambda v: v if isinstance(v, str) else said(v))
def test_only_the_listed_fields_are_kept_as_written(resource: str, path: tuple[str | int, ...]) -> None:
    kept = matches(said(path), KEPT[resource])
    words = matches(said(path), FOREIGN_WORDS.get(resource, ()))
    assert leaks(resource, planted(sample(resource), path, CANARY)) is (kept or words)
    if not kept:
        for secret in SECRETS:
            assert not leaks(resource, planted(sample(resource), path, secret))


def test_the_lists_name_nothing_that_is_not_there() -> None:
    for lists in (KEPT, FOREIGN_WORDS):
        for resource, patterns in lists.items():
            for pattern in patterns:
                assert any(matches(said(p), (pattern,)) for r, p in TEXTS if r == resource), (resource, pattern)


@pytest.mark.parametrize("resource", RESOURCES)
def test_what_is_refused_is_not_quoted(resource: str) -> None:
    for path in places(sample(resource)):
        for wrong in ({CANARY: {CANARY: CANARY}}, [CANARY, [CANARY]], [{CANARY: 1}]):
            mapped = isinstance(at(sample(resource), path), dict) and isinstance(wrong, dict)
            if not mapped:  # a map of free names takes any name
                assert not leaks(resource, planted(sample(resource), path, wrong)), said(path)


@pytest.mark.parametrize("resource", RESOURCES)
def test_unknown_fields_are_never_seen(resource: str) -> None:
    free = ("metadata/labels", "consumedCapacity", "attributes", "capacity", "counters", "status/resources")
    for path in ((), *places(sample(resource))):
        obj = sample(resource)
        place = at(obj, path)
        if isinstance(place, dict) and not said(path).endswith(free):
            place["unknown"] = CANARY
            place[f"un{CANARY}"] = {"x": CANARY}
            assert not leaks(resource, obj), said(path)


CONFIG_TEXTS = [
    f"- {CANARY}",
    f"{CANARY}: {CANARY}",
    f"- {{{CANARY}: {CANARY}}}",
    f"- [{CANARY}",
    f"- &{CANARY} [1]\n- *{CANARY}",
    f"- !{CANARY} 1",
    f"- cdi-model-name: A\n  index: {CANARY}",
    f"- {{cdi-model-name: A, index: 1, driver-name: {CANARY}}}",
    f"- {{cdi-model-name: A, index: 1, k8s-device-name: {CANARY}}}",
    f"- {{cdi-model-name: A, index: 1, k8s-device-name: a, driver-name: a, dra-attributes: {CANARY}}}",
    f"- {{cdi-model-name: A, index: 1, k8s-device-name: a, driver-name: a, dra-attributes: {{productName: a, a b: {CANARY}}}}}",
    f"- {{cdi-model-name: A, index: 1, k8s-device-name: a, driver-name: a, dra-attributes: {{productName: a, '{CANARY} b': c}}}}",
    f"{CANARY}\x07",
]


@pytest.mark.parametrize("text", CONFIG_TEXTS)
@pytest.mark.parametrize("key", ["device-info", "label-prefix", "fabric-id-range", "mode"])
def test_a_bad_config_map_is_not_quoted(key: str, text: str) -> None:
    assert not leaks("configmaps", planted(sample("configmaps"), ("data", key), text))
