"""Options and arguments that several commands share: instants, source, name of the log, output, policy files. Of all files only
those of policies, prices and the output are opened here."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import yaml
from click.core import ParameterSource

from dds_adapters.documents import Unwanted, load, places
from dds_adapters.sql.urls import as_url, is_url, shown
from dds_commands.screen import into_file
from dds_core.errors import InputError, PolicyError
from dds_core.kit.policy import MICROSECONDS, words_of
from dds_core.timeline.instants import day, micros, rfc3339

_LOG = "scaler.sqlite3"


def state_folder(*parts: str) -> Path:
    """The folder of dds under $XDG_STATE_HOME or ~/.local/state. It is not created."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base, "dds", *parts)


def default_path() -> str:
    """The SQLite file that `dds serve` writes without --log."""
    return str(state_folder() / _LOG)


def served_log(what: str, fix: str) -> str:
    """The SQLite file that `dds serve` writes without --log. Raises InputError (`what`, `fix`) if it does not exist."""
    path = default_path()
    if not Path(path).is_file():
        raise InputError(f"{what}, and dds serve has made none", where=path, fix=fix)
    return path


def made(folder: Path, fix: str) -> Path:
    """Create the folder if it is missing, for this user alone. Raises InputError with `fix`."""
    if folder.parts[0] == "~":
        raise InputError("this user has no home folder", where=str(folder), fix=f"{fix}, or set XDG_STATE_HOME")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(folder), fix=fix) from None
    return folder


_F = TypeVar("_F", bound=Callable[..., Any])

LOG_VARIABLE = "DDS_LOG"
NAME_VARIABLE = "DDS_LOG_NAME"
STANDARD = "-"
"""In place of a file's name: standard input or output."""

