"""Finds out which fields of a slice the API server stores, by a creation with dryRun=All.

A server whose feature gate is off drops the field silently, so only the answer to a write shows it. Nothing here creates an
object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dds_adapters.kubernetes.cluster import Answer, Asking, path_of
from dds_adapters.kubernetes.decode.decoding import MANAGED_BY as LABEL
from dds_adapters.kubernetes.publish.pools import FIRST_VERSION, SLICES
from dds_adapters.kubernetes.write.live_object import MANAGER
from dds_core.errors import DdsError
from dds_core.events import Capabilities
from dds_core.publisher.describe import device_of
from dds_core.publisher.model import MANAGED_BY, Capacity, PoolModel

PROBE = "dds-publisher-probe"
"""Name of the slice and of its pool, which are never created."""
_MODEL = PoolModel(0, PROBE, "probe", "", capacity={"memory": Capacity("1Gi", "1Mi")}, shared=True)
_FIX = "see that the publisher may create resourceslices, and that no admission webhook refuses a dry run"


class ProbeFailed(DdsError):
    """The answer does not show which fields are stored; ask again later."""


def probe(api: Asking, version: str, driver: str) -> Capabilities:
    """What a server that serves ResourceSlices in this API version stores of them.

    Raises ProbeFailed, and Unreachable if it does not answer.
    """
    if version == FIRST_VERSION:  # a release older than all three features
        return Capabilities(binding_conditions=False, device_taints=False, shared_devices=False)
    answer = api.ask(
        "POST", path_of(SLICES, version), query=_QUERY, body=msgspec.json.encode(on_trial(version, driver))
    )
    device = _kept(answer)
    return Capabilities(
        binding_conditions=bool(device.binding_conditions and device.binds_to_node),
        device_taints=bool(device.taints),
        shared_devices=device.allow_multiple_allocations
        and all(one.request_policy for one in device.capacity.values()),
    )


class _Capacity(msgspec.Struct, rename="camel"):
    request_policy: dict[str, str] | None = None


class _Device(msgspec.Struct, rename="camel"):
    """The probed fields of a device."""

    binds_to_node: bool = False
    binding_conditions: list[str] = []
    taints: list[dict[str, str]] = []
    allow_multiple_allocations: bool = False
    capacity: dict[str, _Capacity] = {}


class _Spec(msgspec.Struct):
    devices: list[_Device]


class _Slice(msgspec.Struct):
    spec: _Spec


_answer = msgspec.json.Decoder(_Slice)
_QUERY = {"dryRun": "All", "fieldManager": MANAGER}


def on_trial(version: str, driver: str) -> dict[str, Any]:
    return slice_on_trial(version, PROBE, driver, {PROBE: "true"}, device_of(_MODEL, "probe", PROBE))


def slice_on_trial(
    version: str, name: str, driver: str, labels: Mapping[str, str], device: Mapping[str, Any]
) -> dict[str, Any]:
    """A slice of one device for nodes with these labels; it has dds's mark and a pool, as an admission policy for the publisher
    may require."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {
        "apiVersion": version,
        "kind": "ResourceSlice",
        "metadata": {"name": name, "labels": {LABEL: MANAGED_BY}},
        "spec": {
            "driver": driver,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]},
            "devices": [device],
        },
    }


def _kept(answer: Answer) -> _Device:
    """The slice's one device as it would be stored."""
    if answer.code >= 300:
        raise ProbeFailed(f"the answer to a dry run is {answer.code}", where=SLICES, fix=_FIX)
    try:
        return _answer.decode(answer.body).spec.devices[0]
    except (ValueError, IndexError):
        raise ProbeFailed("the answer to a dry run is not the slice that was sent", where=SLICES, fix=_FIX) from None
