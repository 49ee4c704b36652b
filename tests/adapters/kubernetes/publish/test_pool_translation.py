"""Nodes, slices and the ConfigMap become the publisher's facts: what is read, what is not, and what broken objects become."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes import NamedObjects, read_recording
from dds_adapters.kubernetes.publish.decode import PUBLISHED, PublisherTranslator, host
from dds_adapters.kubernetes.watch.watch_spec import (
    PUBLISHER,
    PUBLISHER_OPTIONAL,
    VERSIONS,
    watched,
    watched_by_publisher,
)
from dds_core.events import Event, Rejected, decode, encode
from dds_core.model import Requirement, Taint
from dds_core.publisher.describe import digest_of
from dds_core.publisher.events import HostObserved, PoolSliceObserved
from dds_core.publisher.model import Host, PoolSlice
from dds_core.publisher.state import PoolState
from tests.adapters.kubernetes.decode.test_canaries import CANARY, SECRETS, at, matches, places, planted, said
from tests.adapters.kubernetes.decode.test_garbage import json_values, yaml_texts
from tests.adapters.kubernetes.samples import ONE_NODE, RECORDINGS, NamingView, Watched, raw_of, sample
from tests.support.drawn import examples

XID = Taint("gpu.nvidia.com/xid", "79", "NoSchedule")


def watching(view: NamingView | None = None) -> Watched:
    return Watched(view, PUBLISHED)


def slice_of(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    obj = sample("resourceslices")
    obj["spec"] = {**obj["spec"], **spec}
    obj["spec"]["devices"] = list(devices) or obj["spec"]["devices"]
    obj["spec"] = {key: value for key, value in obj["spec"].items() if value is not ...}
    return obj


def read_slice(obj: dict[str, Any]) -> PoolSlice:
    found = watching()
    assert [type(event) for event in found.sees("resourceslices", obj)] == [PoolSliceObserved]
    one = found.the("resourceslices")
    assert isinstance(one, PoolSlice)
    return one


# -- what is followed ----------------------------------------------------------------------------------------------------


def test_all_that_is_translated_is_followed_in_the_versions_that_are_understood() -> None:
    followed = watched_by_publisher("elsewhere")
    assert [one.resource for one in followed] == list(PUBLISHED) == list(PUBLISHER)
    assert all(one.versions == VERSIONS[one.resource] for one in followed)
    scopes = {one.resource: one.scope for one in followed}
    assert (scopes["configmaps"].namespace, scopes["configmaps"].fields) == (
        "elsewhere", "metadata.name=composable-dra-dds",
    )  # fmt: skip
    assert {scope for name, scope in scopes.items() if name != "configmaps"} == {watched()[2].scope}
    assert PUBLISHER_OPTIONAL.issubset(PUBLISHER)


def test_the_picture_is_a_view_that_finds_objects_by_name() -> None:
    assert isinstance(PoolState(), NamedObjects)
    facts = PublisherTranslator(PoolState()).translate("nodes", "ADDED", raw_of(sample("nodes")))
    assert [type(fact) for fact in facts] == [HostObserved]


# -- nodes ---------------------------------------------------------------------------------------------------------------


def test_a_node_is_the_machine_that_its_provider_id_ends_in() -> None:
    found = watching()
    found.sees("nodes", sample("nodes"))
    assert found.the("nodes") == Host("u-1", "n1", "1", {"team": "blue"})


@pytest.mark.parametrize(
    ("provider", "machine"),
    [
        ("fsas-cdi://0123-4567", "0123-4567"),
        ("aws:///eu-west-1a/i-0abc", "i-0abc"),
        ("0123-4567", "0123-4567"),
        ("nec://4B0D-7A52", "4b0d-7a52"),
        ("fsas-cdi://0123-4567/", "0123-4567"),
        ("", ""),
        ("//", ""),
    ],
)
def test_which_machine(provider: str, machine: str) -> None:
    node = sample("nodes")
    node["spec"]["providerID"] = provider
    assert host(raw_of(node)).machine == machine


def test_of_a_node_only_labels_and_machine_are_news() -> None:
    found, node = watching(), sample("nodes")
    found.sees("nodes", node)
    node["spec"]["unschedulable"] = False
    node["spec"]["taints"] = []
    node["status"]["conditions"] = []
    assert found.sees("nodes", node) == ()
    node["metadata"]["labels"]["cohdi.io/fabric"] = "1"
    (fact,) = found.sees("nodes", node)
    assert isinstance(fact, HostObserved)
    assert fact.changes.labels == {"team": "blue", "cohdi.io/fabric": "1"}


# -- slices --------------------------------------------------------------------------------------------------------------


def test_a_slice_of_a_pool_is_names_and_a_digest() -> None:
    obj = sample("resourceslices")
    assert read_slice(obj) == PoolSlice(
        uid="u-1",
        name="s1",
        driver="gpu.nvidia.com",
        pool="nvidia-a100-40-fabric1",
        generation=5,
        selector=(Requirement("cohdi.io/fabric", "In", ("1",)),),
        devices=("gpu-0",),
        taints=(XID,),
        digest=digest_of(obj["spec"]["devices"]),
    )


def test_whose_it_is_says_its_label() -> None:
    obj = sample("resourceslices")
    obj["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "dds-publisher"
    assert read_slice(obj).owner == "dds-publisher"


def test_devices_without_binding_conditions_are_told() -> None:
    waiting = {"name": "a", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    assert read_slice(slice_of(waiting, {"name": "b"}, {"name": "c", "bindingConditions": []})).ordinary == ("b", "c")


def test_a_taint_is_told_once() -> None:
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-11-21T02:11:04Z"}
    other = {"key": "k", "effect": "None"}
    devices = ({"name": "a", "taints": [taint]}, {"name": "b", "taints": [taint, other]}, {"name": "c"})
    assert read_slice(slice_of(*devices)).taints == (Taint("k", "", "NoSchedule"), Taint("k", "", "None"))


@pytest.mark.parametrize("place", [{"nodeName": "n1", "nodeSelector": ...}, {"nodeSelector": ONE_NODE}])
def test_a_slice_of_one_node_tells_who_its_devices_are(place: dict[str, Any]) -> None:
    devices = (
        {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-1"}}},
        {"name": "gpu-1", "attributes": {"gpu.nvidia.com/uuid": {"string": "GPU-2"}, "index": {"int": 1}}},
        {"name": "gpu-2", "attributes": {"uuid": {"string": ""}}},
        {"name": "gpu-3", "attributes": {"other.example/uuid": {"string": "X"}}},
        {"name": "gpu-4"},
        {"name": "mig-1", "attributes": {"uuid": {"string": "MIG-1"}, "parentUUID": {"string": "GPU-1"}}},
    )
    found = read_slice(slice_of(*devices, **place))
    assert (found.node, found.digest, found.selector) == ("n1", "", ())
    assert found.uuids == {"gpu-0": "GPU-1", "gpu-1": "GPU-2", "mig-1": "GPU-1"}
    assert read_slice(slice_of(*devices)).uuids == {}


def test_the_old_form_reads_the_same() -> None:
    old = sample("resourceslices")
    old["apiVersion"] = "resource.k8s.io/v1beta1"
    old["spec"]["devices"] = [
        {"name": one["name"], "basic": {key: value for key, value in one.items() if key != "name"}}
        for one in old["spec"]["devices"]
    ]
    assert read_slice(old) == read_slice(sample("resourceslices"))


def test_what_the_server_adds_or_spells_otherwise_is_no_news() -> None:
    found, obj = watching(), sample("resourceslices")
    found.sees("resourceslices", obj)
    obj["metadata"]["resourceVersion"] = "8"
    (device,) = obj["spec"]["devices"]
    device["taints"][0]["timeAdded"] = "2026-11-21T03:00:00Z"
    device["capacity"]["memory"]["value"] = "40960Mi"
    obj["spec"]["devices"] = [dict(reversed(device.items()))]
    assert found.sees("resourceslices", obj) == ()
    obj["spec"]["devices"][0]["attributes"]["numa"]["int"] = 2
    (fact,) = found.sees("resourceslices", obj)
    assert isinstance(fact, PoolSliceObserved) and len(encode(fact)) < 200


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ([{"name": "a"}, {"name": "a"}], "another device of the slice has it"),
        ([{"name": "a"}, {}], "is missing"),
    ],
)
def test_a_slice_with_odd_names_is_rejected(devices: list[Any], reason: str) -> None:
    (event,) = watching().sees("resourceslices", slice_of(*devices))
    assert isinstance(event, Rejected)
    assert (event.kind, event.name, event.field, event.reason) == (
        "ResourceSlice",
        "s1",
        "spec.devices[1].name",
        reason,
    )


# -- the ConfigMap, and all of it together --------------------------------------------------------------------------------


def test_a_bad_entry_is_told_once_beside_the_good_ones() -> None:
    found, obj = watching(), sample("configmaps")
    entries = json.loads(obj["data"]["device-info"])
    entries.append({**entries[0], "index": 2, "cdi-model-name": "B", "k8s-device-name": "b", "capacity": "much"})
    obj["data"]["device-info"] = json.dumps(entries)
    _, rejected = found.sees("configmaps", obj)
    assert isinstance(rejected, Rejected)
    assert (rejected.field, rejected.reason) == ("data.device-info[B].capacity", "is not a mapping")
    assert [one.model for one in found.the("configmaps").models] == ["A100 40G"]
    assert found.sees("configmaps", obj) == ()


def test_another_config_map_is_nobodys_business() -> None:
    obj = sample("configmaps")
    obj["metadata"]["name"] = "other"
    assert watching().sees("configmaps", obj) == ()


@pytest.mark.parametrize("resource", PUBLISHED)
def test_an_object_comes_changes_and_goes(resource: str) -> None:
    found = watching()
    kind = PUBLISHED[resource].kind.__name__
    assert [type(one).__name__ for one in found.sees(resource, sample(resource), "ADDED")] == [f"{kind}Observed"]
    assert found.sees(resource, sample(resource)) == ()
    end = "ConfigMissing" if resource == "configmaps" else f"{kind}Gone"
    assert [type(one).__name__ for one in found.sees(resource, sample(resource), "DELETED")] == [end]
    assert bool(found.view.objects) is (resource == "configmaps"), "it stays in force"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_recording_is_understood(path: Any) -> None:
    found = watching(NamingView())
    events: list[Event] = []
    for one in read_recording(path):
        if one.resource in PUBLISHED:
            events.extend(found.sees(one.resource, one.raw, one.type))
    assert events and not any(isinstance(event, Rejected) for event in events)


# -- canaries -------------------------------------------------------------------------------------------------------------

_META = ("metadata/uid", "metadata/name")
_TAINTS = tuple(f"spec/devices/0/taints/0/{field}" for field in ("key", "value", "effect"))
KEPT: dict[str, tuple[str, ...]] = {
    "nodes": (*_META, "metadata/labels/*", "spec/providerID"),
    "resourceslices": (*_META, "spec/driver", "spec/pool/name", "spec/nodeSelector/*", "spec/devices/0/name", *_TAINTS),
    "configmaps": ("metadata/uid",),
}
"""The fields that are kept as they are written; of claims and composable resources the scaler's tests say so."""


