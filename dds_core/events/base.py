"""What all events have in common, and where they are registered. Events are frozen msgspec structs; the class name is the `type`
column of the log, and the docstring is what docs/events.md says of it.

A class says of itself what people are told: its `words` in a timeline, what a log line is `about` and how loud it is
(`level`), and for a decision whom it is for. That decides nothing: the code that decides has another fingerprint only when
fields or keys change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

SCHEMA_VERSION = 1
"""Version of the form of all events. A release raises it if an older one could not read what it writes: another form of an event,
a new type, another projection, a new table or field of a state (but not of a policy). Then it says so before it writes
(`dds_core.replay.versions`)."""

SCALER = "scaler"
"""The stream of everything that belongs to no object."""

Level = Literal["debug", "info", "warning"]


class Names(Protocol):
    """Names that timelines and log lines use. `guards`: whether the component guards devices; `deadlines`: what each kind of
    deadline means."""

    @property
    def guards(self) -> bool: ...
    @property
    def deadlines(self) -> Mapping[str, str]: ...
    def name(self, uid: str, /) -> str:
        """Of an object, a node or a stream."""

    def claim_fields(self, uid: str, /) -> Mapping[str, Any]:
        """The fields of a log line that say which claim it is."""

    def device_fields(self, uid: str, /) -> Mapping[str, Any]:
        """The same of a device, by its resource."""


class Event(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all events. `level` is that of its line in the log of a process."""

    level: ClassVar[Level] = "info"

    @property
    def subject(self) -> str:
        """The stream that this event belongs to."""
        raise TypeError(f"{type(self).__name__} names no stream")

    def words(self, names: Names) -> str:
        """The sentence of a timeline, of a decision what follows "dds decided to"; "" when people need not be told."""
        return ""

    def about(self, names: Names) -> dict[str, Any]:
        """The fields of its log line beside words and place."""
        found = {key: value for key in ("mode", "reason") if (value := getattr(self, key, ""))}
        return {**found, "reissued": True} if getattr(self, "reissued", False) else found


class Fact(Event, frozen=True):
    """Something learned from outside."""

    level: ClassVar[Level] = "debug"


class Decision(Event, frozen=True, kw_only=True):
    """Something wanted. Each type has a field `mode`, the mode it was decided in: under "observe" it is shown and never carried
    out.

    `reissued`: it was decided before a restart, and the cluster does not show it. `written`: it is written to the cluster, not
    only into the log. `gone_with`: when an object of this kind is deleted, the decision may be shown again. `around`: it concerns
    every claim that waits on its node (for its model, where it has one)."""

    written: ClassVar[bool] = True
    gone_with: ClassVar[str] = ""
    around: ClassVar[bool] = False

    reissued: bool = False

    @property
    def mode(self) -> str:
        """Each type declares it as a field, at its own place in the stored form; `register` refuses one that does not."""
        raise TypeError(f"{type(self).__name__} has no mode")

    @property
    def key(self) -> tuple[str, str]:
        """Deduplication key: a later decision with the same key replaces this one."""
        return (type(self).__name__, self.subject)

    def for_claims(self) -> tuple[str, ...]:
        """The claims (uids) that it is made for."""
        return getattr(self, "claims", ())

    def for_devices(self) -> tuple[str, ...]:
        """The devices that it is about, by the uid of the resource or by UUID."""
        return ()

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        """What shows that it was carried out: (uid or name of an object, what of it, its value)."""
        yield from ()


class Transition(Event, frozen=True):
    """A step of a life. The states are also columns of the log."""


# -- the stored form ---------------------------------------------------------------------------------------------------

TYPES: dict[str, type[Event]] = {}
"""Event class by its type name, as registered."""

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[str, msgspec.json.Decoder[Event]] = {}


def register(*kinds: type[Event]) -> tuple[type[Event], ...]:
    """Make event types known to the codec, under their class names. Raises TypeError for a name that is taken, and for a
    decision without the field `mode`.

    A change to a class that has shipped needs a new schema version and an upcasting step (`dds_core.replay.logged`)."""
    for kind in kinds:
        if issubclass(kind, Decision) and "mode" not in kind.__struct_fields__:
            raise TypeError(f"the decision {kind.__name__} has no field mode")
        if TYPES.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"there is an event type {kind.__name__} already")
        _decoders[kind.__name__] = msgspec.json.Decoder(kind)
    return kinds


def encode(event: Event) -> bytes:
    """The stored JSON form, byte for byte: field order as declared, mappings sorted by key."""
    return _encoder.encode(event)


