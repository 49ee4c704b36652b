"""A body becomes what a real server would have understood, and is refused in its words where it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab.api.status import ApiError
from tests.lab.kinds.kinds import allocated, changed, claim, pod, registry, request, resource_slice, strategy


def test_what_is_right_is_not_copied() -> None:
    obj = allocated()
    assert strategy("resourceclaims").decode(obj)[0] is obj


def test_unknown_fields_are_named_with_their_path_and_removed() -> None:
    body = changed(changed(claim(), "spec.devices.requests.0.exactly.bogus", 1), "metadata.strange", {})
    decoded, unknown = strategy("resourceclaims").decode(body)
    assert unknown == ["metadata.strange", "spec.devices.requests[0].exactly.bogus"]
    assert decoded == claim()


def test_the_body_is_never_changed() -> None:
    body = changed(claim(), "spec.bogus", 1)
    before = changed(body, "spec.bogus", 1)
    strategy("resourceclaims").decode(body)
    assert body == before


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("metadata.name", 5, "cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"),
        (
            "metadata.labels",
            "x",
            "cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "metadata.labels.a",
            True,
            "cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels.a of type string",
        ),
        ("spec", [], "cannot unmarshal array into Go struct field ResourceClaim.spec of type v1.ResourceClaimSpec"),
        (
            "spec.devices.requests.0.exactly.count",
            "1",
            "cannot unmarshal string into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
        ),
        (
            "spec.devices.requests.0.exactly.count",
            1.5,
            "cannot unmarshal number 1.5 into Go struct field "
            "ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
        ),
        ("spec.devices.requests.0.exactly.count", 2**63, "of type int64"),
        ("spec.devices.requests", {}, "of type []v1.DeviceRequest"),
        ("spec.devices.requests.0.exactly.adminAccess", "yes", "of type bool"),
        ("status", {"allocation": {"allocationTimestamp": "yesterday"}}, 'parsing time "yesterday"'),
    ],
)
def test_wrong_types_are_bad_requests(path: str, value: Any, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        strategy("resourceclaims").decode(changed(claim(), path, value))
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    message = refused.value.status["message"]
    assert message.startswith('ResourceClaim in version "v1" cannot be handled as a ResourceClaim: ')
    assert words in message


@pytest.mark.parametrize("value", ["a lot", "1..5", "5 Gi", "", True, [], "--1"])
def test_what_is_no_quantity_is_a_bad_request(value: Any) -> None:
    with pytest.raises(ApiError) as refused:
        strategy("resourceslices").decode(resource_slice(capacity={"memory": {"value": value}}))
    assert "quantities must match the regular expression" in refused.value.status["message"]


def test_32_bit_numbers_have_32_bits() -> None:
    body = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 2**31}}
    with pytest.raises(ApiError):
        strategy("leases").decode(body)
    assert strategy("leases").decode(changed(body, "spec.leaseDurationSeconds", 2**31 - 1))[1] == []


def test_bytes_are_base64() -> None:
    with pytest.raises(ApiError, match="illegal base64"):
        strategy("secrets").decode({"metadata": {"name": "s"}, "data": {"k": "not base64!"}})


def test_nothings_are_left_out() -> None:
    body = changed(claim(), "spec.devices.constraints", [])
    body = changed(changed(body, "metadata.labels", {}), "metadata.annotations", None)
    assert strategy("resourceclaims").decode(body)[0] == claim()
    unscheduled = {"metadata": {"name": "n"}, "spec": {"unschedulable": False, "providerID": ""}}
    assert strategy("nodes").decode(unscheduled)[0]["spec"] == {}
    assert (
        "nominatedNodeName" not in strategy("pods").decode({**pod(), "status": {"nominatedNodeName": ""}})[0]["status"]
    )


def test_an_empty_text_is_kept_where_it_is_a_value() -> None:
    body = resource_slice(attributes={"note": {"string": ""}})
    assert strategy("resourceslices").decode(body)[0] == body


def test_nulls_in_lists_and_maps_are_zeros() -> None:
    decoded, _ = strategy("configmaps").decode({"metadata": {"name": "c", "finalizers": [None]}, "data": {"k": None}})
    assert (decoded["data"], decoded["metadata"]["finalizers"]) == ({"k": ""}, [""])


def test_what_a_server_always_writes_is_there() -> None:
    node = strategy("nodes").decode({"metadata": {"name": "n"}})[0]
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert node["status"]["nodeInfo"]["kubeletVersion"] == ""
    conditions = [{"type": "PodScheduled", "status": "True"}]
    found = strategy("pods").decode({**pod(), "status": {"conditions": conditions}})[0]["status"]["conditions"]
    assert found == [{**conditions[0], "lastProbeTime": None, "lastTransitionTime": None}]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.75Z", "2026-01-01T00:00:00Z"),
    ],
)
def test_times_are_kept_to_the_second_in_utc(given: str, kept: str) -> None:
    body = changed(allocated(), "status.allocation.allocationTimestamp", given)
    assert strategy("resourceclaims").decode(body)[0]["status"]["allocation"]["allocationTimestamp"] == kept


def test_micro_times_keep_microseconds() -> None:
    body = {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T00:00:00.5Z"}}
    assert strategy("leases").decode(body)[0]["spec"]["renewTime"] == "2026-01-01T00:00:00.500000Z"


def test_quantities_are_canonical_and_numbers_may_be_quantities() -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 64, "memory": "1024Mi", "pods": "0.5"}}}
    assert strategy("nodes").decode(body)[0]["status"]["capacity"] == {"cpu": "64", "memory": "1Gi", "pods": "500m"}


def test_parts_of_the_live_object_are_not_looked_at_again() -> None:
    live = allocated()
    body = {**live, "status": {**live["status"], "reservedFor": None}}
    decoded, _ = strategy("resourceclaims").decode(body, live)
    assert decoded["spec"] is live["spec"]
    assert decoded["status"] == {key: value for key, value in live["status"].items() if key != "reservedFor"}


def test_metadata_of_custom_resources_has_types_and_the_rest_is_checked_later() -> None:
    custom = strategy("composabilityrequests")
    with pytest.raises(ApiError, match="of type string"):
        custom.decode(changed(request(), "metadata.name", 5))
    assert custom.decode(changed(request(), "spec.resource.size", "one"))[1] == []


def test_every_kind_decodes_an_empty_object() -> None:
    known = registry()
    for resource in known.resources():
        decoded, unknown = known.strategy(resource).decode({"metadata": {}})
        assert (unknown, decoded["metadata"]) == ([], {}), resource
