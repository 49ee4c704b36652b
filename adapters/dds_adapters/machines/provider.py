"""The interface of a provider of machines: list the servers, compose one, decompose one.

The caller remembers its orders by name and repeats a call after an error, a time-out or a restart. Therefore a provider keeps,
outside of this process, which order made which server: a repeated order makes no second server, and `servers` names the order.

A `Server` is the core's. Its `uid` is the provider's own name for it, and changes once: when an order gets its server.

Every failure is a `FabricError`, as for fabrics. FabricRefused with code 409: not now; the same call may succeed later. With code
507: no server is left, and the order was not accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from dds_adapters.fabric.provider import FabricError, FabricOdd, FabricRefused
from dds_core.autoscaler.records import Server
from dds_core.errors import InputError

NOT_FOUND, CONFLICT = 404, 409
ORDER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
KEPT = 256
"""Names of ended orders that are remembered per group, so that a late repetition makes no server."""


class ServersPartly(FabricOdd):
    """Some servers could not be read; `servers` are the others, `groups` those that may have more servers."""

    def __init__(
        self, what: str, *, servers: Sequence[Server], groups: Iterable[str], where: str = "", fix: str = ""
    ) -> None:
        self.servers = tuple(servers)
        self.groups = frozenset(groups)
        super().__init__(what, where=where, fix=fix)


class Machines(Protocol):
    """A provider of machines. Several threads and processes may call it; each method raises `FabricError`."""

    def servers(self) -> Sequence[Server]:
        """All servers of all groups, and the orders without a server. Raises ServersPartly if some could not be read."""
        ...

    def compose(self, order: str, group: str) -> None:
        """Order one more server for the group; returns when the order is accepted, before the server exists. Does nothing for an
        order that was accepted before, even if it has ended. The name of an order is never used again."""
        ...

    def decompose(self, server: str) -> None:
        """Remove the server with this id, and no other one. Does nothing if it does not exist (any more), or if its removal has
        begun."""
        ...

    def close(self) -> None:
        """Close connections; no call may follow."""
        ...


def checked_order(order: str) -> str:
    """Raises InputError for a name that some provider could not store."""
    if not ORDER.fullmatch(order):
        fix = "use 1 to 128 letters, digits and . _ - (not at an end)"
        raise InputError(f"{order!r} is no name of an order", where="order", fix=fix)
    return order


def id_of(group: str, name: str) -> str:
    """The id of a server, from its provider's name."""
    return f"{group}/{name}"


def id_of_order(group: str, order: str) -> str:
    """The id of an order without a server. No server's name begins with +."""
    return id_of(group, f"+{order}")


def parts_of(server: str) -> tuple[str, str, str]:
    """Group, name and order of an id; name or order is empty. Raises FabricRefused for what is no id."""
    group, slash, name = server.partition("/")
    if not (group and slash and name):
        raise FabricRefused(
            f"{server!r} is no id of a server", code=NOT_FOUND, where="servers", fix="give one of those listed"
        )
    return (group, "", name[1:]) if name.startswith("+") else (group, name, "")


def unknown_group(group: str, where: str, known: Iterable[str]) -> FabricRefused:
    fix = f"known: {', '.join(sorted(known)) or 'none'}"
    return FabricRefused(f"there is no group {group!r}", code=NOT_FOUND, where=where, fix=fix)


def partly(servers: Sequence[Server], faults: Sequence[tuple[str, FabricError]]) -> Sequence[Server]:
    """The servers. Raises ServersPartly if there are faults (each with its group)."""
    if not faults:
        return servers
    first = faults[0][1]
    besides = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    groups = (group for group, _ in faults)
    raise ServersPartly(f"{first.what}{besides}", servers=servers, groups=groups, where=first.where, fix=first.fix)
