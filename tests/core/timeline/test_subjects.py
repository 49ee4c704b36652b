"""Finding whom a timeline is about."""

from __future__ import annotations

import pytest

from dds_core import events as e
from dds_core.replay import of_steps
from dds_core.scaler.state import PROJECTION, dump
from dds_core.scaler.timeline import Directory
from dds_core.timeline import AmbiguousSubject, Moment, NoSuchSubject
from tests.core.scaler.history.told import told
from tests.support.world import World, one_node


def directory() -> Directory:
    world = one_node("observe", 2)
    world.claim("train-1")
    world.claim("other/train-1")
    world.claim("eval")
    world.resource("gpu-a", "node0")
    world.resource("gpu-b", "node0", uuid="GPU-2222-1", state="Online")
    world.plug("node0", "gpu-9", "GPU-9999-1")
    world.request("composability-x", "node0")
    return Directory().read(of_steps(world.steps))


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("default/train-1", "claim", "default/train-1"),
        ("eval", "claim", "default/eval"),
        ("node0", "node", "node0"),
        ("gpu-a", "device", "gpu-a"),
        ("gpu-b", "device", "GPU-2222-1"),
        ("GPU-22", "device", "GPU-2222-1"),
        ("GPU-9999-1", "device", "GPU-9999-1"),
        ("node-node0", "node", "node0"),
        ("pod/default/train-1", "pod", "default/train-1"),
        ("claim/default/eval", "claim", "default/eval"),
        ("composability-x", "request", "composability-x"),
        ("A100 40G", "model", "A100 40G"),
        ("fabric/1", "fabric", "1"),
    ],
)
def test_a_thing_is_found_by_each_of_its_names(text: str, kind: str, name: str) -> None:
    found = directory().find(text)
    assert (found.kind, found.name) == (kind, name)


def test_a_name_that_several_have_is_refused_with_all_of_them() -> None:
    with pytest.raises(AmbiguousSubject, match=r"may be claim default/train-1, claim other/train-1"):
        directory().find("train-1")


def test_a_misspelt_name_is_refused_with_what_comes_near() -> None:
    with pytest.raises(NoSuchSubject, match=r"did you mean default/eval"):
        directory().find("defualt/eval")


def test_an_unknown_name_is_refused_with_what_can_be_given() -> None:
    with pytest.raises(NoSuchSubject, match=r"give namespace/name of a claim"):
        directory().find("§§§")
    with pytest.raises(NoSuchSubject, match=r"nothing was recorded there"):
        Directory().find("train")


def test_a_short_beginning_is_not_enough() -> None:
    with pytest.raises(NoSuchSubject):
        directory().find("GPU-2")


def test_what_a_checkpoint_holds_is_found() -> None:
    world = World("observe")
    world.node("node0")
    world.claim("train")
    fact = e.Checkpoint(projection=PROJECTION, picture=dump(world.state))
    told = [Moment(1, world.now, fact, [])]
    assert Directory().read(told).find("default/train").uids == {"uid-default-train"}


def test_subjects_are_listed_once() -> None:
    names = [(subject.kind, subject.name) for subject in directory().subjects()]
    assert names == sorted(set(names))
    assert ("device", "GPU-2222-1") in names
    assert ("device", "gpu-b") not in names


def test_a_pod_stands_for_every_claim_that_was_made_for_it() -> None:
    """The scheduler deletes the claim of an extended resource and makes another one. While it has none the pod stands for
    itself."""
    found = Directory().read(told("extended_resource")).find("pod/default/er")
    assert len(found.uids) == 3
