"""Settings of the way to a fabric's manager, and their checks before anything is sent.

Nothing here opens a connection or reads a file, except the installed entry points.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args
from urllib.parse import urlsplit

from dds_adapters import plugins
from dds_core.errors import InputError

if TYPE_CHECKING:
    import httpx

Api = Literal["fm", "cm", "nec", "file"]
APIS: tuple[Api, ...] = get_args(Api)

MAX_ENDPOINT = 1000
FABRIC_ID = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A fabric's id is the value of a node label and a part of pool names, so it is a DNS label."""
WORD = "-fabric"
"""Precedes the id in the name of a pool, so an id may not contain it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class FabricSettings:
    """Which manager, where, with which account. Seconds limit a whole call with all its tries; `connect_seconds` one connection.

    fm: Fsas fabric manager (endpoint, tenant, credentials). cm: with its cluster manager, which knows limits (cluster, too). nec:
    CDIM (endpoint; `fabric` names its one fabric). file: an inventory. Any other `api` is of another package (an entry point
    `dds.fabrics`), which documents the settings that it needs.
    """

    api: str
    endpoint: str = ""
    tenant: str = ""
    cluster: str = ""
    credentials: Path | None = None
    inventory: Path | None = None
    fabric: str = "0"
    connect_seconds: float = 10.0
    token_seconds: float = 30.0
    fm_seconds: float = 60.0
    cm_seconds: float = 60.0
    nec_seconds: float = 30.0


Observe = Callable[[str, float, str], None]
"""Called with the call's name, the seconds of a try, and the HTTP status or one of: timeout, unreachable, untrusted."""


def _unobserved(call: str, seconds: float, outcome: str) -> None: ...


@dataclass(frozen=True)
class Outside:
    """The provider's environment: a monotonic clock in seconds, seconds since 1970, sleep, randomness, and the transport (None:
    the network). In the lab all of them run on virtual time."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    random: random.Random = field(default_factory=random.Random)
    transport: httpx.BaseTransport | None = None
    observe: Observe = _unobserved


def checked_id(text: str) -> str:
    """A fabric's id. Raises ValueError if it could not be separated from the rest of a pool's name."""
    if WORD in text:
        raise ValueError(f"holds {WORD}, which stands before the id in the name of a pool")
    return text


def check(settings: FabricSettings) -> None:
    """Raise InputError for the first unusable setting. An API of another package checks its own settings."""
    if settings.api not in APIS:
        others = plugins.names(plugins.FABRICS)
        if settings.api not in others:
            raise InputError(f"{settings.api!r} is not one of {', '.join((*APIS, *others))}", where="fabric api")
        return
    if settings.api == "file":
        if settings.inventory is None:
            raise InputError("no inventory is given", where="fabric api file", fix="give --inventory FILE")
        return
    _check_endpoint(settings)
    if settings.api == "nec":
        if not FABRIC_ID.fullmatch(settings.fabric) or WORD in settings.fabric:
            fix = f"give small letters, digits and -, and not {WORD}"
            raise InputError("the fabric's id is no DNS label, or cannot be in a pool's name", where="fabric", fix=fix)
        return
    _check_uuid("tenant", settings.tenant)
    if settings.api == "cm":
        _check_uuid("cluster", settings.cluster)
    if settings.credentials is None:
        fix = "give --credentials-folder FOLDER"
        raise InputError("no folder with credentials is given", where=f"fabric api {settings.api}", fix=fix)


def _check_endpoint(settings: FabricSettings) -> None:
    """Never quotes the endpoint: it may contain a password."""
    allowed = ("https", "http") if settings.api == "nec" else ("https",)
    where, fix = (
        "fabric endpoint",
        f"give --fabric-endpoint {' or '.join(f'{scheme}://HOST[:PORT]' for scheme in allowed)}",
    )
    text = settings.endpoint
    if not text:
        raise InputError("is missing", where=where, fix=fix)
    if len(text) > MAX_ENDPOINT:
        raise InputError(f"is longer than {MAX_ENDPOINT} characters", where=where, fix=fix)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InputError("is not a URL", where=where, fix=fix) from None
    if parts.scheme == "http" and "http" not in allowed:
        raise InputError("is http, on which the password would be sent for all to read", where=where, fix=fix)
    if parts.scheme not in allowed or not host or not text.isascii() or not text.isprintable() or " " in text:
        raise InputError("is not an address that can be asked", where=where, fix=fix)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError("holds more than host, port and path (user, query, fragment)", where=where, fix=fix)


def _check_uuid(name: str, text: str) -> None:
    if not _UUID.fullmatch(text):
        what = "is not a UUID" if text else "is missing"
        raise InputError(what, where=f"fabric {name}", fix=f"give --{name}-id UUID, 8-4-4-4-12 hexadecimal digits")
