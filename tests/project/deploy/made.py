"""What of deploy/ and docs/ is made: the chart's roles and the page's table from the table of permissions, its alerts and
dashboard from the page about metrics, its schema of policies from their models, its README from its values, and the kustomize
bases from the chart. Says what a file should hold and writes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from dds_adapters.kubernetes import guard, rbac
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.rbac import WHERES, Rule, Where
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.policy import Policy
from tests.project.deploy import watching
from tests.project.deploy.chart import AUTOSCALES, CHART, Values, objects, rendered
from tests.project.deploy.locked import IMAGE, licence, locked
from tests.project.docs.markdown import table
from tests.support import roles as roles_

ROOT = Path(__file__).parents[3]
TEMPLATES = "deploy/chart/dds/templates"
KUSTOMIZE = "deploy/kustomize"
GUARD = f"{TEMPLATES}/guard.yaml"
LICENCES = "deploy/licences.md"
README = "deploy/chart/dds/README.md"
SCHEMA = "deploy/chart/dds/values.schema.json"
POLICIES: dict[str, type[BaseModel]] = {
    "scalerPolicy": Policy,
    "publishPolicy": PublishPolicy,
    "autoscalePolicy": AutoscalePolicy,
}
"""By its definition in the schema of the chart's values."""
PAGE = "docs/deployment.md"
NAMESPACES: dict[Where, str] = {
    "config": ".Values.fabric.configNamespace",
    "lease": ".Release.Namespace",
    "guard": ".Release.Namespace",
}
_REVIEWS = "and .Values.metrics.enabled .Values.metrics.secure"
_PAGE_TOO = f"or .Values.ui.enabled ({_REVIEWS})"


@dataclass(frozen=True)
class Component:
    """How the roles of a component are made. `conditions` switch a power in the chart, where it is not simply
    a value of its name below `values`; `guard` switches the whole."""

    roles: str
    table: Sequence[Rule]
    powers: roles_.Powers
    labels: str
    cluster_name: str
    name: str
    account: str
    lease: str
    values: str
    conditions: dict[str, str]
    guard: str

    def condition(self, power: str) -> str:
        return self.conditions.get(power, f"{self.values}.{power}")


SCALER = Component(
    roles=f"{TEMPLATES}/rbac.yaml",
    table=rbac.RULES,
    powers=roles_.EVERYTHING,
    labels="dds.labels",
    cluster_name="dds.clusterName",
    name="dds.name",
    account="dds.account",
    lease=".Values.leaderElection.leaseName",
    values=".Values.powers",
    conditions={
        "exchange": ".Values.guard.enabled",
        "leader_election": ".Values.leaderElection.enabled",
        "metrics_reviews": _PAGE_TOO,
    },
    guard=".Values.rbac.create",
)
PUBLISHER = Component(
    roles=f"{TEMPLATES}/publisher-rbac.yaml",
    table=rbac.PUBLISHER_RULES,
    powers=roles_.NOTHING | frozenset(roles_.PUBLISHER_POWERS),
    labels="dds.publisherLabels",
    cluster_name="dds.publisherClusterName",
    name="dds.publisherName",
    account="dds.publisherAccount",
    lease=".Values.publisher.leaseName",
    values=".Values.publisher.powers",
    conditions={
        "node_labels": ".Values.publisher.powers.nodeLabels",
        "bare_metal_hosts": 'eq .Values.publisher.machineIds "bmh"',
        "leader_election": ".Values.leaderElection.enabled",
        "metrics_reviews": _REVIEWS,
    },
    guard="and .Values.publisher.enabled .Values.rbac.create",
)
AUTOSCALER = Component(
    roles=f"{TEMPLATES}/autoscaler-rbac.yaml",
    table=rbac.AUTOSCALER_RULES,
    powers=roles_.NOTHING | frozenset(roles_.AUTOSCALER_POWERS),
    labels="dds.autoscalerLabels",
    cluster_name="dds.autoscalerClusterName",
    name="dds.autoscalerName",
    account="dds.autoscalerAccount",
    lease=".Values.autoscaler.leaseName",
    values=".Values.autoscaler.powers",
    conditions={
        "cluster_api": 'include "dds.clusterApiHere" .',
        "leader_election": ".Values.leaderElection.enabled",
        "metrics_reviews": _REVIEWS,
    },
    guard="and .Values.autoscaler.enabled .Values.rbac.create",
)
COMPONENTS = (SCALER, PUBLISHER, AUTOSCALER)

