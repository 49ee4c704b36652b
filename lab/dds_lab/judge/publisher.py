"""What a publisher of pools must never do, in a whole run.

    judge = PoolsJudge(lab, user)
    lab.run(600)
    assert not judge.findings
    assert not judge.differences()

Times during which a publisher cannot know or cannot write (`blind`) do not count.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dds_core.matching.quantities import parse
from dds_lab.judge.claims import Finding
from dds_lab.judge.pools import MARK, Entered, PoolKey, PoolsView, Slice, Write
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
    """How strict the judge is, in seconds of a publisher that sees and may write.

    `lag`: so long ago what is offered must have been true (a round of questions, an operator's report, a write). `race`: a device
    may vanish under a claim that was allocated so shortly before, and a pool that came again be written twice. `back`: then it
    is there again within. `whole`: a pool is complete again within. `reaction`: what a claim gave back without a device being
    there for it is not offered any more within. `glance`: so often the clock is looked at.
    """

    lag: float = 9.0
    reaction: float = 2.0
    race: float = 1.0
    back: float = 5.0
    whole: float = 5.0
    glance: float = 0.5


class Attention:
    """A clock, in microseconds, that stands while a publisher is blind."""

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
    """Looks on from where it is made. `findings` in the order of time."""

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
        """Its own are slices whose label app.kubernetes.io/managed-by is `mark`, and those of `user` without such a label;
        without a `mark` all that have none. `blind` says whether the publisher cannot know or cannot write now, `names_devices`
        whether it is told which devices there are, `heard` up to which instant it has heard of claims."""
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
        self._open: dict[tuple[Rule, str], tuple[int, str]] = {}  # what must be over soon: since when, and words
        self._said: set[tuple[Rule, str]] = set()
        self._truth: defaultdict[tuple[str, str], deque[tuple[int, int, int]]] = defaultdict(deque)
        self._top: dict[PoolKey, int] = {}
        self._made: dict[PoolKey, int] = {}
        self._shown: dict[PoolKey, tuple[int, str]] = {}  # when whole: generation, and all that it says
        self._listed: dict[PoolKey, dict[str, str]] = {}  # by pool the devices, each with its slice
        self.view.on_pool.append(self._look_at)
        self.view.on_truth.append(self._weigh)
        self.view.on_write.append(self._written)
        self._tick()

    @property
    def rules(self) -> Counter[str]:
        """How many findings there are of each rule."""
        return Counter(one.rule for one in self.findings)

    @property
    def writes(self) -> list[Write]:
        """What the publisher wrote."""
        return self.view.writes

    def _find(self, rule: Rule, of: str, text: str) -> None:
        self.findings.append(Finding(self.view.now, rule, of, text))

    # -- what must be over soon

    def _must_end(self, rule: Rule, of: str, text: str, wrong: bool) -> None:
        """Something that may be for a moment: it begins, goes on, or is over."""
        if not wrong:
            self._open.pop((rule, of), None)
            self._said.discard((rule, of))
        elif (rule, of) not in self._said:
            self._open.setdefault((rule, of), (self._attention.read(self.view.now), text))

    def _tick(self) -> None:
        """Look at the clock: what has lasted too long is a finding, once for as long as it lasts."""
        now = self._attention.read(self.view.now)
        for key in self.view.pools():
            if any(map(self._is_own, self.view.of(key))):
                self._offer(key)  # what else is looked at changes with a slice or a claim only
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
        """A device that a claim holds stays listed. One that vanished in the same moment in which it was taken comes back."""
        before = self._listed.get(key, {})
        listed = self._listed[key] = {name: one.name for one in self.view.of(key) for name in one.names}
        moving = bool(listed) and not self.view.is_whole(key)  # from one slice to another, in more than one write
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
        settled = self.view.now - made > self._measure.race * MICROSECONDS  # not just after it was gone and came again
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

    # -- the truth

    def _weigh(self, fabric: str, model: str) -> None:
        """Keep in mind what is free and what is owed of it, as far back as it may be published."""
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
        """No more is offered than was to be had at an instant within the last seconds; what claims give back is known at once,
        what the fabric has given meanwhile only when it is asked again."""
        found = self.view.model_of(key)
        if found is None:
            return
        model, fabric = found
        self._weigh(fabric, model.model)
        history, offered = self._truth[fabric, model.model], len(self.view.offered(key))
        owed_now = history[-1][2]
        most = max(free - min(owed, owed_now) for _, free, owed in history)
        if not any(labels.get(f"{self.view.prefix}/fabric") == fabric for labels in self.view.labels.values()):
            offered = 0  # no node could take any
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
        """Of a node only the labels that tell of the fabric are a publisher's."""
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
        """In what the published pools differ from the inventory now: for when nothing has happened for a while. A fabric that
        says more than `most` are free is not believed, and its pool stays as it is."""
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
    """What of an object people write, without its labels."""
    if obj is None:
        return None
    written = ("labels", "resourceVersion", "managedFields", "generation")
    meta = {key: value for key, value in obj["metadata"].items() if key not in written}
    return {**obj, "metadata": meta}


def _described(device: dict[str, Any], model: Entered) -> str:
    """How a device differs from what the ConfigMap says of its model."""
    if (attributes := device.get("attributes") or {}) != model.attributes:
        return f"has the attributes {attributes}, not {model.attributes}"
    if _amounts(device.get("capacity") or {}) != _amounts(model.capacity):
        return f"has the capacity {device.get('capacity')}, not {model.capacity}"
    if bool(device.get("allowMultipleAllocations")) != model.shared:
        return "is shared, and should not be" if not model.shared else "is not shared"
    return ""


def _amounts(capacity: Any) -> Any:
    """The same with each quantity as a number."""
    if isinstance(capacity, dict):
        return {key: _amounts(value) for key, value in capacity.items()}
    if isinstance(capacity, list):
        return [_amounts(value) for value in capacity]
    return parse(str(capacity)).nanos
