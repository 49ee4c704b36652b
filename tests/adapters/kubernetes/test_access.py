"""How a client is made from a kubeconfig: what is said of one that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dds_adapters.kubernetes.access import Kubeconfig
from dds_core.errors import InputError


def refused(path: str, context: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        Kubeconfig(path, context).client()
    said = str(caught.value)
    assert said.startswith(f"{path}: ") and ".;" not in said and "\n" not in said
    return said


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such file; give a kubeconfig" in refused(str(tmp_path / "no"))
    assert "there is no such file" in refused(os.pathsep.join([str(tmp_path / "no"), str(tmp_path / "neither")]))


@pytest.mark.parametrize("text", ["", "mode: attach\n", "[", "current-context: a\n"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert "cannot be used: " in refused(str(path))