BASES: dict[str, Values] = {
    "base": {},
    "postgres": {"log": {"kind": "postgres", "postgres": {"secretName": "dds-log"}}, "replicas": 2},
}
"""By folder the values of the chart: as it comes, and for several replicas."""
EXTRAS: dict[str, Values] = {"publisher": {"publisher": {"enabled": True}}, "autoscaler": AUTOSCALES}
"""The kustomize components beside the bases, by folder: what these values add to either."""
NAMESPACE = config.NAMESPACE
CHART_ONLY = ("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy")


def files() -> dict[str, str]:
    """By path below the repository, the text of every file that is made as a whole."""
    return {
        **templates(),
        LICENCES: licences(),
        README: readme((CHART / "values.yaml").read_text(encoding="utf-8")),
        **{path: text for name in BASES for path, text in base(name).items()},
        **{path: text for name in EXTRAS for path, text in extra(name).items()},
    }


def templates() -> dict[str, str]:
    """Those of the chart: the roles, the guard, the alerts, the dashboard and the schema of its values."""
    made = {**{one.roles: roles(one) for one in COMPONENTS}, GUARD: guard_template(), **watching.files()}
    return made | {SCHEMA: schema((ROOT / SCHEMA).read_text(encoding="utf-8"))}


# -- the schema of the chart's values ----------------------------------------------------------------------------------


def schema(text: str) -> str:
    """The schema with the definitions of the policies, each a line, as their models have them."""
    lines = text.splitlines()
    for name, model in POLICIES.items():
        made = _values_of(model)
        del made["properties"]["mode"]  # it is a value of its own
        (place,) = [number for number, line in enumerate(lines) if line.startswith(f'    "{name}": ')]
        lines[place] = f'    "{name}": {json.dumps(made)},'
    return "\n".join(lines) + "\n"


