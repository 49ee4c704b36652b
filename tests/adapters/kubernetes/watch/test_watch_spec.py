"""What is followed, and which pods matter when they leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_adapters.kubernetes import RESOURCES
from dds_adapters.kubernetes.decode.decoding import pod, refers_to_claims
from dds_adapters.kubernetes.recording import read_recording
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, watched
from dds_adapters.kubernetes.watch.watch_spec import refers_to_claims as matters
from tests.adapters.kubernetes.samples import RECORDINGS


def test_everything_that_is_translated_is_followed() -> None:
    assert {one.resource for one in watched()} == set(VERSIONS) == set(RESOURCES)
    assert all(one.versions == VERSIONS[one.resource] for one in watched())


def test_of_pods_those_without_a_node_and_of_configmaps_ours_alone() -> None:
    scopes = {one.resource: one.scope for one in watched("elsewhere") if one.scope.namespace or one.scope.fields}
    assert scopes.keys() == {"pods", "configmaps"}
    assert scopes["pods"].fields == "spec.nodeName="
    assert (scopes["configmaps"].namespace, scopes["configmaps"].fields) == (
        "elsewhere",
        "metadata.name=composable-dra-dds",
    )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({}, False),
        ({"spec": {"resourceClaims": []}, "status": None}, False),
        ({"spec": None, "status": {"extendedResourceClaimStatus": None}}, False),
        ({"spec": {"resourceClaims": [{"name": "c"}]}}, True),
        ({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}, True),
        ({"spec": "no spec"}, True),
    ],
)
def test_a_pod_that_refers_to_claims_matters(shape: dict[str, Any], expected: bool) -> None:
    assert matters(json.dumps(shape).encode()) is expected


def test_it_says_the_same_as_the_decoder_of_every_recorded_pod() -> None:
    events = [event for path in RECORDINGS for event in read_recording(path) if event.resource == "pods"]
    raws = [event.raw for event in events if event.type != "DELETED" and b"uid" in event.raw]
    assert len(raws) > 100
    assert [matters(raw) for raw in raws] == [refers_to_claims(pod(raw)) for raw in raws]
