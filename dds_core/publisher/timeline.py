"""Timelines of the publisher (a pool, a node, a machine): what the fabric has and answers, refused writes, every decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dds_core.events import Decision, Event, Transition
from dds_core.model import Claim, FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.deadlines import KINDS
from dds_core.publisher.events import pool_stream
from dds_core.publisher.model import Host, Machine, PoolConfig, PoolModel, PoolSlice, Stock
from dds_core.publisher.state import PoolState, load
from dds_core.timeline.phrases import labels, listed, spoken, taints
from dds_core.timeline.telling import (
    ABOUT_ALL,
    DECISION,
    ERASED,
    FACT,
    UNCHANGED,
    Directory,
    Entry,
    Everything,
    Known,
    Moment,
    Note,
    Pair,
    Row,
    Scope,
    Subject,
    Teller,
    Telling,
    config_words,
    decision_words,
    either,
    fact_words,
    with_note,
)

# -- names and words ---------------------------------------------------------------------------------------------------


def _host(before: Host | None, host: Host, known: Known) -> Iterator[str]:
    old = before if before is not None else Host(uid=host.uid)
    if before is None:
        yield f"node {host.name} is there"
    if host.machine != old.machine:
        yield f"node {host.name} is machine {host.machine}" if host.machine else f"node {host.name} names no machine"
    if before is not None:
        yield from labels(host.name, old.labels, host.labels)


def _slice(before: PoolSlice | None, row: PoolSlice, known: Known) -> Iterator[str]:
    old = before if before is not None else PoolSlice(uid=row.uid)
    where = row.node or f"pool {row.pool}"
    name = f"slice {row.name}"
    new = [device for device in row.devices if device not in old.devices]
    lost = [device for device in old.devices if device not in row.devices]
    if before is None:
        yield f"{name} of {where} is there" + (f", generation {row.generation}" if not row.node else "")
    if new:
        yield f"{name} of {where} lists {_with_uuids(row, new)}"
    if lost:
        yield f"{name} of {where} no longer lists {_with_uuids(old, lost)}"
    if before is not None and row.generation != old.generation and not row.node:
        yield f"{name} of {where} is of generation {row.generation}"
    if row.taints != old.taints:
        yield f"{name} of {where}: devices are tainted {taints(row.taints)}"
    if row.ordinary and row.ordinary != old.ordinary and not row.node:
        yield f"{name} of {where} lists {listed(row.ordinary)} without binding conditions"


def _with_uuids(row: PoolSlice, names: list[str]) -> str:
    return listed([f"{name} ({row.uuids[name]})" if row.uuids.get(name) else name for name in names])


FAILS = "fails"


def question(of: str) -> str:
    """Key of a question to the fabric in `PublisherKnown.states`."""
    return f"answer/{of}"


class PublisherKnown(Known):
    """Adds machines by UUID and stocks by stream. `states`: the last state of stocks, machines and questions, each with the
    instant since when it is so (0: unknown)."""

    guards = False
    deadlines = KINDS
    tables = ("configs", "hosts", "slices", "claims", "resources")
    kinds = Known.kinds | {
        Host: ("node", _host),
        PoolSlice: ("slice", _slice),
        PoolConfig: ("ConfigMap", config_words),
    }

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[str, Machine] = {}
        self.stocks: dict[str, Stock] = {}
        self.pool_config = PoolConfig(uid="")
        self._hosts: dict[str, str] = {}

    def _learnt(self, fact: Event) -> Pair:
        match fact:
            case e.Checkpoint():
                self.begin(load(fact.picture))
                return UNCHANGED
            case e.MachineObserved():
                before, self.machines[fact.subject] = self.machines.get(fact.subject), fact.machine
                return before, fact.machine
            case e.MachineGone():
                return self.machines.pop(fact.machine, None), None
            case e.StockObserved():
                stock = Stock(fact.fabric, fact.model, fact.free, fact.devices, fact.whole)
                old, self.stocks[fact.subject] = self.stocks.get(fact.subject), stock
                return old, stock
        return super()._learnt(fact)

    def _keep(self, row: Row) -> None:
        super()._keep(row)
        if isinstance(row, PoolConfig):
            self.pool_config = row
        elif isinstance(row, Host):
            self._hosts[row.name] = row.uid

    def _rows(self) -> Iterable[Row]:
        return [*super()._rows(), *self.machines.values()]

    def begin(self, state: PoolState) -> None:
        super().begin(state)
        self.machines = dict(state.fabric.machines_by_uuid.rows)
        self.stocks = {e.stock_stream(*key): stock for key, stock in state.fabric.stocks.rows.items()}
        self.states.update({question(of): (FAILS, 0) for of in state.fabric.failures})

    def host(self, node: str) -> Host | None:
        found = self.objects.get(self._hosts.get(node, ""))
        return found if isinstance(found, Host) else None

    def stock_of(self, pool: str) -> str:
        """The stream of the stock that a pool (by its stream) is made from; "" if the ConfigMap has no such model."""
        _, _, rest = pool.partition("/")
        driver, _, name = rest.partition("/")
        device, _, fabric = name.rpartition("-fabric")
        model: PoolModel | None = next(
            (one for one in self.pool_config.models if (one.driver, one.device) == (driver, device)), None
        )
        return e.stock_stream(fabric, model.model) if model is not None else ""


# -- subjects ----------------------------------------------------------------------------------------------------------

_NAMING = (e.Checkpoint, e.HostObserved, e.MachineObserved, e.PoolSliceObserved)
NAMING = frozenset(one.__name__ for one in e.EVENTS if issubclass(one, (*_NAMING, e.OfPool)))
"""The types of events that hold names: only these have to be read to find a subject."""


class PublisherDirectory(Directory):
    """Every pool, node and machine that was ever seen, by all their names."""

    kinds = "pool, node or machine"
    advice = "give a pool, a node, or the UUID or name of a machine"

    def __init__(self) -> None:
        super().__init__()
        self._told = PublisherKnown()

    def read(self, told: Iterable[Moment]) -> PublisherDirectory:
        for moment in told:
            for event in (moment.fact, *moment.caused):
                if event is not None:
                    self._read(event)
        return self

    def _read(self, event: Event) -> None:
        if isinstance(event, e.OfPool):
            self._add(("pool", event.pool), event.subject, f"{event.driver}/{event.pool}")
            return
        for _, row in self._told.changes(event):
            self._take(row)

    def _take(self, row: Row | None) -> None:
        match row:
            case PoolSlice() if not row.node and row.pool:
                self._add(("pool", row.pool), pool_stream(row.driver, row.pool), f"{row.driver}/{row.pool}")
            case Host():
                self._add(("node", row.name), row.uid)
            case Machine():
                self._add(("machine", row.uuid), row.uuid, *filter(None, (row.name,)))

    def _things(self, text: str) -> set[tuple[str, str]]:
        """Machines often have the name of their node: then the node is meant."""
        found = super()._things(text)
        exact = {thing for thing in found if thing[1] == text}
        return exact if len(exact) == 1 else found


# -- scope -------------------------------------------------------------------------------------------------------------


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


class _Scope:
    """The publisher's log has no transitions."""

    gathers = True

    def transition(self, moved: Transition) -> bool:
        return False


