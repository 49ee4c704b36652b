"""How a command ends: exit codes, one line for each error, and quiet ends by Ctrl-C and by a reader that went away.

0  fine
1  usage or input: a wrong option, a file or database that cannot be used or reached;
   dds serve, publish, autoscale: it cannot go on, such as without its lease
2  verification failed: what was recorded and what was found differ; dds lab check: something was found;
   dds status --check: no process seems to write the log
3  dds whatif, dds plan: the model does not fit what was recorded
130  interrupted
143  dds lab check: ended by SIGTERM
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from typing import Any

import click

from dds_core.errors import DdsError, InputError, VerificationFailed, install_hint

COMPLETING = "_DDS_COMPLETE"
"""Set by a shell that asks what may come next."""
FINE, INPUT, VERIFICATION, UNFIT, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

_SERVE = ("kubernetes", "prometheus_client", "httpx", "httpcore", "cryptography")
PACKAGES = {"serve": _SERVE, "lab": ("httptools", *_SERVE), "autoscaler": ("grpc", "google.protobuf", *_SERVE)}
"""What the commands that need an extra import of it; a command needs one extra, whatever it is given."""


def require(extra: str) -> None:
    """Raises InputError, which says how the extra is installed, when a package of it is missing."""
    for package in PACKAGES[extra]:
        if not _is_there(package):
            where = click.get_current_context().command_path
            raise InputError(f"the package {package} is not installed", where=where, fix=install_hint(extra))


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # nor is what it is a part of
        return False


class Loaded(dict[str, click.Command]):
    """Commands by name, each loaded from its module of this package when it is first asked for: a command need not wait for what
    only others need."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        super().__init__()
        self._modules = dict(modules)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._modules, *super().__iter__()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._modules or super().__contains__(name)

    def __missing__(self, name: str) -> click.Command:
        module = import_module(f"dds_commands.{self._modules[name]}")
        found = next(one for one in vars(module).values() if isinstance(one, click.Command) and one.name == name)
        self[name] = found
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - it is this method

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class Commands(click.Group):
    """The root group. Its `main` always ends the process by one of the exit codes above, never by a traceback for an
    error of ours."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        _ready_for_output()
        try:
            code = super().main(args, "dds", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            sys.exit(code if isinstance(code, int) else FINE)
        except (_ReaderGone, BrokenPipeError):
            _drop_output()
            sys.exit(FINE)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(INPUT)
        except click.UsageError as error:
            named = error.ctx.command_path if error.ctx is not None else "dds"
            sys.exit(_said(f"{error.format_message()} (see {named} --help)", INPUT))
        except click.ClickException as error:
            sys.exit(_said(error.format_message(), INPUT))
        except click.Abort:
            sys.exit(INTERRUPTED)
        except DdsError as error:
            sys.exit(_said(str(error), VERIFICATION if isinstance(error, VerificationFailed) else INPUT))
        except OSError as error:
            _drop_output()
            where = error.filename if error.filename is not None else "the output"
            fix = "check room and permissions there, then repeat the command"
            sys.exit(_said(f"{where}: {error.strerror or error}; {fix}", INPUT))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Where help is shown. Click would end with 1 when the reader of a pipe is gone; nobody did anything wrong
        there."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise _ReaderGone from None

    def invoke(self, ctx: click.Context) -> Any:
        """As in `make_context`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


class _ReaderGone(Exception):
    """Whoever read the output has enough of it."""


def _said(message: str, code: int) -> int:
    if COMPLETING not in os.environ:  # the line that is being typed would be torn
        click.echo(f"dds: {' '.join(message.split())}", err=True)
    return code


def _ready_for_output() -> None:
    """Output that was closed from the start is dropped; a character that it cannot show is written as its code."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Python flushes once more when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
