"""What is made from code is current, and the kustomize bases are the chart's own output."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.project.deploy.chart import manifests
from tests.project.deploy.made import BASES, EXTRAS, KUSTOMIZE, NAMESPACE, PAGE, ROOT, files, page
from tests.support.roles import AUTOSCALER_POWERS, POWERS, PUBLISHER_POWERS

AGAIN = "run: python -m tests.project.deploy.generate"


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


def _written(folder: str) -> list[dict[str, Any]]:
    return [
        one
        for path in sorted((ROOT / KUSTOMIZE / folder).glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def _keys(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["kind"], one["metadata"]["name"]) for one in found]


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("folder", BASES)
def test_a_component_adds_to_either_base_what_the_chart_would(folder: str, extra: str) -> None:
    mine = _written(extra)
    both = _keys(_written(folder)) + _keys(mine)
    assert len(set(both)) == len(both)
    values = {**BASES[folder], **EXTRAS[extra]}
    volume = ("PersistentVolumeClaim", f"dds-{extra}-log")  # the chart has none where the log is in PostgreSQL
    assert set(both) - {volume} == set(_keys(manifests(values, namespace=NAMESPACE))) - {volume}
    for one in mine:
        kubernetes_validate.validate(one, "1.36", strict=True)


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_component_is_one_and_lists_all(extra: str) -> None:
    place = ROOT / KUSTOMIZE / extra
    listed = yaml.safe_load((place / "kustomization.yaml").read_text(encoding="utf-8"))
    assert listed["kind"] == "Component"
    assert set(listed["resources"]) | {"kustomization.yaml"} == {path.name for path in place.iterdir()}


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
    assert all(f"| `{power}` |" in text for power in (*POWERS, *PUBLISHER_POWERS, *AUTOSCALER_POWERS))
