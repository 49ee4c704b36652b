"""Fits which scaler drove a cluster when, and with which times, from what it wrote.

The reference scaler shrinks a request when one device of the node fewer was used within its idle time. So the ages of the devices
that count no more are that time, plus what passed until its next scan. dds marks each device itself. The reference writes at its
scans when a device was used last; where a source does not have this annotation, claims tell the time.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import median
from typing import Any, NamedTuple, get_args

from dds_adapters.kubernetes.recording import RecordedEvent
from dds_core.kit.policy import MICROSECONDS
from dds_core.model import (
    FAILED_CONDITION,
    ONLINE,
    OWNER,
    OWNER_LABEL,
    RESCHEDULE,
    AttachRequest,
    Claim,
    DeviceKey,
    FabricResource,
    Node,
    Slice,
)
from dds_core.scaler.policy import Policy, read_policy
from dds_lab.client import instants
from dds_lab.scenario.parts import Choice
from dds_whatif.scans import ANSWERED, MUCH, Scans

Phase = tuple[float, Policy | None]
"""From so many seconds after the beginning on, dds drives with this policy, or the reference scaler (None)."""
Stamps = Mapping[str, Sequence[tuple[int, int]]]
"""By resource (uid): when it was written (microseconds) that the device was used last, and the instant that was written."""
REFERENCE, DDS = "reference", "dds"
MOST_PLACED = 500
"""More placed pods tell nothing new of the choice of nodes."""
BAND, FINDERS, AGAIN = 6, 2, 0.75
"""As in the lab: a node with so many small pods more scores a percent less, and of equal nodes one of the first two is taken; how
often these are known already."""
FEW = 0.2
"""Idle times are read at this quantile: a device may be kept longer for many reasons, and is seldom given up earlier."""


class Turn(NamedTuple):
    """From an instant (microseconds) on, this scaler drove: `REFERENCE`, `DDS`, or the name of another's first request."""

    at: int
    scaler: str


