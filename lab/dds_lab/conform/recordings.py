"""Compares two recordings of one scenario, of a real run and of the lab's own: which objects there were, through which states
each of them went, in which order, and which fields differ.

Both are reduced to the fields that `record.allowed` keeps, so that a recording of whole objects compares with any other. What is
drawn, counted or generated takes another value in each run: `IGNORED` says what of it is left out, and what is kept instead.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from dds_adapters.kubernetes.recording import RecordedEvent
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_lab.record import Allowed

Object = dict[str, Any]
MISSING = "(missing)"
GONE: Object = {"": "deleted"}
"""The last state of an object that was deleted."""
TOLD = 4
"""States of one object that are told, and fields of one state; the others are counted."""

IGNORED: Mapping[str, str] = {
    "what `dds lab record` leaves out": "A recording of whole objects compares with any other.",
    "empty fields": "As good as none.",
    "instants": "Each run has its own; that there is one is compared, but not when.",
    "uids, resource versions, `metadata.generation`": "Drawn and counted by the server. Two equal states in a row count once.",
    "`spec.pool.generation`, the number of slices": "Count a publisher's writes: one more of them shows as a state of its own.",
    "generated names": "Requests and resources of the operator are named by node, model and order, the operator's taint rules by "
    "the resource, a slice by its pool, a claim that was made for a pod by the pod.",
    "names of nodes": "Chance chooses among equal nodes: nodes are numbered in the order in which they are used.",
    "serial numbers of devices, numbers in the names of devices": "Drawn; and the scheduler meets the devices of a pool in any "
    "order. How many there are, and of which kind, is compared.",
    "labels of `dds lab join`": "It marks what it makes.",
    "objects that were there before, and never changed": "Those of the cluster: counted, if the lab has none of the name.",
}
"""What is not compared, and why."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SERIAL = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NUMBER = re.compile(r"(?<=-)\d+(?=-|$)")
_OWN = "lab.dynamic-device-scaler.io/"
_LEFT_OUT = {"uid", "resourceVersion", "generation", "name", "namespace", "generateName", "creationTimestamp"}


@dataclass(frozen=True)
class Difference:
    """One of an object, which has its name of both runs: `words` say what was recorded and what the lab did."""

    of: str
    words: str

    def __str__(self) -> str:
        return f"{self.of}: {self.words}"


@dataclass
class Compared:
    """The result: how many objects and states both runs have, what differs, and how many foreign objects are left out."""

    objects: int = 0
    states: int = 0
    foreign: int = 0
    differences: list[Difference] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The report: what both have, then at most TOLD lines for each object that differs."""
        yield f"{self.objects} objects with {self.states} states are alike"
        if self.foreign:
            yield f"{self.foreign} objects of the cluster were there before, and never changed"
        told = Counter[str]()
        for one in self.differences:
            told[one.of] += 1
            if told[one.of] <= TOLD:
                yield f"differs: {one}"
        for of, number in told.items():
            if number > TOLD:
                yield f"differs: {of}: {number - TOLD} more"


@dataclass
class _History:
    """The states of what has one name. `before`: it was there before anything of its kind changed."""

    states: list[str] = field(default_factory=list)
    before: bool = True

    @property
    def still(self) -> bool:
        return self.before and len(self.states) == 1


def compared(recorded: Iterable[RecordedEvent], played: Iterable[RecordedEvent]) -> Compared:
    """Compare a recording of a real run with one of the lab's. Times in them do not matter, but their order does."""
    ours, theirs = _histories(played), _histories(recorded)
    found = Compared()
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours and theirs[name].still:
            found.foreign += 1
        elif name not in ours or name not in theirs:
            missing = "not recorded, the lab has it" if name in ours else "recorded, the lab does not have it"
            found.differences.append(Difference(name, missing))
        else:
            words = [*_differ(theirs[name].states, ours[name].states)]
            found.differences += [Difference(name, each) for each in words]
            if not words:
                found.objects += 1
                found.states += len(ours[name].states)
    return found


