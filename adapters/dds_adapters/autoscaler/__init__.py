"""Cluster Autoscaler's external gRPC provider: what it asks, put to a `Provider`, over TLS.

Nothing here decides: `Provider` says what a face needs of whoever does.
"""

from dds_adapters.autoscaler.face import Face
from dds_adapters.autoscaler.provider import Away, BadRequest, Provider, ProviderError, Refused, Unknown
from dds_adapters.autoscaler.server import Server, TlsFiles

__all__ = ["Away", "BadRequest", "Face", "Provider", "ProviderError", "Refused", "Server", "TlsFiles", "Unknown"]
