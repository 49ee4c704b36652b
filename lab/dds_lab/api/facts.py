"""The tables of `data/kubernetes-1.36.yaml`, which its comments explain."""

from functools import cache
from importlib import resources
from typing import Any

import yaml


def facts(table: str) -> Any:
    """A table by its name. Callers share it and never change it."""
    return _read()[table]


@cache
def _read() -> dict[str, Any]:
    text = (resources.files(__package__) / "data" / "kubernetes-1.36.yaml").read_bytes()
    found: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found
