"""The chart, rendered by Helm itself (its Go library, as a package of Python)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import msgspec
import yaml

CHART = Path(__file__).parents[3] / "deploy" / "chart" / "dds"
RELEASE = "dds"
Values = Mapping[str, Any]


def rendered(values: Values | None = None, *, namespace: str = "dds") -> dict[str, str]:
    """By template path the text that it gives. Raises HelmError where the values are refused or a template fails."""
    return _rendered(msgspec.json.encode(dict(values or {})), namespace)


@cache
def _rendered(values: bytes, namespace: str) -> dict[str, str]:
    given = msgspec.json.decode(values, type=dict[str, Any])
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(given)
        return chart.render(given, name=RELEASE, namespace=namespace)


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    return [one for one in yaml.safe_load_all(text) if one]


def manifests(values: Values | None = None, *, namespace: str = "dds") -> list[dict[str, Any]]:
    """All objects of the chart, in the order of their templates."""
    texts = rendered(values, namespace=namespace)
    return [one for path in sorted(texts) if path.endswith(".yaml") for one in objects(texts[path])]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of a kind."""
    return [one for one in found if one["kind"] == kind]
