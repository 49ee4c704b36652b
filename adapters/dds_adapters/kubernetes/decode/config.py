"""Reads the fabric's ConfigMap: its device models, the prefix of node labels, and how far the scaler may go (`mode`).

The pool publisher and the scaler read the same text; the rules here are the stricter ones, those of the publisher. Each entry is
judged alone: a bad entry is reported, and its model stays as before; the other entries take effect. A bad `label-prefix`,
`fabric-id-range` or `device-info` as a whole leaves the value before in force. A bad `mode` means `observe`, because an
administrator who edits the mode may want to stop dds. No fault quotes a value, except the model name that identifies an entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import yaml

from dds_adapters.documents import Alias, Unwanted, events
from dds_adapters.kubernetes.decode import raw_objects
from dds_adapters.kubernetes.decode.decoding import Fault, read
from dds_core.model import Config, Model

# -- YAML that people type ----------------------------------------------------------------------------------------------
# Plain scalars are null, true, false, whole numbers or text: no dates, no `yes`, no sexagesimal numbers.


MAX_BYTES = 256 * 1024
MAX_DEPTH = 8

_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Mapping(dict[str, Any]):
    """A mapping with text keys; `repeated` has the keys that were given more than once (the first value counts)."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: set[str] = set()


class _Open:
    """A list or mapping that is being read; `key` is the key whose value comes next."""

    def __init__(self, value: list[Any] | Mapping) -> None:
        self.value = value
        self.key: str | None = None

    def add(self, field: str, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is None:
            if not isinstance(value, str):
                raise Fault(field, "is not usable YAML: a key is not text (put it in quotes)")
            self.key = value
        else:
            if self.key in self.value:
                self.value.repeated.add(self.key)
            else:
                self.value[self.key] = value
            self.key = None


def parse(field: str, text: str) -> Any:
    """The text's one document: None, bool, int, str, list or `Mapping`. Raises Fault for `field`."""
    if len(text.encode()) > MAX_BYTES:
        raise Fault(field, f"is longer than {MAX_BYTES // 1024} KiB")
    try:
        return _build(field, text)
    except Alias as alias:
        raise Fault(field, f"is not usable YAML: {alias.what}") from None
    except Unwanted as unwanted:
        raise Fault(field, unwanted.what) from None
    except yaml.MarkedYAMLError as e:
        line = f" (line {e.problem_mark.line + 1})" if e.problem_mark is not None else ""
        raise Fault(field, f"is not YAML{line}") from None
    except (yaml.YAMLError, ValueError):
        raise Fault(field, "is not YAML") from None


def _build(field: str, text: str) -> Any:
    """Walk the parser's events with an explicit stack, so that deep nesting cannot exhaust Python's stack."""
    root: list[Any] = []
    stack = [_Open(root)]
    for event in events(text, MAX_DEPTH):
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
            raise Fault(field, "is not usable YAML: tags (!name) are not allowed")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].add(field, _plain(event.value) if event.implicit[0] else event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open([] if isinstance(event, yaml.SequenceStartEvent) else Mapping()))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            stack[-1].add(field, closed.value)
    if len(root) > 1:
        raise Fault(field, "holds more than one YAML document")
    return root[0] if root else None


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _WHOLE.fullmatch(text) else text


# -- the ConfigMap -----------------------------------------------------------------------------------------------------

NAME = "composable-dra-dds"
NAMESPACE = "composable-dra"
MODES = ("observe", "attach", "detach")

MAX_INDEX = 10_000
MAX_MODEL = 1000  # bytes
MAX_ATTRIBUTES = 32
MAX_ATTRIBUTE = 64  # bytes
MAX_DRIVER = 63
MAX_DEVICE = 50
MAX_CONFLICTS = 100
MAX_PREFIX = 100
MAX_FABRICS = 100

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

DEVICE_INFO = "data.device-info"

_T = TypeVar("_T")


def read_config(raw: bytes, previous: Config | None) -> tuple[Config, tuple[Fault, ...]]:
    """The configuration, and the faults of its parts. `previous` was in force. Raises Fault if the whole is unusable."""
    found = raw_config(raw)
    data = found.data or raw_objects.ConfigData()
    before = previous or Config(uid=found.metadata.uid)
    faults: list[Fault] = []
    prefix = or_before(faults, lambda: prefix_of(data.label_prefix), before.prefix)
    fabrics = or_before(faults, lambda: _fabrics(data.fabric_id_range), before.fabrics)
    models = before.models
    try:
        good, bad = entries(data.device_info, model)
        broken = [entry for _, entry in bad]
        models = (*good, *_kept(broken, good, before.models))
        faults.extend(fault for fault, _ in bad)
    except Fault as fault:
        faults.append(fault)
    mode, unknown = mode_of(data.mode)
    return Config(found.metadata.uid, prefix, models, fabrics, mode), (*faults, *unknown)


