"""A lab in which a ServiceAccount of one of our components has exactly its roles and admission policies of kustomize.
Everything that is asked in its name is looked at: the permissions that were used, those that lacked, and what the policies say to
each write.

    uses = Uses()
    uses.follow(server)
    give_roles(admin)
    ...                     # anything that asks the server as `ACCOUNT`
    assert uses.lacked == [] and uses.denied == []
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from dds_adapters.kubernetes import guard, rbac
from dds_adapters.kubernetes.rbac import Rule
from dds_lab.api.access import Attributes
from dds_lab.api.requests import Call, User
from dds_lab.api.server import ApiServer
from dds_lab.api.verdicts import Denied
from dds_lab.client import Client
from tests.project.deploy.admission import ACCOUNT

KUSTOMIZE = Path(__file__).parents[3] / "deploy" / "kustomize"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:composable-dra")
MADE = {
    "ServiceAccount": "serviceaccounts",
    "ConfigMap": "configmaps",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ResourceClaim": "resourceclaims",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
Use = tuple[str, str, str]
"""(group, resource with its part, verb)."""


SCALER = ("scaler.yaml", "policy.yaml", "rbac.yaml", "admission.yaml", "guard.yaml")


def objects(*files: str, folder: str = "base") -> list[dict[str, Any]]:
    """The objects in files of the base, or in another folder."""
    texts = ((KUSTOMIZE / folder / file).read_text(encoding="utf-8") for file in files)
    return [one for text in texts for one in yaml.safe_load_all(text)]


def objects_of(component: str = "") -> list[dict[str, Any]]:
    """Those of the base, or of a kustomize component, that an account's rights depend on."""
    own = (f"{component}{part}.yaml" for part in ("", "-rbac", "-admission"))
    return objects(*own, folder=component) if component else objects(*SCALER)


def give_roles(admin: Client, without: Iterable[str] = (), *, component: str = "") -> None:
    """Make the base's ServiceAccount, policy, roles, guard and admission policies with their bindings, or those of a
    kustomize component; `without` names resources whose rules are left out."""
    make(admin, objects_of(component), without)


def make(admin: Client, found: Iterable[dict[str, Any]], without: Iterable[str] = ()) -> None:
    """Make what of these objects gives an account its rights and their bounds, with the namespaces that they are in; what
    has the same name is replaced."""
    for one in found:
        if one["kind"] not in MADE:
            continue
        if "rules" in one:
            one["rules"] = [rule for rule in one["rules"] if not set(rule.get("resources", ())) & set(without)]
        namespace = one["metadata"].get("namespace", "")
        if namespace and admin.find("namespaces", namespace) is None:
            admin.create("namespaces", {"metadata": {"name": namespace}})
        resource, name = MADE[one["kind"]], one["metadata"]["name"]
        if admin.find(resource, name, namespace) is not None:
            admin.delete(resource, name, namespace)
        admin.create(resource, one, namespace)


def needed(rules: Iterable[Rule] = rbac.RULES) -> set[Use]:
    """Every permission that the roles give."""
    return {(rule.group, rule.resource, verb) for rule in rules for verb in rule.verbs}


class Uses:
    """What was asked in an account's name: `used` permissions, those that `lacked`, writes that the policies `denied` and how
    many they `judged`."""

    def __init__(self, account: str = ACCOUNT) -> None:
        self._account = account
        self.used: set[Use] = set()
        self.lacked: list[str] = []
        self.denied: list[str] = []
        self.judged = 0

    def follow(self, server: ApiServer) -> None:
        """Hear of every permission that is asked for, and of every write that a policy looks at."""
        server.access.on_use = self._permission
        server.policies.on_verdict = self._verdict

    def _permission(self, user: User, asked: Attributes, granted: bool) -> None:
        if user.name != self._account:
            return
        if granted:
            self.used.add((asked.group, asked.target, asked.verb))
        else:
            self.lacked.append(f"{asked.verb} {asked.target}")

    def _verdict(self, call: Call, policy: str, found: list[Denied]) -> None:
        if policy == guard.NAME:
            return  # it holds everybody else
        self.judged += 1
        self.denied += [f"{call.resource.plural} {call.path}: {each.message}" for each in found]
