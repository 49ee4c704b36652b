"""Pictures as plain data, for checkpoints and comparisons, and back: what the pictures of all components have in common.

A `Form` names the tables; the struct that it is made of has a field for each, in the order in which they are written. Indexes are
no part of it: they are built again from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from dds_core.errors import InputError
from dds_core.kit.table import Journal, Table
from dds_core.model import Record
from dds_core.scaler.rows import Refusal

# -- remembered --------------------------------------------------------------------------------------------------------

# What every picture remembers, of whichever component: its own decisions, what was refused, and a few facts that are no
# rows.
#
# What was observed, and what is derived from it, is each component's own.


Kind = TypeVar("Kind")


class Remembered(Generic[Kind]):
    """`Kind` are the kinds of objects that are observed, `dirty` what the fold of the current group touched, in a class of the
    component's own. All changes go through the tables' `put` and `drop`."""

    dirty: Any
    _tables: dict[type[Kind], Table[str, Any]]

    def __init__(self) -> None:
        journal = self.journal = Journal()
        self.labelled: Table[tuple[str, str], str] = Table(journal)
        self.refusals: Table[tuple[str, str], Refusal] = Table(journal)
        self.shown: Table[tuple[str, str], bytes] = Table(journal)
        self.passed: Table[tuple[str, str], int] = Table(journal)
        self.reissue: Table[tuple[str, str], bool] = Table(journal)
        self.rejections: Table[tuple[str, str, str], bool] = Table(journal)

        self.now = 0
        self.synced = False
        self.synced_at = 0
        self.level_at = 0
        self.stale: set[str] = set()
        self.epoch = 0
        self.restarted = False

    def table(self, kind: type[Kind]) -> Table[str, Any]:
        """The table of an object kind."""
        return self._tables[kind]

    def object(self, kind: type[Kind], uid: str) -> Any:
        """The object as last observed, None when not known."""
        return self._tables[kind].get(uid)

    def told(self, uid: str, field: str, reason: str) -> bool:
        """Whether this rejection is already a fact."""
        return (uid, field, reason) in self.rejections

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
            self.dirty = kept


# -- plain -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """`scalars` are taken as they are, `by_text` are tables whose keys are texts, `by_pair` others: lists of (key, row). Policy,
    stale views, rejections and what was shown are in every picture."""

    struct: type[Record]
    projection: int
    scalars: tuple[str, ...]
    by_text: tuple[str, ...]
    by_pair: tuple[str, ...]
    picture: Callable[[], Any]
    policy: Callable[[dict[str, Any]], Any]

    def dump(self, picture: Any) -> dict[str, Any]:
        """The picture as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self._snapshot(picture))
        return plain

    def same(self, one: Any, other: Any) -> bool:
        """Whether two pictures hold the same. What they are dumped as may differ: a text that is a default is left out only where
        it is the default's own object, and one that was read from a log is not."""
        return bool(self._snapshot(one) == self._snapshot(other))

    def _snapshot(self, picture: Any) -> Record:
        fields: dict[str, Any] = {name: getattr(picture, name) for name in self.scalars}
        for name in self.by_text:
            rows = getattr(picture, name).rows
            fields[name] = {key: rows[key] for key in sorted(rows)}
        for name in self.by_pair:
            fields[name] = tuple(sorted(getattr(picture, name).rows.items(), key=lambda pair: pair[0]))
        fields["shown"] = tuple((key, picture.shown.rows[key].decode()) for key in sorted(picture.shown))
        fields["policy"] = picture.policy.model_dump(mode="json")
        fields["stale"] = tuple(sorted(picture.stale))
        fields["rejections"] = tuple(sorted(picture.rejections))
        return self.struct(**fields)

    def load(self, plain: dict[str, Any]) -> Any:
        """The picture that `dump` gave. Raises InputError when the data is not of that form."""
        try:
            snapshot: Any = msgspec.convert(plain, self.struct)
        except msgspec.ValidationError as error:
            what = f"the checkpoint does not hold a picture of projection {self.projection}: {error}"
            raise InputError(what) from None
        picture = self.picture()
        picture.policy = self.policy(snapshot.policy)
        for name in self.scalars:
            setattr(picture, name, getattr(snapshot, name))
        picture.stale = set(snapshot.stale)
        for name in (*self.by_text, *self.by_pair):
            table: Table[Any, Any] = getattr(picture, name)
            rows = getattr(snapshot, name)
            for key, row in rows.items() if isinstance(rows, dict) else rows:
                table.put(key, row)
        for told in snapshot.rejections:
            picture.rejections.put(told, True)
        for key, text in snapshot.shown:
            picture.shown.put(key, text.encode())
        picture.dirty.clear()
        return picture
