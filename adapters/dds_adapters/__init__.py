"""Adapters: one package for each outside system that the core talks to. They carry out and never decide.

`run_scaler` runs the live scaler in another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dds_adapters.embed import run_scaler

__all__ = ["run_scaler"]


def __getattr__(name: str) -> Any:
    """Load `run_scaler` when it is used: it needs the extra `serve`, which a program that only reads logs does not have."""
    if name == "run_scaler":
        from dds_adapters.embed import run_scaler

        return run_scaler
    raise AttributeError(f"module 'dds_adapters' has no attribute {name!r}")
