"""Files that are written completely or not at all, and errors of the operating system as errors of the project."""

from __future__ import annotations

import errno
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from dds_core.errors import CorruptFile, FileError, TruncatedFile

_GZIP = b"\x1f\x8b"
_BUFFER = 1 << 18
_HANDLES = "/proc/self/fd"


@contextmanager
def new_file(path: str, *, replace: bool = False, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write. It gets the name `path` only when the block ends without error and its bytes are on the disk.

    Gzipped when the name ends in `.gz`; the same content gives the same bytes. Until then it has no name where the file system
    can do that, so that nothing is left of it when the process is killed. Raises `FileError`, also for an existing file unless
    `replace` is given.
    """
    path = os.path.abspath(path)
    if not replace and os.path.lexists(path):
        raise FileError("it is there already", where=path, fix="choose another name or remove it")
    temporary = f"{path}.{os.getpid()}.part"
    try:
        handle = _nameless(os.path.dirname(path), mode)
        named = handle is None
        if handle is None:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "wb", buffering=_BUFFER) as raw:
            if path.endswith(".gz"):
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, io.BufferedWriter(packed, _BUFFER) as buffered:
                    yield buffered
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
            if not named:
                named = not _linked(raw.fileno(), path, temporary, replace=replace)
        if named:
            os.rename(temporary, path)
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        raise file_error(error, path) from error
    finally:
        with suppress(OSError):  # it was renamed, or never made
            os.remove(temporary)


def _nameless(folder: str, mode: int) -> int | None:
    """A new file in a folder that has no name yet; None where it could not get one later."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir(_HANDLES):
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE, mode)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def _linked(handle: int, path: str, temporary: str, *, replace: bool) -> bool:
    """Name a nameless file `path`; or `temporary`, then False, if another file must be replaced: a link replaces none."""

    def link(name: str) -> None:
        os.link(
            f"{_HANDLES}/{handle}", name, src_dir_fd=handle
        )  # with a folder given, Python follows the link in /proc

    try:
        link(path)
        return True
    except FileExistsError:
        if not replace:
            raise
    with suppress(FileNotFoundError):  # left by a process of the same number
        os.remove(temporary)
    link(temporary)
    return False


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a plain or gzipped file. Raises `FileError`, also for errors when the block reads."""
    try:
        with io.BufferedReader(io.FileIO(path), _BUFFER) as raw:
            packed = raw.peek(2)[:2] == _GZIP
            with io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER) if packed else raw as lines:
                yield lines
    except EOFError as error:
        raise TruncatedFile("its compressed data ends early", where=path, fix="get the whole file again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CorruptFile(f"its compressed data is damaged ({error})", where=path, fix="get the file again") from error
    except OSError as error:
        raise file_error(error, path) from error


def reason_of(error: OSError) -> str:
    """Why the operating system refused something, in its own words."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


def file_error(error: OSError, path: str) -> FileError:
    """An error of the operating system as a `FileError`."""
    fix = {
        errno.ENOSPC: "make room, then run the command again",
        errno.EDQUOT: "make room, then run the command again",
        errno.EFBIG: "raise the limit on file sizes, then run the command again",
        errno.ENOENT: "check the path",
        errno.EISDIR: "name a file",
    }.get(error.errno or 0, "check path and permissions")
    return FileError(error.strerror or str(error), where=path, fix=fix)


def _sync_folder(folder: str) -> None:
    """Write the directory to the disk, so that the new name is durable too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
