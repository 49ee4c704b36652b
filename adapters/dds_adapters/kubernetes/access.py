"""Finds an API server and the credentials for it: in a kubeconfig, or in the pod's service account.

The official client reads both, with all plugins. It is imported only when a cluster is needed, because the import takes half a
second and 30 MiB. This module sends no request and writes no file.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from dds_adapters.proxies import authorization, login_of
from dds_core.errors import InputError, install_hint

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has its token and the certificate authority of the server."""
CONNECTIONS = 32
"""Connections kept open for later requests. Each watch has one of its own."""

_KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Detects within a minute that the peer is gone."""


class Access(Protocol):
    """A way to an API server. `name` says where it was read from."""

    @property
    def name(self) -> str: ...

    def client(self) -> Any:
        """A new ApiClient, made from what the files say now. Raises InputError."""
        ...


@dataclass(frozen=True)
class Kubeconfig:
    """A kubeconfig (or several separated by colons, as for kubectl) and a context; None: the current context."""

    path: str
    context: str | None = None

    @property
    def name(self) -> str:
        return self.path

    def _there(self) -> bool:
        """True when one of the files exists: $KUBECONFIG may name several."""
        return any(os.path.exists(os.path.expanduser(one)) for one in self.path.split(os.pathsep))

    def client(self) -> Any:
        from kubernetes.config import kube_config

        configuration = _blank()
        load: Any = kube_config.load_kube_config
        try:
            load(self.path, self.context, configuration, persist_config=False)
            return _client(configuration)
        except Exception as error:  # the client raises many types for a broken file
            what = f"cannot be used: {_first_line(error)}" if self._there() else "there is no such file"
            fix = "give a kubeconfig that kubectl can use, and one of its contexts"
            raise InputError(what, where=self.path, fix=fix) from None


@dataclass(frozen=True)
class InCluster:
    """The service account of the pod. Its token changes every hour; the client reads it again each minute."""

    folder: Path = ACCOUNT

    @property
    def name(self) -> str:
        return str(self.folder)

    def client(self) -> Any:
        from kubernetes.config.incluster_config import InClusterConfigLoader

        configuration = _blank()
        loader: Any = InClusterConfigLoader
        try:
            loader(str(self.folder / "token"), str(self.folder / "ca.crt"), environ=os.environ).load_and_set(
                configuration
            )
            return _client(configuration)
        except Exception as error:
            fix = "let the pod mount its service account's token, or give a kubeconfig"
            raise InputError(f"cannot be used: {_first_line(error)}", where=self.name, fix=fix) from None


def found(kubeconfig: str | None = None, context: str | None = None, account: Path = ACCOUNT) -> Access:
    """The access to use: the given kubeconfig, else $KUBECONFIG, else the pod's service account, else ~/.kube/config."""
    if kubeconfig is not None:
        return Kubeconfig(kubeconfig, context)
    named = os.environ.get("KUBECONFIG")
    if named:
        return Kubeconfig(named, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ and context is None:
        return InCluster(account)
    return Kubeconfig(os.path.join(os.path.expanduser("~"), ".kube", "config"), context)


def _blank() -> Any:
    """A configuration without the defaults that other code may have set globally."""
    from kubernetes.client import Configuration

    configuration: Any = type.__call__(Configuration)
    configuration.connection_pool_maxsize = CONNECTIONS
    configuration.socket_options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, getattr(socket, name), n) for name, n in _KEEP_ALIVE if hasattr(socket, name)),
    ]
    return configuration


def _client(configuration: Any) -> Any:
    from kubernetes.client import ApiClient

    login = login_of(urlsplit(configuration.proxy or ""))
    if login is not None:  # the client takes HTTPS_PROXY and NO_PROXY itself, but would not log in
        configuration.proxy_headers = authorization(login)
    return ApiClient(configuration)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def require_client() -> None:
    """Raise InputError when the official client is not installed."""
    try:
        import kubernetes  # noqa: F401
    except ImportError:
        raise InputError("the Kubernetes client is not installed", fix=install_hint("serve")) from None
