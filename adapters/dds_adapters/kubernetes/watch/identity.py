"""What is read of any object on the way through: who it is and which version of it; and of an ERROR what it says.

Everything else in an object is passed over without being looked at.
"""

from __future__ import annotations

import msgspec

from dds_adapters.kubernetes.cluster import Refused

ERROR = "ERROR"
_GONE = 410


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """An object's own part of its metadata; "" for what it has not."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct, frozen=True):
    metadata: Identity = Identity()


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0.0


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    details: _Details | None = None


_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)
_NOBODY = Identity()


def identity(raw: bytes) -> Identity:
    """Who it is; nobody when that cannot be read (such an object is passed on all the same: others can say what is wrong)."""
    try:
        return _object.decode(raw).metadata
    except ValueError:
        return _NOBODY


def failure(where: str, raw: bytes) -> Refused:
    """The Status that a watch ended with. What cannot be read is taken for a history that is gone: a list is always right."""
    try:
        status = _status.decode(raw)
    except ValueError:
        status = _Status()
    wait = status.details.retry_after_seconds if status.details is not None else 0.0
    return Refused(where, status.code or _GONE, status.reason[:100], wait)
