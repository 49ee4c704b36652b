"""A fabric as the publisher sees it: a provider that answers questions, and the rounds in which it is asked.

Nothing here knows of Kubernetes, and nothing decides. `open_provider` is where to begin; `docs/fabric.md` tells of every call.
"""

from dds_adapters.fabric.fabric_settings import APIS, Api, FabricSettings, Outside
from dds_adapters.fabric.provider import (
    FabricAway,
    FabricDenied,
    FabricError,
    FabricOdd,
    FabricRefused,
    FabricUnreachable,
    Provider,
)
from dds_adapters.fabric.registry import open_provider

__all__ = [
    "APIS",
    "Api",
    "FabricAway",
    "FabricDenied",
    "FabricError",
    "FabricOdd",
    "FabricRefused",
    "FabricSettings",
    "FabricUnreachable",
    "Outside",
    "Provider",
    "open_provider",
]
