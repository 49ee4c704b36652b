"""The settings of a provider of machines, as a person writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.machines import ClusterApiSettings, InventorySettings, Scalable, open_machines, read_settings
from dds_core.errors import InputError

GROUP = "{namespace: metal, name: big}"


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
        ("{kind: cdi}", "machines: is of a kind that is not known here"),
        ("{kind: cluster-api}", "machines.groups: is missing"),
        ("{kind: cluster-api, groups: {}}", "machines.groups: Dictionary should have at least 1 item"),
        (
            "{kind: cluster-api, groups: {a/b: {namespace: a, name: b}}}",
            "machines.groups.a/b: is not at most 63 letters",
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
    assert raised.value.where == str(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="is empty; write machines: "):
        read_settings(written(tmp_path, ""))
    with pytest.raises(InputError, match="machines: is missing"):
        read_settings(written(tmp_path, "groups: []"))
