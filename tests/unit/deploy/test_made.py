"""What is made from code is current, and the kustomize base is the chart as it comes."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.deploy.chart import manifests
from tests.unit.deploy.made import BASE, NAMESPACE, PAGE, ROOT, files, page

AGAIN = "run: python -m tests.unit.deploy.generate"


def test_every_file_says_what_the_code_says() -> None:
    for name, text in files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name}: {AGAIN}"


def test_the_base_has_no_other_files_and_lists_all() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / BASE).iterdir()}
    assert there == {name for name in files() if name.startswith(BASE)}
    listed = yaml.safe_load((ROOT / BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {f"{BASE}/{name}" for name in listed} == there - {f"{BASE}/kustomization.yaml"}


def test_the_base_has_every_object_of_the_chart_with_the_same_content() -> None:
    objects = [
        one
        for path in (ROOT / BASE).glob("*.yaml")
        if path.name != "kustomization.yaml"
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    chart = manifests(namespace=NAMESPACE)
    assert len(objects) == len(chart)
    by_key = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    for one in chart:
        mine = by_key[one["kind"], one["metadata"]["name"]]
        assert {**one, "metadata": None} == {**mine, "metadata": None}
        assert not any("helm" in label for label in mine["metadata"].get("labels", {}))


def test_the_pages_table_is_current() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page(text) == text, AGAIN


def test_a_page_without_the_tables_place_is_found() -> None:
    with pytest.raises(LookupError, match="permissions"):
        page("# Deployment\n")