def leaks(resource: str, obj: Any) -> bool:
    fresh, known = watching(), watching()
    known.sees(resource, sample(resource))
    events = (*fresh.sees(resource, obj), *known.sees(resource, obj), *known.sees(resource, obj, "DELETED"))
    return any(CANARY.lower().encode() in encode(event).lower() for event in events)


@pytest.mark.parametrize("resource", KEPT)
def test_only_the_listed_fields_are_kept_as_written(resource: str) -> None:
    for path in places(sample(resource)):
        if not isinstance(at(sample(resource), path), str):
            continue
        kept = matches(said(path), KEPT[resource])
        assert leaks(resource, planted(sample(resource), path, CANARY)) is kept, said(path)
        if not kept:
            assert not any(leaks(resource, planted(sample(resource), path, secret)) for secret in SECRETS), said(path)


ENTRY = "- {cdi-model-name: A, index: 1, k8s-device-name: a, driver-name: a, cannot-coexist-with: [], "
GOOD = ENTRY + "dra-attributes: {productName: a}, "


@pytest.mark.parametrize(
    "text",
    [
        f"{GOOD}attributes: {CANARY}}}",
        f"{GOOD}attributes: {{x: {CANARY}}}}}",
        f"{GOOD}attributes: {{x: {{{CANARY}: 1}}}}}}",
        f"{GOOD}attributes: {{x: {{int: {CANARY}}}}}}}",
        f"{GOOD}attributes: {{x: {{version: {CANARY}}}}}}}",
        f"{GOOD}attributes: {{'{CANARY} x': {{int: 1}}}}}}",
        f"{GOOD}capacity: {CANARY}}}",
        f"{GOOD}capacity: {{m: {CANARY}}}}}",
        f"{GOOD}capacity: {{m: {{value: {CANARY}}}}}}}",
        f"{GOOD}capacity: {{m: {{value: 1, {CANARY}: 1}}}}}}",
        f"{GOOD}capacity: {{m: {{value: 1, requestPolicy: {{default: {CANARY}}}}}}}, allow-multiple-allocations: true}}",
        f"{GOOD}allow-multiple-allocations: {CANARY}}}",
        f"{GOOD}res-type: '{CANARY} x'}}",
        f"{ENTRY}dra-attributes: {{productName: a, {CANARY}-x: b}}}}",
    ],
)
def test_a_bad_entry_is_not_quoted(text: str) -> None:
    obj = planted(sample("configmaps"), ("data", "device-info"), text)
    assert any(isinstance(event, Rejected) for event in watching().sees("configmaps", obj))
    assert not leaks("configmaps", obj)


