"""Settings: click options that also come from the environment or from a file, and that know their origin.

The setting `--lease-name` is DDS_LEASE_NAME in the environment and `lease-name` in the file of `--config` or DDS_CONFIG. The flag
comes first, then the environment, then the file. An empty variable counts as not set.
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
    """A setting's effective value; `origin` is "flag", "environment DDS_X", the path of a file, or "default"."""

    name: str
    value: str
    origin: str


class Setting(click.Option):
    """An option that can also be set in the environment and in a file."""

    @property
    def key(self) -> str:
        """The setting's name in a file."""
        return self.opts[0].removeprefix("--")

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """As in click, but the error for a wrong value names the value's origin."""
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
    """Several settings, in the order of the help."""

    def with_all(command: _F) -> _F:
        for option in reversed(tuple(options)):
            command = option(command)
        return command

    return with_all


def config_option(command: _F) -> _F:
    """--config FILE or DDS_CONFIG, read before all other options."""
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
    """The origin of a parameter's value, as in `Row`."""
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
    """Every setting of the command with its value as given, in the order of the help."""
    for option in _settings(ctx.command):
        yield Row(option.key, text(ctx.params[option.name or ""]), origin(ctx, option.name or ""))


def text(value: object) -> str:
    """A value in the form that a file has; "-" for None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return "-" if value is None else str(value)


def nearest(name: str, known: list[str]) -> str:
    """The end of an error message: the most similar known name, else all known names."""
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
