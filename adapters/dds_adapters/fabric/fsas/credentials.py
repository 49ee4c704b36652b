"""Credentials from a Secret that is mounted as a folder: one file for each field, read again when a file changes.

Kubelet replaces a mounted Secret by turning a link, so at any instant all files are old or all are new. Their `stat` is compared
before and after reading, because a password with another user's name is a failed login. The content of the files is never quoted
and in no repr.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dds_adapters.fabric.provider import FabricDenied

FIELDS = ("username", "password", "realm", "client_id", "client_secret")
CERTIFICATE = "certificate"
"""PEM of the authority that signed the manager's certificate; optional."""
TURNS = 5
"""Tries to read the files while they change."""
MAX_FIELD, MAX_CERTIFICATE = 999, 9999
"""Bytes; the limits of the reference driver."""


@dataclass(frozen=True, repr=False)
class Credentials:
    """dds's account on the manager, and the certificate to trust (`certificate`, PEM; "": the system's roots)."""

    username: str
    password: str
    realm: str
    client_id: str
    client_secret: str
    certificate: str = ""

    def hidden(self) -> tuple[str, ...]:
        """What may not be in any message."""
        return (self.username, self.password, self.realm, self.client_id, self.client_secret)


Mark = tuple[tuple[int, int, int], ...]


class Folder:
    """Reads credentials from a folder. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self._read: Credentials | None = None

    def read(self) -> Credentials:
        """The present credentials. Raises FabricDenied, which names the file, for one that is missing or unusable."""
        with self._lock:
            mark = self._now()
            if self._read is None or mark != self._mark:
                self._read = None  # never use replaced credentials, even if the new ones are unusable
                for _ in range(TURNS):
                    values = {name: self._text(name, MAX_FIELD) for name in FIELDS}
                    found = Credentials(**values, certificate=self._text(CERTIFICATE, MAX_CERTIFICATE))
                    before, mark = mark, self._now()
                    if mark == before:
                        break
                self._read, self._mark = found, before
            return self._read

    def _now(self) -> Mark:
        return tuple(self._stat(name) for name in (*FIELDS, CERTIFICATE))

    def _stat(self, name: str) -> tuple[int, int, int]:
        try:
            found = (self._path / name).stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _text(self, name: str, most: int) -> str:
        try:
            with (self._path / name).open("rb") as file:
                data = file.read(most + 2)
        except FileNotFoundError:
            if name == CERTIFICATE:
                return ""
            raise self._fault(name, "is missing") from None
        except OSError as error:
            raise self._fault(name, f"cannot be read ({type(error).__name__})") from None
        if name != CERTIFICATE:
            data = data.removesuffix(b"\n").removesuffix(b"\r")  # editors and echo add it
        return self._usable(name, data, most)

    def _usable(self, name: str, data: bytes, most: int) -> str:
        if len(data) > most:
            raise self._fault(name, f"is longer than {most} bytes")
        try:
            text = data.decode("utf-8-sig")  # some editors write a byte order mark
        except UnicodeDecodeError:
            raise self._fault(name, "is not UTF-8") from None
        if name == CERTIFICATE:
            return text if text.strip() else ""
        if not text or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
            raise self._fault(name, "is empty" if not text else "holds a control character")
        return text

    def _fault(self, name: str, what: str) -> FabricDenied:
        """Avoids `credentials:` and `password:`, after which `scrub` would remove the text as a secret."""
        fields: Iterable[str] = (*FIELDS, f"and if wanted {CERTIFICATE}")
        return FabricDenied(
            f"the file {name} in {self._path} {what}", where="login", fix=f"the folder holds {', '.join(fields)}"
        )
