"""What is made from code is current, and the kustomize bases are the chart's own output."""

from __future__ import annotations

import re

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from dds_adapters.kubernetes.rbac import POWERS
from tests.unit.deploy.chart import manifests
from tests.unit.deploy.made import BASES, KUSTOMIZE, NAMESPACE, PAGE, ROOT, files, page

AGAIN = "run: python -m tests.unit.deploy.generate"


def test_every_file_says_what_the_code_says() -> None:
    for name, text in files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name}: {AGAIN}"


@pytest.mark.parametrize("folder", BASES)
def test_a_base_has_no_other_files_and_lists_all(folder: str) -> None:
    place = f"{KUSTOMIZE}/{folder}"
    there = {str(path.relative_to(ROOT)) for path in (ROOT / place).iterdir()}
    assert there == {name for name in files() if name.startswith(f"{place}/")}
    listed = yaml.safe_load((ROOT / place / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {f"{place}/{name}" for name in listed} == there - {f"{place}/kustomization.yaml"}


@pytest.mark.parametrize("folder", BASES)
def test_a_base_has_every_object_of_the_chart_with_the_same_content(folder: str) -> None:
    objects = [
        one
        for path in (ROOT / KUSTOMIZE / folder).glob("*.yaml")
        if path.name != "kustomization.yaml"
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    chart = manifests(BASES[folder], namespace=NAMESPACE)
    assert len(objects) == len(chart)
    by_key = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    for one in chart:
        mine = by_key[one["kind"], one["metadata"]["name"]]
        assert {**one, "metadata": None} == {**mine, "metadata": None}
        assert not any("helm" in label for label in mine["metadata"].get("labels", {}))
        kubernetes_validate.validate(mine, "1.36", strict=True)


def test_the_pages_table_is_current() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page(text) == text, AGAIN


def test_a_page_without_the_tables_place_is_found() -> None:
    with pytest.raises(LookupError, match="permissions"):
        page("# Deployment\n")


def test_the_pages_values_are_values() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    written = [yaml.safe_load(part) for part in re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)]
    assert len(written) >= 2
    for values in written:
        assert manifests(values)


def test_the_page_names_every_power() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert all(f"| `{power}` |" in text for power in POWERS)
