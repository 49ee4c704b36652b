"""The reference of the commands, docs/cli.md, made from their help: `python -m dds_commands.reference > docs/cli.md`.

What stands around the help, the forms of the output above all, is in reference.md beside this module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files

import click

from dds_commands.root import dds

_WIDTH = 100


def reference() -> str:
    """The whole page."""
    around = files("dds_commands").joinpath("reference.md").read_text(encoding="utf-8")
    return around.replace(
        "<!-- commands -->\n", "\n".join(_sections(dds, click.Context(dds, info_name="dds", **dds.context_settings)))
    )


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### `{context.command_path}`\n"
    yield f"```text\n{_help(command, context)}\n```\n"
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _sections(inner, click.Context(inner, info_name=name, parent=context))


def _help(command: click.Command, context: click.Context) -> str:
    formatter = click.HelpFormatter(width=_WIDTH, max_width=_WIDTH)
    command.format_help(context, formatter)
    return formatter.getvalue().rstrip()


if __name__ == "__main__":
    sys.stdout.write(reference())
