"""The exchange: a script put the device of a node into a claim whose pod waited for one of a pool, in two writes, under the real
scheduler's eyes. Played the script's writes, the lab's scheduler and claim controller do what theirs did, when they did it.

A recorded change tells who made it only if that one holds fields afterwards, so an allocation that is cleared is the script's
where nobody else clears: a reserved pod is there and waits for a pool's device, or the reservation is no pod's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count

import pytest

from dds_lab.actors.objects import CLAIM_FINALIZER, allocation_of, reservations, results
from dds_lab.api.requests import Call as Request
from dds_lab.client import ApiError
from dds_lab.time import MICROSECONDS
from tests.lab.scheduler.test_against_recordings import (
    DATA,
    Call,
    Object,
    Player,
    Row,
    Step,
    holding,
    is_made,
    ours,
    story_name,
    words,
)

NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in (DATA / "exchange").glob("*.jsonl.gz"))
SCRIPT = "python-httpx"
TIMEOUT = 600.0
NEAR = 0.3
"""Seconds by which an instant may differ: the real one's writes arrived late now and then, on a machine of two cores."""
RESTARTS = {"gap_restart": (1.75, 2.58), "restart_after": (1.32, 2.04)}
"""Seconds after the start when the scheduler went and came back. The recordings do not show it: it is told from its first write,
and agrees with its later looks."""
DENIED = "ValidatingAdmissionPolicy 'dds-guard' with binding 'dds-guard' denied request: guarded by dds"


@dataclass
class Exchange(Player):
    """Plays what the script wrote into allocations too; a guarded device is refused to the scheduler as the policy did it."""

    guards: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def inputs(self) -> list[tuple[int, Call]]:
        found = super().inputs()
        last: dict[str, Object] = {}
        pods: dict[str, bool] = {}
        for row in self.recorded:
            meta = row.object["metadata"]
            if row.resource == "pods":
                pods[meta["uid"]] = row.type != "DELETED" and "deletionTimestamp" not in meta
                if row.type == "ADDED":
                    found += [(row.at - 1, partial(self._template, *one)) for one in self._templates(row.object)]
            elif row.resource == "configmaps" and "cohdi.io/guard" in (meta.get("labels") or {}):
                found.append((row.at, partial(self._guard, row)))
            elif row.resource == "resourceclaims" and row.type == "MODIFIED":
                if self.allocates(row):
                    found.append((row.at, partial(self._set, row.object)))
                elif allocation_of(row.object) is None and _clears(last[meta["uid"]], pods):
                    found.append((row.at, partial(self._clear, row.object)))
            last[meta["uid"]] = row.object
        return sorted(found, key=lambda one: one[0])

    def allocates(self, row: Row) -> bool:
        """Whether the script set the allocation with this change."""
        before = [one for one in self.recorded if one.at <= row.at and _uid(one) == _uid(row) and one is not row]
        return _owner(row.object) == SCRIPT and bool(before) and allocation_of(before[-1].object) is None

    def judge(self, call: Request) -> None:
        if call.resource.plural != "resourceclaims" or call.subresource != "status" or call.verb != "update":
            return
        named = {(one["driver"], one["pool"], one["device"]) for one in results(call.body)}
        if named & set(self.guards.values()) and allocation_of(self._found(call.name)) is None:
            raise ApiError(422, "Invalid", f'resourceclaims.resource.k8s.io "{call.name}" is forbidden: {DENIED}')

    # -- what the script did

    def _clear(self, recorded: Object) -> None:
        self._patch(recorded, {"allocation": None, "reservedFor": None})

    def _set(self, recorded: Object) -> None:
        status = recorded["status"]
        known = [{**one, "uid": self.uids.get(one["uid"], one["uid"])} for one in status["reservedFor"]]
        more = {"devices": status["devices"]} if status.get("devices") else {}
        self._patch(recorded, {"allocation": status["allocation"], "reservedFor": known, **more})

    def _patch(self, recorded: Object, status: Object) -> None:
        claim = ours(self, recorded)
        assert claim is not None
        meta = claim["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        self.user.patch("resourceclaims", meta["name"], body, meta["namespace"], subresource="status")

    def _guard(self, row: Row) -> None:
        data = row.object["data"]
        if row.type == "DELETED":
            del self.guards[row.name]
        else:
            self.guards[row.name] = (data["driver"], data["pool"], data["device"])

    def _templates(self, pod: Object) -> list[tuple[str, Object]]:
        """Name and spec of the templates, which are not in the recordings: told from the claims that were made of them."""
        made = [one.object for one in self.recorded if one.resource == "resourceclaims" and is_made(one.object)]
        of_pod = [one for one in made if story_name(one) == pod["metadata"]["name"]]
        entries = pod["spec"].get("resourceClaims") or ()
        names = [one["resourceClaimTemplateName"] for one in entries if "resourceClaimTemplateName" in one]
        return [(name, of_pod[0]["spec"]) for name in names]

    def _template(self, name: str, spec: Object) -> None:
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name}}
        self.user.create("resourceclaimtemplates", {**kind, "spec": {"spec": spec}}, "default")

    def _found(self, claim: str) -> Object | None:
        return self.user.find("resourceclaims", claim, "default")


