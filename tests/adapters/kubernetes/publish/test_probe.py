"""What the API server keeps is found without anything being made."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.publish.probe import ProbeFailed, probe
from dds_core.events import Capabilities
from tests.adapters.kubernetes.publish.booth import Booth
from tests.support.written_objects import GPU

V1 = "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("gate", "lacking"),
    [
        ("DRADeviceBindingConditions", Capabilities(binding_conditions=False)),
        ("DRADeviceTaints", Capabilities(device_taints=False)),
        ("DRAConsumableCapacity", Capabilities(shared_devices=False)),
        ("DRAPartitionableDevices", Capabilities()),
    ],
)
def test_a_gate_that_is_off(gate: str, lacking: Capabilities) -> None:
    booth = Booth("1.36", **{gate: False})
    assert probe(booth.writer, V1, GPU) == lacking
    assert booth.slices() == []


@pytest.mark.parametrize("release", ["1.34", "1.35"])
def test_releases_that_keep_nothing_of_it_by_default(release: str) -> None:
    nothing = Capabilities(binding_conditions=False, device_taints=False, shared_devices=False)
    assert probe(Booth(release).writer, V1, GPU) == nothing


def test_everything_is_kept_and_nothing_is_made() -> None:
    booth = Booth()
    for _ in range(2):
        assert probe(booth.writer, V1, GPU) == Capabilities()
    assert booth.slices() == []
    assert booth.writer.requests == {"POST": 2}


def test_what_is_older_than_all_that_is_not_asked() -> None:
    booth = Booth()
    found = probe(booth.writer, "resource.k8s.io/v1beta1", GPU)
    assert found == Capabilities(binding_conditions=False, device_taints=False, shared_devices=False)
    assert booth.writer.requests == {}


def test_who_may_not_ask_knows_nothing() -> None:
    booth = Booth()
    with pytest.raises(
        ProbeFailed, match=r"^resourceslices: the answer to a dry run is 403; see that the publisher may"
    ):
        probe(booth.as_user("nobody"), V1, GPU)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html/>", b"[]", b"{}", b'{"spec": null}', b'{"spec": {"devices": []}}', b'{"spec": {"devices": [7]}}'],
)
def test_an_answer_that_is_no_slice(body: bytes) -> None:
    with pytest.raises(ProbeFailed, match="is not the slice that was sent"):
        probe(Saying(body), V1, GPU)


class Saying:
    """A server that gives one answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        assert more["query"] == {"dryRun": "All", "fieldManager": "dds"}
        return Answer(201, self._body)