@dataclass
class Conduct:
    """What a source shows of its scalers, in seconds: `idle` of devices that the reference gave up, `marked` of those of dds;
    `scans` from the instant that a claim's devices were there until a scan found them without a change to answer; `timeouts` of
    allocations that the scheduler gave up.

    `when`: the reference scanned. `listings` of devices for which a claim waited; `early`: the scan that answered it did not find
    the device, which the operator had not called Online yet. `failed`, `signalled`: claims that a scaler failed, and had
    scheduled anew. `policies`: those of a log, each with the instant (microseconds) from which it was in force. `stamped`: the
    times of last use are those that the reference wrote. `placed`: for each pod that got a node without its devices, how likely
    that node was under each choice. `paired`: how often the first of two equal nodes was taken, by their
    arrival, and how often the other."""

    stamped: bool = False
    turns: list[Turn] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    marked: list[float] = field(default_factory=list)
    scans: list[float] = field(default_factory=list)
    when: Scans = field(default_factory=Scans)
    listings: int = 0
    early: int = 0
    timeouts: list[float] = field(default_factory=list)
    failed: int = 0
    signalled: int = 0
    policies: list[tuple[int, Policy]] = field(default_factory=list)
    placed: list[Mapping[Choice, float]] = field(default_factory=list)
    paired: Counter[bool] = field(default_factory=Counter)

    @property
    def lead(self) -> float | None:
        """How often the first of two equal nodes is taken. None if they are as likely, as far as the source tells."""
        first, number = self.paired[True], self.paired.total()
        lost = sum(part * log(part / number) for part in (first, number - first) if part)
        return (first + 1) / (number + 2) if number * log(2) + lost > MUCH else None

    @property
    def choice(self) -> Choice:
        """The choice among nodes under which the observed ones are much likelier than under the default; else the default."""
        default: Choice = "least"
        likely = {one: sum(log(odds[one]) for odds in self.placed) for one in get_args(Choice)}
        best = max(get_args(Choice), key=lambda one: likely[one])
        return best if likely[best] > likely[default] + MUCH else default

    @property
    def by_reference(self) -> bool:
        return any(turn.scaler == REFERENCE for turn in self.turns)

    @property
    def interval(self) -> int | None:
        """Seconds between two scans of a timer of the reference. None if the source does not tell."""
        return self.when.interval if self.by_reference else None

    @property
    def observed(self) -> bool:
        """Whether dds only observes, as far as the source tells."""
        return self.policy is None or self.policy.observes

    @property
    def policy(self) -> Policy | None:
        """A log's last policy; None for a recording."""
        return self.policies[-1][1] if self.policies else None

    def settings(self, told: Policy | None, scaler: str) -> Policy:
        """A scaler's times as a policy; fields that `told` sets override what was fitted, and what neither tells has its default,
        which is the same for both scalers."""
        found: dict[str, Any] = {"mode": "detach", "hand_over": "clear" if self.signalled else "exchange"}
        if scaler == REFERENCE and self.idle:
            found["no_removal_seconds"] = self.idle_seconds
        if scaler == DDS and self.marked:
            found["no_removal_seconds"] = _least(self.marked)
        if scaler == REFERENCE and self.scan_interval is not None:
            found["scan_interval_seconds"] = self.scan_interval
        if self.timeouts:
            found["scheduler"] = {"binding_timeout_seconds": max(1, round(median(self.timeouts)))}
        own = told.model_dump(mode="json", exclude_unset=True) if told is not None else {}
        return read_policy({**found, **own})

    @property
    def idle_seconds(self) -> int:
        """Of the reference. Where claims tell the last use, it noted that up to a scan earlier and gave the device up as much
        later, so that the middle is right."""
        return _least(self.idle) if self.stamped else round(median(self.idle))

    @property
    def scan_interval(self) -> int | None:
        """Seconds between two scans of the reference, of each timer; if they cannot be told apart, of all timers together: what
        waits for a scan waits half of that. None if nothing waited for one."""
        if self.interval is not None:
            return self.interval
        late = [*self.scans, *(abs(one - self.idle_seconds) for one in self.idle)]
        return max(1, round(2 * median(late))) if late else None

    def timers(self, settings: Policy) -> tuple[float, ...] | None:
        """How long after claims and slices their timers begin, each with the scan interval of the `settings`; none if nothing
        tells. None if that interval is the one of all together, or the reference is not seen to drive."""
        if self.interval is not None:
            return tuple(self.when.begin(self.interval))
        return () if self.by_reference and settings.scan_interval_seconds != self.scan_interval else None

    def phases(self, begin: int, told: Policy | None) -> tuple[Phase, ...]:
        """Who drove when; of a recording dds with what was fitted and `told`. Empty if nobody is seen to drive."""
        found: list[Phase] = []
        if self.policies:
            ends = [at for at, _ in self.policies[1:]] + [1 << 63]
            for (at, policy), end in zip(self.policies, ends, strict=True):
                theirs = any(turn.scaler == REFERENCE and turn.at < end for turn in self.turns)
                found.append((at, None if policy.observes and theirs else policy))
        else:
            ours = self.settings(told, DDS)
            found = [(turn.at, None if turn.scaler == REFERENCE else ours) for turn in self.turns]
        merged = [one for place, one in enumerate(found) if not place or one[1] != found[place - 1][1]]
        return tuple((max(0.0, (at - begin) / 1e6) if place else 0.0, who) for place, (at, who) in enumerate(merged))

    def rests_on(self, settings: Policy) -> Iterator[tuple[str, int, str]]:
        """Name, number of samples and value of what was fitted; nothing of a log whose policy says it all."""
        first = "" if self.lead is None else f", {self.lead:.0%} the first of equal ones"
        yield (
            "choice of nodes",
            len(self.placed),
            {"random": "any"}.get(self.choice, f"{self.choice} allocated") + first,
        )
        if not self.by_reference and (self.policies or not self.turns):
            return
        yield "idle time", len(self.idle if self.by_reference else self.marked), f"{settings.no_removal_seconds} s"
        if self.by_reference:
            timers = self.timers(settings)
            number = len(self.scans) + len(self.idle) if timers is None else len(self.when.unasked)
            of = "of all together" if timers is None else "of each claim and slice"
            yield "scan interval", number, f"{settings.scan_interval_seconds} s, {of}"
            yield "scans after a listing", self.listings, f"{self.early} too early"
        yield "binding timeout", len(self.timeouts), f"{settings.scheduler.binding_timeout_seconds} s"
        yield "claims that the scaler failed", self.failed, f"{self.signalled} had scheduled anew"
        yield "victims of detaches", len(self.idle) + len(self.marked), f"{len(self.marked)} named by the scaler"

    def notes(self) -> Iterator[str]:
        others = [turn.scaler for turn in self.turns if turn.scaler not in (REFERENCE, DDS)]
        if others:
            yield f"requests such as {others[0]} are of neither scaler: dds is played in place of who made them"


