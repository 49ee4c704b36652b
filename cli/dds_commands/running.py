"""How a command ends: an exit code, and one line for each error. Ctrl-C and a closed pipe end a command without a message.

0  success
1  usage or input: a wrong option, a file or database that cannot be used or reached;
   dds serve, publish, autoscale: the process cannot continue, such as without its lease
2  verification failed: recorded and computed results differ; dds lab check: findings;
   dds status --check: no process seems to write the log
3  dds whatif, dds plan: the model does not fit what was recorded
130  interrupted
143  dds lab check: ended by SIGTERM
"""

from __future__ import annotations

import gc
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
"""Variable that a shell sets when it asks for completions."""
FINE, INPUT, VERIFICATION, UNFIT, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

_SERVE = ("kubernetes", "prometheus_client", "httpx", "httpcore", "cryptography")
PACKAGES = {
    "serve": _SERVE,
    "autoscaler": ("grpc", "google.protobuf", *_SERVE),
    "export": ("perfetto", "opentelemetry.proto", "google.protobuf"),
}
"""Packages that an extra installs and that its commands import. A command needs one extra at most."""


def require(extra: str) -> None:
    """Raises InputError, which says how to install the extra, if one of its packages is missing."""
    for package in PACKAGES[extra]:
        if not _is_there(package):
            where = click.get_current_context().command_path
            raise InputError(f"the package {package} is not installed", where=where, fix=install_hint(extra))


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


class NotInstalled(click.Command):
    """Listed and completed in place of a command of dds-lab that is not installed. Used, it says what to install."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        hint = install_hint(project=". ./lab")
        raise InputError("the package dds-lab is not installed", where=ctx.command_path, fix=hint)


class Loaded(dict[str, click.Command]):
    """Commands by name. A command's module is imported when the command is first looked up, so that no command waits for the
    imports of others."""

    def __init__(self, modules: Mapping[str, str], lab: Mapping[str, str]) -> None:
        """`modules`: the module of each command. `lab`: the commands of dds-lab, with their help where it is not installed.
        They are listed here and not found as entry points: reading those would cost every start 0.13 s."""
        super().__init__()
        self._modules = {name: f"dds_commands.{module}" for name, module in modules.items()}
        self._modules |= {name: f"dds_lab_commands.{name}" for name in lab}
        self._lab = lab

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._modules, *super().__iter__()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._modules or super().__contains__(name)

    def __missing__(self, name: str) -> click.Command:
        if name in self._lab and not _is_there("dds_lab_commands"):
            return NotInstalled(name, short_help=self._lab[name])
        module = import_module(self._modules[name])
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
    """The root group. Its `main` ends the process with one of the exit codes above, and shows no traceback for a `DdsError`."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        _ready_for_output()
        calm_collector()
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
            sys.exit(_said(f"{error.format_message()}{_known_commands(error)} (see {named} --help)", INPUT))
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
        """Help is printed here. If the reader closed the pipe, click would end with 1, although nothing is wrong."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            raise _ReaderGone from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


def _known_commands(error: click.UsageError) -> str:
    """After an unknown command: those that there are."""
    if not isinstance(error, click.exceptions.NoSuchCommand) or error.ctx is None:
        return ""
    group = error.ctx.command
    return f" Commands: {', '.join(group.list_commands(error.ctx))}." if isinstance(group, click.Group) else ""


def calm_collector() -> None:
    """Make garbage collections rare: each goes through all objects of a state, and next to nothing is in cycles. It took up to a
    third of the time of a command that reads a log with 10,000 claims. A state that is replaced is in cycles: so not too rare."""
    gc.set_threshold(50_000, 10, 2)


class _ReaderGone(Exception):
    """The reader of the output closed the pipe."""


def _said(message: str, code: int) -> int:
    if COMPLETING not in os.environ:  # a message would disturb the line that the user types
        from dds_commands.screen import note  # no command waits for it

        note(" ".join(message.split()))
    return code


def _ready_for_output() -> None:
    """Drop output if it was closed from the start; write a character that it cannot encode as its code."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Python flushes again at exit, which would print an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
