"""The settings of a provider of machines, as a person writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dds_adapters.fabric.provider import InventoryFault
from dds_adapters.machines import (
    CdiSettings,
    ClusterApiSettings,
    InventorySettings,
    Scalable,
    open_machines,
    read_settings,
)
from dds_core.autoscaler.policy import read_autoscale_policy
from dds_core.errors import InputError

GROUP = "{namespace: metal, name: big}"
UUID = "00000000-0000-4000-8000-000000000000"
CDI = f"kind: cdi, tenant: {UUID}, cluster: {UUID}, credentials: c"


def written(folder: Path, text: str) -> Path:
    path = folder / "autoscale.yaml"
    path.write_text(text)
    return path


def test_cluster_api(tmp_path: Path) -> None:
    text = f"groups: [what, others, read]\nmachines: {{kind: cluster-api, kubeconfig: k, context: c, groups: {{big: {GROUP}}}}}"
    big = Scalable(namespace="metal", name="big")
    assert big.kind == "MachineDeployment"
    expected = ClusterApiSettings(kind="cluster-api", kubeconfig=tmp_path / "k", context="c", groups={"big": big})
    settings = read_settings(written(tmp_path, text))
    assert settings == expected
    with pytest.raises(InputError, match="there is no such file"):
        open_machines(settings)


def test_an_inventory_beside_the_file(tmp_path: Path) -> None:
    text = "machines: {kind: inventory, servers: servers.yaml, requests: /run/requests.yaml}"
    expected = InventorySettings(
        kind="inventory", servers=tmp_path / "servers.yaml", requests=Path("/run/requests.yaml")
    )
    assert read_settings(written(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("", "machines: is not"),
        ("{}", "machines: has no kind"),
        ("{kind: metal}", "machines: is of a kind that is not known here"),
        ("{kind: cdi}", "machines.endpoint: is missing"),
        (f"{{{CDI}, endpoint: 'http://a', groups: {{big: b}}}}", "machines: endpoint: is http, on which the password"),
        (f"{{{CDI}, endpoint: 'https://me:canary@a', groups: {{big: b}}}}", "machines: endpoint: holds more than host"),
        (f"{{{CDI}, endpoint: 'https://a', groups: {{a: b, c: b}}}}", "machines: groups.c: b is that of a, too"),
        (f"{{{CDI}, endpoint: 'https://a', groups: {{a: ''}}}}", "machines.groups.a: String should have at least"),
        ("{kind: cluster-api}", "machines.groups: is missing"),
        ("{kind: cluster-api, groups: {}}", "machines.groups: Dictionary should have at least 1 item"),
        (
            "{kind: cluster-api, groups: {a/b: {namespace: a, name: b}}}",
            "machines.groups.a/b: takes at most 40 small letters, digits and dashes",
        ),
        (
            "{kind: cluster-api, groups: {big: {namespace: A, name: b}}}",
            "machines.groups.big.namespace: is not the name of",
        ),
        (
            "{kind: cluster-api, groups: {big: {namespace: a, name: b, size: 3}}}",
            "machines.groups.big.size: is no field",
        ),
        (
            "{kind: cluster-api, groups: {big: {kind: Pod, namespace: a, name: b}}}",
            "machines.groups.big.kind: Input should be",
        ),
        (
            f"{{kind: cluster-api, groups: {{a: {GROUP}, b: {GROUP}}}}}",
            "groups.b: MachineDeployment metal/big is that of a, too",
        ),
        ("{kind: inventory, servers: a}", "machines.requests: is missing"),
        ("{kind: inventory, servers: a, requests: 3}", "machines.requests: is not a path"),
        ("{kind: inventory, servers: a, requests: a}", "requests: is the file of the servers"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, section: str, what: str) -> None:
    path = written(tmp_path, f"machines: {section}")
    with pytest.raises(InputError) as raised:
        read_settings(path)
    assert what in str(raised.value)
    assert "canary" not in str(raised.value)
    assert raised.value.where == str(path)


def test_cdi_with_credentials_beside_the_file(tmp_path: Path) -> None:
    settings = read_settings(
        written(tmp_path, f"machines: {{{CDI}, endpoint: 'https://a/b', groups: {{big: workers}}}}")
    )
    assert isinstance(settings, CdiSettings)
    assert (settings.credentials, settings.groups) == (tmp_path / "c", {"big": "workers"})
    open_machines(settings).close()


@pytest.mark.parametrize("name", ["a", "a-1", "1", "a" * 40, "a" * 41, "A", "a.b", "a_b", "-a", "a-", "", "ä", "a\n"])
def test_a_group_that_the_policy_cannot_name_is_refused_by_each_kind(tmp_path: Path, name: str) -> None:
    template = {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "1"}}
    spare = tmp_path / "servers.yaml"
    spare.write_text(json.dumps({"servers": [{"id": "r0", "group": name, "state": "stopped"}]}))
    (tmp_path / "requests.yaml").write_text("{}")
    group = json.dumps(name)

    def accepts(use: Callable[[], object]) -> bool:
        try:
            use()
        except InputError as error:
            assert "at most 40 small letters, digits and dashes" in str(error)
            return False
        except InventoryFault as error:
            assert "at most 40 small letters, digits and dashes" in str(error)
            return False
        return True

    of_policy = {"groups": [{"name": name, "maximum": 1, "template": template}]}
    cdi = written(tmp_path, f"machines: {{{CDI}, endpoint: 'https://a', groups: {{{group}: b}}}}")
    assert accepts(lambda: read_settings(cdi)) == (named := accepts(lambda: read_autoscale_policy(of_policy)))
    capi = written(tmp_path, f"machines: {{kind: cluster-api, groups: {{{group}: {GROUP}}}}}")
    assert accepts(lambda: read_settings(capi)) == named
    files = InventorySettings(kind="inventory", servers=spare, requests=tmp_path / "requests.yaml")
    assert accepts(lambda: open_machines(files).servers()) == named


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="is empty; write machines: "):
        read_settings(written(tmp_path, ""))
    with pytest.raises(InputError, match="machines: is missing"):
        read_settings(written(tmp_path, "groups: []"))
