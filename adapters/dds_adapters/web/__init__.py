"""HTTP for those who look at a running scaler: probes and metrics. It knows HTTP and the two reviews that guard a page, and
nothing of what the pages say."""

from dds_adapters.web.messages import Request, Response, Route, exposition, plain, probes
from dds_adapters.web.reviews import Reviews, guarded
from dds_adapters.web.server import Server
from dds_adapters.web.tls import Certificate, self_signed

__all__ = [
    "Certificate",
    "Request",
    "Response",
    "Reviews",
    "Route",
    "Server",
    "exposition",
    "guarded",
    "plain",
    "probes",
    "self_signed",
]
