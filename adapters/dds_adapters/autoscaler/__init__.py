"""Cluster Autoscaler's external gRPC provider: what it asks, put to a `Provider`, over TLS.

This package decides nothing. `Provider` is the interface that the deciding component has to implement.
"""

from dds_adapters.autoscaler.face import Face
from dds_adapters.autoscaler.provider import Away, BadRequest, Provider, ProviderError, Refused, Unknown
from dds_adapters.autoscaler.server import Server, TlsFiles

__all__ = ["Away", "BadRequest", "Face", "Provider", "ProviderError", "Refused", "Server", "TlsFiles", "Unknown"]
