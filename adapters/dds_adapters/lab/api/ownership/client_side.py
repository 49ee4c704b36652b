"""kubectl's older way of applying, which leaves the whole configuration in an annotation, on its way to server-side apply.

Whoever applies as `kubectl` takes over what kubectl applied before and nobody changed since; the annotation then follows what
is applied, so that both ways can be mixed. Other managers get none of this. Pure.
"""

from typing import Any

import msgspec

from dds_adapters.lab.api.bodies import too_deep
from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.ownership.fields import Fields, difference
from dds_adapters.lab.api.ownership.walking import map_differences, mentioned
from dds_adapters.lab.api.schema import Node

MANAGER = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LARGEST = 256 * 1024
"""Bytes that all annotations of an object may have; beyond that the annotation is given up."""

_encode = msgspec.json.Encoder(order="sorted").encode


def taken_over(schema: Node, live: Object | None, manager: str, api_version: str) -> Fields:
    """The fields that kubectl set by the older way and that still hold what it set: no conflict when it applies them anew."""
    text = _annotations(live).get(LAST_APPLIED) if manager == MANAGER and live is not None else None
    if not text:
        return {}
    try:
        last = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    if not isinstance(last, dict) or too_deep(last) or last.get("apiVersion") != api_version:
        return {}
    errors: list[str] = []
    fields = mentioned(schema, last, "", errors)
    if errors or not fields:
        return {}
    changed, gone = map_differences(schema, last, live)
    return difference(difference(fields, changed), gone)


def remembered(result: Object, applied: Object, manager: str) -> Object:
    """The object with its annotation, where it has one, saying what was applied just now."""
    annotations = _annotations(result)
    if manager != MANAGER or not annotations.get(LAST_APPLIED):
        return result
    text = _encode(_without_annotation(applied)).decode() + "\n"
    if text == annotations[LAST_APPLIED]:
        return result
    made = {**annotations, LAST_APPLIED: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in made.items()) > LARGEST:
        del made[LAST_APPLIED]
    return {**result, "metadata": {**result["metadata"], "annotations": made}}


def _annotations(obj: Object | None) -> dict[str, Any]:
    metadata = (obj or {}).get("metadata") or {}
    found: dict[str, Any] = metadata.get("annotations") or {}
    return found


def _without_annotation(applied: Object) -> Object:
    metadata = dict(applied.get("metadata") or {})
    kept = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED}
    return {**applied, "metadata": {**metadata, "annotations": kept} if kept else metadata}