def _differ(recorded: list[str], played: list[str]) -> Iterator[str]:
    """Words for each state that only one of them has, and for each pair that stands in the place of the other."""
    for what, a, until_a, b, until_b in SequenceMatcher(None, recorded, played, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        both = min(until_a - a, until_b - b)
        for i in range(both):
            fields = _fields(recorded[a + i], played[b + i])
            told = [f"{path}: recorded {one}, in the lab {other}" for path, one, other in fields]
            yield f"state {a + i + 1} of {len(recorded)}: {_some(told)}"
        for states, whose, first, last in (
            (recorded, "recorded, not in the lab", a + both, until_a),
            (played, "not recorded, in the lab", b + both, until_b),
        ):
            for i in range(first, last):
                yield f"state {i + 1} of {len(states)}: {whose}: {_change(states, i)}"


def _change(states: list[str], at: int) -> str:
    """What made this state of the one before."""
    if at == 0:
        return "how it began"
    return _some([f"{path} {new}" for path, _, new in _fields(states[at - 1], states[at])])


def _some(fields: list[str]) -> str:
    more = [f"{len(fields) - TOLD} more"] if len(fields) > TOLD else []
    return "; ".join([*fields[:TOLD], *more])


def _fields(one: str, other: str) -> Iterator[tuple[str, str, str]]:
    """Path and both values, short, of each field that differs."""
    a, b = _flat(json.loads(one)), _flat(json.loads(other))
    if GONE.keys() & (a.keys() | b.keys()):
        yield "object", "deleted" if "" in a else "there", "deleted" if "" in b else "there"
        return
    for path in sorted(a.keys() | b.keys()):
        if a.get(path, MISSING) != b.get(path, MISSING):
            yield path, _short(a.get(path, MISSING)), _short(b.get(path, MISSING))


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """By path each value that has no parts. An element of a list is named by its `type` or `name`, else by its place."""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict) and value:
        parts = ((f"{path}.{key}" if path else key, part) for key, part in value.items())
    elif isinstance(value, list) and value:
        parts = ((f"{path}[{_label(part, place)}]", part) for place, part in enumerate(value))
    else:
        return {path: value}
    return {inner: leaf for place, part in parts for inner, leaf in _flat(part, place).items()}


def _label(part: Any, place: int) -> str:
    return str(part["type"]) if isinstance(part, dict) and isinstance(part.get("type"), str) else str(place)


def _short(value: Any) -> str:
    text = value if value is MISSING else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- histories with names that both runs share


def _histories(events: Iterable[RecordedEvent]) -> dict[str, _History]:
    allowed = {resource: Allowed(resource) for resource in VERSIONS}
    objects: list[tuple[str, str, Object]] = []
    for event in events:
        kept = allowed[event.resource].kept(event.type, event.raw) if event.resource in allowed else None
        if kept is not None and event.type != "BOOKMARK":
            objects.append((event.resource, event.type, json.loads(kept)))
    names = _Names(objects)
    found: dict[str, _History] = {}
    begun: set[str] = set()  # resources of which more has come than a first list
    for resource, type, obj in objects:
        name = names.of(resource, obj)
        if type != "ADDED":
            begun.add(resource)
        history = found.setdefault(name, _History(before=resource not in begun))
        state = json.dumps(GONE if type == "DELETED" else names.plain(resource, obj), sort_keys=True)
        if not history.states or history.states[-1] != state:
            history.states.append(state)
    return found


