"""The manager over real HTTP or HTTPS, on loopback alone, with a certificate of its own for each start, good or bad.

It knows HTTP and nothing of what is asked. Everything runs on the thread of its loop, the only one that may touch the manager.
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
from dds_lab.http_frontend.connection import LOOPBACK, Connection, Exposed, InThread, Listener, in_thread, is_loopback
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
    """One manager, listening. `ca` is the certificate that its clients are given (PEM), None without TLS.

    A manager that is away takes the connection and ends it, as a lost answer does.
    """

    def __init__(self, manager: Manager, time: Time) -> None:
        super().__init__(time)
        self.manager = manager
        self.ca: bytes | None = None

    async def listen(
        self, host: str = LOOPBACK, port: int = 0, *, tls: bool = True, certificate: Certificate = "good"
    ) -> None:
        """Serve on a loopback address (port 0: any that is free); `url` and `ca` then say how to get there. A `certificate`
        that is not good is refused by every client that looks. Raises Exposed, or InputError when it cannot be had."""
        if not is_loopback(host):
            fix = f"listen on {LOOPBACK}"
            raise Exposed("a simulated manager is for this machine alone", where=host, fix=fix)
        own = _identity(certificate) if tls else None
        await self._open(host, port, own)
        if own is not None:
            self.ca = identity().ca if certificate == "unknown_authority" else own.ca

    def answer(self, connection: Connection, request: Request) -> None:
        """Let the manager answer, now or when the fabric is done; whatever goes wrong inside it becomes a 500."""
        call = Call(request.method, request.path, query_of(request.query), request.headers, request.body)
        try:
            self.manager.ask(call, lambda reply: self._later(connection, reply))
        except Exception:
            LOG.exception("the simulated manager failed at %s %s", request.method, request.path)
            connection.reply(_BROKEN)

    def write_credentials(self, folder: Path) -> None:
        """What a client needs, as the files of a mounted Secret."""
        write_credentials(folder, self.manager.settings.login, self.ca)

    def _later(self, connection: Connection, reply: Reply) -> None:
        if reply.delay:
            self.time.after(reply.delay, lambda: _send(connection, reply))
        else:
            _send(connection, reply)


class ServedManager(InThread):
    """A face that runs in another thread."""

    def __init__(self, face: ManagerFrontend) -> None:
        super().__init__(face)
        self.face = face
        self.manager = face.manager
        self.ca = face.ca

    def credentials(self, folder: Path) -> Path:
        """Write the files of the Secret into the folder, and give it."""
        self.face.write_credentials(folder)
        return folder


@contextmanager
def serving_manager(
    make: Callable[[Time], Manager], *, tls: bool = True, port: int = 0, certificate: Certificate = "good"
) -> Iterator[ServedManager]:
    """Serve what `make` makes in a thread of its own, on real time, until the block ends."""

    async def begin() -> ManagerFrontend:
        time = RealTime(asyncio.get_running_loop(), lambda: wall.time_ns() // 1000, 1)
        face = ManagerFrontend(make(time), time)
        await face.listen(port=port, tls=tls, certificate=certificate)
        return face

    with in_thread(begin) as face:
        yield ServedManager(face)


def write_credentials(folder: Path, login: Login, ca: bytes | None) -> None:
    """The files of a mounted Secret, for this user alone: username, password, realm, client_id, client_secret, and
    certificate where there is one."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fields = ("username", "password", "realm", "client_id", "client_secret")
    content = {name: str(getattr(login, name)).encode() for name in fields}
    if ca is not None:
        content["certificate"] = ca
    for name, value in content.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(value)


def _identity(certificate: Certificate) -> Identity:
    if certificate == "expired":
        return identity(lifetime=timedelta(hours=-1))
    if certificate == "other_name":
        return identity([ELSEWHERE], always=())
    return identity()


def _send(connection: Connection, reply: Reply) -> None:
    if reply.lost:
        connection.give_up()
    else:
        connection.reply(Response(reply.status, reply.body, dict(reply.headers)))
