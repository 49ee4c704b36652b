"""Every object that a real server sent is known to the last field, is acceptable, and comes out as it went in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.kinds.kinds import registry

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))
PLURALS = {"DeviceClass": "deviceclasses"}


def objects(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["type"] != "BOOKMARK":
                yield event["object"]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_recorded_objects_are_known_and_acceptable(path: Path) -> None:
    known = registry()
    count = 0
    for obj in objects(path):
        kind = obj["kind"]
        resource = known.named(PLURALS.get(kind, f"{kind.lower()}s"))
        strategy = known.strategy(resource)
        decoded, unknown = strategy.decode(obj)
        assert (decoded, unknown) == (obj, []), kind
        assert strategy.check_create(strategy.for_create(decoded)) == [], kind
        assert strategy.for_update(decoded, obj, "") == obj, kind
        count += 1
    assert count > 10


def marked_like(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old object with the marks of a deletion, which is no update."""
    marks = {
        key: new["metadata"][key]
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if key in new["metadata"]
    }
    return {**old, "metadata": {**old["metadata"], **marks}}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_recorded_changes_are_acceptable_and_come_out_as_recorded(path: Path) -> None:
    """Each version after the one before it: what changed in the status as a status write, the rest as a write of the object."""
    known = registry()
    last: dict[str, dict[str, Any]] = {}
    for obj in objects(path):
        uid = obj["metadata"]["uid"]
        old = last.get(uid)
        last[uid] = obj
        if old is None:
            continue
        resource = known.named(PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s"))
        strategy = known.strategy(resource)
        made = old = marked_like(old, obj)
        if "status" in resource.subresources:
            made = strategy.for_update(obj, old, "status")
            assert strategy.check_update(made, old, "status") == []
            assert made.get("status") == obj.get("status")
        bound = resource.plural == "pods" and obj["spec"] != made["spec"]
        if not bound:  # a pod's node is set by a binding, never by an update
            after = strategy.for_update(obj, made, "")
            assert strategy.check_update(after, made, "") == []
            assert after["spec"] == obj["spec"] if "spec" in obj else after == made


def test_all_recordings_are_there() -> None:
    assert len(RECORDINGS) == 19
