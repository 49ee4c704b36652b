"""The lab's API server over HTTP: real sockets, TLS, kubeconfigs. It knows HTTP and nothing of what is asked.

`Face` serves on a running asyncio loop; `serving` does so in a thread of its own, for tests.
"""

from dds_lab.http_frontend.credentials import Credentials, write_kubeconfig
from dds_lab.http_frontend.serving import Exposed, HttpFrontend, Served, calm_collector, run, serving

__all__ = ["Credentials", "Exposed", "HttpFrontend", "Served", "calm_collector", "run", "serving", "write_kubeconfig"]
