"""What concerns a pool, a node or a machine in the publisher's log. Changes nothing and words nothing."""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Decision, Event, Transition, pool_stream
from dds_core.model import Claim, FabricResource
from dds_core.publishing.model import Host, Machine, PoolConfig, PoolSlice
from dds_core.timeline.known import Pair, Row
from dds_core.timeline.publisher.known import PublisherKnown
from dds_core.timeline.scope import Everything, Scope
from dds_core.timeline.subjects import Subject

_OUTCOMES = (e.WriteDone, e.WriteObsolete, e.WriteRefused, e.Superseded)
_ABOUT_ALL = (e.Started, e.PolicyChanged, e.Synced, e.Stale)
_ANSWERS = (e.FabricFailed, e.FabricAnswered)


def scope_of(subject: Subject | None, known: PublisherKnown) -> Scope:
    """The scope of a subject, of everything without one; `known` must learn each fact before the scope is asked."""
    if subject is None:
        return Everything()
    match subject.kind:
        case "pool":
            return PoolScope(subject.uids, known)
        case "machine":
            return MachineScope(subject.name, known)
        case _:
            return HostScope(subject.name, known)


def _either(pair: Pair) -> Row | None:
    return pair[1] if pair[1] is not None else pair[0]


class PoolScope:
    """A pool: its slices, what the fabric has for it, and the claims that hold a device of it."""

    gathers = True

    def __init__(self, streams: frozenset[str], known: PublisherKnown) -> None:
        self._streams = streams
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match _either(pair):
            case PoolSlice() as one:
                return pool_stream(one.driver, one.pool) in self._streams
            case Claim():
                return any(isinstance(one, Claim) and self._holds(one) for one in pair)
            case PoolConfig():
                return True
        if isinstance(fact, e.OfStock):
            return fact.subject in self._stocks()
        if isinstance(fact, _ANSWERS):
            return fact.of in self._stocks()
        if isinstance(fact, _OUTCOMES):
            return fact.target in self._streams
        if isinstance(fact, e.DeadlinePassed):
            return fact.of in self._streams or fact.of.partition("/")[2] in self._streams
        return isinstance(fact, _ABOUT_ALL)

    def _holds(self, claim: Claim) -> bool:
        results = claim.allocation.results if claim.allocation is not None else ()
        return any(pool_stream(result.driver, result.pool) in self._streams for result in results)

    def _stocks(self) -> set[str]:
        return {self._known.stock_of(stream) for stream in self._streams} - {""}

    def decision(self, decision: Decision) -> bool:
        return getattr(decision, "of", decision.subject) in self._streams

    def transition(self, moved: Transition) -> bool:
        return False


class HostScope:
    """A node: its labels, what its vendor lists on it, its machine, and the claims that are on it."""

    gathers = True

    def __init__(self, node: str, known: PublisherKnown) -> None:
        self._node = node
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match _either(pair):
            case Host() as host:
                return host.name == self._node
            case PoolSlice() | FabricResource() as one:
                return one.node == self._node
            case Machine() as machine:
                return machine.uuid == self._machine()
            case Claim():
                return any(isinstance(one, Claim) and self._is_on(one) for one in pair)
        if isinstance(fact, _ANSWERS):
            return bool(self._machine()) and fact.of == f"limits/{self._machine()}"
        return getattr(fact, "target", getattr(fact, "of", "")) == self._node

    def _machine(self) -> str:
        host = self._known.host(self._node)
        return host.machine if host is not None else ""

    def _is_on(self, claim: Claim) -> bool:
        return claim.allocation is not None and claim.allocation.node == self._node

    def decision(self, decision: Decision) -> bool:
        return getattr(decision, "node", getattr(decision, "of", "")) == self._node

    def transition(self, moved: Transition) -> bool:
        return False


class MachineScope:
    """A machine of the fabric, and the nodes that it is."""

    gathers = True

    def __init__(self, uuid: str, known: PublisherKnown) -> None:
        self._uuid = uuid
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match _either(pair):
            case Machine() as machine:
                return machine.uuid == self._uuid
            case Host():
                return any(isinstance(one, Host) and one.machine == self._uuid for one in pair)
        if isinstance(fact, _ANSWERS):
            return fact.of == f"limits/{self._uuid}"
        return getattr(fact, "of", "") == self._uuid

    def decision(self, decision: Decision) -> bool:
        node = getattr(decision, "node", "")
        host = self._known.host(node) if node else None
        return host is not None and host.machine == self._uuid

    def transition(self, moved: Transition) -> bool:
        return False
