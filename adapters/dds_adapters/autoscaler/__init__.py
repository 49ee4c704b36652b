"""Cluster Autoscaler's external gRPC provider: what it asks, put to a `provider.Provider`, over TLS.

This package decides nothing. `provider` is the interface that the deciding component has to implement; only `face` and `server`
need gRPC.
"""
