"""Every exception of the project. A message is one line: where, what is wrong, and what to do about it.

`InputError`: an input of the caller or user is wrong. `VerificationFailed`: recorded and found data differ. `LogUnavailable`: an
outage that passes by itself. The rest is said in each docstring. This module must not import anything of the project.
"""

from __future__ import annotations

from collections.abc import Sequence


class DdsError(Exception):
    """Base of all exceptions of the project; the message is always one line."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        """`where` names the file, log, database or object; `fix` says what to do. The message reads `where: what; fix`."""
        self.what = what
        self.where = where
        self.fix = fix
        message = f"{where}: {what}" if where else what
        super().__init__(_one_line(f"{message}; {fix}" if fix else message))


def _one_line(text: str) -> str:
    """Texts of other systems may hold line breaks; this is the only place that removes them."""
    return " ".join(text.split())


def install_hint(extra: str = "", project: str = ".") -> str:
    """How to install a project of the checkout, with an extra: no distribution of dds is on a package index."""
    wanted = f"'{project}[{extra}]'" if extra else project
    return f"in a checkout of dds: pip install {wanted}"


class InputError(DdsError):
    """An input (a file, a name, a value, an event) cannot be used as it is."""


class VerificationFailed(DdsError):
    """Recorded data and found data differ."""


# -- the log: what a caller did ------------------------------------------------------------------------------


class LogError(DdsError):
    """The event log refuses; nothing was written."""


class InvalidEvent(LogError, InputError):
    """An event, group or name is not of the form that the log accepts."""


class EventConflict(LogError):
    """The same event id is already in the log with another content."""


class WrongVersion(LogError):
    """A stream is not at the version that the append expected."""


class Fenced(LogError):
    """The epoch is not the log's newest: another writer has taken over."""


class LogWentBack(LogError):
    """The log lacks events that this process appended: its database went back to an older copy."""


class ForeignLog(LogError, InputError):
    """The log belongs to another cluster or component."""


class NoSuchLog(LogError, InputError):
    """There is no log of this name here."""


class LogExists(LogError, InputError):
    """A log of this name is already here."""


class Archived(LogError, InputError):
    """The positions asked for were moved to an archive."""


class NotACheckpoint(LogError, InputError):
    """Only a prefix that ends in a checkpoint can be archived."""


# -- the log: verification -----------------------------------------------------------------------------------


class BrokenChain(LogError, VerificationFailed):
    """The chain of hashes breaks at event `position`, the first that does not verify; `reason` says how."""

    def __init__(self, log: str, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        super().__init__(
            f"position {position}: {reason}",
            where=f"log {log}",
            fix="compare with an archive, an export or an anchor made before",
        )


class WrongHead(LogError, VerificationFailed):
    """The head row of a log is not as its events say."""


class Unfoldable(LogError, VerificationFailed):
    """The group that begins at `position` cannot be folded, so nothing after it can be used; `reason` says why."""

    def __init__(self, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        super().__init__(
            f"it cannot be folded from here on: {reason}",
            where=f"position {position}",
            fix="`dds log repair` goes on from the state before it; find out what wrote it",
        )


# -- the log: outages ----------------------------------------------------------------------------------------


class LogUnavailable(LogError):
    """The log cannot be reached or written now. The same call with the same groups may be repeated; nothing is doubled."""


class LogLocked(LogUnavailable):
    """Another process holds the lock for longer than the time-out."""


class LogFull(LogUnavailable):
    """No room is left where the log is stored."""


class LogUnreachable(LogUnavailable):
    """The database server does not answer, or the connection was lost."""


# -- databases and files -------------------------------------------------------------------------------------


class DatabaseError(InputError):
    """The database is not one that this version can use."""


class DatabaseMissing(DatabaseError):
    """The database does not exist."""


class NotADatabase(DatabaseError):
    """The file is no database, is damaged, or belongs to another application."""


class SchemaMissing(DatabaseError):
    """The database has no tables of dds yet."""


class SchemaOlder(DatabaseError):
    """The database was made by an older version and has to be upgraded."""


class SchemaNewer(DatabaseError):
    """The database was made by a newer version than this one."""


class FileError(InputError):
    """A log file (export or archive) cannot be used."""


class NotALogFile(FileError):
    """The file is empty, of another kind, or of a newer format."""


class TruncatedFile(FileError):
    """The file ends before its closing line."""


class CorruptFile(FileError):
    """A line of the file, or its compression, cannot be decoded."""


# -- upcasting -----------------------------------------------------------------------------------------------


class UpcastError(DdsError):
    """The steps between versions of an event are incomplete (a programming error, found at import)."""


class UnknownEvent(InputError):
    """An event's type, or its version, is not known to this version of the code."""


class MalformedEvent(UnknownEvent, VerificationFailed):
    """An event of a known type and version does not have its form; no version of dds has written it so."""


# -- the engine ----------------------------------------------------------------------------------------------------------------


class PolicyError(InputError):
    """A policy, or a value that goes into it, is not valid. `faults`: where in it, and what is wrong there; empty if the whole is
    no policy. A path has the names of fields and the indices of lists; `name` says that the field's name is wrong."""

    faults: Sequence[tuple[tuple[str | int, ...], str, bool]] = ()


class IllegalTransition(DdsError):
    """A transition that the lifecycle table does not have; nothing was changed."""