class PoolScope(_Scope):
    """A pool: its slices, what the fabric has for it, and the claims that hold a device of it."""

    def __init__(self, streams: frozenset[str], known: PublisherKnown) -> None:
        self._streams = streams
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match either(pair):
            case PoolSlice() as one:
                return pool_stream(one.driver, one.pool) in self._streams
            case Claim():
                return any(isinstance(one, Claim) and self._holds(one) for one in pair)
            case PoolConfig():
                return True
        if isinstance(fact, e.OfStock):
            return fact.subject in self._stocks()
        if isinstance(fact, e.OfQuestion):
            return fact.of in self._stocks()
        if isinstance(fact, e.Outcome):
            return fact.target in self._streams
        if isinstance(fact, e.DeadlinePassed):
            return fact.of in self._streams or fact.of.partition("/")[2] in self._streams
        return isinstance(fact, ABOUT_ALL)

    def _holds(self, claim: Claim) -> bool:
        results = claim.allocation.results if claim.allocation is not None else ()
        return any(pool_stream(result.driver, result.pool) in self._streams for result in results)

    def _stocks(self) -> set[str]:
        return {self._known.stock_of(stream) for stream in self._streams} - {""}

    def decision(self, decision: Decision) -> bool:
        return getattr(decision, "of", decision.subject) in self._streams