def or_before(faults: list[Fault], read_part: Callable[[], _T], before: _T) -> _T:
    """Read a part; if it has a fault, add that to `faults` and return `before`."""
    try:
        return read_part()
    except Fault as fault:
        faults.append(fault)
        return before


def raw_config(raw: bytes) -> raw_objects.RawConfigMap:
    """The ConfigMap as it is written. Raises Fault."""
    return read(raw_objects.config_map, raw, "ConfigMap", ("v1",), namespaced=True)


def mode_of(text: str | None) -> tuple[str, Sequence[Fault]]:
    """The mode ("" for none), and its fault."""
    if not text or text in MODES:
        return text or "", ()
    return MODES[0], (Fault("data.mode", f"is not {', '.join(MODES)}: taken as {MODES[0]}"),)


def prefix_of(text: str | None) -> str:
    """The prefix of labels. Raises Fault."""
    if text is None:
        return Config(uid="").prefix
    if len(text) > MAX_PREFIX or not DNS_SUBDOMAIN.fullmatch(text):
        raise Fault("data.label-prefix", f"is not a DNS subdomain of at most {MAX_PREFIX} characters")
    return text


def _fabrics(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    field = "data.fabric-id-range"
    found = parse(field, text)
    if not isinstance(found, list) or len(found) > MAX_FABRICS or not all(whole(one) for one in found):
        raise Fault(field, f"is not a list of at most {MAX_FABRICS} whole numbers")
    return tuple(found)


class Entry(Protocol):
    """The identifying fields of an entry."""

    @property
    def index(self) -> int: ...
    @property
    def model(self) -> str: ...
    @property
    def device(self) -> str: ...


_Entry = TypeVar("_Entry", bound=Entry)


def entries(
    text: str | None, read_one: Callable[[str, Any], _Entry]
) -> tuple[tuple[_Entry, ...], list[tuple[Fault, Any]]]:
    """The good entries of device-info, and each bad one with its fault. `read_one` gets the entry's place (for its fault) and the
    entry. Raises Fault if the whole is unusable."""
    if text is None:
        raise Fault(DEVICE_INFO, "is missing")
    found = parse(DEVICE_INFO, text)
    if not isinstance(found, list):
        raise Fault(DEVICE_INFO, "is not a list")
    good: list[_Entry] = []
    bad: list[tuple[Fault, Any]] = []
    for position, entry in enumerate(found):
        try:
            one = read_one(_label(position, entry), entry)
            _refuse_second(_label(position, entry), one, good)
        except Fault as fault:
            bad.append((fault, entry))
        else:
            good.append(one)
    return tuple(good), bad


def _kept(broken: Sequence[Any], good: Sequence[_Entry], before: Sequence[_Entry]) -> Iterator[_Entry]:
    """Of the models before, those without a good entry that the scaler continues to serve. The publisher keeps the same pools."""
    return _missing(good, before) if strange(broken, before) else standing(broken, good, before)


def standing(broken: Sequence[Any], good: Sequence[_Entry], before: Sequence[_Entry]) -> Iterator[_Entry]:
    """Of the models before, those whose entries are bad now. A bad entry with one of a model's two names means that model; one
    without a readable name may mean any, so then all models without a good entry are kept."""
    for one in _missing(good, before):
        if any(_may_be(entry, one) or _device(entry) == one.device for entry in broken):
            yield one


def strange(broken: Sequence[Any], before: Sequence[Entry]) -> bool:
    """Whether a bad entry is about none of these models. Then dds cannot tell which of the models without a good entry was
    removed."""
    return not all(any(_may_be(entry, one) for one in before) for entry in broken)


def _missing(good: Sequence[_Entry], before: Sequence[_Entry]) -> Iterator[_Entry]:
    """The models before that have no good entry. An entry that only has the same index is another model: what may not share a
    node with that index avoids both models until the ConfigMap is corrected."""
    for one in before:
        if not any(one.model == new.model or one.device == new.device for new in good):
            yield one


def _device(entry: Any) -> Any:
    return entry.get("k8s-device-name") if isinstance(entry, dict) else None


def _may_be(entry: Any, one: Entry) -> bool:
    """Whether a bad entry may be about this model: decided by the first of its names that is readable."""
    said = entry if isinstance(entry, dict) else {}
    for key, known in (("cdi-model-name", one.model), ("k8s-device-name", one.device)):
        if isinstance(said.get(key), str):
            return bool(said[key] == known)
    return True


def written(text: str | None) -> list[tuple[str, Mapping]]:
    """The entries of device-info that are mappings, good or bad, each with its place. Raises Fault."""
    found = parse(DEVICE_INFO, text) if text is not None else None
    if not isinstance(found, list):
        return []
    return [(_label(place, one), one) for place, one in enumerate(found) if isinstance(one, Mapping)]


def _label(position: int, entry: Any) -> str:
    """An entry's place: by its model if that is readable, else by its position in the list."""
    name = entry.get("cdi-model-name") if isinstance(entry, dict) else None
    readable = isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable()
    return f"{DEVICE_INFO}[{name}]" if readable else f"{DEVICE_INFO}[{position}]"


REQUEST_TYPE = "request-type"
REQUEST_TYPES = ("gpu", "cxlmemory")
"""The types that a ComposabilityRequest accepts."""
KEYS = (
    "index", "cdi-model-name", "k8s-device-name", "driver-name", "dra-attributes", "cannot-coexist-with", REQUEST_TYPE,
)  # fmt: skip
"""The keys of an entry that the publisher or the scaler reads; other keys are ignored."""


def model(place: str, entry: Any) -> Model:
    """An entry as the scaler reads it. Raises Fault."""
    if not isinstance(entry, Mapping):
        raise Fault(place, "is not a mapping")
    refuse_repeated(place, entry, KEYS)
    index: Any = entry.get("index")
    if not whole(index) or not 0 <= index <= MAX_INDEX:
        raise Fault(f"{place}.index", f"is not a whole number from 0 to {MAX_INDEX}")
    return Model(
        index=index,
        model=_text(place, entry, "cdi-model-name", MAX_MODEL),
        device=_matching(
            place, entry, "k8s-device-name", _DNS_LABEL, f"a DNS label of at most {MAX_DEVICE}", MAX_DEVICE
        ),
        driver=_matching(
            place, entry, "driver-name", DNS_SUBDOMAIN, f"a DNS subdomain of at most {MAX_DRIVER}", MAX_DRIVER
        ),
        attributes=_attributes(f"{place}.dra-attributes", entry.get("dra-attributes")),
        conflicts=_conflicts(f"{place}.cannot-coexist-with", entry.get("cannot-coexist-with")),
        type=_request_type(f"{place}.{REQUEST_TYPE}", entry.get(REQUEST_TYPE)),
    )


def _request_type(place: str, value: Any) -> str:
    if value is not None and value not in REQUEST_TYPES:
        raise Fault(place, f"is not {' or '.join(REQUEST_TYPES)}")
    return value or ""


def refuse_repeated(place: str, mapping: Mapping, known: Sequence[str]) -> None:
    """Raise Fault if a known key is given twice."""
    for key in known:
        if key in mapping.repeated:
            raise Fault(place, f"gives {key} twice")


def _refuse_second(place: str, new: Entry, before: Sequence[Entry]) -> None:
    """Raise Fault if an earlier entry has the same identity."""
    for key, value, others in (
        ("index", new.index, {one.index for one in before}),
        ("cdi-model-name", new.model, {one.model for one in before}),
        ("k8s-device-name", new.device, {one.device for one in before}),
    ):
        if value in others:
            raise Fault(f"{place}.{key}", "is that of an entry before it")


def whole(value: Any) -> bool:
    """Whether it is a signed 64-bit integer."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _text(place: str, entry: Mapping, key: str, limit: int) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limit:
        raise Fault(f"{place}.{key}", f"is not a text of 1 to {limit} bytes")
    return value


def _matching(place: str, entry: Mapping, key: str, pattern: re.Pattern[str], form: str, limit: int) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or len(value) > limit or not pattern.fullmatch(value):
        raise Fault(f"{place}.{key}", f"is not {form} characters")
    return value


def _attributes(place: str, found: Any) -> dict[str, str]:
    if not isinstance(found, Mapping):
        raise Fault(place, "is not a mapping")
    if len(found) > MAX_ATTRIBUTES:
        raise Fault(place, f"has more than {MAX_ATTRIBUTES} entries")
    if found.repeated:
        raise Fault(place, "gives an attribute twice")
    if "productName" not in found:
        raise Fault(f"{place}.productName", "is missing")
    for name, value in found.items():
        if not _qualified(name):
            raise Fault(place, "has a name that is not a qualified name, [domain/]name")
        if not isinstance(value, str) or len(value.encode()) > MAX_ATTRIBUTE:
            raise Fault(f"{place}.{name}", f"is not a text of at most {MAX_ATTRIBUTE} bytes (put numbers in quotes)")
    return dict(found)


def _qualified(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    if slash and (len(prefix) > 253 or not DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return bool(_NAME_PART.fullmatch(rest))


def _conflicts(place: str, found: Any) -> tuple[int, ...]:
    if found is None:
        raise Fault(place, "is missing (an empty list says: coexists with all)")
    if not isinstance(found, list) or len(found) > MAX_CONFLICTS:
        raise Fault(place, f"is not a list of at most {MAX_CONFLICTS} indexes")
    if not all(whole(one) and 0 <= one <= MAX_INDEX for one in found):
        raise Fault(place, f"an index is not a whole number from 0 to {MAX_INDEX}")
    return tuple(found)
