"""Options that are settings: each may come from a flag, the environment or a file, and knows which one it was.

A setting `--lease-name` is DDS_LEASE_NAME in the environment and `lease-name` in the file that `--config` or DDS_CONFIG names.
The first of these that has it counts, in that order; an empty variable has nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from dds_commands.parameters import mapping_from
from dds_core.errors import InputError

DEFAULT = "default"
FLAG = "flag"
CONFIG = "config"
_F = TypeVar("_F", bound=Callable[..., Any])


class Row(NamedTuple):
    """A setting in force: `origin` is "flag", "environment DDS_X", the path of a file, or "default"."""

    name: str
    value: str
    origin: str


class Setting(click.Option):
    """An option with its twin in the environment and in a file."""

    @property
    def key(self) -> str:
        """The setting's name in a file."""
        return self.opts[0].removeprefix("--")

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """As click does it, but a wrong value is told with the place that it came from."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            where = origin(ctx, self.name or "")
            if where == FLAG:
                raise
            raise InputError(f"{self.key}: {error.message.rstrip('.')}", where=where, fix="correct it there") from None


def setting(flag: str, help: str, **more: Any) -> Callable[[_F], _F]:
    """An option that is a setting; `flag` as `click.option` takes it, such as --migrate/--no-migrate."""
    variable = "DDS_" + flag.split("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(flag, cls=Setting, envvar=variable, show_envvar=True, help=help, **more)


def settings(options: Iterable[Callable[[_F], _F]]) -> Callable[[_F], _F]:
    """Several of them, in the order in which they are to be told."""

    def with_all(command: _F) -> _F:
        for option in reversed(tuple(options)):
            command = option(command)
        return command

    return with_all


def config_option(command: _F) -> _F:
    """--config FILE or DDS_CONFIG, read before any setting is looked at."""
    return click.option(
        "--config",
        metavar="FILE",
        envvar="DDS_CONFIG",
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=_take_file,
        help="File with any of these settings (YAML, TOML or JSON), such as lease-name: dds.",
    )(command)


def origin(ctx: click.Context, name: str) -> str:
    """Where the value of a parameter comes from."""
    match ctx.get_parameter_source(name):
        case ParameterSource.COMMANDLINE:
            return FLAG
        case ParameterSource.ENVIRONMENT:
            return f"environment {_option(ctx, name).envvar}"
        case ParameterSource.DEFAULT_MAP:
            return str(ctx.meta[CONFIG])
        case _:
            return DEFAULT


def rows(ctx: click.Context) -> Iterator[Row]:
    """Every setting of the command, in the order of its help, as it came."""
    for option in _settings(ctx.command):
        yield Row(option.key, text(ctx.params[option.name or ""]), origin(ctx, option.name or ""))


def text(value: object) -> str:
    """A value as a file would hold it; "-" where there is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return "-" if value is None else str(value)


def nearest(name: str, known: list[str]) -> str:
    """What may have been meant, as the end of a message: the nearest known name, or where to look."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _settings(command: click.Command) -> list[Setting]:
    return [option for option in command.params if isinstance(option, Setting)]


def _option(ctx: click.Context, name: str) -> click.Option:
    return next(option for option in ctx.command.params if isinstance(option, click.Option) and option.name == name)


def _take_file(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    ctx.meta[CONFIG] = path
    options = {option.key: option for option in _settings(ctx.command)}
    ctx.default_map = {
        _known(key, options, path).name or "": _one_value(key, value, path)
        for key, value in mapping_from(path, InputError, "lease-name: dds").items()
    }


def _known(key: object, options: Mapping[str, Setting], path: str) -> Setting:
    if key not in options:
        raise InputError(f"{key!r} is no setting", where=path, fix=nearest(str(key), list(options)))
    return options[str(key)]


def _one_value(key: object, value: object, path: str) -> str:
    if not isinstance(value, str | int | float):
        fix = "write one text, number, true or false, or leave it out"
        raise InputError(f"{key} holds no single value", where=path, fix=fix)
    return text(value)
