"""Who may get at the lab: kubeconfigs, tokens, TLS, and who may reach it at all."""

from __future__ import annotations

import asyncio
import base64
import stat
from pathlib import Path

import pytest
import yaml

from dds_core.errors import InputError
from dds_lab.http_frontend import Credentials, Exposed, HttpFrontend, write_kubeconfig
from dds_lab.http_frontend.credentials import identity
from dds_lab.time import VirtualTime
from tests.support.served import new_server, users


def test_a_kubeconfig_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config"
    write_kubeconfig(path, "https://127.0.0.1:1", {"admin": "s3cret", "dds": "other"}, b"PEM")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shape = yaml.safe_load(path.read_text())
    assert shape["current-context"] == "admin"
    assert [each["name"] for each in shape["contexts"]] == ["admin", "dds"]
    assert {each["name"]: each["user"]["token"] for each in shape["users"]} == {"admin": "s3cret", "dds": "other"}
    (cluster,) = shape["clusters"]
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"PEM"


def test_writing_again_keeps_it_private(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    write_kubeconfig(path, "http://127.0.0.1:1", {"admin": "s3cret"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_tokens_are_new_each_time() -> None:
    assert Credentials().tokens != Credentials().tokens
    assert list(users().tokens) == ["admin", "dds"]


def test_a_certificate_is_new_each_time_and_its_key_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert identity(["lab.example"]).ca != identity().ca
    assert list(tmp_path.iterdir()) == []


async def _listened(host: str, tls: bool, credentials: Credentials) -> str:
    face = HttpFrontend(new_server(), VirtualTime(0, 0), credentials)
    await face.listen(host, 0, tls)
    try:
        return face.url
    finally:
        await face.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "lab.example"])
def test_others_than_this_machine_only_with_tls(host: str) -> None:
    with pytest.raises(Exposed, match=r"not without TLS: .*; listen on 127\.0\.0\.1, or serve with TLS and tokens"):
        asyncio.run(_listened(host, False, Credentials()))


def test_others_than_this_machine_only_with_tokens() -> None:
    with pytest.raises(Exposed, match="not without tokens"):
        asyncio.run(_listened("0.0.0.0", True, Credentials({})))


def test_with_both_it_may_be_reached() -> None:
    assert asyncio.run(_listened("0.0.0.0", True, Credentials())).startswith("https://0.0.0.0:")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_needs_neither(host: str) -> None:
    assert asyncio.run(_listened(host, False, Credentials({}))).startswith(f"http://{host}:")


def test_a_port_that_is_taken_is_said() -> None:
    async def twice() -> None:
        first = HttpFrontend(new_server(), VirtualTime(0, 0), Credentials())
        await first.listen(tls=False)
        try:
            second = HttpFrontend(new_server(), VirtualTime(0, 0), Credentials())
            await second.listen(port=int(first.url.rpartition(":")[2]), tls=False)
        finally:
            await first.stop()

    with pytest.raises(InputError, match=r"127\.0\.0\.1:\d+: cannot listen .*; choose another host or port"):
        asyncio.run(twice())
