"""The publisher's side of a fabric: a provider that answers questions about it, and the rounds of questions.

Nothing here decides or knows of Kubernetes. Start at `open_provider`; `docs/fabric.md` describes every call.
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