class _Names:
    """Names that do not depend on what is drawn."""

    def __init__(self, objects: list[tuple[str, str, Object]]) -> None:
        self._nodes: dict[str, str] = {}
        self._by_uid: dict[str, str] = {}
        self._generated: dict[str, str] = {}
        self._numbers: defaultdict[str, int] = defaultdict(int)
        known = sorted({_name(obj) for resource, _, obj in objects if resource == "nodes"})
        used = (node for resource, _, obj in objects for node in _uses(resource, obj))
        for node in dict.fromkeys((*used, *known)):
            if node in known:
                self._nodes[node] = f"<node {len(self._nodes) + 1}>"
        longest = sorted(self._nodes, key=len, reverse=True)
        self._node = re.compile("|".join(rf"(?<![\w.]){re.escape(one)}(?![\w.])" for one in longest) or r"(?!)")
        for resource, _, obj in objects:
            self.of(resource, obj)

    def of(self, resource: str, obj: Object) -> str:
        """The object's name in both runs."""
        uid = str(obj["metadata"].get("uid") or f"{resource} {_name(obj)}")
        found = self._by_uid.get(uid)
        if found is None:
            found = self._by_uid[uid] = self._new(resource, obj)
        return found

    def _new(self, resource: str, obj: Object) -> str:
        meta, spec = obj["metadata"], obj.get("spec") or {}
        owner = next((one for one in meta.get("ownerReferences") or () if one.get("kind") == "Pod"), None)
        if resource == "resourceslices":
            stem = f"{spec.get('driver')} {(spec.get('pool') or {}).get('name')}"
        elif resource in ("composabilityrequests", "composableresources"):
            wanted = spec.get("resource") or spec
            stem = f"{wanted.get('target_node')} {wanted.get('model')}"
        elif resource == "devicetaintrules" and _name(obj).removesuffix("-taint") in self._generated:
            stem = self._generated[_name(obj).removesuffix("-taint")]
        elif resource == "resourceclaims" and owner is not None:
            stem = f"of pod {meta.get('namespace')}/{owner.get('name')}"
        else:
            return f"{resource} {self._with_nodes('/'.join(filter(None, (meta.get('namespace'), _name(obj)))))}"
        stem = f"{resource} {self._with_nodes(stem)}"
        self._numbers[stem] += 1
        found = f"{stem} #{self._numbers[stem]}"
        self._generated[_name(obj)] = f"<{found}>"
        return found

    def plain(self, resource: str, obj: Object) -> Object:
        """The object without what differs in each run."""
        made: Object = {key: self._value(value, key) for key, value in obj.items() if key != "metadata"}
        meta = {key: value for key, value in obj["metadata"].items() if key not in _LEFT_OUT}
        if labels := meta.get("labels"):
            meta["labels"] = {key: value for key, value in labels.items() if not key.startswith(_OWN)}
        made["metadata"] = self._value(meta, "metadata")
        if resource == "nodes" and (taints := (made.get("spec") or {}).get("taints")):
            made["spec"]["taints"] = [one for one in taints if not one["key"].startswith(_OWN)]
        if resource == "resourceslices":
            spec = made["spec"]
            spec["pool"] = {"name": spec["pool"]["name"]}
            if devices := spec.get("devices"):
                named = [{**one, "name": _NUMBER.sub("<number>", one["name"])} for one in devices]
                spec["devices"] = sorted(named, key=lambda one: json.dumps(one, sort_keys=True))
        plain: Object = _without_nothing(made)
        return plain

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: self._value(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self._value(part, key) for part in value]
        if not isinstance(value, str):
            return value
        if value in self._generated:
            return self._generated[value]
        if _INSTANT.fullmatch(value):
            return "<instant>"
        text = self._with_nodes(_SERIAL.sub("<serial>", value))
        return _NUMBER.sub("<number>", text) if key == "device" else text

    def _with_nodes(self, text: str) -> str:
        return self._node.sub(lambda match: self._nodes[match[0]], text)


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _uses(resource: str, obj: Object) -> Iterator[str]:
    """Nodes that the object names as the one that it is for."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource == "resourceclaims":
        selector = (status.get("allocation") or {}).get("nodeSelector") or {}
        for term in selector.get("nodeSelectorTerms") or ():
            for one in term.get("matchFields") or ():
                yield from one.get("values") or ()
    elif resource == "pods":
        yield spec.get("nodeName") or ""
    elif resource in ("composabilityrequests", "composableresources"):
        yield (spec.get("resource") or spec).get("target_node") or ""


def _without_nothing(value: Any) -> Any:
    """Without empty parts: a status that is empty is as good as none."""
    if not isinstance(value, dict):
        return [_without_nothing(one) for one in value] if isinstance(value, list) else value
    parts = {key: _without_nothing(part) for key, part in value.items()}
    return {key: part for key, part in parts.items() if part not in ({}, [], "", None, False)}