# -- garbage --------------------------------------------------------------------------------------------------------------


def survives(found: Watched, resource: str, obj: Any, type: str) -> None:
    events = found.sees(resource, obj, type)
    assert len([event for event in events if not isinstance(event, Rejected)]) <= 2
    for event in events:
        assert decode(event.__class__.__name__, encode(event)) == event


@examples(50, 300)
@given(st.data())
def test_garbage_in_any_field(data: st.DataObject) -> None:
    found = watching(NamingView())
    resource = data.draw(st.sampled_from(sorted(PUBLISHED)))
    if data.draw(st.booleans()):
        found.sees(resource, sample(resource))
    obj: Any = sample(resource)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(sample(resource)))))
        try:
            at(obj, path[:-1])[path[-1]] = data.draw(json_values)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier garbage took the place away
    for type in ("ADDED", "MODIFIED", "DELETED"):
        survives(found, resource, copy.deepcopy(obj), type)


@examples(50, 300)
@given(st.dictionaries(st.text(max_size=12), json_values, max_size=4), st.integers(-(2**70), 2**70))
def test_garbage_in_a_device(garbage: dict[str, Any], number: int) -> None:
    survives(watching(), "resourceslices", slice_of({**garbage, "name": "a"}), "MODIFIED")
    survives(
        watching(), "resourceslices", slice_of({"name": "a", "capacity": {"m": {"value": "1", "x": garbage}}}), "ADDED"
    )
    survives(watching(), "resourceslices", slice_of({"name": "a", "new": [number, garbage]}), "ADDED")


entries = st.fixed_dictionaries(
    {
        "index": st.just(1),
        "cdi-model-name": st.just("A"),
        "k8s-device-name": st.just("a"),
        "driver-name": st.just("a"),
        "dra-attributes": st.just({"productName": "a"}) | json_values,
        "cannot-coexist-with": st.just([]),
    },
    optional={
        "attributes": json_values | st.dictionaries(st.sampled_from(["a", "b/c"]), json_values, max_size=3),
        "capacity": st.dictionaries(
            st.sampled_from(["m", "n"]),
            json_values
            | st.fixed_dictionaries({"value": json_values | st.just(8)}, optional={"requestPolicy": json_values}),
        ),
        "allow-multiple-allocations": st.booleans() | json_values,
        "res-type": json_values,
    },
)


@examples(50, 300)
@given(entries.map(json.dumps) | yaml_texts)
def test_garbage_in_device_info(text: str) -> None:
    survives(watching(), "configmaps", planted(sample("configmaps"), ("data", "device-info"), text), "MODIFIED")
