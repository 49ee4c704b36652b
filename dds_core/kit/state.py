"""The base of every component's state: tables of rows with a journal that can undo changes, and the state as JSON.

A state class declares its tables as annotations (`claims: Table[str, Claim]`), itself or in rooms (`fleet: Fleet`). The tables
and the form of a checkpoint follow from these annotations. Every change goes through `put` or `drop` of a table. Hooks of the
tables keep indexes up to date; indexes are never stored, a load rebuilds them from the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dds_core.errors import InputError
from dds_core.events import POLICY, Alerted
from dds_core.model import Record

K = TypeVar("K")
V = TypeVar("V")
Kind = TypeVar("Kind")

Undo = Callable[[], None]
Hook = Callable[[K, V | None, V | None], None]

# -- tables ------------------------------------------------------------------------------------------------------------


class Journal:
    """The table changes since the last `start`, newest last; off until started. With it `decide` leaves no trace in its caller's
    state, and a step that breaks an invariant is undone."""

    __slots__ = ("changes", "on")

    def __init__(self) -> None:
        self.on = False
        self.changes: list[Undo] = []

    def start(self) -> None:
        self.on = True
        self.changes = []

    def stop(self) -> None:
        self.on = False
        self.changes = []

    def undo(self, since: int = 0) -> None:
        """Undo all changes but the first `since`, newest first."""
        self.on = False
        while len(self.changes) > since:
            self.changes.pop()()
        self.on = True


class Table(dict[K, V], Generic[K, V]):
    """Rows of one kind by key. After every change, also an undone one, hooks are called with (key, old row, new row). Changed by
    `put`, `drop` and `drop_where` alone. A dictionary for speed: it is asked a hundred times a fact. `rows`: itself, where what
    is read is the rows as a whole, or a row that is there."""

    __slots__ = ("_hooks", "_journal", "rows")

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.rows: dict[K, V] = self
        self._journal = journal
        self._hooks: tuple[Hook[K, V], ...] = ()

    def watch(self, hook: Hook[K, V]) -> None:
        self._hooks += (hook,)

    def put(self, key: K, row: V) -> None:
        self._change(key, self.get(key), row)

    def drop(self, key: K) -> None:
        if key in self:
            self._change(key, self[key], None)

    def drop_where(self, which: Callable[[K], bool]) -> None:
        for key in [key for key in self if which(key)]:
            self._change(key, self[key], None)

    def _change(self, key: K, old: V | None, row: V | None) -> None:
        if self._journal.on:  # not while it undoes
            self._journal.changes.append(lambda: self._change(key, row, old))
        if row is None:
            self.pop(key, None)
        else:
            self[key] = row
        for hook in self._hooks:
            hook(key, old, row)


class Index(dict[K, "set[V] | frozenset[V]"], Generic[K, V]):
    """For each key a set of members; empty sets are not kept. A dictionary for speed: it is read forty times a fact."""

    __slots__ = ()

    def __missing__(self, key: K) -> frozenset[V]:
        return frozenset()

    def add(self, key: K, member: V) -> None:
        found = self.get(key)
        if isinstance(found, set):
            found.add(member)
        else:
            self[key] = {member}

    def discard(self, key: K, member: V) -> None:
        found = self.get(key)
        if isinstance(found, set):
            found.discard(member)
            if not found:
                del self[key]


# -- the state -------------------------------------------------------------------------------------------------------

Key = tuple[str, str]
"""(type of a decision, its subject), as `Decision.key`; of deadlines (kind, of)."""


class Refusal(Record, frozen=True):
    """A write that failed `count` times in a row; it is not decided again before `until`. `node`, `model`: those of an order.
    `text`: the API server's words, "" for a write that was overtaken. `undone`: the writes succeeded, and another client undid
    them; `text` then names its managers of fields, if they are known."""

    count: int
    until: int
    node: str = ""
    model: str = ""
    text: str = ""
    undone: bool = False


class Room:
    """A part of a state: tables of what belongs together, with their indexes. `scalars`: attributes that a checkpoint holds
    beside the tables, with their types. `observed`: the tables of observed objects by kind."""

    scalars: ClassVar[dict[str, Any]] = {}
    observed: ClassVar[dict[type[Any], str]] = {}

    def __init__(self, state: StateBase[Any]) -> None:
        """Make the tables; the names of observed objects are indexed before any other hook is called."""
        kind: Any = type(self)
        kinds = {name: one for one, name in self.observed.items()}
        for name in tables_of(kind):
            table: Table[Any, Any] = Table(state.journal)
            setattr(self, name, table)
            state.tables[name] = table
            if name in kinds:
                state.observe(kinds[name], table)


class Process(Room):
    """What is known of time and of the process that decides. `now`: of the last event. `synced`: whether all was listed since
    the start, last at `synced_at`; `level_at`: when the rules last looked at everything; `stale`: what is not watched now;
    `restarted`: whether an earlier process has left its intents. Instants are microseconds."""

    scalars = {
        "now": int,
        "synced": bool,
        "synced_at": int,
        "level_at": int,
        "epoch": int,
        "restarted": bool,
    }

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.now = 0
        self.synced = False
        self.synced_at = 0
        self.level_at = 0
        self.stale: set[str] = set()
        self.epoch = 0
        self.restarted = False


class Notes(Room):
    """What a component notes down of what it wrote, told and waits for. `labelled`: by (node, label) the value that dds decided
    and has not observed yet. `left_labels`: by node the labels of dds under an earlier label-prefix. `refusals`: failed writes,
    by decision. `last_emitted`: what was shown already (decisions in mode observe, and alerts). `fired_deadlines`: by (kind, of)
    the `due` of deadlines that have passed, and other instants to remember. `reissue`: decisions to make again after a restart.
    `rejections`: rejected fields that are facts already."""

    labelled: Table[tuple[str, str], str]
    left_labels: Table[str, tuple[str, ...]]
    refusals: Table[Key, Refusal]
    last_emitted: Table[Key, bytes]
    fired_deadlines: Table[Key, int]
    reissue: Table[Key, bool]
    rejections: Table[tuple[str, str, str], bool]

    def __init__(self, state: StateBase[Any]) -> None:
        super().__init__(state)
        self.alerts_of: Index[str, Key] = Index()
        self.rejections_of: Index[str, tuple[str, str, str]] = Index()
        self.last_emitted.watch(self._emitted_changed)
        self.rejections.watch(self._rejection_changed)

    def clear_alert(self, of: str, reason: str) -> None:
        """Forget the alert, so that a person is alerted again when the condition returns."""
        self.last_emitted.drop((Alerted.__name__, f"{of}:{reason}"))

    def is_alerted(self, of: str, reason: str) -> bool:
        """Whether a person was alerted, and the alert was not cleared since."""
        return (Alerted.__name__, f"{of}:{reason}") in self.last_emitted

    @property
    def policy_fault(self) -> str:
        """What is wrong with the policy's file, as long as the policy before it stays in force; "" if nothing is."""
        return next((field for _, field, _ in self.rejections_of[POLICY]), "")

    def _emitted_changed(self, key: Key, old: bytes | None, new: bytes | None) -> None:
        if key[0] == Alerted.__name__:
            of = key[1].rpartition(":")[0]
            (self.alerts_of.add if new is not None else self.alerts_of.discard)(of, key)

    def _rejection_changed(self, key: tuple[str, str, str], old: bool | None, new: bool | None) -> None:
        (self.rejections_of.add if new is not None else self.rejections_of.discard)(key[0], key)


