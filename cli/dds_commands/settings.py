"""Settings: click options that also come from the environment or from a file, and that know their origin.

The setting `--lease-name` is DDS_LEASE_NAME in the environment and `lease-name` in the file of `--config` or DDS_CONFIG. The flag
comes first, then the environment, then the file. An empty variable counts as not set.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field, fields
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast, get_type_hints

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


def setting(help: str, *, default: Any = None, **more: Any) -> Any:
    """A field of a class of options: its name gives the flag and the variable; `more` as in `click.option`."""
    if default is not None:
        more |= {"default": default, "show_default": not isinstance(default, bool)}
    return field(default=default, metadata={_HELP: help, **more})


_HELP = "help"


def names_of(form: type[Any]) -> list[str]:
    """The names of a class's options, those of its groups too, in the order of the help."""
    return [one.name for one in _fields(form)]


def takes(form: type[Any]) -> Callable[[_F], _F]:
    """The options of a class; the command gets an object of that class as `given`."""

    def with_all(command: _F) -> _F:
        @wraps(command)
        def run(*args: Any, **values: Any) -> Any:
            rest = {name: values[name] for name in values.keys() - set(names_of(form))}
            return command(*args, given=_filled(form, values), **rest)

        taking: Any = run
        for one in reversed(list(_fields(form))):
            taking = _option_of(one)(taking)
        return cast(_F, taking)

    return with_all


def _fields(form: type[Any]) -> Iterator[Field[Any]]:
    """The fields that are options. Every other one is a group, whose class gives its options."""
    groups = get_type_hints(form)
    for one in fields(form):
        if _HELP in one.metadata:
            yield one
        else:
            yield from _fields(groups[one.name])


def _filled(form: type[Any], values: Mapping[str, Any]) -> Any:
    groups = get_type_hints(form)
    return form(
        **{
            one.name: values[one.name] if _HELP in one.metadata else _filled(groups[one.name], values)
            for one in fields(form)
        }
    )


def _option_of(one: Field[Any]) -> Callable[[Any], Any]:
    key = one.name.replace("_", "-")
    flag = f"--{key}/--no-{key}" if isinstance(one.default, bool) else f"--{key}"
    return click.option(flag, cls=Setting, envvar=f"DDS_{one.name.upper()}", show_envvar=True, **one.metadata)


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
            option = next(one for one in ctx.command.params if isinstance(one, click.Option) and one.name == name)
            return f"environment {option.envvar}"
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
