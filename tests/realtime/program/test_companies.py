"""`dds serve` as a program where companies put it: behind a proxy, in a cluster of IPv6 only, and as a user without a name on a
root file system that is only read. It sees the whole cluster, and a start that needs nobody warns of nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.shipped import find
from tests.support.live_lab import LiveLab, eventually, without_scaler
from tests.support.postgres import Postgres, pooled
from tests.support.serve_program import Program
from tests.support.tunnel import tunnels

RESTRICTED = """
set -e
mount --bind "$0" "$0"
mount -o remount,bind,ro /
exec unshare --user --map-user=1000650000 --map-group=0 "$@"
"""
"""Begins a program with a user without a name, of group 0, that writes below the first argument and nowhere else."""


def _lab(folder: Path, host: str = LOOPBACK) -> LiveLab:
    return LiveLab(without_scaler(find("first_attach")), folder, tls=True, host=host)


def _serves(lab: LiveLab, folder: Path, *options: str, log: str = "", before: tuple[str, ...] = ()) -> Program:
    """A program that ended in order, after it had seen the whole cluster, and warned of nothing."""
    with Program(
        lab,
        log or str(folder / "log.sqlite3"),
        folder,
        Policy(),
        "--migrate",
        "--metrics-secure",
        *options,
        before=before,
    ) as program:
        eventually(program.seen_all)
        eventually(lambda: program.probe().code == 200)
        assert program.end() == 0
    assert [line for line in program.lines() if line["level"] not in ("debug", "info")] == []
    return program


def test_the_api_server_behind_a_proxy_that_wants_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _lab(tmp_path) as lab, tunnels("dds:secrät") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//dds:secr%C3%A4t@"))
        _serves(lab, tmp_path)
        assert set(proxy.asked) == {lab.face.url.removeprefix("https://")}
        asked = len(proxy.asked)
        monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
        program = _serves(lab, tmp_path)
        assert len(proxy.asked) == asked
        assert not program.says("secr")


def test_the_api_server_behind_a_proxy_and_the_log_behind_pgbouncer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    """The variables of a proxy are none for the database."""
    with _lab(tmp_path) as lab, tunnels() as proxy, pooled(postgres, "transaction") as through:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        url = through(postgres.new_database())
        _serves(lab, tmp_path, log=url)
        assert set(proxy.asked) == {lab.face.url.removeprefix("https://")}
        with Database(url) as database:
            (head,) = database.heads()
            report = verify(database.log(head.log).read(), SCALER)
        assert report.ok and report.groups > 0


def test_a_cluster_of_ipv6_only(tmp_path: Path) -> None:
    with _lab(tmp_path, host="::1") as lab:
        assert lab.face.url.startswith("https://[::1]:")
        program = _serves(lab, tmp_path, "--health-probe-bind-address", "[::1]:0", "--metrics-bind-address", ":0")
        assert program.address("health").startswith("http://[::1]:")


def test_a_user_without_a_name_and_a_root_file_system_that_is_only_read(tmp_path: Path) -> None:
    outer = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", RESTRICTED, str(tmp_path))
    if shutil.which("unshare") is None or subprocess.run([*outer, "true"], capture_output=True, check=False).returncode:
        pytest.skip("user and mount namespaces cannot be made here")
    (tmp_path / "scratch").mkdir()
    here = (
        "env",
        f"TMPDIR={tmp_path}/scratch",
        "HOME=/nowhere",
        "sh",
        "-c",
        f'id -u > "{tmp_path}/user"; exec "$@"',
        "sh",
    )
    assert subprocess.run([*outer, "touch", str(tmp_path.parent / "x")], capture_output=True, check=False).returncode
    with _lab(tmp_path) as lab:
        _serves(lab, tmp_path, before=(*outer, *here))
    assert (tmp_path / "user").read_text() == "1000650000\n"
