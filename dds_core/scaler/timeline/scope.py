"""Scopes: which facts, decisions and transitions belong into the timeline of a claim, a device, a node, or a group of devices.

A scope is given every event in order, and remembers only what it needs for the next ones. It changes nothing and makes no words.
"""

from __future__ import annotations

from dds_core.events import Decision, Event, Transition
from dds_core.lifecycle import BOUND, RELEASED
from dds_core.model import AttachRequest, Claim, DeviceKey, FabricResource, Node, Pod, Slice
from dds_core.scaler import events as e
from dds_core.scaler.timeline.words import Known
from dds_core.timeline.telling import ABOUT_ALL, Pair, Row, Scope, Subject, either


def scope_of(subject: Subject, known: Known) -> Scope:
    """The scope of a subject; `known` must learn each fact before the scope is asked."""
    match subject.kind:
        case "claim" | "pod":
            return ClaimScope(subject.uids, known)
        case "device":
            return DeviceScope(subject, known)
        case "node":
            return NodeScope(subject.name, known)
        case _:
            return GroupScope(subject, known)


class ClaimScope:
    """A claim and its pods; and while it waits, what happens on its node with the models that it waits for."""

    gathers = True

    def __init__(self, uids: frozenset[str], known: Known) -> None:
        self.uids = uids
        self._known = known
        self._state = ""
        self._node = ""
        self._models: set[str] = set()
        self._keys: set[DeviceKey] = set()
        self._devices: set[str] = set()
        self._requests: set[str] = set()
        self._around: set[str] = set()

    def fact(self, fact: Event, pair: Pair) -> bool:
        row = either(pair)
        if isinstance(row, Claim):
            return self._claim(row)
        if isinstance(row, Pod):
            return self._is_ours(row) or (isinstance(pair[0], Pod) and self._is_ours(pair[0]))
        if isinstance(fact, e.DeadlinePassed):
            return fact.of in self.uids or (self.waits and fact.of in self._devices | self._around)
        if isinstance(fact, e.Outcome):
            return fact.target in self.uids or fact.target in self._requests
        if isinstance(fact, e.Rejected):
            return fact.uid in self.uids or fact.uid in self._devices
        if isinstance(fact, ABOUT_ALL):
            return self._state not in ("", RELEASED)
        if isinstance(fact, e.NodeGone):
            return self._state not in ("", RELEASED) and isinstance(row, Node) and row.name == self._node
        return self.waits and self._surroundings(row)

    @property
    def waits(self) -> bool:
        """Whether what happens around the claim may belong to it."""
        return self._state not in ("", BOUND, RELEASED)

    def _claim(self, claim: Claim) -> bool:
        if claim.uid not in self.uids:
            return False
        if claim.allocation is not None:
            self._node = claim.allocation.node or self._node
            self._keys = {result.key for result in claim.allocation.results}
            self._models |= {model for r in claim.allocation.results if (model := self._known.model_of(r))}
        return True

    def _is_ours(self, pod: Pod) -> bool:
        if pod.uid in self.uids:
            return True
        for uid in self.uids:
            claim = self._known.claim(uid)
            if claim is None:
                continue
            named = claim.name in pod.claims or claim.name == pod.extended_claim
            if (named and claim.namespace == pod.namespace) or pod.uid == claim.owner:
                return True
            if pod.uid in [consumer.uid for consumer in claim.consumers]:
                return True
        return False

    def _surroundings(self, row: Row | None) -> bool:
        match row:
            case FabricResource():
                if row.node == self._node and row.model in self._models:
                    self._around.add(row.uid)
                return row.uid in self._devices or row.uid in self._around
            case AttachRequest():
                return row.name in self._requests or (row.node == self._node and row.model in self._models)
            case Slice():
                if row.node:
                    return row.node == self._node and any(row.driver == key[0] for key in self._keys)
                return (row.driver, row.pool) in {key[:2] for key in self._keys}
            case Node():
                return row.name == self._node
            case _:
                return False

    def decision(self, decision: Decision) -> bool:
        if self.uids.intersection(decision.for_claims()):
            self._requests |= {getattr(decision, "request", "")} - {""}
            return True
        if decision.around:
            model = getattr(decision, "model", None)
            here = getattr(decision, "node", "") == self._node and (model is None or model in self._models)
            return self.waits and here
        return self.waits and getattr(decision, "resource", "") in self._devices

    def transition(self, moved: Transition) -> bool:
        if not isinstance(moved, e.ClaimMoved) or moved.claim not in self.uids:
            return False
        self._state = moved.target
        self._devices |= set(moved.devices)
        if moved.target == RELEASED:
            self._devices, self._around, self._models, self._keys, self._node = set(), set(), set(), set(), ""
        return True


