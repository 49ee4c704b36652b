"""Serves the manager over HTTP or HTTPS, only on loopback, with a new certificate at each start, valid or invalid.

It handles HTTP only; `Manager` answers. Everything runs on the thread of its loop, the only one that may use the manager.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time as wall
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal

from dds_lab.api.requests import Request, Response
from dds_lab.http_frontend.connection import (
    LOOPBACK,
    Connection,
    Exposed,
    InThread,
    Listener,
    in_thread,
    is_loopback,
    names,
)
from dds_lab.http_frontend.credentials import Identity, identity
from dds_lab.manager.calls import Call, Reply, query_of
from dds_lab.manager.inventory import Login
from dds_lab.manager.manager import Manager
from dds_lab.time import RealTime, Time

LOG = logging.getLogger("dds.lab")
ELSEWHERE = "elsewhere.invalid"
Certificate = Literal["good", "expired", "other_name", "unknown_authority"]
_BROKEN = Response(500, b"the simulated manager failed at this call", {"Content-Type": "text/plain"})


class ManagerFrontend(Listener):
    """Serves one manager. `ca` is the CA certificate for its clients (PEM), None without TLS. A manager that is away accepts a
    connection and closes it, as for a lost answer."""

    def __init__(self, manager: Manager, time: Time) -> None:
        super().__init__(time)
        self.manager = manager
        self.ca: bytes | None = None

    async def listen(
        self, host: str = LOOPBACK, port: int = 0, *, tls: bool = True, certificate: Certificate = "good",
        exposed: bool = False,
    ) -> None:  # fmt: skip
        """Serve on a loopback address, or with `exposed` and TLS on any (port 0: any free port), and set `url` and `ca`. With
        another `certificate` than "good", clients that verify it refuse. Raises Exposed for an address that may not be used,
        InputError if it cannot listen."""
        if not is_loopback(host) and not (exposed and tls):
            fix = f"listen on {LOOPBACK}"
            raise Exposed("a simulated manager is for this machine alone", where=host, fix=fix)
        own = _identity(certificate, host) if tls else None
        await self._open(host, port, own)
        if own is not None:
            self.ca = identity().ca if certificate == "unknown_authority" else own.ca

    def answer(self, connection: Connection, request: Request) -> None:
        """Pass the call to the manager, which replies now or when the fabric is done; an exception in it becomes a 500."""
        call = Call(request.method, request.path, query_of(request.query), request.headers, request.body)
        try:
            self.manager.ask(call, lambda reply: self._later(connection, reply))
        except Exception:
            LOG.exception("the simulated manager failed at %s %s", request.method, request.path)
            connection.reply(_BROKEN)

    def write_credentials(self, folder: Path) -> None:
        """Write the credentials that a client needs, in the form of a mounted Secret."""
        write_credentials(folder, self.manager.settings.login, self.ca)

    def _later(self, connection: Connection, reply: Reply) -> None:
        if reply.delay:
            self.time.after(reply.delay, lambda: _send(connection, reply))
        else:
            _send(connection, reply)


class ServedManager(InThread):
    """A `ManagerFrontend` that runs in another thread."""

    def __init__(self, face: ManagerFrontend) -> None:
        super().__init__(face)
        self.face = face
        self.manager = face.manager
        self.ca = face.ca

    def credentials(self, folder: Path) -> Path:
        """Write the files of the Secret to the folder; returns it."""
        self.face.write_credentials(folder)
        return folder


@contextmanager
def serving_manager(
    make: Callable[[Time], Manager], *, tls: bool = True, port: int = 0, certificate: Certificate = "good"
) -> Iterator[ServedManager]:
    """Serve the manager that `make` creates in a separate thread, on real time, until the block ends."""

    async def begin() -> ManagerFrontend:
        time = RealTime(asyncio.get_running_loop(), lambda: wall.time_ns() // 1000, 1)
        face = ManagerFrontend(make(time), time)
        await face.listen(port=port, tls=tls, certificate=certificate)
        return face

    with in_thread(begin) as face:
        yield ServedManager(face)


def write_credentials(folder: Path, login: Login, ca: bytes | None) -> None:
    """Write the files of a mounted Secret, readable by this user alone: username, password, realm, client_id, client_secret, and
    with TLS certificate."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fields = ("username", "password", "realm", "client_id", "client_secret")
    content = {name: str(getattr(login, name)).encode() for name in fields}
    if ca is not None:
        content["certificate"] = ca
    for name, value in content.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(value)


def _identity(certificate: Certificate, host: str) -> Identity:
    if certificate == "expired":
        return identity(lifetime=timedelta(hours=-1))
    if certificate == "other_name":
        return identity([ELSEWHERE], always=())
    return identity(() if is_loopback(host) else names(host))


def _send(connection: Connection, reply: Reply) -> None:
    if reply.lost:
        connection.give_up()
    else:
        connection.reply(Response(reply.status, reply.body, dict(reply.headers)))
