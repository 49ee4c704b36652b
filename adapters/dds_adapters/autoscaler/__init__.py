"""Cluster Autoscaler's external gRPC provider: passes its calls, over TLS, to a `provider.Provider`.

This package decides nothing. The deciding component implements the interface in `provider`; only `grpc_frontend` and `server`
need gRPC.
"""