class StateBase(Room, Generic[Kind]):
    """What every component has. `tables`: all tables of the state, its rooms' too, by name; `named`: the uids of observed objects
    by kind (one of `Kind`, their union), namespace and name. `dirty` is what the fold of the current group touched, in a class of
    the component (with `everything`, `add`, `take`, `clear`; true when not empty); off while not `noting`, as when a log is
    folded and nothing decided. `loading`: its tables are being filled by a load, at whose end it is rebuilt."""

    process: Process
    notes: Notes

    dirty: Any
    policy: Any
    noting = True
    loading = False

    if TYPE_CHECKING:

        @property
        def mode(self) -> str:
            """The mode in effect: the ConfigMap can only lower the policy's."""

        @property
        def live(self) -> bool:
            """Whether decisions are carried out."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.tables: dict[str, Table[Any, Any]] = {}
        self.named: dict[tuple[type[Kind], str, str], str] = {}
        self._observed: dict[type[Kind], Table[str, Any]] = {}
        self.process = Process(self)
        self.notes = Notes(self)
        super().__init__(self)

    def observe(self, kind: type[Kind], table: Table[str, Any]) -> None:
        """Register the table of a kind of observed objects, and index these by name."""
        self._observed[kind] = table
        table.watch(self._naming(kind))

    def _naming(self, kind: type[Kind]) -> Hook[str, Any]:
        named = self.named

        def changed(uid: str, old: Any, new: Any) -> None:
            if old is not None:
                key = (kind, getattr(old, "namespace", ""), getattr(old, "name", ""))
                if named.get(key) == uid:
                    del named[key]
            if new is not None:
                named[(kind, getattr(new, "namespace", ""), getattr(new, "name", ""))] = uid

        return changed

    def rebuild(self) -> None:
        """After a load: recompute what is derived from several rows at once."""

    def table(self, kind: type[Kind]) -> Table[str, Any]:
        return self._observed[kind]

    def object(self, kind: type[Kind], uid: str) -> Any:
        """The object as last observed; None if unknown."""
        return self._observed[kind].get(uid)

    def uid_of(self, kind: type[Any], namespace: str, name: str) -> str | None:
        """The uid of the object of that name; None if unknown."""
        return self.named.get((kind, namespace, name))

    def is_rejected(self, uid: str, field: str, reason: str) -> bool:
        """Whether this rejection is already a fact."""
        return (uid, field, reason) in self.notes.rejections

    def has_rejections(self, uid: str) -> bool:
        """Whether anything of the object was rejected. Of an object that was rejected as a whole nothing else is known."""
        return bool(self.notes.rejections_of[uid])


@cache
def tables_of(room: Any) -> dict[str, tuple[Any, Any]]:
    """The tables that a room, or a state outside its rooms, declares: by name the types of key and row."""
    hints = get_type_hints(room)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Table}


def rooms_of(state: Any) -> dict[str, Any]:
    """The rooms of a state class by name; the state itself, as far as it is one, comes last, as ""."""
    hints = get_type_hints(state).items()
    return {name: hint for name, hint in hints if isinstance(hint, type) and issubclass(hint, Room)} | {"": state}


class Scalar(NamedTuple):
    """An attribute that a checkpoint holds beside the tables: in which room, and its type."""

    room: str
    type: Any

    def owner(self, state: Any) -> Any:
        return getattr(state, self.room) if self.room else state


def scalars_of(state: type[Any]) -> dict[str, Scalar]:
    """The scalars of all rooms by name."""
    rooms = rooms_of(state).items()
    return {name: Scalar(room, type) for room, kind in rooms for name, type in kind.scalars.items()}


# -- as JSON -----------------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=StateBase[Any])

_encoder = msgspec.json.Encoder(order="sorted")
_KEPT_OTHERWISE = ("last_emitted", "rejections", "reissue")


class Form(Generic[S]):
    """Converts a state to JSON and back, for checkpoints and comparisons. A table whose keys are texts becomes a mapping, any
    other a list of (key, row); all is sorted by key. `projection` is the version of this form: a change to what a state declares
    needs a new number and an upcasting step for `Checkpoint`; but not a new table, which an older checkpoint loads as empty (an
    older version of dds refuses a checkpoint with it: see `SCHEMA_VERSION`). `order`: the names of all tables in the order in
    which a load fills them; without it, that in which they are declared."""

    def __init__(
        self,
        state: Callable[[], S],
        projection: int,
        policy: Callable[[dict[str, Any]], Any],
        order: tuple[str, ...] = (),
    ) -> None:
        kind: Any = state
        self.projection = projection
        self._state, self._policy = state, policy
        self._scalars = scalars_of(kind)
        declared = {name: types for room in rooms_of(kind).values() for name, types in tables_of(room).items()}
        assert not order or sorted(order) == sorted(declared), "a table has no place in the order"
        tables = {name: declared[name] for name in order or declared if name not in _KEPT_OTHERWISE}
        self._by_text = [name for name, (key, _) in tables.items() if key is str]
        self._by_pair = [name for name in tables if name not in self._by_text]
        rows: dict[str, Any] = {}
        for name, (key, row) in tables.items():
            rows[name] = dict[str, row] if key is str else tuple[tuple[key, row], ...]  # type: ignore[valid-type]
        rows |= {"shown": tuple[tuple[Key, str], ...], "rejections": tuple[tuple[str, str, str], ...]}
        rows |= {"policy": dict[str, Any], "stale": tuple[str, ...]}
        empty = state()
        fields = [(name, one.type, getattr(one.owner(empty), name)) for name, one in self._scalars.items()]
        fields += [(name, type, {} if get_origin(type) is dict else ()) for name, type in rows.items()]
        self._struct = msgspec.defstruct("Snapshot", fields, bases=(Record,), frozen=True)

    def dump(self, state: S) -> msgspec.Raw:
        return msgspec.Raw(_encoder.encode(self._snapshot(state)))

    def same(self, one: S, other: S) -> bool:
        """Whether two states are equal. Their dumps may differ all the same: a default text is left out of a dump only if it is
        the default's own object, and a text read from a log is not."""
        return bool(self._snapshot(one) == self._snapshot(other))

    def _snapshot(self, state: S) -> Any:
        fields: dict[str, Any] = {name: getattr(one.owner(state), name) for name, one in self._scalars.items()}
        for name in self._by_text:
            rows = state.tables[name].rows
            fields[name] = {key: rows[key] for key in sorted(rows)}
        for name in self._by_pair:
            fields[name] = tuple(sorted(state.tables[name].rows.items(), key=lambda pair: pair[0]))
        shown = state.notes.last_emitted.rows
        fields["shown"] = tuple((key, shown[key].decode()) for key in sorted(shown))
        fields["policy"] = state.policy.model_dump(mode="json")
        fields["stale"] = tuple(sorted(state.process.stale))
        fields["rejections"] = tuple(sorted(state.notes.rejections))
        return self._struct(**fields)

    def load(self, dumped: msgspec.Raw) -> S:
        """The state from the JSON of `dump`. Raises InputError for data of another form."""
        try:
            snapshot: Any = msgspec.json.decode(dumped, type=self._struct)
        except msgspec.ValidationError as error:
            what = f"the checkpoint does not hold a state of projection {self.projection}: {error}"
            raise InputError(what) from None
        state = self._state()
        state.loading, state.noting = True, False
        state.policy = self._policy(snapshot.policy)
        for name, one in self._scalars.items():
            setattr(one.owner(state), name, getattr(snapshot, name))
        state.process.stale = set(snapshot.stale)
        for name in (*self._by_text, *self._by_pair):
            rows = getattr(snapshot, name)
            for key, row in rows.items() if isinstance(rows, dict) else rows:
                state.tables[name].put(key, row)
        for told in snapshot.rejections:
            state.notes.rejections.put(told, True)
        for key, text in snapshot.shown:
            state.notes.last_emitted.put(key, text.encode())
        state.loading = False
        state.rebuild()
        state.dirty.clear()
        state.noting = True
        return state
