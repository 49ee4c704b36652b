"""The `dds` command. Each command is a thin layer over public functions of the library; no rule about devices is here."""

try:
    from dds_commands.root import dds as main
except KeyboardInterrupt:  # Ctrl-C during the imports: end without a traceback
    raise SystemExit(130) from None

__all__ = ["main"]
