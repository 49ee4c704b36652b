"""What of deploy/ and docs/ is made from code: the chart's roles and the page's table from the table of permissions, and the
kustomize bases from the chart. Says what a file should hold, and writes nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from dds_adapters.kubernetes import config, rbac
from dds_adapters.kubernetes.rbac import Rule, Where
from tests.unit.deploy.chart import Values, objects, rendered
from tests.unit.docs.markdown import table

ROOT = Path(__file__).parents[3]
ROLES = "deploy/chart/dds/templates/rbac.yaml"
KUSTOMIZE = "deploy/kustomize"
PAGE = "docs/deployment.md"

CONDITIONS = {
    "taint_rules": ".Values.powers.taintRules",
    "leader_election": ".Values.leaderElection.enabled",
    "metrics_reviews": "and .Values.metrics.enabled .Values.metrics.secure",
}
"""What switches a power in the chart, where it is not simply .Values.powers and its name."""
NAMES = {
    rbac.DRIVERS: "{{ toJson .Values.fabric.drivers }}",
    rbac.CONFIGMAP: f"[{config.NAME}]",
    rbac.LEASE: "[{{ .Values.leaderElection.leaseName }}]",
}
NAMESPACES: dict[Where, str] = {"config": ".Values.fabric.configNamespace", "lease": ".Release.Namespace"}

BASES: dict[str, Values] = {
    "base": {},
    "postgres": {"log": {"kind": "postgres", "postgres": {"secretName": "dds-log"}}, "replicas": 2},
}
"""By folder the values of the chart: as it comes, and for several replicas."""
NAMESPACE = config.NAMESPACE
CHART_ONLY = ("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy")


def files() -> dict[str, str]:
    """By path below the repository, the text of every file that is made as a whole."""
    return {ROLES: roles(), **{path: text for name in BASES for path, text in base(name).items()}}


# -- the chart's roles -----------------------------------------------------------------------------------------------


def roles() -> str:
    """The template of all roles and their bindings."""
    made = (
        "Made from dds_adapters.kubernetes.rbac by `python -m tests.unit.deploy.generate`: change the table, not this."
    )
    head = f"{{{{- /* {made} */}}}}\n{{{{- if .Values.rbac.create }}}}\n"
    wheres: tuple[Where, ...] = ("cluster", "config", "lease")
    return head + "---\n".join(_guarded(where, _role(where)) for where in wheres) + "{{- end }}\n"


def _guarded(where: Where, text: str) -> str:
    powers = {rule.power for rule in rbac.rules(where=where)}
    if rbac.ALWAYS in powers:
        return text
    (power,) = powers
    return f"{{{{- if {_condition(power)} }}}}\n{text}{{{{- end }}}}\n"


def _role(where: Where) -> str:
    kind = "ClusterRole" if where == "cluster" else "Role"
    name = '{{ include "dds.clusterName" . }}' if where == "cluster" else f'{{{{ include "dds.name" . }}}}-{where}'
    place = f"  namespace: {{{{ {NAMESPACES[where]} }}}}\n" if where != "cluster" else ""
    meta = f'metadata:\n  name: {name}\n{place}  labels:\n    {{{{- include "dds.labels" . | nindent 4 }}}}\n'
    parts = "".join(_section(power, some) for power, some in rbac.sections(rbac.rules(where=where)))
    return (
        f"apiVersion: {rbac.RBAC}\nkind: {kind}\n{meta}rules:\n{parts}"
        f"---\napiVersion: {rbac.RBAC}\nkind: {kind}Binding\n{meta}"
        f"roleRef:\n  apiGroup: {rbac.RBAC.partition('/')[0]}\n  kind: {kind}\n  name: {name}\n"
        "subjects:\n  - kind: ServiceAccount\n"
        '    name: {{ include "dds.name" . }}\n    namespace: {{ .Release.Namespace }}\n'
    )


def _section(power: str, some: list[Rule]) -> str:
    features = ", ".join(dict.fromkeys(rule.feature for rule in some))
    text = f"  # {features}\n" + "".join(_policy_rule(one) for one in rbac.policy_rules(some))
    return text if power == rbac.ALWAYS else f"  {{{{- if {_condition(power)} }}}}\n{text}  {{{{- end }}}}\n"


def _condition(power: str) -> str:
    return CONDITIONS.get(power, f".Values.powers.{power}")


def _policy_rule(one: dict[str, Any]) -> str:
    def flow(texts: list[str]) -> str:
        return "[" + ", ".join(text or '""' for text in texts) + "]"

    lines = [f"  - apiGroups: {flow(one['apiGroups'])}", f"    resources: {flow(one['resources'])}"]
    if names := one.get("resourceNames"):
        lines.append(f"    resourceNames: {NAMES.get(names[0], flow(names))}")
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
    listed = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(made),
    }
    head = "# Made from the chart by `python -m tests.unit.deploy.generate`: change the chart, not this.\n"
    made["kustomization.yaml"] = yaml.safe_dump(listed, sort_keys=False)
    return {f"{KUSTOMIZE}/{folder}/{name}": head + text for name, text in made.items()}


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """Without what only means something to Helm."""
    metadata = dict(one["metadata"])
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in metadata.pop(part, {}).items() if key not in CHART_ONLY}
        metadata |= {part: kept} if kept else {}
    return one | {"metadata": metadata}


# -- the page's table ------------------------------------------------------------------------------------------------

_PART = re.compile(r"(<!-- generated: permissions -->\n).*?(<!-- end: permissions -->)", re.DOTALL)


def page(text: str) -> str:
    """The page with its table as the code has it. Raises LookupError when the place for it is missing."""
    if not _PART.search(text):
        raise LookupError(f"{PAGE} has no part 'permissions'")
    return _PART.sub(lambda found: found[1] + permissions() + "\n" + found[2], text)


def permissions() -> str:
    """Every rule with its call."""
    rows = (
        (
            rule.feature,
            f"`{rule.power}`" if rule.power else "-",
            f"`{rule.resource}`" + (f" ({rule.group})" if rule.group else ""),
            ", ".join(f"`{verb}`" for verb in rule.verbs),
            rule.call,
        )
        for _, some in rbac.sections(rbac.RULES)
        for rule in some
    )
    return table(("feature", "power", "resource", "verbs", "for"), rows)
