"""Where the settings of `dds publish`, and of `dds serve --publish`, come from, and what is said of those that cannot be used.
Nothing is started here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dds_commands.root import dds as root
from dds_commands.settings import Setting
from tests.support.commands import dds, fine, refused

UUID = "7b3d9c3e-5a54-4b39-8c1f-0f2a4f3a7f10"
OTHER = "1a2b3c4d-5a54-4b39-8c1f-0f2a4f3a7f10"
REFERENCE = {"CDI_ENDPOINT": "https://cdi.example", "TENANT_ID": UUID, "CLUSTER_ID": OTHER, "USE_CM": "true"}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's environment nor its home."""
    for name in os.environ:
        if name.startswith(("DDS_", "DEVICE_NO_", "SCAN_", "KUBE", "CDI_", "TENANT_", "CLUSTER_", "USE_CM")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


Shown = dict[str, tuple[str, str]]


def shown(*args: str, command: str = "publish", env: Mapping[str, str] | None = None) -> Shown:
    """Name → (value, origin), as --print-config shows it."""
    lines = fine(command, "--print-config", *args, env=env or {}).splitlines()
    rows = [re.split(r"\s{2,}", line) for line in lines[1:]]
    return {name: (value, origin) for name, value, origin in rows}


def test_defaults(tmp_path: Path) -> None:
    found = shown("--inventory", "inventory.yaml")
    assert found["log"] == (str(tmp_path / "state/dds/scaler.sqlite3"), "default"), "one database for both"
    assert found["fabric"] == ("file", "default")
    assert found["inventory"] == ("inventory.yaml", "flag")
    assert found["mode"] == ("observe", "default") and found["policy.adopt"] == ("none", "default")
    assert found["lease-name"] == ("dds-publisher", "default")
    assert found["health-probe-bind-address"] == ("127.0.0.1:8083", "default")
    assert found["metrics-bind-address"] == ("127.0.0.1:8082", "default")
    assert found["scan-interval"] == ("5", "default") and found["fabric-connections"] == ("4", "default")
    assert not (tmp_path / "state").exists()


def test_the_reference_drivers_variables_stand_in_for_what_is_not_given() -> None:
    found = shown("--credentials-folder", "/run/secrets/cdi", env=REFERENCE)
    assert found["fabric"] == ("cm", "environment USE_CM")
    assert found["fabric-endpoint"] == ("https://cdi.example", "environment CDI_ENDPOINT")
    assert found["tenant-id"] == (UUID, "environment TENANT_ID")
    assert found["cluster-id"] == (OTHER, "environment CLUSTER_ID")
    fm = shown("--credentials-folder", "/run/secrets/cdi", env={**REFERENCE, "USE_CM": "false"})
    assert fm["fabric"] == ("fm", "environment CDI_ENDPOINT")
    given = shown("--credentials-folder", "/c", "--tenant-id", OTHER, env={**REFERENCE, "DDS_FABRIC": "fm"})
    assert given["tenant-id"] == (OTHER, "flag") and given["fabric"] == ("fm", "environment DDS_FABRIC")
    file = shown("--inventory", "i.yaml", env=REFERENCE)
    assert file["fabric"] == ("file", "default"), "an inventory that is given is meant"


def test_the_policy_shows_where_each_field_comes_from(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: publish\ngone_seconds: 300\n", encoding="utf-8")
    found = shown("--inventory", "i", "--policy", str(policy))
    assert found["mode"] == ("publish", str(policy))
    assert found["policy.gone_seconds"] == ("300", str(policy))
    assert found["policy.pool_devices"] == ("1000", "default")
    assert shown("--inventory", "i", "--policy", str(policy), "--mode", "observe")["mode"] == ("observe", "flag")


def test_both_in_one_program(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: publish\n", encoding="utf-8")
    found = shown("--publish", "--inventory", "i", "--publish-policy", str(policy), command="serve")
    assert found["mode"] == ("observe", "default") and found["publish-mode"] == ("publish", str(policy))
    assert found["publish-policy.adopt"] == ("none", "default")
    assert found["publish-lease-name"] == ("dds-publisher", "default") and found["lease-name"][0] == "dds-scaler"
    assert found["fabric"] == ("file", "default")
    alone = shown(command="serve", env=REFERENCE)
    assert alone["publish"] == ("false", "default") and alone["fabric"] == ("-", "default"), "it is not looked at"


def test_every_setting_has_its_twins() -> None:
    options = [option for option in root.commands["publish"].params if isinstance(option, Setting)]
    assert len(options) > 25
    for option in options:
        assert option.envvar == "DDS_" + option.key.upper().replace("-", "_")
    assert {option.key for option in options} <= shown("--inventory", "i").keys()


FM = ("--fabric", "fm", "--fabric-endpoint", "https://cdi.example", "--tenant-id", UUID, "--credentials-folder", "/c")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "--fabric: nothing says what the fabric has free"),
        (("--fabric-endpoint", "https://x"), "--fabric: a manager's address is given, and not which API it has"),
        (("--fabric", "file"), "no inventory is given"),
        (("--fabric", "xy"), "'xy' is not one of"),
        ((*FM[:2], *FM[4:]), "fabric endpoint: is missing"),
        ((*FM, "--fabric-endpoint", "http://cdi.example"), "is http, on which the password would be sent"),
        ((*FM, "--fabric-endpoint", "https://me:secret@cdi.example"), "holds more than host, port and path"),
        ((*FM, "--tenant-id", "tenant"), "fabric tenant: is not a UUID"),
        ((*FM, "--fabric", "cm"), "fabric cluster: is missing"),
        (FM[:6], "no folder with credentials is given"),
        ((*FM, "--scan-interval", "0"), "--scan-interval"),
        ((*FM, "--fabric-connections", "0"), "--fabric-connections"),
        ((*FM, "--mode", "attach"), "--mode"),
        ((*FM, "--machine-ids", "x"), "--machine-ids"),
        ((*FM, "--metrics-bind-address", "nowhere"), "--metrics-bind-address: 'nowhere' is no address"),
        ((*FM, "--health-probe-bind-address", "127.0.0.1:8082"), "health and metrics are both to listen"),
        ((*FM, "--cluster-name", "a/b"), "a/b/publisher"),
        ((*FM, "--policy", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_1(args: tuple[str, ...], words: str) -> None:
    line = refused("publish", *args, env={})
    assert words in line
    assert "secret" not in line


def test_a_policy_that_is_not_valid_is_told(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: attach\nno_removal_seconds: 3\n", encoding="utf-8")
    line = refused("publish", "--inventory", "i", "--policy", str(policy), env={})
    assert str(policy) in line and "mode: " in line and "no_removal_seconds: " in line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--publish",), "--fabric: nothing says what the fabric has free"),
        (("--publish", "--inventory", "i", "--publish-mode", "attach"), "--publish-mode"),
        (("--publish", "--inventory", "i", "--publish-lease-name", "dds-scaler"), "need a Lease each"),
        (("--publish", "--inventory", "i", "--publish-policy", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_what_a_publisher_within_cannot_use_is_one_line_too(args: tuple[str, ...], words: str) -> None:
    assert words in refused("serve", *args, env={})


def test_an_inventory_with_faults_ends_it_before_anything_is_begun(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("machines: [{uuid: a, fabric: '7'}]\n", encoding="utf-8")
    log = f"sqlite:///{tmp_path}/log.sqlite3"
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n",
        encoding="utf-8",
    )
    settings = ("--inventory", str(inventory), "--log", log, "--migrate", "--kubeconfig", str(kubeconfig))
    result = refused_with_lines("publish", *settings)
    assert "machines.0.fabric: fabrics has no such entry" in result


def refused_with_lines(*args: str) -> str:
    """The last line of a command that ends with 1 and has said other things before."""
    done = dds(*args)
    assert done.exit_code == 1, done.stderr
    return done.stderr.splitlines()[-1]
