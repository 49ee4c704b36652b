"""A server over mTLS with a provider in memory, and a caller of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_adapters.autoscaler.server import TlsFiles
from tests.adapters.autoscaler.caller import Caller, calling
from tests.adapters.autoscaler.served import Pki, serving, write
from tests.adapters.autoscaler.shelf import Shelf
from tests.support.certificates import Authority


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    ca = Authority.made()
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    write(files, ca.issued(), ca)
    return Pki(ca, ca.issued("127.0.0.2"), files)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def ca(shelf: Shelf, pki: Pki) -> Iterator[Caller]:
    """Cluster Autoscaler, connected over mTLS; a refresh may take a quarter of a second."""
    with (
        serving(GrpcFrontend(shelf, patience=0.25), pki.files) as server,
        calling(server.port, pki.ca, pki.own) as caller,
    ):
        yield caller
