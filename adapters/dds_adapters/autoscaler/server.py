"""The gRPC server of the frontend: on loopback, or for clients with a certificate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_core.errors import InputError

LOG = logging.getLogger("dds.autoscaler")
P = ParamSpec("P")
T = TypeVar("T")

ADDRESS = "127.0.0.1:8086"
MOST_RPCS = 64
"""Calls at once; a further one is refused with RESOURCE_EXHAUSTED. Cluster Autoscaler makes some ten at most."""
MOST_BYTES = 4 * 2**20
"""The longest message: fits a deletion of ten nodes with all their annotations, which have 256 KiB each at most."""
OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the same port must fail, not share the connections
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_concurrent_streams", MOST_RPCS),
    ("grpc.keepalive_time_ms", 60_000),  # notices a client that disappeared
    ("grpc.keepalive_timeout_ms", 20_000),
)


# -- certificates --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TlsFiles:
    """The server's certificate and key, and its clients' CA, in PEM. Each new connection uses the files' present content."""

    certificate: Path
    key: Path
    client_ca: Path

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Raises InputError if they are unusable, without their content."""
        chain, key, authorities = (_content(one) for one in (self.certificate, self.key, self.client_ca))
        _certified(self.client_ca, authorities)
        if _certified(self.certificate, chain) != _public(self.key, key):
            where = f"{self.certificate} and {self.key}"
            raise InputError(
                "the key is not that of the certificate", where=where, fix="give the key that it was issued for"
            )
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=authorities)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fix = "give a file in PEM that this process may read"
        raise InputError(
            f"cannot be read ({error.strerror or type(error).__name__})", where=str(path), fix=fix
        ) from None


def _certified(path: Path, content: bytes) -> object:
    try:
        return x509.load_pem_x509_certificates(content)[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("holds no usable certificate", where=str(path), fix="give certificates in PEM") from None


def _public(path: Path, content: bytes) -> object:
    try:
        return serialization.load_pem_private_key(content, None).public_key()
    except TypeError:
        raise InputError("the key has a password", where=str(path), fix="give it without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("holds no usable private key", where=str(path), fix="give a key in PEM") from None


def _credentials(files: TlsFiles) -> grpc.ServerCredentials:
    shown = files.read()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """For each new connection. While the files cannot be used, as when one of them is just being changed, the last stay."""
        try:
            return files.read()
        except InputError as error:
            LOG.warning("the last certificate is kept: %s", error)
            return None

    # The stubs do not know that None means no change.
    return grpc.dynamic_ssl_server_credentials(shown, renewed, require_client_authentication=True)  # type: ignore[arg-type]


# -- the server ----------------------------------------------------------------------------------------------------------


def check(address: str, tls: TlsFiles | None) -> int:
    """The port. Raises InputError for an unusable address or files, and for an address beyond loopback without TLS."""
    host, port = _host_and_port(address)
    if tls is not None:
        tls.read()
    elif not _is_loopback(host):
        fix = "give a certificate, its key and the CA of the clients' certificates, or a loopback address"
        raise InputError("without TLS anyone who reaches this address could remove servers", where=address, fix=fix)
    return port


class _Pool(ThreadPoolExecutor):
    """Knows which calls it works on. gRPC does not: it forgets a call whose caller gave up, though its work goes on."""

    def __init__(self) -> None:
        super().__init__(MOST_RPCS, thread_name_prefix="autoscaler-rpc")
        self._running: set[Future[Any]] = set()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def end(self, seconds: float) -> None:
        """Take no new work, and wait as long for what runs."""
        self.shutdown(wait=False, cancel_futures=True)
        wait_for(list(self._running), seconds)


class Server:
    """Serves a frontend from `start` until `stop`; start it once. `port` is the listening port."""

    def __init__(self, frontend: GrpcFrontend, address: str = ADDRESS, *, tls: TlsFiles | None = None) -> None:
        """Port 0 means any free port. Raises InputError as `check`."""
        self.port = check(address, tls)
        self._address = address
        self._credentials = None if tls is None else _credentials(tls)
        self._pool = _Pool()
        self._server = grpc.server(
            self._pool, handlers=[frontend.handler()], options=OPTIONS, maximum_concurrent_rpcs=MOST_RPCS
        )

    def start(self) -> None:
        """Raises InputError if it cannot listen on the address."""
        try:
            if self._credentials is None:
                self.port = self._server.add_insecure_port(self._address)
            else:
                self.port = self._server.add_secure_port(self._address, self._credentials)
        except RuntimeError:
            fix = "choose another address, or end what listens there"
            if self._credentials is not None:  # gRPC does not say whether the address or the key was wrong
                fix += ", or give a certificate with an RSA key or one on the curve P-256, P-384 or P-521"
            raise InputError("cannot listen", where=self._address, fix=fix) from None
        self._server.start()
        host = self._address.rpartition(":")[0]
        LOG.info("gRPC served on %s:%s%s", host, self.port, "" if self._credentials is not None else ", without TLS")

    def stop(self, grace: float = 2.0) -> None:
        """Take no new call, give running ones `grace` seconds, and what they change too, then end them."""
        ends = time.monotonic() + grace
        self._server.stop(grace).wait()
        self._pool.end(max(0.0, ends - time.monotonic()))


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in host and bare == host) or not port.isdecimal() or int(port) > 65_535:
        raise InputError(
            "is no address to listen on", where=repr(address), fix="write HOST:PORT, or [HOST]:PORT for IPv6"
        )
    return bare, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
