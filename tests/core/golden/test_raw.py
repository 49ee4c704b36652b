"""The golden timelines against a second reading of the raw events, which shares no code with the translation or the rules.

Plain dictionaries, one event at a time: when was a claim allocated, on what, bound, let go; when was a device asked for,
taken, freed, and gone. The replay must say just that, at just these instants.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dds_core.scaler.events import ClaimMoved, DeviceMoved
from tests.core.golden.replays import ALL, recorded, replayed

Said = tuple[int, str, str]
"""(instant, uid, what)."""

CLAIM_FACTS = ("allocated_pool", "allocated_local", "pod_bound", "let go")
DEVICE_FACTS = ("requested", "taken", "freed", "detaching", "gone")


class RawReading:
    """What the raw events themselves say."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.words: dict[str, str] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.ours: set[str] = set()
        self.bound: set[str] = set()
        self.pods: dict[str, dict[str, Any]] = {}
        self.uuid_of: dict[tuple[str, str, str], str] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self.device: dict[str, str] = {}

    def read(self, at: int, resource: str, type: str, found: dict[str, Any]) -> None:
        uid = found["metadata"].get("uid", "")
        match resource:
            case "configmaps":
                entries = json.loads(found["data"]["device-info"])
                self.words = {entry["k8s-device-name"]: entry["driver-name"] for entry in entries}
            case "resourceclaims":
                self._claim(at, uid, None if type == "DELETED" else found)
            case "pods" if type != "DELETED":
                self.pods[uid] = found
                self._bind(at)
            case "resourceslices" if "nodeName" in found["spec"] and type != "DELETED":
                spec = found["spec"]
                self._forget_names(spec["driver"], spec["pool"]["name"])
                for device in spec.get("devices", ()):
                    uuid = device.get("attributes", {}).get("uuid", {}).get("string", "")
                    self.uuid_of[(spec["driver"], spec["pool"]["name"], device["name"])] = uuid
            case "composableresources":
                self._resource(at, uid, None if type == "DELETED" else found)
        self._use(at)

    # --- claims ------------------------------------------------------------------------------------------------------

    def _claim(self, at: int, uid: str, found: dict[str, Any] | None) -> None:
        old = self._allocation(self.claims.get(uid))
        new = self._allocation(found)
        if found is None:
            self.claims.pop(uid, None)
        else:
            self.claims[uid] = found
        if new != old and new:
            kinds = self._kinds(new)
            if kinds:
                self.ours.add(uid)
                self.bound.discard(uid)
                self._say(at, uid, "allocated_pool" if "pool" in kinds else "allocated_local")
        if old and not new and uid in self.ours:
            self._say(at, uid, "let go")
        self._bind(at)

    @staticmethod
    def _allocation(found: dict[str, Any] | None) -> dict[str, Any]:
        return (found or {}).get("status", {}).get("allocation") or {}

    def _kinds(self, allocation: dict[str, Any]) -> set[str]:
        """Which of our devices an allocation names."""
        kinds = set()
        for result in allocation["devices"]["results"]:
            word, fabric, _ = result["pool"].rpartition("-fabric")
            if result.get("bindingConditions"):
                if fabric and self.words.get(word) == result["driver"]:
                    kinds.add("pool")
            elif result["driver"] in self.words.values():
                kinds.add("local")
        return kinds

    def _bind(self, at: int) -> None:
        for uid in self.ours - self.bound:
            claim = self.claims.get(uid)
            if claim is None or not self._allocation(claim):
                continue
            users = [self.pods.get(user["uid"], {}) for user in claim["status"].get("reservedFor", ())]
            if any(pod.get("spec", {}).get("nodeName") for pod in users):
                self.bound.add(uid)
                self._say(at, uid, "pod_bound")

    # --- devices -----------------------------------------------------------------------------------------------------

    def _forget_names(self, driver: str, pool: str) -> None:
        for key in [key for key in self.uuid_of if key[:2] == (driver, pool)]:
            del self.uuid_of[key]

    def _resource(self, at: int, uid: str, found: dict[str, Any] | None) -> None:
        if found is None:
            self._say(at, uid, "gone")
            self.resources.pop(uid, None)
            self.device.pop(uid, None)
            return
        if uid not in self.resources:
            self._say(at, uid, "requested")
            self.device[uid] = "new"
        self.resources[uid] = found
        leaving = "deletionTimestamp" in found["metadata"] or found.get("status", {}).get("state") in (
            "Detaching",
            "Deleting",
        )
        if leaving and self.device[uid] != "leaving":
            self.device[uid] = "leaving"
            self._say(at, uid, "detaching")

    def _use(self, at: int) -> None:
        """Which devices are in a claim's hands now."""
        held = {
            self.uuid_of.get((r["driver"], r["pool"], r["device"]), "")
            for claim in self.claims.values()
            for r in self._allocation(claim).get("devices", {}).get("results", ())
        } - {""}
        for uid, found in self.resources.items():
            used = found.get("status", {}).get("device_id", "") in held
            if used and self.device[uid] in ("new", "idle"):
                self.device[uid] = "used"
                self._say(at, uid, "taken")
            elif not used and self.device[uid] == "used":
                self.device[uid] = "idle"
                self._say(at, uid, "freed")

    def _say(self, at: int, uid: str, what: str) -> None:
        self.said.append((at, uid, what))


def instants(name: str) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    for event in recorded(name):
        if event.type != "BOOKMARK":
            yield event.at, event.resource, event.type, json.loads(event.raw)


def replay_says(name: str) -> Iterator[Said]:
    for step in replayed(name):
        for event in step.transitions:
            if isinstance(event, DeviceMoved) and event.trigger in DEVICE_FACTS:
                yield step.at, event.resource, event.trigger
            elif isinstance(event, ClaimMoved):
                what = "let go" if event.trigger in ("cleared", "released") else event.trigger
                if what in CLAIM_FACTS:
                    yield step.at, event.claim, what


@pytest.mark.parametrize("name", ALL)
def test_the_replay_says_what_the_raw_events_say(name: str) -> None:
    raw = RawReading()
    for found in instants(name):
        raw.read(*found)
    expected, told = Counter(raw.said), Counter(replay_says(name))
    assert sorted((expected - told).elements()) == [], "in the raw events, and not told"
    assert sorted((told - expected).elements()) == [], "told, and not in the raw events"


@pytest.mark.parametrize("name", ["first_attach", "burst"])
def test_the_second_reading_reads_the_instants_of_the_file(name: str) -> None:
    event = next(iter(recorded(name)))
    assert datetime.fromtimestamp(event.at / 1_000_000, UTC).date().isoformat() == "2026-11-21"
