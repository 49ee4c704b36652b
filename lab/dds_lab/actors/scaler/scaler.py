"""The simulated reference scaler. It scans at every interval and after each change of a claim or slice. A scan looks only at
nodes where something changed or a duration passed; the result equals that of a look at all nodes.

In the reference each claim and slice ever seen has a timer of its own, which begins with its first scan (fault B2;
`ScalerPart.timers`). So with many claims it scans much more often than its interval says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from dds_lab.actors.models import NAME, NAMESPACE, BadConfig, DeviceInfo, Model, read_config_map
from dds_lab.actors.objects import condition, said
from dds_lab.actors.scaler.view import (
    FAILED,
    PREPARING,
    READY,
    RESCHEDULE,
    SLICE,
    TYPES,
    Claim,
    ClaimKey,
    ScalerView,
    Unreadable,
    last_used,
    model_of,
)
from dds_lab.client import ApiError, Client, Object, instants, tolerating
from dds_lab.latency import Latency, Uniform
from dds_lab.scenario.parts import ScalerPart
from dds_lab.time import Time, Timer, Timers

GOING_OR_THERE = ("Online", "Attaching")
MICROSECONDS = 1_000_000
REACTION = Uniform(0.01, 0.2)
"""Seconds from a change of a claim or slice to its scan."""
APART = MICROSECONDS // 20
"""Timers that end less than so much apart count as one."""


@dataclass
class NodeScan:
    """One scan of one node, in the reference's order: fail, send back, resize, label. `again`: the next instant at which a
    duration ends that still runs now.

    The reference's faults are kept on purpose: a free device may be promised to several claims in one scan, a node with two
    models never shrinks, and an object that cannot be read ends the scan.
    """

    client: Client
    view: ScalerView
    settings: ScalerPart
    info: DeviceInfo
    node: str
    now: int
    again: int | None = None

    def __post_init__(self) -> None:
        self.resources = list(self.view.resources_on(self.node))
        self.used = [one for one in self.resources if self._is_used(one)]

    def run(self) -> None:
        """Raises ApiError and Unreadable, which end the scan."""
        self.models = {one.device: one for one in self.info.models}
        self.claims = {one.key: one for one in self.view.waiting(self.node)}
        self.requests = list(self.view.requests_on(self.node))
        self.models_in_use = [one["spec"]["model"] for one in self.used]
        self._fail()
        self._send_back()
        for model in self.info.models:
            self._resize(model)
        self._label()

    def _fail(self) -> None:
        for claim in sorted(self.claims.values(), key=lambda one: one.created, reverse=True):
            current = self.claims[claim.key]
            if not current.preparing:
                continue
            rival = self._rival(current)
            if rival is not None or self._impossible(current) or self._too_many(current):
                self._mark(claim.key, FAILED)
                if rival is not None and rival != claim.key:
                    self._mark(rival, FAILED)

    def _impossible(self, claim: Claim) -> bool:
        """Whether a device left the pool or must not coexist with another one of the claim, or with one that the node has or
        requests."""
        if any(not self.view.pooled(one.key) for one in claim.devices):
            return True
        others = [one["spec"]["resource"]["model"] for one in self.requests if one["spec"]["resource"]["size"] > 0]
        others += [one["spec"]["model"] for one in self.resources if said(one, "state") in GOING_OR_THERE]
        mine = [self._model(one.device) for one in claim.devices]
        indexes = {one.index for one in self.info.models if one.model in others} | {one.index for one in mine}
        return any(indexes & set(one.conflicts) for one in mine)

    def _rival(self, claim: Claim) -> ClaimKey | None:
        """Another claim that is preparing a device that must not coexist with this one's. Claims of the same name are
        overlooked."""
        for other in self.claims.values():
            if other.key[1] == claim.key[1]:
                continue
            theirs = {self._model(one.device).index for one in other.devices if one.state == PREPARING}
            if any(theirs & set(self._model(one.device).conflicts) for one in claim.devices):
                return other.key
        return None

    def _too_many(self, claim: Claim) -> bool:
        for device in dict.fromkeys(one.device for one in claim.devices):
            most, _ = self.view.limits(self.node, device, self.info.prefix)
            if self._demand(self._model(device)) > most:
                return True
        return False

    def _demand(self, model: Model) -> int:
        """The devices of the model that claims wait for, and those in use."""
        states = (PREPARING, "Reschedule", "Ready") if self.settings.ready else (PREPARING, "Reschedule")
        return self._count(model, states) + self.models_in_use.count(model.model)

    def _count(self, model: Model, states: tuple[str, ...]) -> int:
        """How many devices of the model the node's claims have in one of these states."""
        devices = (one for claim in self.claims.values() for one in claim.devices)
        return sum(one.device == model.device and one.state in states for one in devices)

    def _send_back(self) -> None:
        for claim in sorted(self.claims.values(), key=lambda one: one.created):
            if not self.claims[claim.key].preparing:
                continue
            found = self._matched(claim)
            if found is None:
                continue
            self._mark(claim.key, READY if self.settings.ready else RESCHEDULE)
            for one in found:
                self.annotate(one)

    def _matched(self, claim: Claim) -> list[Object] | None:
        """Free resources for all devices of the claim, None if some are missing. They may be promised to another claim of this
        scan."""
        matched: list[Object] = []
        wanted: dict[str, int] = {}
        for device in claim.devices:
            wanted[device.device] = wanted.get(device.device, 0) + 1
        for device_name, count in wanted.items():
            model = self._model(device_name)
            free = [one for one in self.resources if self._is_free(one, model)]
            taken = self._count(model, ("Ready",)) if self.settings.ready else 0  # claims that keep the pool's device
            free = free[taken : taken + count]
            if len(free) < count:
                return None
            matched += free
        return matched

    def _is_free(self, resource: Object, model: Model) -> bool:
        uuid = said(resource, "device_id")
        if resource["spec"]["model"] != model.model or said(resource, "state") != "Online":
            return False
        if resource["metadata"].get("deletionTimestamp") or not self.view.shown(uuid) or self.view.used(uuid):
            return False
        used = last_used(resource, self.info.prefix)
        return used is None or self._passed(used, self.settings.allocation)

    def _resize(self, model: Model) -> None:
        most, least = self.view.limits(self.node, model.device, self.info.prefix)
        desired = self._demand(model)
        if desired > most:
            raise Unreadable(f"{self.node} would need {desired} devices of {model.model}, more than {most}")
        desired = max(desired, least)
        request = next((one for one in self.requests if one["spec"]["resource"]["model"] == model.model), None)
        if request is None:
            if desired > 0:
                self._create(model, desired)
            return
        size = request["spec"]["resource"]["size"]
        if desired < size:
            desired = min(size, max(desired, self._kept()))  # _kept counts other models, too
        if desired != size:
            patch = [{"op": "replace", "path": "/spec/resource/size", "value": desired}]
            self.client.patch("composabilityrequests", request["metadata"]["name"], patch, how="json")

    def _kept(self) -> int:
        """How many resources of the node, of any model, were used (or created) too recently to be removed."""
        kept: int = 0
        for one in self.resources:
            if said(one, "state") in GOING_OR_THERE and not one["metadata"].get("deletionTimestamp"):
                used = last_used(one, self.info.prefix)
                since = instants.read(one["metadata"]["creationTimestamp"]) if used is None else used
                kept += not self._passed(since, self.settings.removal)
        return kept

    def _create(self, model: Model, size: int) -> None:
        wanted: Object = {
            "type": TYPES.get(model.driver, ""),
            "model": model.model,
            "size": size,
            "target_node": self.node,
        }
        self.client.create(
            "composabilityrequests",
            {
                "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
                "kind": "ComposabilityRequest",
                "metadata": {"generateName": "composability-"},
                "spec": {"resource": wanted},
            },
        )

    def _label(self) -> None:
        """Label the node with each model, unless a model that is on the node lists it as conflicting."""
        node = self.view.nodes.get(self.node)
        if node is None:
            return
        there = {one["spec"]["resource"]["model"] for one in self.requests if one["spec"]["resource"]["size"] > 0} | {
            one["spec"]["model"] for one in self.resources if said(one, "state") == "Online"
        }
        excluded = {index for one in self.info.models if one.model in there for index in one.conflicts}
        labels = node["metadata"].get("labels") or {}
        patch = {
            f"{self.info.prefix}/{one.device}": None if one.index in excluded else "true" for one in self.info.models
        }
        if any(labels.get(key) != value for key, value in patch.items()):
            self.client.patch("nodes", self.node, {"metadata": {"labels": patch}}, how="strategic")

    def annotate(self, resource: Object) -> None:
        """Set the last-used time to now."""
        name, now = resource["metadata"]["name"], instants.written(self.now)
        key = f"{self.info.prefix}/last-used-time"
        if (resource["metadata"].get("annotations") or {}).get(key) != now:
            self.client.patch("composableresources", name, {"metadata": {"annotations": {key: now}}})

    def _is_used(self, resource: Object) -> bool:
        if said(resource, "state") != "Online":
            return False
        return self.view.used(said(resource, "device_id"))

    def _model(self, device: str) -> Model:
        return self.models[device]

    def _passed(self, since: int, seconds: float) -> bool:
        """Whether `seconds` have passed since `since`. If not, the node is scanned again when they have."""
        due = since + round(seconds * MICROSECONDS)
        if due < self.now:
            return True
        self.again = min(due + 1, self.again or due + 1)
        return False

    def _mark(self, key: ClaimKey, type: str) -> None:
        """Set a condition on every entry of status.devices. If that is empty, fill it with all results first (faults B6, B7)."""
        claim = self.view.claims.get(key[1], key[0])
        if claim is None:
            return
        status = claim["status"]
        entries = status.get("devices") or [
            {part: one[part] for part in ("driver", "pool", "device")}
            for one in status["allocation"]["devices"]["results"]
        ]
        devices = [_with_condition(one, type, self.now) for one in entries]
        with tolerating(404):
            self.client.patch("resourceclaims", key[1], {"status": {"devices": devices}}, key[0], subresource="status")
        known = self.claims[key]
        state = {FAILED: "Failed", READY: "Ready"}.get(type, "Reschedule")
        self.claims[key] = replace(known, devices=tuple(replace(one, state=state) for one in known.devices))


