"""The chart, rendered by Helm itself (its Go library, as a package of Python)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import msgspec
import yaml

from dds_adapters.kubernetes.rbac import WHERES, Where

CHART = Path(__file__).parents[3] / "deploy" / "chart" / "dds"
RELEASE = "dds"
Values = Mapping[str, Any]
AUTOSCALES: Values = {
    "autoscaler": {
        "enabled": True,
        "machines": {"kind": "cluster-api", "groups": {"workers": {"namespace": "default", "name": "workers"}}},
        "grpc": {"tlsSecret": "dds-autoscaler-tls"},
    }
}
"""The least that an autoscaler has to be told."""


def rendered(values: Values | None = None, *, namespace: str = "dds", tests: bool = False) -> dict[str, str]:
    """By template path the text that it gives, or that of the hooks of `helm test` alone. Raises HelmError where the values are
    refused or a template fails."""
    texts = _rendered(msgspec.json.encode(dict(values or {})), namespace)
    return {path: text for path, text in texts.items() if ("/tests/" in path) is tests}


@cache
def _rendered(values: bytes, namespace: str) -> dict[str, str]:
    given = msgspec.json.decode(values, type=dict[str, Any])
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(given)
        return chart.render(given, name=RELEASE, namespace=namespace)


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    return [one for one in yaml.safe_load_all(text) if one]


def manifests(values: Values | None = None, *, namespace: str = "dds", tests: bool = False) -> list[dict[str, Any]]:
    """All objects of the chart, in the order of their templates, or those of `helm test`."""
    texts = rendered(values, namespace=namespace, tests=tests)
    return [one for path in sorted(texts) if path.endswith(".yaml") for one in objects(texts[path])]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of a kind."""
    return [one for one in found if one["kind"] == kind]


def held_to(
    found: list[dict[str, Any]],
    role: Callable[[Where], dict[str, Any]],
    account: str,
    cluster_role: str = "dds-dds",
) -> None:
    """The roles in `found` are those of the table, each bound to the account."""
    for where in WHERES:
        expected = role(where)
        name = cluster_role if where == "cluster" else expected["metadata"]["name"]
        some = [one for one in of_kind(found, expected["kind"]) if one["metadata"]["name"] == name]
        if not expected["rules"]:
            assert some == []
            continue
        (made,) = some
        assert _plain(made["rules"]) == _plain(expected["rules"])
        assert made["metadata"].get("namespace") == expected["metadata"].get("namespace")
        (bound,) = [one for one in of_kind(found, f"{expected['kind']}Binding") if one["metadata"]["name"] == name]
        assert bound["roleRef"]["name"] == name
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "dds"}]


def _plain(rules: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    keys = ("apiGroups", "resources", "resourceNames", "verbs")
    return [tuple(tuple(rule.get(key, ())) for key in keys) for rule in rules]