_TIME = re.compile(r"(\d{1,2}):\d{2}(:\d{2}(\.\d{1,6})?)?")
_BACK = re.compile(r"(?=.)(?:(\d{1,4})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
_TIME_FORMS = (
    "write 2026-11-21T02:11:05.761Z, 02:11:05.761 or 02:11 for the day of the source, or 15m for so long before its end"
)


class Place(NamedTuple):
    """An inclusive bound in a source: an instant (microseconds), a position, both (both must hold), or none."""

    at: int | None = None
    position: int | None = None

    def begun(self, at: int, position: int) -> bool:
        """As the start of a range: whether an event with this instant and position is inside."""
        return (self.at is None or at >= self.at) and (self.position is None or position >= self.position)

    def ended(self, at: int, position: int) -> bool:
        """As the end of a range: whether an event with this instant and position is behind it."""
        return (self.at is not None and at > self.at) or (self.position is not None and position > self.position)


def place(text: str | None, span: Callable[[], tuple[int, int]]) -> Place:
    """The value of --at, --since or --until: an instant or a position. Raises InputError."""
    if text is None:
        return Place()
    if not text.isdecimal():
        return Place(at=_instant(text, span()))
    if int(text) < 1:
        raise InputError(f"{text} is no position", fix="positions begin with 1; as an instant, " + _TIME_FORMS)
    return Place(position=int(text))


def end(span: Callable[[], tuple[int, int]], text: str | None) -> Place:
    """The value of --at or --until, where reading ends. Raises InputError, also for an instant before the source begins."""
    span = cache(span)
    last = place(text, span)
    return last if last.at is None else Place(_within(last.at, span()))


def period(span: Callable[[], tuple[int, int]], since: str | None, until: str | None) -> tuple[Place, Place]:
    """Start and end of the output, from --since and --until. Raises InputError, also for a start after the source's end: an
    answer about nothing would look like one about all being well."""
    span = cache(span)
    first, last = place(since, span), end(span, until)
    for begun, ended in zip(first, last, strict=True):
        if begun is not None and ended is not None and begun > ended:
            raise InputError(f"--since {since} is after --until {until}", fix="exchange them")
    if first.at is not None and first.at > span()[1]:
        fix = "give an instant up to then; a time of day without an offset is in UTC"
        raise InputError(
            f"nothing has happened since {rfc3339(first.at)}: the source ends at {rfc3339(span()[1])}", fix=fix
        )
    return first, last


def without_password(text: str) -> str:
    """A URL or path that may be shown. Raises InputError for an invalid URL."""
    return shown(text) if is_url(text) else text


def instant(text: str, span: tuple[int, int]) -> int:
    """Parse an instant: RFC 3339, a time on the source's day, or a duration before the source's end. `span` has the source's
    first and last instant. Raises InputError, also for an instant before the source begins."""
    return _within(_instant(text, span), span)


def _instant(text: str, span: tuple[int, int]) -> int:
    back = _BACK.fullmatch(text)
    if back is not None:
        days, hours, minutes, seconds = (int(one or 0) for one in back.groups())
        return span[1] - (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * MICROSECONDS
    found = _TIME.fullmatch(text)
    if found is None:
        return _rfc3339(text)
    if day(span[0]) != day(span[1]):
        raise InputError(
            f"{text} is no single instant in a source that runs from {day(span[0])} to {day(span[1])}",
            fix=f"give the day too, such as {day(span[0])}T{text}Z",
        )
    return _rfc3339(f"{day(span[0])}T{text.zfill(len(text) + (len(found[1]) == 1))}Z")


def _within(at: int, span: tuple[int, int]) -> int:
    """The same instant. One before the source's start is an error, one after its end is not."""
    if at < span[0]:
        fix = f"give an instant from then on, to {rfc3339(span[1])}"
        raise InputError(f"at {rfc3339(at)} there was nothing yet, the source begins at {rfc3339(span[0])}", fix=fix)
    return at


def _rfc3339(text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is no instant", fix=_TIME_FORMS) from None
    if "T" not in text.upper() and " " not in text:
        raise InputError(f"{text!r} names no time of day", fix=_TIME_FORMS)
    return micros(when if when.tzinfo is not None else when.replace(tzinfo=UTC))


_POLICY = TypeVar("_POLICY")


def policy_read(path: str | None, read: Callable[[Mapping[str, Any]], _POLICY]) -> _POLICY | None:
    """The policy of a YAML, TOML or JSON file, parsed by the component's `read`; None without a file. Raises PolicyError, with
    the line and column of each fault, in the order of the file; TOML's parser does not tell them."""
    if path is None:
        return None
    written = mapping_from(path, PolicyError, "mode: observe")
    try:
        return read(written)
    except PolicyError as error:
        raise _with_places(error, path) from None


def _with_places(error: PolicyError, path: str) -> PolicyError:
    try:
        known = places(Path(path).read_text(encoding="utf-8")) if not path.lower().endswith(".toml") else {}
    except (OSError, ValueError, yaml.YAMLError):  # the file has changed since it was read
        known = {}
    if not known or not error.faults:
        return PolicyError(error.what, where=path, fix=error.fix)
    told = []
    for where, what, is_name in error.faults:
        ends = ((where[:end], is_name and end == len(where)) for end in range(len(where), -1, -1))
        line, column = next(known[one] for one in ends if one in known)
        told.append((line, column, f"{path}:{line}:{column}: {words_of(where)}: {what}"))
    return PolicyError("; ".join(text for _, _, text in sorted(told)), fix=error.fix)


def mapping_from(path: str, kind: type[InputError], example: str) -> dict[str, Any]:
    """The fields of a file: TOML or JSON by its ending, else YAML. Raises an error of class `kind`; `example` is a valid line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        written = _parsed(text, Path(path).suffix.lower())
    except OSError as error:
        raise kind(error.strerror or str(error), where=path, fix="check path and permissions") from None
    except (ValueError, yaml.YAMLError, Unwanted, RecursionError) as error:
        raise kind(f"it is not well-formed: {_why(error)}", where=path, fix="correct it there") from None
    if not isinstance(written, dict):
        raise kind("it holds no fields", where=path, fix=f"write one field and value a line, such as {example}")
    return written


def _why(error: Exception) -> str:
    """What is wrong and where. YAML's own message quotes the line, which may hold a password."""
    if isinstance(error, Unwanted):
        place = f"line {error.line}, column {error.column}"
        return f"{error.key} is there twice" if error.key else f"{error.what.removeprefix('is ')}, {place}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        place = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
        return f"{error.problem or error.context}, {place}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _parsed(text: str, ending: str) -> Any:
    """Parse the text. A field that occurs twice is an error in each format."""
    if ending == ".toml":
        return tomllib.loads(text)
    if ending == ".json":
        return json.loads(text, object_pairs_hook=_once)
    return load(text) or {}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]} is there twice")
    return dict(pairs)


def log_option(command: _F) -> _F:
    """--log URL (or DDS_LOG) and --name."""
    named = click.option(
        "--name",
        metavar="CLUSTER/COMPONENT",
        envvar=NAME_VARIABLE,
        help=f"Name of the log, in a database that holds several; by default {NAME_VARIABLE}.",
    )
    which = click.option(
        "--log",
        "url",
        metavar="URL",
        envvar=LOG_VARIABLE,
        help=f"Database URL or SQLite file of the log; by default {LOG_VARIABLE}, else the log of dds serve.",
    )
    return which(named(command))


def source_arguments(command: _F) -> _F:
    """[SOURCE]... or --log URL, and --name."""
    sources = click.argument("sources", metavar="[SOURCE]...", nargs=-1)
    return sources(log_option(command))


_TIMES = "RFC 3339, HH:MM[:SS] on the source's day, or a duration before its end, such as 15m"


def at_option(command: _F) -> _F:
    """--at, the place whose state is shown."""
    words = f"Show the state at this instant or position; TIME: {_TIMES}."
    return click.option("--at", metavar="TIME|POSITION", help=words)(command)


def period_options(command: _F) -> _F:
    """--since and --until, between which what happened is shown."""
    words = "Show from this instant or position on; TIME as for --until."
    return click.option("--since", metavar="TIME|POSITION", help=words)(_until_option(command))


def period_of_time_options(command: _F) -> _F:
    """--since and --until, for commands that count time from --since on: that is an instant."""
    words = "Show from this instant on; TIME as for --until."
    return click.option("--since", metavar="TIME", help=words)(_until_option(command))


def _until_option(command: _F) -> _F:
    words = f"Show up to this instant or position; TIME: {_TIMES}."
    return click.option("--until", metavar="TIME|POSITION", help=words)(command)


def output_option(command: _F) -> _F:
    """-o FILE."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to this file, gzipped if its name ends in .gz; - is standard output.",
    )(command)


strict_option = click.option("--strict", is_flag=True, help="Fail on what another version would decide otherwise, too.")


def output_options(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--format (the first of `forms` is the default), --json if that is one of them, and -o FILE. The command gets the format as
    `form`; with -o its output goes to the file."""
    which = click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="Output format."
    )
    short = click.option("--json", "as_json", is_flag=True, help="Same as --format json.")

    def with_them(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(*args: Any, form: str, output: str | None, as_json: bool = False, **more: Any) -> Any:
            chosen = _form(form, as_json=as_json)
            with nullcontext() if output is None or output == STANDARD else into_file(output, _named()):
                return command(*args, form=chosen, **more)

        return which(short(output_option(run)) if "json" in forms else output_option(run))

    return with_them


def _form(form: str, *, as_json: bool) -> str:
    given = click.get_current_context().get_parameter_source("form") is not ParameterSource.DEFAULT
    if as_json and given and form != "json":
        raise InputError(f"--json and --format {form} say different things", fix="leave one of them out")
    return "json" if as_json else form


def _named() -> Iterator[str]:
    """Every file that the command may read: -o must name none of them."""
    yield default_path()
    for name, value in click.get_current_context().params.items():
        values = value if isinstance(value, tuple) else (value,)
        yield from (str(one).removeprefix("sqlite:///") for one in values if name != "output")


def require_end(option: str) -> None:
    """Raises InputError if -o names a file: with `option` the command never ends, and the file would never be complete."""
    if click.get_current_context().params.get("output") not in (None, STANDARD):
        raise InputError(f"{option} never ends, and so its output would never be a whole file", fix="use > FILE for it")


def require_file(what: str) -> None:
    """Raises InputError without -o; `what` says why the output cannot go to a terminal."""
    if click.get_current_context().params.get("output") is None:
        raise InputError(what, fix="give -o FILE, or -o - for standard output")


def limit_option(command: _F) -> _F:
    """--limit, for `dds_commands.screen.arranged`."""
    rows = click.IntRange(min=0)
    words = "Maximum number of rows; 0 for all."
    return click.option("--limit", type=rows, default=0, show_default=True, metavar="N", help=words)(command)


def order_options(*keys: str) -> Callable[[_F], _F]:
    """--sort, by one of these fields, --reverse and --limit; for `dds_commands.screen.arranged`."""
    order = click.option("--sort", type=click.Choice(keys), help="Sort by this field; since: longest first.")
    reverse = click.option("--reverse", is_flag=True, help="In the opposite order.")
    return lambda command: order(reverse(limit_option(command)))


def default_log() -> str | None:
    return os.environ.get(LOG_VARIABLE) or None


def required_log(url: str | None, how: str = "--log URL") -> str:
    """`url` as a database URL, by default that of the file that `dds serve` writes. Raises InputError if that file does not
    exist; the message names `how` as the option to give."""
    return as_url(url or served_log("no log was named", f"give {how} or set {LOG_VARIABLE}"))
