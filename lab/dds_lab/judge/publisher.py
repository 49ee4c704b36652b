"""Judges a publisher in a whole run: the rules that it must never break.

    judge = PoolsJudge(lab, user)
    lab.run(600)
    assert not judge.findings
    assert not judge.differences()

Times in which a publisher cannot know the hardware's state or cannot write (`blind`) do not count.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dds_core.matching.quantities import parse
from dds_lab.judge.cluster_view import Finding
from dds_lab.judge.pools_view import MARK, Entered, PoolKey, PoolsView, Slice, Write
from dds_lab.lab import Lab
from dds_lab.time import MICROSECONDS

MOST, MOST_TAINTED = 128, 64

Rule = Literal[
    "withdrawn in use",
    "listed twice",
    "generation went down",
    "generation raised for nothing",
    "too large",
    "incomplete",
    "more than there is",
    "without conditions",
    "not its own",
    "labels",
]


@dataclass(frozen=True)
class Measure:
    """Tolerances of the judge in seconds, in times in which the publisher is not blind.

    - `lag`: what a pool offers must have been true at some instant in this time (a round of queries, an operator's report, a
    write). - `race`: for so long after an allocation its device may vanish from the pool; for so long after a pool came back it
    may be written twice. - `back`: a device that vanished under a claim must be listed again within. - `whole`: an incomplete
    pool must be complete again within. - `reaction`: a device that a claim released, but that the fabric does not have, must not
    be offered any more after. - `glance`: interval of the checks that depend on time.
    """

    lag: float = 9.0
    reaction: float = 2.0
    race: float = 1.0
    back: float = 5.0
    whole: float = 5.0
    glance: float = 0.5


class Attention:
    """A clock in microseconds that stops while the publisher is blind."""

    def __init__(self, now: int, blind: Callable[[], bool]) -> None:
        self._last = now
        self._passed = 0
        self._blind = blind
        self._was_blind = blind()

    def read(self, now: int) -> int:
        if not self._was_blind:
            self._passed += now - self._last
        self._last, self._was_blind = now, self._blind()
        return self._passed


class PoolsJudge:
    """Judges a publisher from the judge's creation on; `findings` are in order of time."""

    def __init__(
        self,
        lab: Lab,
        user: str,
        measure: Measure = Measure(),
        *,
        mark: str = "",
        blind: Callable[[], bool] | None = None,
        names_devices: bool = False,
        heard: Callable[[], int] | None = None,
    ) -> None:
        """The publisher's own slices have the label app.kubernetes.io/managed-by=`mark`, or no such label and `user` as author;
        without a `mark`, all slices without the label are its own. `blind`: whether the publisher cannot know or write now.
        `names_devices`: as of `PoolsView`. `heard`: the instant up to which the publisher knows the claims."""
        self.view = PoolsView(lab, user, names_devices=names_devices)
        self.findings: list[Finding] = []
        self._measure = measure
        self._longest: dict[Rule, float] = {
            "withdrawn in use": measure.back,
            "incomplete": measure.whole,
            "more than there is": measure.reaction,
        }
        self._mark = mark
        self._attention = Attention(lab.time.now(), blind or (lambda: False))
        self._heard = heard or lab.time.now
        self._open: dict[tuple[Rule, str], tuple[int, str]] = {}  # wrong states that must end soon: since when, words
        self._said: set[tuple[Rule, str]] = set()
        self._truth: defaultdict[tuple[str, str], deque[tuple[int, int, int]]] = defaultdict(deque)
        self._top: dict[PoolKey, int] = {}
        self._made: dict[PoolKey, int] = {}
        self._shown: dict[PoolKey, tuple[int, str]] = {}  # complete pools: generation and content
        self._listed: dict[PoolKey, dict[str, str]] = {}  # by pool: device → its slice
        self.view.on_pool.append(self._look_at)
        self.view.on_truth.append(self._weigh)
        self.view.on_write.append(self._written)
        self._tick()

    @property
    def rules(self) -> Counter[str]:
        """Number of findings by rule."""
        return Counter(one.rule for one in self.findings)

    @property
    def writes(self) -> list[Write]:
        return self.view.writes

    def _find(self, rule: Rule, of: str, text: str) -> None:
        self.findings.append(Finding(self.view.now, rule, of, text))

    # -- states that must end soon

    def _must_end(self, rule: Rule, of: str, text: str, wrong: bool) -> None:
        """Record that a state which may be wrong only for a short time is `wrong` now, or not."""
        if not wrong:
            self._open.pop((rule, of), None)
            self._said.discard((rule, of))
        elif (rule, of) not in self._said:
            self._open.setdefault((rule, of), (self._attention.read(self.view.now), text))

    def _tick(self) -> None:
        """Report wrong states that have lasted too long, each once until it ends."""
        now = self._attention.read(self.view.now)
        for key in self.view.pools():
            if any(map(self._is_own, self.view.of(key))):
                self._offer(key)  # the other checks depend on slices and claims only, and run when those change
        for (rule, of), (since, text) in list(self._open.items()):
            longest = self._longest[rule]
            if now - since > longest * MICROSECONDS:
                del self._open[rule, of]
                self._said.add((rule, of))
                self._find(rule, of, f"{text}, for more than {longest:g} s")
        self.view.lab.time.after(self._measure.glance, self._tick)

    # -- a pool

    def _is_own(self, one: Slice) -> bool:
        return one.owner == self._mark or (not one.owner and self.view.author.get(one.name) == self.view.user)

    def _look_at(self, key: PoolKey) -> None:
        slices = [one for one in self.view.of(key) if self._is_own(one)]
        self._held(key)
        self._generation(key, slices)
        if not slices:
            for rule in ("incomplete", "more than there is"):
                self._must_end(rule, key[1], "", wrong=False)
            return
        newest = self.view.newest(key)
        names = Counter(name for one in newest for name in one.names)
        for name, count in names.items():
            if count > 1:
                self._once("listed twice", f"{key[1]}/{name}", f"listed {count} times")
        for one in slices:
            self._form(one)
        incomplete = not self.view.is_whole(key)
        text = f"{[(one.name, one.generation, one.count) for one in self.view.of(key)]} is not complete"
        self._must_end("incomplete", key[1], text, incomplete)
        self._offer(key)

    def _once(self, rule: Rule, of: str, text: str) -> None:
        if (rule, of) not in self._said:
            self._said.add((rule, of))
            self._find(rule, of, text)

    def _held(self, key: PoolKey) -> None:
        """A device that a claim holds must stay listed. If it vanished just when it was allocated, it must come back."""
        before = self._listed.get(key, {})
        listed = self._listed[key] = {name: one.name for one in self.view.of(key) for name in one.names}
        moving = bool(listed) and not self.view.is_whole(key)  # devices move between slices in several writes
        for name, claims in self.view.holders(key).items():
            of = f"{key[1]}/{name}"
            held = min(one.since for one in claims)
            text = f"held by {claims[0].name}, and not listed"
            vanished = name in before and name not in listed and self.view.author.get(before[name]) == self.view.user
            unknown = held > self._heard() or self.view.now - held <= self._measure.race * MICROSECONDS
            if vanished and not moving and not unknown:
                self._once("withdrawn in use", of, f"{text} any more")
            self._must_end("withdrawn in use", of, text, name not in listed)
        for rule, of in list(self._open):
            pool, _, name = of.partition("/")
            if rule == "withdrawn in use" and pool == key[1] and name not in self.view.holders(key):
                del self._open[rule, of]

    def _generation(self, key: PoolKey, slices: list[Slice]) -> None:
        if not slices:
            self._top.pop(key, None)
            self._made.pop(key, None)
            self._shown.pop(key, None)
            return
        made = self._made.setdefault(key, self.view.now)
        top = max(one.generation for one in slices)
        if top < self._top.get(key, 0):
            self._find("generation went down", key[1], f"from {self._top[key]} to {top}")
        self._top[key] = top
        if not self.view.is_whole(key):
            return
        said = json.dumps([[one.selector, *one.devices.values()] for one in slices], sort_keys=True)
        generation, before = self._shown.get(key, (0, ""))
        settled = self.view.now - made > self._measure.race * MICROSECONDS  # not shortly after the pool came back
        if generation and top > generation and said == before and settled:
            self._find("generation raised for nothing", key[1], f"from {generation} to {top}")
        self._shown[key] = (top, said)

    def _form(self, one: Slice) -> None:
        tainted = any(device.get("taints") for device in one.devices.values())
        if len(one.names) > (MOST_TAINTED if tainted else MOST):
            self._once("too large", one.name, f"{len(one.names)} devices")
        for name, device in one.devices.items():
            waits = device.get("bindingConditions") and device.get("bindingFailureConditions")
            if not (waits and device.get("bindsToNode")):
                self._once("without conditions", f"{one.name}/{name}", "would be handed out at once")

    # -- the fabric's devices

    def _weigh(self, fabric: str, model: str) -> None:
        """Store how many devices are free and for how many claims wait, for the time that `lag` covers."""
        now = self._attention.read(self.view.now)
        entered = next((one for one in self.view.models if one.model == model), None)
        if entered is None:
            return
        history = self._truth[fabric, model]
        there = self.view.free(fabric, model), self.view.owed_at_least(entered, fabric)
        if not history or history[-1][1:] != there:
            history.append((now, *there))
        while len(history) > 1 and history[1][0] <= now - self._measure.lag * MICROSECONDS:
            history.popleft()

    def _offer(self, key: PoolKey) -> None:
        """A pool must not offer more than was available at some instant within `lag`. The publisher sees released claims at once,
        but changes of the fabric only at its next query."""
        found = self.view.model_of(key)
        if found is None:
            return
        model, fabric = found
        self._weigh(fabric, model.model)
        history, offered = self._truth[fabric, model.model], len(self.view.offered(key))
        owed_now = history[-1][2]
        most = max(free - min(owed, owed_now) for _, free, owed in history)
        if not any(labels.get(f"{self.view.prefix}/fabric") == fabric for labels in self.view.labels.values()):
            offered = 0  # no node can use them
        text = f"{offered} offered, {most} were there at most"
        self._must_end("more than there is", key[1], text, offered > max(0, most))

    # -- writes

    def _written(self, write: Write) -> None:
        if write.resource == "resourceslices":
            for one in (write.old, write.new):
                owner = ((one or {}).get("metadata", {}).get("labels") or {}).get(MARK, "")
                if one is not None and (owner or self._mark) != self._mark:
                    self._find("not its own", write.name, f"{write.verb} of a slice of {owner}")
        elif write.resource == "nodes":
            self._relabelled(write)
        elif write.resource != "leases":
            self._find("not its own", f"{write.resource}/{write.name}", write.verb)

    def _relabelled(self, write: Write) -> None:
        """A publisher may change only the fabric's labels of a node."""
        old, new = _without_labels(write.old), _without_labels(write.new)
        before, after = _labels(write.old), _labels(write.new)
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        prefix = self.view.prefix
        allowed = {f"{prefix}/fabric"}
        for model in self.view.models:
            allowed |= {f"{prefix}/{model.device}-size-max", f"{prefix}/{model.device}-size-min"}
        if changed - allowed or old != new or write.verb != "patch":
            self._find("labels", write.name, f"{write.verb} of {sorted(changed - allowed) or 'more than labels'}")

    # -- at rest

    def differences(self, most: int = 10_000) -> list[str]:
        """Differences between the published pools and the fabric now; to be called when nothing has happened for a while. If the
        fabric reports more than `most` free devices, the publisher does not believe it and leaves the pool as it is."""
        found: list[str] = []
        expected: set[PoolKey] = set()
        for model in self.view.models:
            for fabric in sorted(self.view.fabrics()):
                key = (model.driver, f"{model.device}-fabric{fabric}")
                expected.add(key)
                found += self._differs(key, model, fabric, most)
        for key in self.view.pools() - expected:
            left = self.view.listed(key).keys() - self.view.holders(key).keys()
            own = [one for one in self.view.of(key) if self._is_own(one)]
            if own and (left or not self.view.holders(key)):
                found.append(f"{key[1]} is still there with {len(left)} devices that nobody holds")
        return found + self._wrong_labels()

    def _differs(self, key: PoolKey, model: Entered, fabric: str, most: int) -> list[str]:
        found = []
        listed, holders = self.view.listed(key), self.view.holders(key)
        if missing := sorted(holders.keys() - listed.keys()):
            found.append(f"{key[1]} lacks {missing}, which are held")
        if self.view.free(fabric, model.model) > most:
            return found
        if not self.view.of(key):
            return [f"{key[1]} is not there"]
        there, wanted = len(listed.keys() - holders.keys()), max(0, self.view.available(model, fabric))
        if there != wanted:
            found.append(f"{key[1]} lists {there} devices that nobody holds, there are {wanted}")
        if not self.view.is_whole(key):
            found.append(f"{key[1]} is not complete")
        for name, device in listed.items():
            if wrong := _described(device, model):
                found.append(f"{key[1]}/{name}: {wrong}")
                break
        return found

    def _wrong_labels(self) -> list[str]:
        found = []
        for machine in self.view.lab.fabric.machines():
            label = self.view.labels.get(machine.node, {}).get(f"{self.view.prefix}/fabric", "")
            if machine.node in self.view.labels and label != machine.fabric:
                found.append(f"{machine.node} is labelled fabric {label!r} and is in {machine.fabric!r}")
        return found


