"""Which way a host is reached, by HTTPS_PROXY and NO_PROXY."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.fabric.connections import trusting
from dds_adapters.kubernetes.doctor.fabric import Untrusted, certificate_of
from dds_adapters.proxies import Proxy, proxy_to
from dds_core.errors import InputError
from tests.adapters.fabric.test_tls import served
from tests.support.certificates import Authority
from tests.support.tunnel import tunnels


@pytest.mark.parametrize(
    ("host", "rules", "direct"),
    [
        ("cdi.example", "", False),
        ("cdi.example", "*", True),
        ("cdi.example", "other.example, CDI.example", True),
        ("cdi.example", ".example", True),
        ("cdi.example", "*.example", True),
        ("cdi.example", "example", True),
        ("cdi.example", "i.example", False),
        ("cdi.example", "cdi.example:443", True),
        ("cdi.example", "cdi.example:8443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "11.0.0.0/8,10.1.2.4", False),
        ("10.1.2.3", "2.3", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]:443", True),
        ("fd00::1", "fd01::/16,10.0.0.0/8", False),
    ],
)
def test_no_proxy(monkeypatch: pytest.MonkeyPatch, host: str, rules: str, direct: bool) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", rules)
    assert (proxy_to(host, 443) is None) is direct


def test_how_a_proxy_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_to("cdi.example", 443) is None
    for text, proxy in {
        "proxy.example:3128": Proxy("proxy.example", 3128, None),
        "http://dds:a%40b@[fd00::9]/": Proxy("fd00::9", 80, ("dds", "a@b")),
    }.items():
        monkeypatch.setenv("HTTPS_PROXY", text)
        assert proxy_to("cdi.example", 443) == proxy
    for text in ("https://proxy.example", "http://proxy.example:port", "http://"):
        monkeypatch.setenv("HTTPS_PROXY", text)
        with pytest.raises(InputError, match="HTTPS_PROXY"):
            proxy_to("cdi.example", 443)


def test_the_doctor_looks_at_the_managers_certificate_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server, tunnels("dds:right") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//dds:right@"))
        assert certificate_of("127.0.0.1", server.port, trusting(authority.pem), given=True).ends
        assert proxy.asked == [f"127.0.0.1:{server.port}"]
        for url, words in {proxy.url: "cannot be reached", "ftp://proxy": "is not http://host:port"}.items():
            monkeypatch.setenv("HTTPS_PROXY", url)
            with pytest.raises(Untrusted, match=words):
                certificate_of("127.0.0.1", server.port, trusting(authority.pem), given=True)