def decode(type_name: str, data: bytes) -> Event:
    """The event of a stored row at the current schema version.

    Raises KeyError for a type that this version does not know and msgspec.ValidationError for data that is not its form.
    """
    return _decoders[type_name].decode(data)


# -- facts about objects -----------------------------------------------------------------------------------------------

# One for a change, holding the differences in the fields that a rule reads, and one for an end. `difference` makes them,
# `after` takes them in.


class Seen(Protocol):
    """An object of the cluster as a component reads it: a struct of `dds_core.model`, or of the component's own."""

    @property
    def uid(self) -> str: ...


class Changes(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of the change sets: a field that did not change is UNSET and not written."""


class OfObject(Fact, frozen=True):
    uid: str

    @property
    def subject(self) -> str:
        return self.uid


class ObjectObserved(OfObject, frozen=True):
    """An object appeared or changed: `changes` (`XChanges`) has the fields that are now different."""

    if TYPE_CHECKING:
        changes: Any


class ObjectGone(OfObject, frozen=True):
    """An object was deleted."""


OBSERVED: dict[type[Any], tuple[type[ObjectObserved], type[ObjectGone]]] = {}
"""For each object kind the fact of a change and the fact of its end."""
KIND_OF: dict[type[Event], Any] = {}
"""The kind of object that a fact is about."""
_CHANGE_SETS: dict[type[Any], Any] = {}


def observed(kind: Any, seen: str, gone: str, apart: str = "") -> tuple[type[ObjectObserved], type[ObjectGone]]:
    """Make and register the facts about a kind of object, `XObserved` and `XGone`, with what they mean. The change set has the
    fields of the object without the uid, each optional. The field `apart`, a mapping, stands beside it, and holds what is
    different within: the new value by its key, None for one that is no longer there."""
    name, types = kind.__name__, {field.name: field.type for field in structs.fields(kind)}
    fields = [(one, type | UnsetType, UNSET) for one, type in types.items() if one not in ("uid", apart)]
    changes = msgspec.defstruct(f"{name}Changes", fields, bases=(Changes,), module=kind.__module__, frozen=True)
    beside: list[Any] = [("changes", changes)]
    if apart:
        key, value = get_args(types[apart])
        beside.append((apart, dict[key, value | None], {}))  # type: ignore[valid-type]
    pair = tuple(
        msgspec.defstruct(
            f"{name}{what}", more, bases=(base,), module=kind.__module__, namespace={"__doc__": doc}, frozen=True
        )
        for what, more, base, doc in (("Observed", beside, ObjectObserved, seen), ("Gone", [], ObjectGone, gone))
    )
    OBSERVED[kind] = one, other = cast(tuple[type[ObjectObserved], type[ObjectGone]], pair)
    KIND_OF[one] = KIND_OF[other] = kind
    _CHANGE_SETS[kind] = changes
    register(one, other)
    return one, other


def difference(old: Any, new: Seen) -> Event | None:
    """The fact that turns `old` (None: not seen before) into `new`, or None when nothing that matters changed."""
    kind: Any = type(new)
    before = old if old is not None else kind(uid=new.uid)
    fact: Any = OBSERVED[kind][0]
    apart = fact.__struct_fields__[2:]
    changes: dict[str, Any] = {}
    within: dict[str, Any] = {}
    for name in kind.__struct_fields__:
        value, was = getattr(new, name), getattr(before, name)
        if value == was or name == "uid":
            continue
        if name in apart:
            within[name] = {key: one for key, one in value.items() if was.get(key) != one}
            within[name].update({key: None for key in was if key not in value})
        else:
            changes[name] = value
    if old is not None and not changes and not within:
        return None
    return fact(uid=new.uid, changes=_CHANGE_SETS[kind](**changes), **within)  # type: ignore[no-any-return]


T = TypeVar("T")


def merged(old: T, changes: Struct) -> T:
    """`old` with the fields that are set in `changes`."""
    given = {name: value for name, value in structs.asdict(changes).items() if value is not UNSET}
    return structs.replace(old, **given)  # type: ignore[type-var]


def after(old: Any, fact: Any) -> Any:
    """The object after the fact of a change; `old` is it before, None when it was not known."""
    new = merged(old if old is not None else KIND_OF[type(fact)](uid=fact.uid), fact.changes)
    for name in fact.__struct_fields__[2:]:
        if told := getattr(fact, name):
            kept = {key: one for key, one in getattr(new, name).items() if key not in told}
            kept.update({key: one for key, one in told.items() if one is not None})
            new = structs.replace(new, **{name: kept})
    return new