def _labels(obj: Any) -> dict[str, str]:
    return (obj or {}).get("metadata", {}).get("labels") or {}


def _without_labels(obj: Any) -> Any:
    """The object without its labels and the fields that every write changes."""
    if obj is None:
        return None
    written = ("labels", "resourceVersion", "managedFields", "generation")
    meta = {key: value for key, value in obj["metadata"].items() if key not in written}
    return {**obj, "metadata": meta}


def _described(device: dict[str, Any], model: Entered) -> str:
    """How a device differs from its model in the ConfigMap, "" if it does not."""
    if (attributes := device.get("attributes") or {}) != model.attributes:
        return f"has the attributes {attributes}, not {model.attributes}"
    if _amounts(device.get("capacity") or {}) != _amounts(model.capacity):
        return f"has the capacity {device.get('capacity')}, not {model.capacity}"
    if bool(device.get("allowMultipleAllocations")) != model.shared:
        return "is shared, and should not be" if not model.shared else "is not shared"
    return ""


def _amounts(capacity: Any) -> Any:
    """The capacity with each quantity as a number."""
    if isinstance(capacity, dict):
        return {key: _amounts(value) for key, value in capacity.items()}
    if isinstance(capacity, list):
        return [_amounts(value) for value in capacity]
    return parse(str(capacity)).nanos
