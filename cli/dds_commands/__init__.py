"""The `dds` command: thin skins over public functions of the library. Nothing here decides anything about devices."""

from dds_commands.root import dds as main

__all__ = ["main"]