class HostScope(_Scope):
    """A node: its labels, the devices that its vendor lists, its machine, and its claims."""

    def __init__(self, node: str, known: PublisherKnown) -> None:
        self._node = node
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match either(pair):
            case Host() as host:
                return host.name == self._node
            case PoolSlice() | FabricResource() as one:
                return one.node == self._node
            case Machine() as machine:
                return machine.uuid == self._machine()
            case Claim():
                return any(isinstance(one, Claim) and self._is_on(one) for one in pair)
        if isinstance(fact, e.OfQuestion):
            return bool(self._machine()) and fact.of == f"limits/{self._machine()}"
        return getattr(fact, "target", getattr(fact, "of", "")) == self._node

    def _machine(self) -> str:
        host = self._known.host(self._node)
        return host.machine if host is not None else ""

    def _is_on(self, claim: Claim) -> bool:
        return claim.allocation is not None and claim.allocation.node == self._node

    def decision(self, decision: Decision) -> bool:
        return getattr(decision, "node", getattr(decision, "of", "")) == self._node


class MachineScope(_Scope):
    """A machine of the fabric, and its nodes."""

    def __init__(self, uuid: str, known: PublisherKnown) -> None:
        self._uuid = uuid
        self._known = known

    def fact(self, fact: Event, pair: Pair) -> bool:
        match either(pair):
            case Machine() as machine:
                return machine.uuid == self._uuid
            case Host():
                return any(isinstance(one, Host) and one.machine == self._uuid for one in pair)
        if isinstance(fact, e.OfQuestion):
            return fact.of == f"limits/{self._uuid}"
        return getattr(fact, "of", "") == self._uuid

    def decision(self, decision: Decision) -> bool:
        node = getattr(decision, "node", "")
        host = self._known.host(node) if node else None
        return host is not None and host.machine == self._uuid


# -- entries -----------------------------------------------------------------------------------------------------------

NEW, GONE = "New", "Gone"


class PublisherTeller(Teller[PublisherKnown]):
    """Entries: stock, machine, fabric (a question failed, or has an answer again), write (one was refused), and decision."""

    def _tell(self, moment: Moment) -> list[Entry]:
        """The change that the fact is, with the decisions as its notes; else an entry for each decision."""
        change = self._change(moment)
        entries = [self._closed(change)] if change is not None else []
        if moment.erased:
            text = f"erased: {moment.erased} of the group at position {moment.position}"
            self._pending.append(Note(moment.at, ERASED, text))
        for event in moment.caused:
            if isinstance(event, Decision) and self._scope.decision(event):
                self._decision(event, moment, entries, under=change is not None)
        return entries

    def _decision(self, event: Decision, moment: Moment, entries: list[Entry], *, under: bool) -> None:
        text = decision_words(event, self._known)
        if under:
            note = Note(moment.at, DECISION, text)
            entries[-1] = with_note(entries[-1], note)
        else:
            entries.append(self._closed(Entry(moment.at, moment.position, DECISION, cause=text)))

    def _change(self, moment: Moment) -> Entry | None:
        """The entry that the fact is; None if it is only a note to the next one."""
        fact = moment.fact
        if fact is None:
            return None
        pair = self._known.learn(fact)
        told = self._turned(_told(fact, pair), moment)
        if not self._scope.fact(fact, pair):
            return None
        if told is not None:
            return told
        self._pending += [Note(moment.at, FACT, text) for text in fact_words(fact, pair, self._known)]
        return None

    def _turned(self, told: Entry | None, moment: Moment) -> Entry | None:
        """The entry with its position and the time spent in the state before; the new state is kept."""
        if told is None or not told.uid:
            return told._replace(at=moment.at, position=moment.position) if told is not None else None
        states = self._known.states
        state, since = states.get(told.uid, (NEW, 0))
        if told.target == GONE:
            states.pop(told.uid, None)
        elif state != told.target:
            states[told.uid] = (told.target, moment.at)
        source = state if told.kind == "fabric" else told.source
        after = moment.at - since if since else None
        return told._replace(at=moment.at, position=moment.position, source=source, after=after)


