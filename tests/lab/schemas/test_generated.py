"""The packed schemas are what the generator makes of the package that they come from."""

from __future__ import annotations

import gzip
import json

from dds_lab.api.kinds import BUILT_IN
from dds_lab.api.packed import definition, kind_node
from tests.lab.schemas.generate import TARGET, encoded, packed


def test_the_data_file_is_what_the_generator_makes() -> None:
    assert json.loads(gzip.decompress(TARGET.read_bytes())) == json.loads(json.dumps(packed()))


def test_the_generator_gives_the_same_bytes_twice() -> None:
    assert encoded() == encoded()


def test_the_source_is_named() -> None:
    assert "kubernetes-validate" in json.loads(gzip.decompress(TARGET.read_bytes()))["source"]


def test_every_built_in_kind_has_a_schema_with_metadata() -> None:
    for resource in BUILT_IN:
        node = kind_node(resource.group, resource.version, resource.kind)
        assert node.fields["metadata"].name == "ObjectMeta", resource


def test_a_node_is_built_once_and_shared() -> None:
    pod, claim = kind_node("", "v1", "Pod"), kind_node("resource.k8s.io", "v1", "ResourceClaim")
    assert kind_node("", "v1", "Pod") is pod
    assert pod.fields["metadata"] is claim.fields["metadata"]


def test_a_schema_may_hold_itself() -> None:
    schema = definition("apiextensions.v1.JSONSchemaProps")
    inner = schema.fields["properties"].items
    assert inner is not None and "properties" in inner.fields


def test_lists_know_their_keys_and_their_strategy() -> None:
    status = kind_node("resource.k8s.io", "v1", "ResourceClaim").fields["status"]
    devices, reserved = status.fields["devices"], status.fields["reservedFor"]
    assert (devices.list_type, devices.list_keys) == ("map", ("driver", "device", "pool", "shareID"))
    assert (reserved.patch_key, reserved.patch_strategy) == ("uid", "merge")
    assert kind_node("", "v1", "Pod").fields["metadata"].fields["finalizers"].list_type == "set"