class DeviceScope:
    """A device, through all resources that it had: its requests, its names on nodes, and the claims that held it."""

    gathers = True

    def __init__(self, subject: Subject, known: Known) -> None:
        self._uids = subject.uids
        self._uuid = subject.name
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        row = either(pair)
        match row:
            case FabricResource():
                return row.uid in self._uids
            case AttachRequest():
                return row.name in {r.request for uid in self._uids if (r := self._known.resource(uid)) is not None}
            case Claim():
                return any(isinstance(one, Claim) and self._held_by(one) for one in pair)
            case Slice():
                relisted = self._known.relisted
                may = bool(row.node) and (relisted is None or self._uuid in relisted)
                return may and self._lists(pair[0]) != self._lists(pair[1])
            case Node():
                return row.name in {r.node for uid in self._uids if (r := self._known.resource(uid)) is not None}
        if isinstance(fact, e.DeadlinePassed):
            return fact.of in self._uids
        if isinstance(fact, e.Outcome):
            return fact.target in self._uids
        return getattr(fact, "resource", getattr(fact, "uid", "")) in self._uids

    def _held_by(self, claim: Claim) -> bool:
        """By the name that the device has now: nodes use names again for other devices."""
        results = claim.allocation.results if claim.allocation is not None else ()
        return any(self._known.uuid_at.get(result.key) == self._uuid for result in results)

    def _lists(self, row: Row | None) -> list[str]:
        if not isinstance(row, Slice):
            return []
        return [n for n, device in row.devices.items() if self._known.uuid_of(row.driver, device) == self._uuid]

    def decision(self, decision: Decision) -> bool:
        return any(one == self._uuid or one in self._uids for one in decision.for_devices())

    def transition(self, moved: Transition) -> bool:
        if isinstance(moved, e.ClaimMoved):
            return False
        return isinstance(moved, e.DeviceMoved) and moved.resource in self._uids


class NodeScope:
    """A node: its requests, devices and own slices, and the claims that are allocated on it."""

    gathers = True

    def __init__(self, node: str, known: Known) -> None:
        self._node = node
        self._known = known
        self._claims: set[str] = set()
        self._left = ""
        self._resources: set[str] = set()

    def fact(self, fact: Event, pair: Pair) -> bool:
        row = either(pair)
        self._left = ""
        match row:
            case Node():
                return row.name == self._node
            case Claim():
                return self._claim(row)
            case Pod():
                return False
            case FabricResource():
                if row.node == self._node:
                    self._resources.add(row.uid)
                return row.node == self._node
            case AttachRequest() | Slice():
                return row.node == self._node
        of = getattr(fact, "of", getattr(fact, "target", getattr(fact, "uid", "")))
        return of in self._claims or of in self._resources or of.partition("/")[0] == self._node

    def _claim(self, claim: Claim) -> bool:
        if claim.allocation is not None and claim.allocation.node:
            if claim.allocation.node == self._node:
                self._claims.add(claim.uid)
            else:
                self._left = claim.uid if claim.uid in self._claims else ""  # the last change that belongs here
                self._claims.discard(claim.uid)
                return bool(self._left)
        return claim.uid in self._claims

    def decision(self, decision: Decision) -> bool:
        if getattr(decision, "node", "") == self._node:
            return True
        of = getattr(decision, "resource", getattr(decision, "claim", getattr(decision, "of", "")))
        return of in self._resources or of in self._claims

    def transition(self, moved: Transition) -> bool:
        if isinstance(moved, e.ClaimMoved):
            return moved.claim in self._claims or moved.claim == self._left
        return isinstance(moved, e.DeviceMoved) and moved.resource in self._resources


class GroupScope:
    """The devices of a request, a model or a fabric, and their orders."""

    gathers = True

    def __init__(self, subject: Subject, known: Known) -> None:
        self._kind, self._name, self._uids = subject.kind, subject.name, subject.uids
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        row = either(pair)
        match row:
            case FabricResource():
                return row.uid in self._uids
            case AttachRequest():
                return self._asks(row.name, row.model, row.node)
            case Claim() | Pod() | Slice() | Node():
                return False
        if isinstance(fact, e.Outcome):
            return self._kind == "request" and fact.target in (self._name, *self._uids)
        return getattr(fact, "of", getattr(fact, "uid", "")) in self._uids

    def _asks(self, request: str, model: str, node: str) -> bool:
        return {"request": request, "model": model, "fabric": self._known.fabric_of(node)}[self._kind] == self._name

    def decision(self, decision: Decision) -> bool:
        node = getattr(decision, "node", "")
        if any(one in self._uids for one in decision.for_devices()) or getattr(decision, "resource", "") in self._uids:
            return True
        return bool(node) and self._asks(getattr(decision, "request", ""), getattr(decision, "model", ""), node)

    def transition(self, moved: Transition) -> bool:
        return isinstance(moved, e.DeviceMoved) and moved.resource in self._uids
