"""The alerting rules and the Grafana dashboard of the chart, made from the tables of docs/metrics.md and from nothing else. Both
are plain files: the chart's templates only give them a name, labels and the settings of a release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dds_adapters.runtime.metrics import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE

ROOT = Path(__file__).parents[3]
PAGE = "docs/metrics.md"
RUNBOOK = "docs/operations.md"
RULES = "deploy/chart/dds/files/alerts.yaml"
DASHBOARD = "deploy/chart/dds/files/dashboard.json"
SEVERITIES = ("critical", "warning")
EVERY = (*CATALOGUE, *POOL_CATALOGUE, *GROUP_CATALOGUE)
COMPONENTS = ("publisher", "autoscaler")
"""Who has alerts of its own beside the scaler's."""


_SERIES_OF = "{{ with $labels }} ({{ range $name, $value := . }} {{ $name }}={{ $value }}{{ end }} ){{ end }}"
"""Of which series it fires, in Prometheus' templates: empty for a sum."""


@dataclass(frozen=True)
class Alert:
    """A row of *What to be called for*; `lasts` is "" where it fires at once."""

    name: str
    severity: str
    expr: str
    lasts: str
    words: str

    @property
    def anchor(self) -> str:
        """Its place in the operations guide."""
        return f"{RUNBOOK}#{self.name.lower()}"

    @property
    def component(self) -> str:
        """Whose it is, "" for the scaler's."""
        return next((one for one in COMPONENTS if re.search(f"dds[_-]{one}", self.expr)), "")

    def rule(self) -> dict[str, Any]:
        """As Prometheus has it."""
        lasts = {"for": self.lasts} if self.lasts else {}
        summary = re.split(r"(?<=\w)[.:;,](?= |$)", self.words, maxsplit=1)[0]
        which = "".join(f"{{{{ with $labels.{label} }}}}, {{{{ . }}}}{{{{ end }}}}" for label in self._which())
        return {
            "alert": self.name,
            "expr": self.expr,
            **lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": summary + which,
                "description": self.words + _SERIES_OF,
                "runbook_url": self.anchor,
            },
        }

    def _which(self) -> Iterator[str]:
        """The labels that its series differ in: those of its first metric that the query neither names nor sums up."""
        found = _SERIES.search(self.expr)
        labels = {one.name: one.labels for one in EVERY}
        if found is not None and not re.match("sum|max", self.expr):
            yield from (label for label in labels[found[1]] if f'{label}="' not in self.expr)


@dataclass(frozen=True)
class Panel:
    """A row of *Questions* or of *On a screen*."""

    title: str
    query: str
    unit: str


def files() -> dict[str, str]:
    """By path below the repository, what they should hold."""
    return {RULES: rules(), DASHBOARD: dashboard()}


# -- the tables of the page ---------------------------------------------------------------------------------------------


def alerts() -> list[Alert]:
    """In the order of the page. Raises ValueError for a row that says no severity or no time."""
    return [_alert(row) for row in _rows("What to be called for")]


def panels() -> list[Panel]:
    """What is to be seen first, then the questions."""
    rows = (row for section in ("On a screen", "Questions") for row in _rows(section))
    return [Panel(title, _code(query), unit) for title, query, unit in rows]


def _alert(row: list[str]) -> Alert:
    name, severity, expr, lasts, words = row
    time = re.fullmatch(r"at once|(\d+) min", lasts)
    if severity not in SEVERITIES or time is None:
        raise ValueError(f"{PAGE}: {name} has severity {severity!r} and the time {lasts!r}")
    return Alert(_code(name), severity, _code(expr), f"{time[1]}m" if time[1] else "", words)


def _code(cell: str) -> str:
    return cell.strip("`")


def _rows(section: str) -> Iterator[list[str]]:
    """The cells of the table below a heading, without its title and rule."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\|.*\|$", part, flags=re.MULTILINE)[2:]:
        yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# -- the rules ----------------------------------------------------------------------------------------------------------


def rules() -> str:
    """A file of rules as Prometheus reads it: a group for each component."""
    groups = [
        {"name": f"dds-{of}" if of else "dds", "rules": [one.rule() for one in alerts() if one.component == of]}
        for of in ("", *COMPONENTS)
    ]
    note = f"# Made from {PAGE} by `python -m tests.project.deploy.generate`: change the table there, not this.\n"
    return note + yaml.safe_dump({"groups": groups}, sort_keys=False, width=2_000)


# -- the dashboard ------------------------------------------------------------------------------------------------------

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
_SERIES = re.compile(r"\b(" + "|".join(one.name for one in EVERY) + r")((?:_bucket|_sum|_count)?)\b(\{)?")


def dashboard() -> str:
    """Grafana's JSON, a line for each panel."""
    shown = [_panel(number, one) for number, one in enumerate(panels())]
    head = {
        "uid": "dds",
        "title": "dds",
        "tags": ["dds"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
    }
    told = json.dumps(head, ensure_ascii=False)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in shown)
    return f'{told[:-1]},\n"panels": [\n{lines}\n]}}\n'


def _variables() -> list[dict[str, Any]]:
    """Whose metrics, and of which namespace: `.*` is everything, also what has no such label."""
    return [
        {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "namespace",
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": "label_values(dds_build_info, namespace)", "refId": "namespace"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _panel(number: int, one: Panel) -> dict[str, Any]:
    place = {"h": HEIGHT, "w": WIDTH, "x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT}
    by = re.search(r"by \(([^)]*)\)", one.query)
    labels = [label for label in (by[1].split(", ") if by else ()) if label != "le"]
    title, question, more = one.title.partition("?")
    target = {"refId": "A", "expr": selected(one.query)}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title + question,
        "description": more.strip(),
        "gridPos": place,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": one.unit or "short", "min": 0}, "overrides": []},
        "targets": [target | {"legendFormat": " ".join(f"{{{{{label}}}}}" for label in labels) or "__auto"}],
    }


def selected(query: str, matcher: str = 'namespace=~"$namespace"') -> str:
    """The query about those series only."""
    return _SERIES.sub(lambda found: f"{found[1]}{found[2]}{{{matcher}" + ("," if found[3] else "}"), query)
