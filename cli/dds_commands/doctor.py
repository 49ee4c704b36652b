"""`dds doctor`: what stands in the way of scaler and publisher, each finding with its mend. Nothing is changed, in the
cluster, in the fabric or in a log."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from textwrap import wrap
from typing import Any, Literal

import click

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.config import NAMESPACE
from dds_adapters.kubernetes.doctor import LEVELS, Examined, Finding, Publisher, examine, sound
from dds_adapters.sql import Database
from dds_adapters.sql.urls import as_url
from dds_commands.doctor_fabric import FabricManager, is_named
from dds_commands.fabric_settings import FABRIC, MACHINE_IDS, bare_metal_hosts, fabric_of
from dds_commands.parameters import without_password
from dds_commands.places import default_path
from dds_commands.running import FINE, INPUT
from dds_commands.screen import show, show_json, style, width
from dds_commands.serve_log import COMPONENT
from dds_commands.serve_policy import policy_source, publish_policy_source
from dds_commands.settings import FLAG, setting, settings
from dds_commands.sources import Log
from dds_core.log import Head
from dds_core.picture import Picture
from dds_core.policy import MODES, Mode
from dds_core.publishing.component import PUBLISHER
from dds_core.publishing.policy import PUBLISH_MODES, PublishMode

Component = Literal["scaler", "publisher", "both"]
COMPONENTS: tuple[Component, ...] = ("scaler", "publisher", "both")
_ROLES = {"ok": "good", "note": "plain", "warning": "act", "error": "bad", "unknown": "fact"}


@click.command("doctor", short_help="Examine cluster, fabric, configuration, permissions, policies and logs.")
@setting("--kubeconfig", "By default as dds serve.", metavar="FILE")
@setting("--context", "A context of the kubeconfig; by default its current one.", metavar="NAME")
@setting("--namespace", "Namespace of the ConfigMap.", metavar="NAMESPACE", default=NAMESPACE, show_default=True)
@setting("--policy", "The policy of dds serve.", metavar="FILE")
@setting("--mode", "The mode of dds serve, where it outweighs the policy's.", type=click.Choice(MODES))
@setting("--log", "The log of dds serve: a database URL or the path of a SQLite file.", metavar="URL")
@setting(
    "--cluster-name",
    f"What the cluster is called here; its log is named NAME/{COMPONENT}.",
    metavar="NAME",
    default="cluster",
    show_default=True,
)
@setting(
    "--component",
    "Whose work is looked at; by default the scaler's, and the publisher's too where a fabric is given.",
    type=click.Choice(COMPONENTS),
)
@setting("--publish-policy", "The policy of dds publish.", metavar="FILE")
@setting(
    "--publish-mode", "The mode of dds publish, where it outweighs the policy's.", type=click.Choice(PUBLISH_MODES)
)
@settings((*FABRIC, MACHINE_IDS))
@click.option("--json", "as_json", is_flag=True, help="Every finding as JSON.")
def doctor(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    policy: str | None,
    mode: Mode | None,
    log: str | None,
    cluster_name: str,
    component: Component | None,
    publish_policy: str | None,
    publish_mode: PublishMode | None,
    as_json: bool,
    **fabric: Any,
) -> int:
    """Examine what dds serve and dds publish would work with: the API server and what it keeps, every permission, the ConfigMap,
    models, pools and nodes, the fabric's manager, the policies, the logs and the clocks. Give it the same settings, and the same
    user's kubeconfig.

    It only reads; what else it sends are reviews and dry runs, of which nothing stays, and a login to the fabric's manager. It
    ends with 1 when there is an error: something without which a part of the work cannot be done.
    """
    wanted = component or ("both" if is_named(fabric, os.environ) else "scaler")
    with ExitStack() as stack:
        publisher = Publisher(
            policy=publish_policy_source(publish_policy, publish_mode, FLAG),
            manager=lambda: FabricManager(fabric_of(fabric, os.environ), stack),
            log=f"{cluster_name}/{PUBLISHER.name}",
            bare_metal_hosts=bare_metal_hosts(fabric),
        )
        examined = Examined(
            connect=lambda: _closed_with(stack, Cluster(kubeconfig, context)),
            policy=None if wanted == "publisher" else policy_source(policy, mode, FLAG, os.environ),
            journal=partial(_Database, log or default_path(), stack),
            now=lambda: time.time_ns() // 1000,
            log=f"{cluster_name}/{COMPONENT}",
            namespace=namespace,
            publisher=None if wanted == "scaler" else publisher,
        )
        found = list(examine(examined))
    if as_json:
        show_json([asdict(one) for one in found])
    else:
        _show(found)
    return FINE if sound(found) else INPUT


def _closed_with(stack: ExitStack, cluster: Cluster) -> Cluster:
    stack.callback(cluster.close)
    return cluster


class _Database:
    """The database of the log, open until the stack ends. Raises as `Database`."""

    def __init__(self, named: str, stack: ExitStack) -> None:
        self.where = without_password(named)
        self._database = stack.enter_context(Database(as_url(named)))

    def heads(self) -> list[Head]:
        return self._database.heads()

    def picture(self, name: str) -> Picture:
        picture: Picture = Log(self._database.log(name), self.where).picture(None, None)
        return picture


def _show(found: list[Finding]) -> None:
    """Each finding beside its check, its mend below it; then how many there are of each level."""
    dress = style()
    levels, checks = max(map(len, LEVELS)), max(len(one.check) for one in found)
    column = levels + checks + 4
    for one in found:
        lines = [*_wrapped(one.what, column), *(_wrapped(f"→ {one.mend}", column) if one.mend else ())]
        show(f"{dress(one.level.ljust(levels), _ROLES[one.level])}  {one.check.ljust(checks)}  {lines[0]}")
        for line in lines[1:]:
            show(" " * column + line)
    counts = Counter(one.level for one in found)
    show(", ".join(f"{counts[level]} {level}" for level in LEVELS if counts[level]))


def _wrapped(text: str, column: int) -> list[str]:
    return wrap(text, max(width() - column, 40), break_long_words=False, break_on_hyphens=False)
