"""Lists and events become changes: each once, ends before namesakes, and what has left is asked only where it matters."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from dds_adapters.kubernetes.watch.object_store import Identity, ObjectStore, failure, identity, seeds
from tests.support.world import one_node

Told = list[tuple[str, str]]


def thing(name: str, version: int, uid: str = "", **more: object) -> bytes:
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"metadata": meta, **more}).encode()


def known(told: Told, matters: bool = False, before: tuple[Identity, ...] = ()) -> ObjectStore:
    return ObjectStore(
        lambda uid, type, raw: told.append((type, uid)), (lambda raw: b"claim" in raw) if matters else None, before
    )


def list_of(objects: ObjectStore, *raws: bytes) -> None:
    listing = objects.begin()
    for raw in raws:
        objects.in_list(listing, raw)
    objects.end(listing)


def test_a_version_is_told_once() -> None:
    told: Told = []
    objects = known(told)
    list_of(objects, thing("a", 1), thing("b", 1))
    objects.is_there(thing("a", 1))
    objects.is_there(thing("a", 2))
    list_of(objects, thing("a", 2), thing("b", 1))
    assert told == [("ADDED", "uid-a"), ("ADDED", "uid-b"), ("MODIFIED", "uid-a")]


def test_what_is_known_from_before_is_what_a_list_would_have() -> None:
    """No list has a pod with a node: each would be asked for at every start."""
    world = one_node("attach", 2)
    for name in ("waits", "runs"):
        world.waits(name, "node0")
    world.bind("runs")
    found = seeds(world.state)
    assert [one.name for one in found["pods"]] == ["waits"]
    assert [(one.namespace, one.name) for one in found["resourceclaims"]] == [("default", "waits"), ("default", "runs")]
    assert [one.name for one in found["nodes"]] == ["node0"] and len(found["configmaps"]) == 1


def test_what_a_list_has_not_is_gone() -> None:
    told: Told = []
    objects = known(told)
    list_of(objects, thing("a", 1), thing("b", 1))
    del told[:]
    list_of(objects, thing("b", 1))
    assert told == [("DELETED", "uid-a")]
    assert len(objects) == 1


def test_another_uid_of_the_same_name_is_another_object_and_comes_after_the_end_of_the_first() -> None:
    told: Told = []
    objects = known(told, matters=True)
    list_of(objects, thing("a", 1, claim=1), thing("b", 1))
    del told[:]
    list_of(objects, thing("a", 5, uid="new"), thing("b", 1))
    assert told == [("DELETED", "uid-a"), ("ADDED", "new")]
    assert objects.doubtful() == []


def test_the_end_of_what_was_never_told_is_not_told() -> None:
    told: Told = []
    objects = known(told)
    objects.has_left("nobody", thing("a", 1))
    assert told == []


def test_what_the_other_side_has_from_before_is_compared_with_the_first_list() -> None:
    told: Told = []
    objects = known(told, before=(Identity("uid-a", "default", "a"), Identity("uid-b", "default", "b")))
    list_of(objects, thing("b", 7), thing("c", 8))
    assert told == [("MODIFIED", "uid-b"), ("ADDED", "uid-c"), ("DELETED", "uid-a")]


def test_what_matters_is_asked_when_it_leaves() -> None:
    told: Told = []
    objects = known(told, matters=True)
    list_of(objects, thing("a", 1, claim=1), thing("b", 1, claim=1), thing("c", 1), thing("d", 1, claim=1))
    del told[:]
    objects.has_left("uid-a", thing("a", 2, claim=1))
    objects.has_left("uid-c", thing("c", 2))
    list_of(objects, thing("d", 1, claim=1))
    assert told == [("DELETED", "uid-c")]
    assert [(uid, one.name) for uid, one in objects.doubtful()] == [("uid-a", "a"), ("uid-b", "b")]
    objects.settle("uid-a", thing("a", 3, claim=1))
    objects.settle("uid-b", thing("b", 4, uid="another", claim=1))
    assert told[1:] == [("MODIFIED", "uid-a"), ("DELETED", "uid-b")]
    assert objects.doubtful() == []
    assert len(objects) == 1


def test_what_is_seen_again_is_not_in_doubt() -> None:
    told: Told = []
    objects = known(told, matters=True)
    objects.is_there(thing("a", 1, claim=1))
    objects.has_left("uid-a")
    objects.is_there(thing("a", 1, claim=1))
    assert objects.doubtful() == []


def test_what_could_not_be_passed_on_is_not_known() -> None:
    def refuse(uid: str, type: str, raw: bytes) -> None:
        raise OSError("full")

    objects = ObjectStore(refuse, None, ())
    with pytest.raises(OSError, match="full"):
        objects.is_there(thing("a", 1))
    assert len(objects) == 0


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"metadata": {"uid": 3}}', b'{"metadata": null}', b"\xff"])
def test_an_object_that_cannot_be_read_is_passed_on_for_others_to_judge(raw: bytes) -> None:
    told: Told = []
    objects = known(told)
    objects.is_there(raw)
    list_of(objects, raw, thing("a", 1))
    assert told == [("ADDED", ""), ("ADDED", ""), ("ADDED", "uid-a")]
    assert identity(raw) == Identity()


def test_the_end_of_a_watch_says_why() -> None:
    status = {"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}
    found = failure("there", json.dumps(status).encode())
    assert (found.code, found.wait) == (429, 3.0)
    assert "TooManyRequests" in str(found)
    assert failure("there", b"what").code == failure("there", b"{}").code == 410


def test_ten_thousand_claims_take_less_than_ten_mebibytes() -> None:
    raws = [thing(f"claim-with-a-usual-name-{n}", n, uid=f"{n:08d}-3c1f-4c5e-9d8e-0a1b2c3d4e5f") for n in range(10_000)]
    objects = ObjectStore(lambda uid, type, raw: None)
    tracemalloc.start()
    try:
        for raw in raws:
            objects.is_there(raw)
        assert tracemalloc.get_traced_memory()[0] < 10 * 1024 * 1024
        assert len(objects) == 10_000
    finally:
        tracemalloc.stop()
