"""A recording of a cluster holds what the engine reads and nothing else, and replays to the very same events."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from dds_adapters.kubernetes import RESOURCES, RecordedEvent, read_recording
from dds_adapters.kubernetes.recording import replay_events
from dds_core.events import Event, encode
from dds_core.scaler.policy import Policy
from dds_lab.record import RESOURCES as RECORDED
from dds_lab.record import Allowed
from tests.adapters.kubernetes.decode.test_canaries import (
    CANARY,
    CONFIG_TEXTS,
    FOREIGN_WORDS,
    KEPT,
    SECRETS,
    TEXTS,
    at,
    matches,
    places,
    planted,
    said,
)
from tests.adapters.kubernetes.samples import BY_NAME, Watched, sample

# What the decoder reads and then drops or judges is written down too; it cannot hold anything but what is allowed there.
ALSO_KEPT = {
    "resourceclaims": ("spec/devices/requests/0/*", "metadata/ownerReferences/0/kind", "status/*"),
    "resourceslices": ("spec/*",),
    "devicetaintrules": (),
    "nodes": (),
    "pods": ("spec/resourceClaims/0/name", "spec/*", "status/*"),
    "configmaps": ("metadata/*", "data/*"),
    "composabilityrequests": (),
    "composableresources": (),
    "deviceclasses": (),
}

OURS = [(resource, path) for resource, path in TEXTS if (resource, path[-1]) != ("configmaps", "name")]


def kept(resource: str, obj: Any, type: str = "ADDED") -> bytes | None:
    return Allowed(resource).kept(type, json.dumps(obj).encode())


def events(resource: str, raw: bytes | None) -> Any:
    return seen(resource, json.loads(raw)) if raw is not None else []


def seen(resource: str, obj: Any) -> list[Any]:
    return [but_for_config(one) for one in Watched().sees(resource, obj)]


def but_for_config(fact: Event) -> Any:
    """What a recording cannot tell is whether an allocated configuration is still the same."""
    told = json.loads(encode(fact))
    told.get("changes", {}).pop("config", None)
    return type(fact).__name__, told


def test_every_resource_that_is_translated_can_be_recorded() -> None:
    assert set(RECORDED) == set(RESOURCES)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_recording_without_the_rest_replays_to_the_same_events(name: str) -> None:
    whole = list(read_recording(BY_NAME[name]))
    allowed = {resource: Allowed(resource) for resource in RECORDED}
    lean = [
        RecordedEvent(one.at, one.resource, one.type, raw)
        for one in whole
        if one.type != "BOOKMARK" and (raw := allowed[one.resource].kept(one.type, one.raw)) is not None
    ]
    assert sum(len(one.raw) for one in lean) < 0.5 * sum(len(one.raw) for one in whole)
    one, other = (
        [(s.at, but_for_config(s.fact), s.caused) for s in replay_events(events, Policy())] for events in (whole, lean)
    )
    assert one == other


@pytest.mark.parametrize(("resource", "path"), TEXTS, ids=lambda v: v if isinstance(v, str) else said(v))
def test_a_text_is_kept_only_where_the_engine_reads_one(resource: str, path: tuple[str | int, ...]) -> None:
    obj = planted(sample(resource), path, CANARY)
    raw = kept(resource, obj)
    read = matches(said(path), (*KEPT[resource], *FOREIGN_WORDS.get(resource, ()), *ALSO_KEPT[resource]))
    assert read or raw is None or CANARY.encode() not in raw


@pytest.mark.parametrize(("resource", "path"), OURS, ids=lambda v: v if isinstance(v, str) else said(v))
def test_whatever_stands_in_a_field_the_events_are_the_same(resource: str, path: tuple[str | int, ...]) -> None:
    for text in (CANARY, *SECRETS, "", "a b\nc"):
        obj = planted(sample(resource), path, text)
        assert events(resource, kept(resource, obj)) == seen(resource, obj)


@pytest.mark.parametrize("resource", RECORDED)
def test_what_is_of_a_wrong_type_is_found_wrong_in_the_same_way(resource: str) -> None:
    for path in places(sample(resource)):
        for wrong in ({CANARY: 1}, [CANARY], CANARY, 7, 1.5, True, None):
            obj = planted(sample(resource), path, wrong)
            raw = kept(resource, obj)
            if raw is not None and path[0] != "metadata":
                assert events(resource, raw) == seen(resource, obj), (said(path), wrong)


@pytest.mark.parametrize("resource", RECORDED)
def test_unknown_fields_are_never_kept(resource: str) -> None:
    free = ("metadata/labels", "status/resources", "consumedCapacity", "attributes", "capacity", "counters")
    for path in ((), *places(sample(resource))):
        obj = sample(resource)
        place = at(obj, path)
        if isinstance(place, dict) and not said(path).endswith(free):
            place["unknown"] = CANARY
            place[f"un{CANARY}"] = {"x": CANARY}
            raw = kept(resource, obj)
            assert raw is not None
            assert CANARY.encode() not in raw, said(path)


def test_neither_environment_nor_annotations_nor_opaque_configuration_is_kept() -> None:
    pod = sample("pods")
    pod["spec"]["containers"] = [{"name": "c", "env": [{"name": "TOKEN", "value": CANARY}], "image": CANARY}]
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": CANARY}
    pod["metadata"]["labels"] = {"team": CANARY}
    claim = sample("resourceclaims")
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "d", "parameters": {"key": CANARY}}}]
    claim["metadata"]["annotations"] = {"note": CANARY, "resource.kubernetes.io/extended-resource-claim": CANARY}
    claim["metadata"]["managedFields"] = [{"manager": CANARY}]
    for resource, obj in (("pods", pod), ("resourceclaims", claim)):
        raw = kept(resource, obj)
        assert raw is not None
        assert CANARY.encode() not in raw


def test_of_a_slices_labels_only_whose_it_is_is_kept() -> None:
    obj = sample("resourceslices")
    obj["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "dds-publisher", "team": CANARY}
    raw = kept("resourceslices", obj)
    assert raw is not None
    assert CANARY.encode() not in raw
    assert events("resourceslices", raw) == seen("resourceslices", obj)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("resource", FOREIGN_WORDS)
def test_foreign_words_are_kept_without_secrets(resource: str, secret: str) -> None:
    for _, path in TEXTS:
        if matches(said(path), FOREIGN_WORDS[resource]):
            raw = kept(resource, planted(sample(resource), path, f"failed: {secret} end"))
            assert raw is not None
            assert CANARY.encode() not in raw


@pytest.mark.parametrize("key", ["device-info", "label-prefix", "fabric-id-range", "mode"])
@pytest.mark.parametrize("text", CONFIG_TEXTS)
def test_what_is_wrong_with_the_config_map_is_not_quoted(key: str, text: str) -> None:
    raw = kept("configmaps", planted(sample("configmaps"), ("data", key), text))
    assert raw is not None
    names_a_model = f"cdi-model-name: {CANARY}" in text
    places_read = ("k8s-device-name", "driver-name", "dra-attributes: {")
    assert names_a_model or any(one in text for one in places_read) or CANARY.encode() not in raw


@pytest.mark.parametrize(
    "text",
    [
        "- {index: 1, index: 2, cdi-model-name: A, k8s-device-name: a, driver-name: d, dra-attributes: {productName: x}}",
        "- {index: 1, cdi-model-name: A, k8s-device-name: a, driver-name: d, cannot-coexist-with: [],"
        " dra-attributes: {productName: x, productName: y}}",
        "- {index: '1', cdi-model-name: 5, k8s-device-name: a}",
        "- 3\n- [1]\n- a\n- {}",
        "text",
        "{}",
        "",
        "- {index: 1, cdi-model-name: A, k8s-device-name: a, driver-name: d, cannot-coexist-with: [1, x],"
        " dra-attributes: {productName: 1.5, other: true}}",
    ],
)
def test_a_config_map_means_the_same(text: str) -> None:
    obj = planted(sample("configmaps"), ("data", "device-info"), text)
    assert events("configmaps", kept("configmaps", obj)) == seen("configmaps", obj)


def test_other_config_maps_and_pods_without_claims_are_left_out() -> None:
    other = sample("configmaps")
    other["metadata"]["name"] = "kube-root-ca.crt"
    assert kept("configmaps", other) is None
    plain = sample("pods")
    plain["spec"].pop("resourceClaims")
    plain["status"].pop("extendedResourceClaimStatus", None)
    assert kept("pods", plain) is None


def test_a_pod_matters_from_its_first_claim_to_its_end() -> None:
    plain = sample("pods")
    plain["status"].pop("extendedResourceClaimStatus", None)
    claims = plain["spec"].pop("resourceClaims")
    with_claims = copy.deepcopy(plain)
    with_claims["spec"]["resourceClaims"] = claims
    pods = Allowed("pods")
    seen = [
        pods.kept(type, json.dumps(one).encode()) is not None
        for type, one in (
            ("ADDED", plain),
            ("DELETED", plain),
            ("MODIFIED", with_claims),
            ("MODIFIED", plain),
            ("DELETED", plain),
            ("DELETED", plain),
        )
    ]
    assert seen == [False, False, True, True, True, False]


def test_a_pod_that_waits_for_an_extended_resource_is_kept_with_nothing_else_that_it_asks_for() -> None:
    pod = sample("pods")
    del pod["spec"]["resourceClaims"], pod["spec"]["nodeName"], pod["status"]["extendedResourceClaimStatus"]
    pod["status"] |= {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    raw = kept("pods", pod)
    assert raw is not None and events("pods", raw) == seen("pods", pod) != []
    (container,) = json.loads(raw)["spec"]["containers"]
    assert container == {"resources": {"requests": {"example.com/gpu": "1"}}}
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    assert kept("pods", pod) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"3", b'"x"', b"[" * 100_000])
def test_what_is_no_object_is_left_out(raw: bytes) -> None:
    assert Allowed("nodes").kept("ADDED", raw) is None