def _uid(row: Row) -> str:
    uid: str = row.object["metadata"]["uid"]
    return uid


def _owner(claim: Object) -> str:
    """Who wrote the allocation that the claim has."""
    for one in claim["metadata"].get("managedFields") or ():
        if "f:allocation" in (one["fieldsV1"].get("f:status") or {}):
            manager: str = one["manager"]
            return manager
    return ""


def _clears(before: Object, pods: dict[str, bool]) -> bool:
    """Whether it was the script that cleared what the claim had before."""
    waited = any(one.get("bindingConditions") for one in results(before))
    return any(
        one["resource"] != "pods" or (waited and pods.get(one["uid"], False)) for one in reservations(before)
    ) and bool(results(before))


# -- what is compared


def changes(stream: Sequence[Row]) -> dict[str, list[Step]]:
    """By claim and by pod, those of one name one after the other: finalizer, devices, reservations and conditions of claims; what
    pods are told until they run."""
    told: dict[str, list[Step]] = {}
    last: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    for row in stream:
        if row.resource not in ("pods", "resourceclaims"):
            continue
        uid = _uid(row)
        if uid not in names:
            name = story_name(row.object) if row.resource == "resourceclaims" else row.name
            names[uid] = next(one for number in count(1) if (one := f"{row.resource} {name} {number}") not in told)
            told[names[uid]] = []
        before = last.get(uid, ())
        now = words(row) if row.resource == "pods" else _said(row, before)
        if now and now != before:
            told[names[uid]].append(Step(row.at, " | ".join(now)))
            last[uid] = now
    return told


def _said(row: Row, before: Sequence[str]) -> tuple[str, ...]:
    """The claim in words. When its finalizer goes is left out: who deletes the claim is in a race with it."""
    if row.type == "DELETED":
        return ("gone",)
    conditions = [
        f"{entry['device']} {one['type']}={one['status']}"
        for entry in row.object["status"].get("devices") or ()
        for one in entry.get("conditions") or ()
    ]
    protected = "protected" in before or CLAIM_FINALIZER in (row.object["metadata"].get("finalizers") or ())
    reserved = ", ".join(one["name"] for one in reservations(row.object))
    return ("protected" if protected else "", holding(row.object), f"for {reserved}", *conditions)


@cache
def played(name: str) -> Exchange:
    player = Exchange(f"exchange/{name}", TIMEOUT, RESTARTS.get(name))
    player.play()
    return player


def what(told: dict[str, list[Step]]) -> dict[str, list[str]]:
    return {name: [step.what for step in steps] for name, steps in told.items()}


def instants(told: dict[str, list[Step]]) -> dict[str, list[float]]:
    """Seconds since the first claim was there."""
    begun = min(steps[0].at for name, steps in told.items() if name.startswith("resourceclaims"))
    return {name: [(step.at - begun) / MICROSECONDS for step in steps] for name, steps in told.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_and_pod_goes_through_what_was_recorded(name: str) -> None:
    player = played(name)

    assert what(changes(player.seen)) == what(changes(player.recorded))
    assert player.misplaced == 0


@pytest.mark.parametrize("name", NAMES)
def test_it_does_so_when_it_was_recorded(name: str) -> None:
    lab, real = (instants(changes(stream)) for stream in (played(name).seen, played(name).recorded))

    assert lab.keys() == real.keys()
    for one in real:
        assert lab[one] == pytest.approx(real[one], abs=NEAR), one