def _values_of(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema without references and what only people read."""
    whole = model.model_json_schema()

    def plain(part: Any, *, names: bool = False) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return plain(whole["$defs"][part["$ref"].rpartition("/")[2]])
        left = part if names else {key: one for key, one in part.items() if key not in _FOR_PEOPLE}
        return {key: plain(one, names=key == "properties") for key, one in left.items()}

    found: dict[str, Any] = plain(whole)
    return found


_FOR_PEOPLE = ("title", "description", "default", "unit", "$defs")


# -- the chart's README ------------------------------------------------------------------------------------------------

_README = """# The chart dds

Made from values.yaml by `python -m tests.project.deploy.generate`. What to set is in [docs](../../../docs/deployment.md).

```sh
helm install dds deploy/chart/dds --namespace composable-dra --create-namespace --set image.repository=REGISTRY/dds
helm test dds --namespace composable-dra --logs
```

"""


def readme(values: str) -> str:
    """The page with a row for each value that has a comment or is none of several: its default and its comment."""
    rows: list[tuple[str, str, str]] = []
    notes: list[str] = []
    path = [""] * 8
    for line in values.splitlines():
        text = line.strip()
        if not text:
            notes = []
        elif text.startswith("#"):
            notes.append(text[2:])
        else:
            depth = (len(line) - len(line.lstrip())) // 2
            name, _, default = text.partition(":")
            path[depth:] = [name, *[""] * (7 - depth)]
            if default or notes:
                default = default and f"`{default.strip()}`"
                rows.append((f"`{'.'.join(filter(None, path))}`", default, " ".join(notes)))
            notes = []
    return _README + table(("value", "default", "what it is"), rows) + "\n"


# -- licences ----------------------------------------------------------------------------------------------------------


def licences() -> str:
    """The page with a row for each package of the image, as its metadata says."""
    rows = [(name, version, licence(name)) for name, (version, _) in locked(IMAGE).items()]
    head = "# Packages in the image, and their licences\n\nMade by `python -m tests.project.deploy.generate`. Those that only the"
    return f"{head}\nbuild needs are among them.\n\n{table(('package', 'version', 'licence'), rows)}\n"


# -- the chart's guard -----------------------------------------------------------------------------------------------


def guard_template() -> str:
    """The template of the guard: as the code has it, with names of the release."""
    made = (
        "Made from dds_adapters.kubernetes.guard by `python -m tests.project.deploy.generate`: change that, not this."
    )
    namespace, labels = "{{ .Release.Namespace }}", 'labels: {{- include "dds.labels" . | nindent 4 }}'
    objects = (
        guard.policy('{{ include "dds.user" . }}'),
        guard.binding(namespace),
        guard.config_map(namespace),
        guard.probe(namespace),
    )
    for one in objects:
        one["metadata"]["labels"] = "here"
    text = yaml.safe_dump_all(objects, sort_keys=False, width=120).replace("labels: here", labels)
    return f"{{{{- /* {made} */}}}}\n{{{{- if .Values.guard.enabled }}}}\n{text}{{{{- end }}}}\n"


# -- the chart's roles -----------------------------------------------------------------------------------------------


def roles(component: Component) -> str:
    """The template of all its roles and their bindings."""
    made = "Made from dds_adapters.kubernetes.rbac by `python -m tests.project.deploy.generate`: change the table, not this."
    head = f"{{{{- /* {made} */}}}}\n{{{{- if {component.guard} }}}}\n"
    some = [where for where in WHERES if _rules(component, where)]
    return head + "---\n".join(_guarded(component, where) for where in some) + "{{- end }}\n"


def _rules(component: Component, where: Where) -> list[Rule]:
    return roles_.rules(component.powers, where, component.table)


def _guarded(component: Component, where: Where) -> str:
    text = _role(component, where)
    powers = {rule.power for rule in _rules(component, where)}
    if rbac.ALWAYS in powers:
        return text
    (power,) = powers
    return f"{{{{- if {component.condition(power)} }}}}\n{text}{{{{- end }}}}\n"


def _role(component: Component, where: Where) -> str:
    kind = "ClusterRole" if where == "cluster" else "Role"
    included = component.cluster_name if where == "cluster" else component.name
    name = f'{{{{ include "{included}" . }}}}' + ("" if where == "cluster" else f"-{where}")
    place = f"  namespace: {{{{ {NAMESPACES[where]} }}}}\n" if where != "cluster" else ""
    meta = f'metadata:\n  name: {name}\n{place}  labels:\n    {{{{- include "{component.labels}" . | nindent 4 }}}}\n'
    parts = "".join(_section(component, power, some) for power, some in roles_.sections(_rules(component, where)))
    return (
        f"apiVersion: {roles_.RBAC}\nkind: {kind}\n{meta}rules:\n{parts}"
        f"---\napiVersion: {roles_.RBAC}\nkind: {kind}Binding\n{meta}"
        f"roleRef:\n  apiGroup: {roles_.RBAC.partition('/')[0]}\n  kind: {kind}\n  name: {name}\n"
        "subjects:\n  - kind: ServiceAccount\n"
        f'    name: {{{{ include "{component.account}" . }}}}\n    namespace: {{{{ .Release.Namespace }}}}\n'
    )


def _section(component: Component, power: str, some: list[Rule]) -> str:
    features = ", ".join(dict.fromkeys(rule.feature for rule in some))
    text = f"  # {features}\n" + "".join(_policy_rule(component, one) for one in roles_.policy_rules(some))
    return text if power == rbac.ALWAYS else f"  {{{{- if {component.condition(power)} }}}}\n{text}  {{{{- end }}}}\n"


def _policy_rule(component: Component, one: dict[str, Any]) -> str:
    def flow(texts: list[str]) -> str:
        return "[" + ", ".join(text or '""' for text in texts) + "]"

    named = {
        rbac.DRIVERS: "{{ toJson .Values.fabric.drivers }}",
        rbac.CONFIGMAP: f"[{config.NAME}]",
        rbac.LEASE: f"[{{{{ {component.lease} }}}}]",
    }
    lines = [f"  - apiGroups: {flow(one['apiGroups'])}", f"    resources: {flow(one['resources'])}"]
    if names := one.get("resourceNames"):
        lines.append(f"    resourceNames: {named.get(names[0], flow(names))}")
    return "\n".join([*lines, f"    verbs: {flow(one['verbs'])}", ""])


# -- the kustomize bases ---------------------------------------------------------------------------------------------


def base(folder: str) -> dict[str, str]:
    """The files of a base: one for each template that gives something, and the list of them."""
    made: dict[str, str] = {}
    for path, text in sorted(rendered(BASES[folder], namespace=NAMESPACE).items()):
        if not path.endswith(".yaml"):
            continue  # what Helm tells whoever installs
        found = [_plain(one) for one in objects(text)]
        if found:
            made[Path(path).name] = yaml.safe_dump_all(found, sort_keys=False, width=120)
    return _listed(folder, made, {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"})


def extra(folder: str) -> dict[str, str]:
    """The files of a component: the objects that the chart gives with its values and not without."""
    without = {_key(one) for one in _objects({})}
    made: dict[str, str] = {}
    for path, text in sorted(rendered(EXTRAS[folder], namespace=NAMESPACE).items()):
        found = [_plain(one) for one in objects(text) if _key(one) not in without] if path.endswith(".yaml") else []
        if found:
            made[Path(path).name] = yaml.safe_dump_all(found, sort_keys=False, width=120)
    return _listed(folder, made, {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"})


def _objects(values: Values) -> list[dict[str, Any]]:
    texts = rendered(values, namespace=NAMESPACE)
    return [one for path, text in sorted(texts.items()) if path.endswith(".yaml") for one in objects(text)]


def _key(one: dict[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def _listed(folder: str, made: dict[str, str], head: dict[str, Any]) -> dict[str, str]:
    """The files with the one that lists them."""
    listing = yaml.safe_dump({**head, "resources": sorted(made)}, sort_keys=False)
    note = "# Made from the chart by `python -m tests.project.deploy.generate`: change the chart, not this.\n"
    return {
        f"{KUSTOMIZE}/{folder}/{name}": note + text for name, text in {**made, "kustomization.yaml": listing}.items()
    }


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """Without what only means something to Helm."""
    metadata = dict(one["metadata"])
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in metadata.pop(part, {}).items() if key not in CHART_ONLY}
        metadata |= {part: kept} if kept else {}
    return one | {"metadata": metadata}


# -- the page's table ------------------------------------------------------------------------------------------------

_PART = re.compile(r"(<!-- generated: ([a-z ]*permissions) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)
_TABLES = {"permissions": SCALER, "publisher permissions": PUBLISHER, "autoscaler permissions": AUTOSCALER}


def page(text: str) -> str:
    """The page with its tables as the code has them. Raises LookupError when the place for one is missing."""
    missing = _TABLES.keys() - {found[2] for found in _PART.finditer(text)}
    if missing:
        raise LookupError(f"{PAGE} has no part {' and '.join(sorted(missing))}")
    return _PART.sub(lambda found: found[1] + permissions(_TABLES[found[2]]) + "\n" + found[3], text)


def permissions(component: Component) -> str:
    """Every rule with its call; feature and power stand in the first row of the feature's rules."""
    rows = []
    before = ""
    for rule in (rule for _, some in roles_.sections(component.table) for rule in some):
        feature = rule.feature + (f" (`{rule.power}`)" if rule.power else "")
        verbs = ", ".join(f"`{verb}`" for verb in rule.verbs)
        resource, slash, part = rule.resource.partition("/")
        named = ".".join(filter(None, (resource, rule.group))) + slash + part  # as in `kubectl create role --resource`
        rows.append(("" if feature == before else feature, f"`{named}`: {verbs}", rule.call))
        before = feature
    return table(("feature (power)", "resource: verbs", "for"), rows)
