"""The forms in which HTTP clients get objects: as they are, as rows of a table, or their metadata alone.

The plain form of an object is encoded once per version; all readers and watchers share the bytes (`Record.shown`).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import yaml

from dds_lab.api import status
from dds_lab.api.bodies import JSON, PROTOBUF, YAML
from dds_lab.api.kinds import Object
from dds_lab.api.requests import Page
from dds_lab.api.store import Record
from dds_lab.api.strategies import Strategy
from dds_lab.api.tables import Columns
from dds_lab.api.watches import BOOKMARK, ERROR

META = "meta.k8s.io"
encode = msgspec.json.Encoder().encode


class Media(msgspec.Struct, frozen=True):
    """A media range of an Accept header: its type, and the parameters `as`, `g` and `v`."""

    type: str
    shape: str = ""
    group: str = ""
    version: str = ""


PLAIN = Media(JSON)


@lru_cache(256)
def accepted(accept: str) -> tuple[Media, ...]:
    """The media ranges of an Accept header, the most wanted first."""
    ranges: list[tuple[float, Media]] = []
    for part in accept.split(","):
        type, *parameters = (each.strip() for each in part.split(";"))
        if not type:
            continue
        values = dict(each.partition("=")[::2] for each in parameters)
        try:
            weight = float(values.get("q", "1"))
        except ValueError:
            weight = 1.0
        media = Media(type.lower(), values.get("as", ""), values.get("g", ""), values.get("v", ""))
        if weight > 0:
            ranges.append((-weight, media))
    return tuple(media for _, media in sorted(ranges, key=lambda each: each[0]))


def negotiate(accept: str, shapes: Iterable[str] = ()) -> Media:
    """The first media range that can be served, as application/json or application/yaml. `shapes` are the supported values of
    `as=`. ApiError 406 if there is none."""
    if not accept:
        return PLAIN
    known = tuple(shapes)
    for media in accepted(accept):
        if media.shape and media.shape not in known:
            continue
        if media.type in ("*/*", "application/*", JSON):
            return Media(JSON, media.shape, media.group, media.version)
        if media.type in (YAML, "application/x-yaml", "text/yaml"):
            return Media(YAML, media.shape, media.group, media.version)
    raise status.not_acceptable((JSON, YAML, PROTOBUF))


def as_body(value: Any, media: Media = PLAIN) -> bytes:
    """The body of an answer, from an object or its JSON bytes."""
    if media.type == YAML:
        value = msgspec.json.decode(value) if isinstance(value, bytes) else value
        return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True).encode()
    return value if isinstance(value, bytes) else encode(value)


class _Dumper(yaml.SafeDumper):
    """Without aliases: a part that occurs twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class Form(Protocol):
    """The form in which one client gets the objects of one resource."""

    def one(self, obj: Object, record: Record | None) -> bytes:
        """One object, in the requested version. `record` is the stored object that it was made from, if any."""

    def page(self, page: Page) -> bytes: ...

    def line(self, type: str, record: Record) -> bytes:
        """One event of a watch, with its line break."""


def _line(type: str, shown: bytes) -> bytes:
    return b'{"type":"' + type.encode() + b'","object":' + shown + b"}\n"


def _list_meta(page: Page) -> Object:
    meta: Object = {"resourceVersion": str(page.revision)}
    if page.cont:
        meta["continue"] = page.cont
    if page.remaining:
        meta["remainingItemCount"] = page.remaining
    return meta


