"""Servers in a rack whose controller reads and writes a JSON file: it makes a server for each order, and takes off what is to go.

An order stays in the file for good, so that it makes no second server.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from dds_adapters.fabric import FabricOdd, FabricUnreachable, Outside
from dds_adapters.machines import File, Machines, MachinesPlugin, MachinesSettings
from dds_adapters.machines.provider import checked_order, id_of, id_of_order, parts_of, unknown_group
from dds_core.autoscaler.records import Server

GROUP = "rack"


class Entry(msgspec.Struct):
    order: str = ""
    name: str = ""
    state: Literal["creating", "running", "failed", "deleting", "gone"] = "creating"
    why: str = ""


class Rack:
    def __init__(self, place: Path) -> None:
        self._place = place

    def servers(self) -> Sequence[Server]:
        return [_server(one) for one in self._read() if one.state != "gone"]

    def compose(self, order: str, group: str) -> None:
        checked_order(order)
        if group != GROUP:
            raise unknown_group(group, "machines", [GROUP])
        with self._change() as entries:
            if all(one.order != order for one in entries):
                entries.append(Entry(order))

    def decompose(self, server: str) -> None:
        _, name, order = parts_of(server)
        with self._change() as entries:
            for one in entries:
                if one.state != "gone" and (one.name == name if name else one.order == order and not one.name):
                    one.state = "deleting"

    def close(self) -> None:
        """Nothing is open."""

    @contextmanager
    def _change(self) -> Iterator[list[Entry]]:
        """One process at a time; the file is old or new, and never half."""
        try:
            with open(self._place.with_suffix(".lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                entries = self._read()
                yield entries
                new = self._place.with_suffix(".new")
                new.write_bytes(msgspec.json.encode(entries))
                os.replace(new, self._place)
                sync(self._place)
        except OSError as error:
            raise FabricUnreachable(f"cannot be written: {error.strerror}", where=str(self._place)) from None

    def _read(self) -> list[Entry]:
        try:
            return msgspec.json.decode(self._place.read_bytes(), type=list[Entry])
        except OSError as error:
            raise FabricUnreachable(f"cannot be read: {error.strerror}", where=str(self._place)) from None
        except msgspec.DecodeError as error:
            raise FabricOdd(f"is not as it should be: {error}", where=str(self._place)) from None


def sync(place: Path) -> None:
    folder = os.open(place.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _server(one: Entry) -> Server:
    uid = id_of(GROUP, one.name) if one.name else id_of_order(GROUP, one.order)
    provider_id = f"rack://{one.name}" if one.name else ""
    failed = one.state == "failed"
    assert one.state != "gone"
    return Server(uid, GROUP, one.order, provider_id, one.state, one.why, one.why, failed and one.why == "full")


class RackSettings(MachinesSettings):
    """`machines: {kind: rack, file: PATH}`."""

    kind: Literal["rack"]
    file: File


def _open(settings: RackSettings, outside: Outside) -> Machines:
    return Rack(settings.file)


RACK = MachinesPlugin(RackSettings, _open)
