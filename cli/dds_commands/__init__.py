"""The `dds` command: thin skins over public functions of the library. Nothing here decides anything about devices."""

try:
    from dds_commands.root import dds as main
except KeyboardInterrupt:  # Ctrl-C while the program is still being read is no fault that has to be traced
    raise SystemExit(130) from None

__all__ = ["main"]