class Plain:
    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        resource = strategy.resource
        self._key = resource.api_version
        self._head = f'{{"kind":{_text(resource.kind)},"apiVersion":{_text(resource.api_version)}'.encode()
        self._list_kind = resource.kind + "List"
        self._items_named = resource.custom
        self._lines = {type: (type, self._key) for type in ("ADDED", "MODIFIED", "DELETED")}

    def one(self, obj: Object, record: Record | None) -> bytes:
        if record is None:
            return encode(obj)
        return self._named(self._unnamed(record))

    def page(self, page: Page) -> bytes:
        head = {"kind": self._list_kind, "apiVersion": self._key, "metadata": _list_meta(page)}
        show = self._item if self._items_named else self._unnamed
        return encode(head)[:-1] + b',"items":[' + b",".join([show(record) for record in page.records]) + b"]}"

    def line(self, type: str, record: Record) -> bytes:
        if type in (BOOKMARK, ERROR):
            return _line(type, encode(record.object))
        key = self._lines[type]
        line: bytes | None = record.shown.get(key)
        if line is None:
            body = record.shown.get(self._key) or self._made(record)
            line = record.shown[key] = _line(type, self._named(body))
        return line

    def _unnamed(self, record: Record) -> bytes:
        """Without kind and apiVersion, as in lists of built-in kinds."""
        body: bytes | None = record.shown.get(self._key)
        if body is None:
            body = record.shown[self._key] = self._made(record)
        return body

    def _item(self, record: Record) -> bytes:
        return self._named(self._unnamed(record))

    def _made(self, record: Record) -> bytes:
        obj = self._strategy.from_storage(record.object)
        return encode({key: value for key, value in obj.items() if key != "kind" and key != "apiVersion"})

    def _named(self, body: bytes) -> bytes:
        return self._head + b"," + body[1:]


class Metadata:
    """PartialObjectMetadata, in one version of meta.k8s.io."""

    def __init__(self, strategy: Strategy, version: str) -> None:
        self._strategy = strategy
        self._version = f"{META}/{version or 'v1'}"

    def one(self, obj: Object, record: Record | None) -> bytes:
        return encode(partial(obj, self._version))

    def page(self, page: Page) -> bytes:
        items = [partial(self._strategy.from_storage(record.object), self._version) for record in page.records]
        kind = "PartialObjectMetadataList"
        return encode({"kind": kind, "apiVersion": self._version, "metadata": _list_meta(page), "items": items})

    def line(self, type: str, record: Record) -> bytes:
        shown = record.object if type == ERROR else partial(record.object, self._version)
        return _line(type, encode(shown))


class Table:
    """Rows with cells, as kubectl prints them."""

    def __init__(self, strategy: Strategy, version: str, columns: Columns, include: str) -> None:
        """`include` is None, Metadata or Object: what each row has besides its cells. ApiError 400 for anything else."""
        if include not in ("", "None", "Metadata", "Object"):
            raise status.bad_request(f'the includeObject parameter "{include}" is not one of None, Metadata, Object')
        self._strategy = strategy
        self._version = f"{META}/{version or 'v1'}"
        self._columns = columns
        self._include = include or "Metadata"

    def one(self, obj: Object, record: Record | None) -> bytes:
        if obj.get("kind") == "Status":
            return encode(obj)
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return encode(self._table(meta, [self._row(obj)]))

    def page(self, page: Page) -> bytes:
        rows = [self._row(self._strategy.from_storage(record.object)) for record in page.records]
        return encode(self._table(_list_meta(page), rows))

    def line(self, type: str, record: Record) -> bytes:
        if type == ERROR:
            return _line(type, encode(record.object))
        obj = record.object
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        rows = [] if type == BOOKMARK else [self._row(self._strategy.from_storage(obj))]
        return _line(type, encode(self._table(meta, rows)))

    def _table(self, meta: Mapping[str, Any], rows: list[Object]) -> Object:
        return {
            "kind": "Table",
            "apiVersion": self._version,
            "metadata": meta,
            "columnDefinitions": self._columns.definitions,
            "rows": rows,
        }

    def _row(self, obj: Object) -> Object:
        row: Object = {"cells": self._columns.cells(obj)}
        if self._include == "Metadata":
            row["object"] = partial(obj, self._version)
        elif self._include == "Object":
            row["object"] = obj
        else:
            row["object"] = None
        return row


def partial(obj: Object, version: str) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": obj["metadata"]}


def _text(value: str) -> str:
    return encode(value).decode()