def _told(fact: Event, pair: Pair) -> Entry | None:
    """The entry of a fact, without its position; None if it has none."""
    match fact, pair:
        case e.StockObserved(), (before, Stock() as stock):
            was = before if isinstance(before, Stock) else None
            return _entry(
                "stock", spoken(fact.subject), fact.subject, _counted(was), _counted(stock), _which(was, stock)
            )
        case e.MachineObserved(), (before, Machine() as machine):
            was_in = _fabric(before) if isinstance(before, Machine) else NEW
            limits = e.limits_words(machine.limits)
            cause = f"may have {limits}" if limits else ""
            return _entry("machine", machine.name or machine.uuid, machine.uuid, was_in, _fabric(machine), cause)
        case e.MachineGone(), (before, _):
            gone = before if isinstance(before, Machine) else Machine(fact.machine)
            return _entry(
                "machine", gone.name or gone.uuid, gone.uuid, _fabric(gone), GONE, "no answer names it any more"
            )
        case e.FabricFailed(), _:
            return _entry("fabric", spoken(fact.of), question(fact.of), NEW, FAILS, fact.text)
        case e.FabricAnswered(), _:
            return _entry("fabric", spoken(fact.of), question(fact.of), NEW, "answers")
        case e.WriteRefused(), _:
            cause = f"{fact.code} {fact.reason} {fact.text}".strip()
            return _entry("write", f"{fact.action} of {spoken(fact.target)}", "", "asked", "refused", cause)
    return None


def _entry(kind: str, name: str, uid: str, source: str, target: str, cause: str = "") -> Entry:
    return Entry(0, 0, kind, name=name, uid=uid, trigger=kind, source=source, target=target, cause=cause)


def _counted(stock: Stock | None) -> str:
    if stock is None:
        return NEW
    return f"{stock.free} {'there' if stock.whole else 'free'}"


def _fabric(machine: Machine) -> str:
    return f"fabric {machine.fabric}" if machine.fabric else "no fabric"


def _which(before: Stock | None, stock: Stock) -> str:
    """Which devices came, went, or are not healthy, if the fabric names them."""
    if stock.devices is None:
        return ""
    ids = tuple(one.id for one in stock.devices)
    old = tuple(one.id for one in (before.devices if before is not None else None) or ())
    parts = [
        ("new", [one for one in ids if one not in old]),
        ("gone", [one for one in old if one not in ids]),
        ("not healthy", list(e.broken(stock.devices))),
    ]
    return "; ".join(f"{word}: {listed(names)}" for word, names in parts if names)


def _teller(subject: Subject | None, state: PoolState | None) -> PublisherTeller:
    known = PublisherKnown()
    if state is not None:
        known.begin(state)
    return PublisherTeller(known, scope_of(subject, known))


TOLD = Telling(NAMING, iter, PublisherDirectory, _teller)
"""How the publisher's log is told."""