@dataclass
class Observer:
    """Takes the rows of a source one by one. `uuid_at`: UUIDs of the devices that nodes list."""

    uuid_at: Mapping[DeviceKey, str]
    stamps: Stamps | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    conduct: Conduct = field(init=False)
    _stirred: int = 0
    _resources: dict[str, FabricResource] = field(default_factory=dict)
    _online: dict[str, int] = field(default_factory=dict)
    _listed: dict[str, int] = field(default_factory=dict)
    _held: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _released: dict[str, int] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)
    _seats: Counter[str] = field(default_factory=Counter)
    _chosen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conduct = Conduct(stamped=self.stamps is not None)
        self.conduct.when.writes += [at for stamps in (self.stamps or {}).values() for at, _ in stamps]

    def slice(self, now: int, before: Slice | None, row: Slice | None) -> None:
        self._stir(now, new=before is None)
        if row is not None and row.node:
            for name in row.devices.keys() - (before.devices.keys() if before is not None else ()):
                if uuid := self.uuid_at.get((row.driver, row.pool, name)):
                    self._listed.setdefault(uuid, now)

    def _stir(self, now: int, new: bool) -> None:
        """A claim or slice is new or has changed."""
        self._stirred = now
        self.conduct.when.changed(now, new)

    def request(self, now: int, before: AttachRequest | None, row: AttachRequest | None) -> None:
        if row is None:
            return
        scaler = _scaler_of(row)
        if scaler == REFERENCE and (before is None or before.size != row.size):
            self.conduct.when.wrote(now)
        if before is None:
            if not self.conduct.turns or (scaler, self.conduct.turns[-1].scaler) in (
                (REFERENCE, DDS),
                (DDS, REFERENCE),
            ):
                self.conduct.turns.append(Turn(now, scaler))
        elif row.size < before.size and scaler == REFERENCE and self.conduct.observed:  # dds adopts its requests
            self.conduct.idle += [age for age in sorted(self._ages(now, row.node))[row.size : before.size] if age > 0]

    def resource(self, now: int, before: FabricResource | None, row: FabricResource | None) -> None:
        if row is None:
            self._resources.pop(before.uid if before is not None else "", None)
            return
        self._resources[row.uid] = row
        if row.state == ONLINE and row.uuid:
            self._online.setdefault(row.uuid, now)
        if row.marked and not (before is not None and before.marked) and not self._held[row.uuid]:
            self.conduct.marked.append(self._age(now, row))

    def claim(self, now: int, before: Claim | None, row: Claim | None, waits: Callable[[str], bool]) -> None:
        """`waits`: whether the pod with a uid is neither over nor gone."""
        uid = (row or before or Claim("")).uid
        old, new = self._local(before), self._local(row)
        for uuid in new - old:
            self._held[uuid].add(uid)
        for uuid in old - new:
            self._held[uuid].discard(uid)
            self._released[uuid] = now
        anew = before is None or before.allocation is None
        if anew and row is not None and _pooled(row) and len(self.conduct.placed) < MOST_PLACED:
            self.conduct.placed.append(self._odds(row))
        self._seats.subtract([_seat(before)])
        self._seats.update([_seat(row)])
        told, was = _told(row) - _told(before), _pooled(before)
        self.conduct.failed += FAILED_CONDITION in told
        if RESCHEDULE in told and was:
            self.conduct.signalled += 1
            self._signal(now, was, self._since.get(uid, now))
        since = self._since.setdefault(uid, now) if _pooled(row) else self._since.pop(uid, 0)
        given_up = row is not None and row.allocation is not None and not row.consumers and not _told(before)
        if since and given_up and before is not None and any(waits(one.uid) for one in before.consumers):
            self.conduct.timeouts.append((now - since) / MICROSECONDS)
        if told:
            self._stirred = now
            self.conduct.when.wrote(now)
        else:
            self._stir(now, new=before is None)

    def _signal(self, now: int, node: str, allocated: int) -> None:
        """A claim's devices were found on this node: how long they were there, and whether at their listing."""
        there = [one for one in self._on(node) if one.state == ONLINE and not self._held[one.uuid]]
        since = max((self._online[one.uuid] for one in there if one.uuid in self._online), default=now)
        if now - max(since, self._stirred) >= ANSWERED * MICROSECONDS:
            self.conduct.scans.append((now - max(since, self._stirred)) / MICROSECONDS)
        listed = max((self._listed[one.uuid] for one in there if one.uuid in self._listed), default=0)
        if listed > allocated and self.conduct.by_reference:
            self.conduct.listings += 1
            self.conduct.early += now - listed >= ANSWERED * MICROSECONDS

    def _odds(self, claim: Claim) -> Mapping[Choice, float]:
        """How likely the claim's node was, given the pods on all nodes that have the label of its devices; a tenth for unknown
        reasons. Of nodes that score alike the scheduler takes the first ones in an order of its own, so mostly those that it took
        before."""
        results = claim.allocation.results if claim.allocation is not None else ()
        devices = {one.pool.rpartition("-fabric")[0] for one in results if one.binding}
        node, bands = _seat(claim), dict[str, int]()
        for name, one in self.nodes.items():
            labelled = {key.rpartition("/")[2] for key, value in one.labels.items() if value == "true"}
            if name == node or (devices <= labelled and not one.unschedulable):
                bands[name] = self._seats[name] // BAND

        def odds(best: int) -> float:
            alike = [name for name, band in bands.items() if band == best]
            before = self._before(alike)
            others = len(alike) - len(before)
            again = 0.0 if not before else AGAIN if others else 1.0
            part = again / len(before) if node in before else (1 - again) / others if node in alike else 0.0
            return 0.1 / len(bands) + 0.9 * part

        equal = self._before([name for name, band in bands.items() if band == min(bands.values())])
        if len(equal) == FINDERS and node in equal:
            self.conduct.paired[node == next(name for name in self.nodes if name in equal)] += 1
        found: Mapping[Choice, float] = {
            "least": odds(min(bands.values())),
            "most": odds(max(bands.values())),
            "random": 1 / len(bands),
        }
        self._chosen = [node, *(name for name in self._chosen if name != node)]
        return found

    def _before(self, alike: Collection[str]) -> list[str]:
        """The last nodes among these that were taken."""
        return [name for name in self._chosen if name in alike][:FINDERS]

    def _local(self, claim: Claim | None) -> set[str]:
        """UUIDs of the node's devices that the claim holds."""
        results = claim.allocation.results if claim is not None and claim.allocation is not None else ()
        return {self.uuid_at[one.key] for one in results if not one.binding and one.key in self.uuid_at}

    def _on(self, node: str) -> Iterator[FabricResource]:
        return (one for one in self._resources.values() if one.node == node and not one.leaving)

    def _ages(self, now: int, node: str) -> Iterator[float]:
        for one in self._on(node):
            yield 0.0 if self._held[one.uuid] else self._age(now, one)

    def _age(self, now: int, one: FabricResource) -> float:
        """Seconds since the device was used, as its scaler knows it; a device that never was counts from its arrival."""
        if one.marked:
            return (now - self._released.get(one.uuid, one.created)) / MICROSECONDS
        stamps = (self.stamps or {}).get(one.uid, ())
        at = bisect_right(stamps, now, key=lambda stamp: stamp[0])
        used = stamps[at - 1][1] if at else 0 if stamps else self._released.get(one.uuid, 0)
        return (now - (used or one.created)) / MICROSECONDS