def _with_condition(entry: Object, type: str, now: int) -> Object:
    others = [one for one in entry.get("conditions") or () if one["type"] != type]
    message = f"Device {entry['device']} condition {type} updated"
    return {**entry, "conditions": [*others, condition(type, "True", "DeviceConditionUpdated", message, now)]}


class ReferenceScaler:
    """One process. Like the reference, it ends a scan at the first error; later nodes (by name) wait for the next scan."""

    def __init__(self, client: Client, time: Time, settings: ScalerPart, reaction: Latency = REACTION) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._reaction = reaction
        self._random: Random = time.random("scaler")
        self._period = max(1, round(settings.interval * MICROSECONDS))
        began = time.now() - round(settings.phase * MICROSECONDS)
        self._timer_of_new = settings.timers.latency() if settings.timers is not None else None
        # When in each interval scans begin, ascending.
        self._timers = [began % self._period] if settings.timers is None else []
        self._view = ScalerView(client, self._noted)
        self._stale: dict[str, None] = {}  # nodes that the next scan must look at
        self._in_use: dict[str, dict[str, None]] = {}  # node → resources that were in use at its last scan
        self._later = Timers(time)  # by node
        self._timer: Timer | None = None
        self._due = 0
        self._read: tuple[str, DeviceInfo] | None = None

    def start(self) -> None:
        self._view.start()

    def stop(self) -> None:
        self._view.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._later.clear()

    def _noted(self, nodes: Iterable[str], kind: str = "", new: bool = False) -> None:
        if new and self._timer_of_new is not None:
            self._begin_timer(self._time.now() + round(self._timer_of_new.draw(self._random) * MICROSECONDS))
        for node in nodes:
            self._stale[node] = None
        if self._stale:
            self._arm(self._reacts(kind) if kind else None)

    def _reacts(self, kind: str) -> float:
        early = kind == SLICE and self._settings.early
        return 0.0 if early and self._random.random() < early else self._reaction.draw(self._random)

    def _arm(self, seconds: float | None = None, rest: int = 0) -> None:
        """Scan after `seconds`, or when the next timer ends `rest` microseconds from now or later. A scan planned before that
        stays."""
        now = self._time.now()
        due = self._next_timer(now + rest) if seconds is None else now + round(seconds * MICROSECONDS)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._time.after((due - now) / 1_000_000, self._scan)

    def _next_timer(self, now: int) -> int:
        if not self._timers:
            return now + self._period
        place = bisect_right(self._timers, now % self._period)
        rounds, place = divmod(place, len(self._timers))
        return now - now % self._period + rounds * self._period + self._timers[place]

    def _begin_timer(self, now: int) -> None:
        at = now % self._period
        place = bisect_right(self._timers, at)
        if all(abs(one - at) >= APART for one in self._timers[max(0, place - 1) : place + 1]):
            self._timers.insert(place, at)

    def _scan(self) -> None:
        self._timer = None
        try:
            info = self._config()
            self._refresh(info)
            for device in self._view.awaited():
                model_of(device, info.models)  # raises Unreadable for an unknown device, which ends the scan
            for node in sorted(self._stale):
                if self._view.nodes.get(node) is not None:
                    self._look(node, info)
                else:
                    self._in_use.pop(node, None)
                del self._stale[node]
        except (ApiError, BadConfig, Unreadable):
            self._arm()  # the next scan takes the nodes that are left
        if self._settings.refresh and self._in_use:  # the times are written in whole seconds
            self._arm(rest=MICROSECONDS if len(self._timers) > 1 else 0)

    def _config(self) -> DeviceInfo:
        found = self._client.get("configmaps", NAME, NAMESPACE)
        version: str = found["metadata"]["resourceVersion"]
        if self._read is None or self._read[0] != version:
            self._read = (version, read_config_map(found))
        return self._read[1]

    def _refresh(self, info: DeviceInfo) -> None:
        """Update the last-used time of all resources in use."""
        if self._settings.refresh:
            for node in self._in_use:
                scan = self._node(node, info)
                for one in scan.used:
                    scan.annotate(one)

    def _look(self, node: str, info: DeviceInfo) -> None:
        scan = self._node(node, info)
        if self._note_use(scan):
            self._arm(self._reaction.draw(self._random))  # by then the watch has reported the writes
            return
        scan.run()
        if scan.again is not None:
            self._later.after(node, (scan.again - self._time.now()) / 1_000_000, lambda: self._noted((node,)))

    def _note_use(self, scan: NodeScan) -> bool:
        """Set the last-used time of devices whose use begins and, without `refresh`, of those whose use ended. True if one
        ended."""
        before = self._in_use.pop(scan.node, {})
        used = {one["metadata"]["name"]: one for one in scan.used}
        begun = [one for name, one in used.items() if name not in before]
        known = (self._view.resources.get(name) for name in before if name not in used)
        ended = [] if self._settings.refresh else [one for one in known if one is not None]
        for one in (*begun, *ended):
            scan.annotate(one)
        if used:
            self._in_use[scan.node] = dict.fromkeys(used)
        return bool(ended)

    def _node(self, node: str, info: DeviceInfo) -> NodeScan:
        return NodeScan(self._client, self._view, self._settings, info, node, self._time.now())
