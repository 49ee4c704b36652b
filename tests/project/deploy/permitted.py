"""A lab in which a ServiceAccount, the scaler's or the publisher's, has exactly its roles of kustomize, and everything that is
asked in its name is looked at: the permissions that were used, those that lacked, and what the admission policies say to each
write.

    uses = Uses()
    uses.follow(server)
    give_roles(admin)
    ...                     # anything that asks the server as `ACCOUNT`
    assert uses.lacked == [] and uses.denied == []
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.rbac import Rule
from dds_lab.api.access import Attributes
from dds_lab.api.requests import User
from dds_lab.api.server import ApiServer
from dds_lab.api.store import DELETED, Change
from dds_lab.client import Client
from dds_lab.driver import Direct
from tests.project.deploy.admission import ACCOUNT, Asked, denials

KUSTOMIZE = Path(__file__).parents[3] / "deploy" / "kustomize"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:composable-dra")
DRA = "resource.k8s.io"
OPERATOR = "cro.hpsys.ibm.ie.com"
JUDGED = {
    "pods": "",
    "nodes": "",
    "resourceclaims": DRA,
    "devicetaintrules": DRA,
    "resourceslices": DRA,
    "composableresources": OPERATOR,
    "composabilityrequests": OPERATOR,
}
"""What the admission policies look at, with the groups."""
MADE = ("ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
Use = tuple[str, str, str]
"""(group, resource with its part, verb)."""


SCALER = ("serviceaccount.yaml", "policy.yaml", "rbac.yaml")
PUBLISHER = ("publisher.yaml", "publisher-rbac.yaml")


def objects(*files: str, folder: str = "base") -> list[dict[str, Any]]:
    """The objects in files of the base, or of the component `publisher`."""
    texts = ((KUSTOMIZE / folder / file).read_text(encoding="utf-8") for file in files)
    return [one for text in texts for one in yaml.safe_load_all(text)]


def give_roles(admin: Client, without: Iterable[str] = (), *, publisher: bool = False) -> None:
    """Make the base's ServiceAccount, policy, roles and bindings, or the component's; `without` names resources whose rules are
    left out."""
    make(admin, objects(*PUBLISHER, folder="publisher") if publisher else objects(*SCALER), without)


def make(admin: Client, found: Iterable[dict[str, Any]], without: Iterable[str] = ()) -> None:
    """Make what of these objects gives an account its rights, with the namespaces that they are in."""
    for one in found:
        if one["kind"] not in MADE:
            continue
        if "rules" in one:
            one["rules"] = [rule for rule in one["rules"] if not set(rule.get("resources", ())) & set(without)]
        namespace = one["metadata"].get("namespace", "")
        if namespace and admin.find("namespaces", namespace) is None:
            admin.create("namespaces", {"metadata": {"name": namespace}})
        admin.create(f"{one['kind'].lower()}s", one, namespace)


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
        self._writing = ""

    def follow(self, server: ApiServer) -> None:
        """Hear of every permission that is asked for."""
        server.access.on_use = self._permission

    def judge(self, server: ApiServer, requests: Direct) -> None:
        """Hold every write of `requests` against the admission policies."""
        for resource, group in JUDGED.items():
            key = f"{resource}.{group}" if group else resource
            server.store.subscribe(key, partial(self._changed, resource))
        requests.before, requests.after = self._begun, self._ended

    def _permission(self, user: User, asked: Attributes, granted: bool) -> None:
        if user.name != self._account:
            return
        if granted:
            self.used.add((asked.group, asked.target, asked.verb))
        else:
            self.lacked.append(f"{asked.verb} {asked.target}")

    def _begun(self, method: str, path: str) -> None:
        _, api, *rest = path.split("/")
        place = rest[1 if api == "api" else 2 :]
        if place[0] == "namespaces" and len(place) > 2:
            place = place[2:]
        self._writing = "/".join([place[0], *place[2:3]]) if method != "GET" else ""

    def _ended(self, method: str, path: str) -> None:
        self._writing = ""

    def _changed(self, resource: str, change: Change) -> None:
        if self._writing.partition("/")[0] != resource:
            return  # somebody else's doing
        was = change.old.object if change.old is not None else None
        now = change.new.object if change.type != DELETED else None
        self.judged += 1
        found = denials(Asked(self._writing, now, was, JUDGED[resource], self._account))
        self.denied += [f"{self._writing} {change.path}: {message}" for message in found]