def stamps_of(recorded: Iterable[RecordedEvent]) -> Stamps:
    """The annotation last-used-time of a recording's resources."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in recorded:
        raw = bytes(event.raw)
        if event.resource == "composableresources" and b"/last-used-time" in raw:
            metadata = json.loads(raw)["metadata"]
            for name, text in (metadata.get("annotations") or {}).items():
                if name.endswith("/last-used-time"):
                    found[metadata["uid"]].append((event.at, instants.read(text)))
    return found


def _least(ages: Sequence[float]) -> int:
    """The least age but for exceptions, in whole seconds, as both scalers take them."""
    return int(sorted(ages)[int(FEW * len(ages))])


def _scaler_of(row: AttachRequest) -> str:
    if row.name.startswith("composability-"):
        return REFERENCE
    return DDS if row.labels.get(OWNER_LABEL) == OWNER or row.name.startswith("dds-") else row.name


def _pooled(claim: Claim | None) -> str:
    """The node on which a pod waits for the pool's devices; "" for none."""
    pooled = claim is not None and claim.allocation is not None and any(one.binding for one in claim.allocation.results)
    return _seat(claim) if pooled else ""


def _seat(claim: Claim | None) -> str:
    """The node on which a pod has the claim, or waits for it; "" for none."""
    return claim.allocation.node if claim is not None and claim.allocation is not None and claim.consumers else ""


def _told(claim: Claim | None) -> set[str]:
    return {one.type for one in claim.conditions if one.status == "True"} if claim is not None else set()
