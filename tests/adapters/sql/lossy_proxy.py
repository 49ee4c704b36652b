"""A way to a PostgreSQL server that loses the connection just when a transaction is committed."""

import select
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class LossyProxy:
    """Passes bytes between clients and the server's unix socket; `lose` makes it cut connections at their next
    COMMIT."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="dds-px-"))
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / server.name))
        self._listening.listen()
        self._to_lose = 0
        self._arrives = True
        self.lost = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def through(self, url: str) -> str:
        """The same database by way of the proxy."""
        return f"{url.partition('?')[0]}?host={self._folder}"

    def lose(self, times: int, arrives: bool) -> None:
        """Cut the connection at the next COMMITs, after (`arrives`) or before the server gets them."""
        self._to_lose, self._arrives, self.lost = times, arrives, 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        shutil.rmtree(self._folder)

    def _accept(self) -> None:
        passing = []
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                break
            passing.append(threading.Thread(target=self._pass_on, args=(client,), daemon=True))
            passing[-1].start()
        for thread in passing:
            thread.join(10)

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._server))
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    sent = source.recv(65536)
                    loses = source is client and b"COMMIT" in sent and self._to_lose > 0
                    if loses:
                        self._to_lose -= 1
                        self.lost += 1
                    if sent and (not loses or self._arrives):
                        (server if source is client else client).sendall(sent)
                    if loses and self._arrives:
                        server.recv(65536)  # the server has answered, so the commit is done; the client never learns
                    if loses or not sent:
                        return
