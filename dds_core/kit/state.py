"""What a component knows: tables of rows with a journal that can take changes back, and the state over them as plain data.

A state declares its tables as annotations of its class (`claims: Table[str, Claim]`); they are made from there, and so is
the form in which a checkpoint holds them. Every change goes through `put` or `drop` of a table. Indexes are kept right by
hooks and are never stored: they are built again from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dds_core.errors import InputError
from dds_core.model import Record

K = TypeVar("K")
V = TypeVar("V")
Kind = TypeVar("Kind")

Undo = Callable[[], None]
Hook = Callable[[K, V | None, V | None], None]

# -- tables ------------------------------------------------------------------------------------------------------------


class Journal:
    """The changes made since the last `start`, newest last; off until started. It lets `decide` try steps and leave no trace, and
    take back a step that breaks an invariant."""

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
        """Take every change after the first `since` back, newest first."""
        self.on = False
        while len(self.changes) > since:
            self.changes.pop()()
        self.on = True


class Table(Generic[K, V]):
    """Rows of one kind by key, and hooks that are called with (key, old row, new row) after every change, also one that is taken
    back."""

    __slots__ = ("_hooks", "_journal", "get", "rows")

    def __init__(self, journal: Journal) -> None:
        self.rows: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self.rows.get  # the dictionary's own: it is asked a hundred times a fact
        self._journal = journal
        self._hooks: tuple[Hook[K, V], ...] = ()

    def watch(self, hook: Hook[K, V]) -> None:
        self._hooks += (hook,)

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[K]:
        return iter(self.rows)

    def put(self, key: K, row: V) -> None:
        self._replace(key, row)

    def drop(self, key: K) -> None:
        if key in self.rows:
            self._replace(key, None)

    def drop_where(self, which: Callable[[K], bool]) -> None:
        for key in [key for key in self.rows if which(key)]:
            self._replace(key, None)

    def _replace(self, key: K, row: V | None) -> None:
        old = self.rows.get(key)
        if self._journal.on:
            self._journal.changes.append(lambda: self._set(key, row, old))
        self._set(key, old, row)

    def _set(self, key: K, old: V | None, row: V | None) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        for hook in self._hooks:
            hook(key, old, row)


class Index(dict[K, "set[V] | frozenset[V]"], Generic[K, V]):
    """For each key the set of members; an empty set takes no room. A dictionary, since it is asked forty times a fact."""

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
"""(type of decision, what it was about) as `Decision.key` gives it; of deadlines (kind, of)."""


class Refusal(Record, frozen=True):
    """A write that was refused for good: not decided again before `until`. `node` is where an order was for."""

    count: int
    until: int
    node: str = ""


class StateBase(Generic[Kind]):
    """What every component remembers of its own: what it labelled, and which of that is under a prefix of before, what was
    refused, what was shown (in mode observe, and alerts), which deadlines came back, what is to be issued again after a restart,
    and the rejections that are facts already. `Kind` are the kinds of objects that are observed, `dirty` is what the fold of the
    current group touched, in a class of the component's own (with `everything`, `add`, `take`, `clear`, true when not empty)."""

    labelled: Table[tuple[str, str], str]
    left_labels: Table[str, tuple[str, ...]]
    refusals: Table[Key, Refusal]
    last_emitted: Table[Key, bytes]
    fired_deadlines: Table[Key, int]
    reissue: Table[Key, bool]
    rejections: Table[tuple[str, str, str], bool]

    scalars: ClassVar[dict[str, Any]] = {
        "now": int,
        "synced": bool,
        "synced_at": int,
        "level_at": int,
        "epoch": int,
        "restarted": bool,
    }
    """What is kept in a checkpoint beside the tables, with its type."""
    gone_scalars: ClassVar[frozenset[str]] = frozenset()
    """What older checkpoints have, and nothing rests on any more."""
    aside: ClassVar[frozenset[str]] = frozenset()
    """Tables that no rule reads and that older checkpoints lack: states that differ in them alone hold the same."""

    dirty: Any
    policy: Any
    _tables: dict[type[Kind], Table[str, Any]]

    if TYPE_CHECKING:

        @property
        def mode(self) -> str:
            """The mode in effect: the ConfigMap can only lower the policy's."""

        @property
        def live(self) -> bool:
            """Whether decisions are carried out."""

    def __init__(self) -> None:
        self.journal = Journal()
        kind: Any = type(self)
        for name in tables_of(kind):
            setattr(self, name, Table(self.journal))
        self.now = 0
        self.synced = False
        self.synced_at = 0
        self.level_at = 0
        self.stale: set[str] = set()
        self.epoch = 0
        self.restarted = False
        self.named: dict[tuple[type[Kind], str, str], str] = {}
        self.alerts_of: Index[str, Key] = Index()
        self.rejections_of: Index[str, tuple[str, str, str]] = Index()
        self.last_emitted.watch(self._emitted_changed)
        self.rejections.watch(self._rejection_changed)

    def _observe(self, tables: dict[type[Kind], Table[str, Any]]) -> None:
        """These are the tables of observed objects; keep their objects findable by name."""
        self._tables = tables
        for kind, table in tables.items():
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

    def _emitted_changed(self, key: Key, old: bytes | None, new: bytes | None) -> None:
        if key[0] == "Alerted":
            of = key[1].rpartition(":")[0]
            (self.alerts_of.add if new is not None else self.alerts_of.discard)(of, key)

    def _rejection_changed(self, key: tuple[str, str, str], old: bool | None, new: bool | None) -> None:
        (self.rejections_of.add if new is not None else self.rejections_of.discard)(key[0], key)

    def rebuild(self) -> None:
        """Make anew what is derived from several rows at once, after a load."""

    def table(self, kind: type[Kind]) -> Table[str, Any]:
        """The table of an object kind."""
        return self._tables[kind]

    def object(self, kind: type[Kind], uid: str) -> Any:
        """The object as last observed, None when not known."""
        return self._tables[kind].get(uid)

    def uid_of(self, kind: type[Any], namespace: str, name: str) -> str | None:
        """The uid of the object of that name, None when not known."""
        return self.named.get((kind, namespace, name))

    def is_rejected(self, uid: str, field: str, reason: str) -> bool:
        """Whether this rejection is already a fact."""
        return (uid, field, reason) in self.rejections

    def has_rejections(self, uid: str) -> bool:
        """Whether anything of the object was rejected; of some that is all that is known."""
        return bool(self.rejections_of[uid])

    def clear_alert(self, of: str, reason: str) -> None:
        """It is over: a person is told when it begins again."""
        self.last_emitted.drop(("Alerted", f"{of}:{reason}"))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Changes made inside leave no trace."""
        kept = type(self.dirty)()
        kept.add(self.dirty)
        self.journal.start()
        try:
            yield
        finally:
            self.journal.undo()
            self.journal.stop()
            self.dirty = kept


@cache
def tables_of(state: Any) -> dict[str, tuple[Any, Any]]:
    """The tables that a state declares, by name: the types of their keys and rows."""
    hints = get_type_hints(state)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Table}


# -- plain data --------------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=StateBase[Any])

_KEPT_OTHERWISE = ("last_emitted", "rejections", "reissue")
_STORED_AS = {"fired_deadlines": "passed"}
"""Names of tables in a checkpoint where they differ: stored data keep the name that they were written with."""


class Form(Generic[S]):
    """A state as plain data, for checkpoints and comparisons, and back. A table whose keys are texts is a mapping, any other
    a list of (key, row), both in the order of their keys. `projection` is the version of this form: a change to what a state
    declares needs a new number and an upcasting step for `Checkpoint`."""

    def __init__(self, state: Callable[[], S], projection: int, policy: Callable[[dict[str, Any]], Any]) -> None:
        kind: Any = state
        self.projection = projection
        self._state, self._policy = state, policy
        self._scalars: dict[str, Any] = kind.scalars
        self._gone: frozenset[str] = kind.gone_scalars
        self._aside: frozenset[str] = kind.aside
        tables = {name: types for name, types in tables_of(kind).items() if name not in _KEPT_OTHERWISE}
        self._by_text = [name for name, (key, _) in tables.items() if key is str]
        self._by_pair = [name for name in tables if name not in self._by_text]
        rows: dict[str, Any] = {}
        for name, (key, row) in tables.items():
            rows[_STORED_AS.get(name, name)] = dict[str, row] if key is str else tuple[tuple[key, row], ...]  # type: ignore[valid-type]
        rows |= {"shown": tuple[tuple[Key, str], ...], "rejections": tuple[tuple[str, str, str], ...]}
        rows |= {"policy": dict[str, Any], "stale": tuple[str, ...]}
        empty = state()
        fields = [(name, type, getattr(empty, name)) for name, type in self._scalars.items()]
        fields += [(name, type, {} if get_origin(type) is dict else ()) for name, type in rows.items()]
        self._struct = msgspec.defstruct("Snapshot", fields, bases=(Record,), frozen=True)

    def dump(self, state: S) -> dict[str, Any]:
        """The state as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self._snapshot(state))
        return plain

    def same(self, one: S, other: S) -> bool:
        """Whether two states hold the same. What they are dumped as may differ: a text that is a default is left out only where
        it is the default's own object, and one that was read from a log is not."""
        return bool(self._snapshot(one, self._aside) == self._snapshot(other, self._aside))

    def _snapshot(self, state: S, without: frozenset[str] = frozenset()) -> Any:
        fields: dict[str, Any] = {name: getattr(state, name) for name in self._scalars}
        for name in set(self._by_text) - without:
            rows = getattr(state, name).rows
            fields[_STORED_AS.get(name, name)] = {key: rows[key] for key in sorted(rows)}
        for name in set(self._by_pair) - without:
            fields[_STORED_AS.get(name, name)] = tuple(
                sorted(getattr(state, name).rows.items(), key=lambda pair: pair[0])
            )
        fields["shown"] = tuple((key, state.last_emitted.rows[key].decode()) for key in sorted(state.last_emitted))
        fields["policy"] = state.policy.model_dump(mode="json")
        fields["stale"] = tuple(sorted(state.stale))
        fields["rejections"] = tuple(sorted(state.rejections))
        return self._struct(**fields)

    def load(self, plain: dict[str, Any]) -> S:
        """The state that `dump` gave. Raises InputError when the data is not of that form."""
        try:
            known = {name: value for name, value in plain.items() if name not in self._gone}
            snapshot: Any = msgspec.convert(known, self._struct)
        except msgspec.ValidationError as error:
            what = f"the checkpoint does not hold a state of projection {self.projection}: {error}"
            raise InputError(what) from None
        state = self._state()
        state.policy = self._policy(snapshot.policy)
        for name in self._scalars:
            setattr(state, name, getattr(snapshot, name))
        state.stale = set(snapshot.stale)
        for name in (*self._by_text, *self._by_pair):
            table: Table[Any, Any] = getattr(state, name)
            rows = getattr(snapshot, _STORED_AS.get(name, name))
            for key, row in rows.items() if isinstance(rows, dict) else rows:
                table.put(key, row)
        for told in snapshot.rejections:
            state.rejections.put(told, True)
        for key, text in snapshot.shown:
            state.last_emitted.put(key, text.encode())
        state.rebuild()
        state.dirty.clear()
        return state
