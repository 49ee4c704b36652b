"""Serves the lab's API server over HTTP, with real sockets, TLS and kubeconfigs.

`HttpFrontend` serves on a running asyncio loop; `serving` does so in a separate thread, for tests.
"""

from dds_lab.http_frontend.credentials import Credentials, write_kubeconfig
from dds_lab.http_frontend.serving import Exposed, HttpFrontend, Served, calm_collector, run, serving

__all__ = ["Credentials", "Exposed", "HttpFrontend", "Served", "calm_collector", "run", "serving", "write_kubeconfig"]
