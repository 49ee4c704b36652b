"""Bytes to a raw struct, or a `Fault`: where broken JSON, wrong types and foreign objects are turned away.

A fault never quotes what was found, since anything can stand in a field that is not what it should be. Nothing here
knows what a field means.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from dds_adapters.kubernetes.decode.objects import Object
from dds_core.errors import DdsError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$\.?(?P<where>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")

_Raw = TypeVar("_Raw", bound=Object)
_Any = TypeVar("_Any")


class Fault(DdsError):
    """A field of an object is not as expected: `field` is its path, `reason` what is wrong, without quoting it."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(reason, where=field)


def read(
    decoder: msgspec.json.Decoder[_Raw], raw: bytes, kind: str, versions: tuple[str, ...], namespaced: bool = False
) -> _Raw:
    """Decode the bytes and check that they are an object of this kind, of one of these apiVersions, with uid and name.

    Items of a list carry neither kind nor apiVersion: what is not there is not checked. Raises Fault.
    """
    found = well_formed(decoder, raw)
    meta = found.metadata
    if found.kind and found.kind != kind:
        raise Fault("kind", f"is not {kind}")
    if found.api_version and found.api_version not in versions:
        raise Fault("apiVersion", f"is not {' or '.join(versions)}")
    if not meta.uid:
        raise Fault("metadata.uid", "is missing")
    if not meta.name:
        raise Fault("metadata.name", "is missing")
    if namespaced and not meta.namespace:
        raise Fault("metadata.namespace", "is missing")
    return found


def well_formed(decoder: msgspec.json.Decoder[_Any], raw: bytes) -> _Any:
    """What the decoder makes of the bytes; every way in which it can fail becomes a Fault."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as e:
        raise _as_fault(e) from None
    except RecursionError:
        raise Fault("object", "is nested too deeply") from None
    except ValueError:  # not JSON, or not UTF-8; the message would count bytes and so differ each time
        raise Fault("object", "is not well-formed JSON") from None


def _as_fault(error: msgspec.ValidationError) -> Fault:
    """Take apart "Expected `int`, got `str` - at `$.spec.size`". For the types used here it never quotes a value."""
    place = _PLACE.match(str(error))
    assert place is not None  # the pattern matches any text
    field, what = place["where"] or "", place["what"]
    if missing := _MISSING.match(what):
        return Fault(f"{field}.{missing[1]}".lstrip("."), "is missing")
    return Fault(field or "object", what[:1].lower() + what[1:].replace("`", ""))


def instant(when: datetime | None) -> int:
    """Microseconds since 1970-01-01 UTC; 0 for none."""
    if when is None:
        return 0
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
