"""Servers in a file that an operator maintains, with their states. dds writes what it wants into a second file, the requests.

dds writes the requests as a whole in one step (a crash leaves the old or the new file), under a lock between processes. The
operator, or a script, carries them out and writes the new states into the file of servers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, StringConstraints, model_validator

from dds_adapters.documents import Strict, of_form, read_document
from dds_adapters.fabric.error_text import said
from dds_adapters.fabric.provider import FabricUnreachable, InventoryFault
from dds_adapters.files import new_file, reason_of
from dds_adapters.machines.machine_settings import InventorySettings
from dds_adapters.machines.provider import KEPT, checked_order, id_of, id_of_order, parts_of
from dds_core.autoscaler.policy import GroupName
from dds_core.autoscaler.records import Server, ServerState
from dds_core.errors import FileError

_MEND = "correct it; see docs/machines.md"
_HEAD = "# Written by dds. `servers` says which are to run and which to be stopped; the rest is for dds itself.\n"

ServerName = Annotated[str, of_form(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", "at most 128 letters, digits and . _ -")]
Observed = Literal["stopped", "creating", "running", "deleting", "failed"]
Wanted = Literal["running", "stopped"]


class Entry(Strict):
    """A server, whether it runs or not."""

    id: ServerName
    group: GroupName
    provider_id: Annotated[str, StringConstraints(max_length=512)] = Field(default="", alias="providerID")
    state: Observed
    code: Annotated[str, StringConstraints(max_length=100)] = ""
    message: Annotated[str, StringConstraints(max_length=1000)] = ""


class Servers(Strict):
    """The file of servers."""

    servers: list[Entry]

    @model_validator(mode="after")
    def _each_once(self) -> Servers:
        for field in ("id", "provider_id"):
            seen: set[str] = set()
            for place, entry in enumerate(self.servers):
                value = getattr(entry, field)
                if value and value in seen:
                    raise ValueError(f"servers.{place}: another one has its {field}")
                seen.add(value)
        return self


class Order(Strict):
    """`server`: the one that it got, "" if none was available."""

    group: GroupName
    server: str = ""


class Requests(Strict):
    """The file of requests."""

    servers: dict[str, Wanted] = {}
    orders: dict[str, Order] = {}
    past: list[str] = []


class Inventory:
    """The servers of a file. Both files are read anew for each call."""

    def __init__(self, settings: InventorySettings) -> None:
        self._servers = settings.servers
        self._requests = settings.requests

    def servers(self) -> tuple[Server, ...]:
        entries, requests = self._read_servers(), self._read_requests()
        names = {entry.id for entry in entries}
        orders = {one.server: name for name, one in requests.orders.items() if one.server}
        shown = [_shown(one, requests.servers.get(one.id), orders.get(one.id, "")) for one in entries]
        lost = [_lost(name, one) for name, one in requests.orders.items() if one.server not in names]
        return (*(one for one in shown if one is not None), *lost)

    def groups(self) -> frozenset[str]:
        """The groups of all servers, also of stopped ones."""
        return frozenset(entry.group for entry in self._read_servers())

    def compose(self, order: str, group: str) -> None:
        checked_order(order)
        with self._lock():
            entries = self._read_servers()
            requests = _tidied(self._read_requests(), entries)
            if order in requests.orders or order in requests.past:
                return
            spare = (one.id for one in entries if one.group == group and one.state == "stopped")
            server = next((one for one in spare if requests.servers.get(one) != "running"), "")
            if server:
                requests.servers[server] = "running"
            requests.orders[order] = Order(group=group, server=server)
            self._write(requests)

    def decompose(self, server: str) -> None:
        group, name, order = parts_of(server)
        with self._lock():
            entries = self._read_servers()
            requests = _tidied(self._read_requests(), entries)
            ordered = order in requests.orders
            if ordered:
                name = requests.orders[order].server
            there = any(one.id == name and (ordered or one.group == group) for one in entries)
            if not there and not ordered:
                return
            if name:
                requests.servers[name] = "stopped"
            if not there:
                _end(requests, order)
            self._write(requests)

    def close(self) -> None: ...

    def _read_servers(self) -> list[Entry]:
        where = f"inventory {self._servers}"
        return read_document(
            self._servers, Servers, InventoryFault, where, _MEND, empty="write servers: [] if there is none"
        ).servers

    def _read_requests(self) -> Requests:
        where = f"requests {self._requests}"
        fix = "put it back as dds has written it; write {} if nothing was ever ordered"
        with suppress(PermissionError):  # reading reports it
            if not self._requests.exists():  # not the same as empty: dds would repeat its orders
                raise InventoryFault("is not there", where=where, fix=fix)
        return read_document(self._requests, Requests, InventoryFault, where, fix, empty=fix)

    def _write(self, requests: Requests) -> None:
        text = _HEAD + yaml.safe_dump(requests.model_dump(), sort_keys=False)
        try:
            with new_file(str(self._requests), replace=True) as file:
                file.write(text.encode())
        except FileError as error:
            raise _unwritable(self._requests, error.what) from None

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One change at a time, for all processes and threads of this machine."""
        try:
            handle = os.open(self._requests.with_name(f".{self._requests.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable(self._requests, reason_of(error)) from None
        try:
            _exclusive(handle, self._requests)
            yield
        finally:
            os.close(handle)


def _shown(entry: Entry, wanted: Wanted | None, order: str) -> Server | None:
    """A server as it is, None for one that is neither there nor wanted."""
    state: ServerState
    if entry.state == "stopped" or entry.state == "failed":
        if wanted != "running":
            return None
        state = "failed" if entry.state == "failed" else "creating"
    elif wanted == "stopped":
        state = "deleting"
    else:
        state = entry.state
    failed = (said(entry.code or "Failed"), said(entry.message)) if state == "failed" else ("", "")
    return Server(id_of(entry.group, entry.id), entry.group, order, entry.provider_id, state, *failed)


def _lost(name: str, order: Order) -> Server:
    """An order without a server."""
    id = id_of_order(order.group, name)
    if order.server:
        what = f"server {order.server} is not in the inventory any more"
        return Server(id, order.group, name, "", "failed", "NotInInventory", what)
    what = f"no server of group {order.group} was stopped and to spare"
    return Server(id, order.group, name, "", "failed", "NoServerToSpare", what, out_of_resources=True)


def _tidied(requests: Requests, entries: list[Entry]) -> Requests:
    """Ends orders whose server had to stop and has stopped. The request to stop stays, since the inventory may be out of date."""
    awake = {entry.id for entry in entries if entry.state not in ("stopped", "failed")}
    for order, one in list(requests.orders.items()):
        if requests.servers.get(one.server) == "stopped" and one.server not in awake:
            _end(requests, order)
    return requests


def _end(requests: Requests, order: str) -> None:
    del requests.orders[order]
    requests.past[:] = [*requests.past, order][-KEPT:]


def _exclusive(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:  # a file system without locks
        raise _unwritable(path, reason_of(error)) from None


def _unwritable(path: Path, reason: str) -> FabricUnreachable:
    return FabricUnreachable(
        f"cannot be written: {reason}", where=f"requests {path}", fix="check path, permissions and room"
    )
