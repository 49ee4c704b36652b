"""Which cluster a scaler is connected to, and what the API server's clock shows. One request; nothing is kept or decided here."""

from __future__ import annotations

import msgspec

from dds_adapters.kubernetes.cluster import Cluster, Refused, path_of
from dds_core.errors import DdsError

ANSWER_SECONDS = 10.0
"""The longest that is waited: a signal that ends the process is heeded only after it."""


class _Meta(msgspec.Struct):
    uid: str


class _Namespace(msgspec.Struct):
    metadata: _Meta


_namespace = msgspec.json.Decoder(_Namespace)


def identify(cluster: Cluster) -> tuple[str, int]:
    """The UID of the namespace kube-system, which names the cluster, and the server's clock in microseconds (0: not told).

    Raises Refused, Unreachable, and DdsError for what is no answer of an API server."""
    answer = cluster.ask("GET", path_of("namespaces", "v1", name="kube-system"), timeout=ANSWER_SECONDS)
    where = f"{cluster.where} namespace kube-system"
    if answer.code >= 300:
        error = Refused(where, answer.code, "")
        if answer.code == 403:
            raise DdsError(error.what, where=where, fix="let this user get the namespace kube-system")
        raise error
    try:
        uid = _namespace.decode(answer.body).metadata.uid
    except ValueError:
        uid = ""
    if not uid:
        fix = "check the address of the API server, and what stands between"
        raise DdsError("answers with something else than a namespace", where=where, fix=fix)
    return uid, answer.date
