"""Generates docs/cli.md, the reference of the commands, from their help: `python -m dds_commands.reference > docs/cli.md`.

The text around it is in reference.md beside this module. The help of an option that several commands share is printed once; each
of these commands only names the option.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from textwrap import fill

import click

from dds_commands.root import dds

_WIDTH = 100
_PAGE_WIDTH = 130

_Row = tuple[str, str]
"""An option: its names with the value's placeholder, and its help text."""
_Options = Mapping[str, _Row]
"""Rows by the option's names, such as -o/--output."""


def reference() -> str:
    pages = list(_commands(dds, click.Context(dds, info_name="dds", **dds.context_settings)))
    shared = _shared(_options(*page) for page in pages)
    by_name = [shared[names] for names in sorted(shared, key=lambda names: names.rpartition("--")[2])]
    commands = "\n".join(_section(*page, shared) for page in pages)
    around = files("dds_commands").joinpath("reference.md").read_text(encoding="utf-8")
    return around.replace("<!-- shared -->\n", _block(_listed(by_name))).replace("<!-- commands -->\n", commands)


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _commands(inner, click.Context(inner, info_name=name, parent=context))


def _options(command: click.Command, context: click.Context) -> _Options:
    """The options of a command, without --help, which every command has."""
    found = {
        "/".join(one.opts): one.get_help_record(context) for one in command.params if isinstance(one, click.Option)
    }
    return {names: (row[0], row[1].replace("[env var: ", "[")) for names, row in found.items() if row is not None}


def _shared(commands: Iterable[_Options]) -> _Options:
    """Options that several commands have with the same help text. If commands describe one option differently, the most frequent
    text is the shared one."""
    counted = Counter(item for options in commands for item in options.items())
    return {names: row for (names, row), count in reversed(counted.most_common()) if count > 1}


def _section(command: click.Command, context: click.Context, shared: _Options) -> str:
    formatter = _formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    if command is dds:  # the commands of other groups have their own sections
        dds.format_commands(context, formatter)
    options = _options(command, context)
    own = [row for names, row in options.items() if shared.get(names) != row]
    named = ", ".join(f"`{names}`" for names, row in options.items() if shared.get(names) == row)
    text = formatter.getvalue() + (f"\n{_listed(own)}" if own else "")
    also = fill(f"[Shared](#shared-options): {named}", _PAGE_WIDTH, break_on_hyphens=False)
    return f"### `{context.command_path}`\n\n{_block(text)}" + (f"\n{also}\n" if named else "")


def _listed(options: Iterable[_Row]) -> str:
    formatter = _formatter()
    with formatter.section("Options"):
        formatter.write_dl(list(options))
    return formatter.getvalue()


def _formatter() -> click.HelpFormatter:
    return click.HelpFormatter(width=_WIDTH, max_width=_WIDTH)


def _block(text: str) -> str:
    return f"```text\n{text.strip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
