"""The examination: runs all checks one after the other. A failed check becomes a finding, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from dds_adapters.kubernetes.cluster import Asking, Refused
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.doctor import (
    api_server,
    autoscaling,
    configuration,
    fabric,
    fleet,
    guarding,
    operating,
    permissions,
    publishing,
    scheduling,
)
from dds_adapters.kubernetes.doctor.autoscaling import Machines
from dds_adapters.kubernetes.doctor.configuration import Journal
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.fabric import Manager
from dds_adapters.kubernetes.doctor.findings import Finding, Level, failed, sound, unknown
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.errors import DdsError
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State

_P = TypeVar("_P")
ANSWER, CLUSTER = "answer", "cluster"


class Check(NamedTuple):
    """A check: `topic` of its findings, what it `needs`, the function that makes the findings, each with its mend.

    `needs`: ANSWER: a kubeconfig. CLUSTER: a server that answers and knows the user. A component: that it is examined, too."""

    topic: str
    needs: str
    look: Callable[[ExaminationContext], Iterable[Finding]]


CHECKS: tuple[Check, ...] = (
    Check("server", ANSWER, api_server.reachable),
    Check("authentication", ANSWER, api_server.authentication),
    Check("release", CLUSTER, api_server.release),
    Check("kinds", CLUSTER, api_server.kinds),
    Check("clock", CLUSTER, api_server.clock),
    Check("binding conditions", CLUSTER, api_server.binding_conditions),
    Check("scheduler gates", CLUSTER, api_server.scheduler_gates),
    Check("config map", CLUSTER, configuration.config_map),
    Check("models", CLUSTER, configuration.models),
    Check("drivers", CLUSTER, configuration.drivers),
    Check("nodes", CLUSTER, fleet.nodes),
    Check("pools", CLUSTER, fleet.pools),
    Check("promises", CLUSTER, fleet.promises),
    Check("publishers", CLUSTER, fleet.publishers),
    Check("classes", CLUSTER, fleet.classes),
    Check("claims", CLUSTER, fleet.claims),
    Check("operator", SCALER.name, api_server.custom_kinds),
    Check("taint rules", SCALER.name, operating.taint_rules),
    Check("operator deployment", SCALER.name, operating.deployment),
    Check("operator rights", SCALER.name, operating.rights),
    Check("operator webhook", SCALER.name, operating.webhook),
    Check("operator looks", SCALER.name, operating.looks),
    Check("permissions", SCALER.name, permissions.permissions),
    Check("guard", SCALER.name, guarding.guarded),
    Check("holds", SCALER.name, guarding.holds),
    Check("scheduler", SCALER.name, scheduling.schedulers),
    Check("beside", SCALER.name, fleet.beside),
    Check("publisher rights", PUBLISHER.name, permissions.publisher_permissions),
    Check("device fields", PUBLISHER.name, publishing.kept_fields),
    Check("device info", PUBLISHER.name, publishing.device_info),
    Check("pool owners", PUBLISHER.name, publishing.owners),
    Check("autoscaler rights", AUTOSCALER.name, permissions.autoscaler_permissions),
    Check("server templates", AUTOSCALER.name, autoscaling.templates),
    Check("cluster autoscaler", AUTOSCALER.name, autoscaling.cluster_autoscaler),
)
"""Every check of the cluster, in the order of the output."""


class Server(Asking, Protocol):
    """An API server; `Cluster` is one. `where` is its address."""

    @property
    def where(self) -> str: ...


@dataclass(frozen=True)
class ExaminedPublisher:
    """The publisher's part of an examination. `policy` and `manager` are called once each, and may raise DdsError.

    `bare_metal_hosts`: BareMetalHosts say which machine a node is.
    """

    policy: Callable[[], PublishPolicy]
    manager: Callable[[], Manager]
    log: str = "cluster/publisher"
    bare_metal_hosts: bool = False


@dataclass(frozen=True)
class ExaminedAutoscaler:
    """The autoscaler's part of an examination. `policy` and `machines` (where servers come from) are called once each, and may
    raise DdsError."""

    policy: Callable[[], AutoscalePolicy]
    machines: Callable[[], Machines]
    log: str = "cluster/autoscaler"


@dataclass(frozen=True)
class Examined:
    """What to examine. `connect`, `policy` and `journal` are called once each; a DdsError of them becomes a finding.

    `policy` is the scaler's; `policy`, `publisher` and `autoscaler` are None if that component is not examined. `journal` is None
    if no log was named. `now` gives microseconds of this machine's clock.
    """

    connect: Callable[[], Server]
    policy: Callable[[], Policy] | None
    journal: Callable[[], Journal] | None
    now: Callable[[], int]
    log: str = "cluster/scaler"
    namespace: str = config.NAMESPACE
    publisher: ExaminedPublisher | None = None
    autoscaler: ExaminedAutoscaler | None = None


def examine(examined: Examined) -> Iterator[Finding]:
    """Every finding, as it is made: of the server, the fabric, the policies, then the logs."""
    given = examined.publisher
    # the settings first, as every check of the cluster is made under the policies that are in force
    rules, of_policy = _read("policy", examined.policy, Policy(), configuration.in_short)
    usual, policy_of = PublishPolicy(), given.policy if given is not None else None
    published, of_publishing = _read("publish policy", policy_of, usual, configuration.of_publisher)
    rack = examined.autoscaler
    autoscaled, of_autoscaling = _read(
        "autoscale policy", rack.policy if rack is not None else None, AutoscalePolicy(), configuration.of_autoscaler
    )
    known = autoscaled if sound(of_autoscaling) else None
    machines, of_machines = _read(
        "machines", rack.machines if rack is not None else None, None, partial(autoscaling.machines, known)
    )
    # then the cluster; where it cannot be reached, the rest is examined without it
    context: ExaminationContext | None = None
    try:
        found = examined.connect()
        context = ExaminationContext(
            found,
            found.where,
            examined.now,
            policy=rules if examined.policy is not None else None,
            namespace=examined.namespace,
            publishing=published if given is not None else None,
            bare_metal_hosts=given is not None and given.bare_metal_hosts,
            autoscaling=known if rack is not None else None,
            has_machines=machines is not None and machines.here,
        )
    except DdsError as problem:
        yield failed("server", problem, "error")
    reached = context is not None and (yield from _cluster(context, examined))
    # the fabric next, by what the cluster says of models and nodes; then the findings about the settings, and the logs
    if given is not None:
        yield from _fabric(given, context if reached else None, examined.now)
    yield from of_policy
    yield from of_publishing
    yield from of_autoscaling
    yield from of_machines
    modes = {
        "policy": rules.mode if sound(of_policy) else None,
        "publish policy": published.mode if sound(of_publishing) else None,
        "autoscale policy": autoscaled.mode if sound(of_autoscaling) else None,
    }
    yield from _records(examined, context if reached else None, rules, modes)


def _read(
    check: str, policy: Callable[[], _P] | None, usual: _P, in_short: Callable[[_P], Iterable[Finding]]
) -> tuple[_P, list[Finding]]:
    """A policy and its findings; `usual` in place of one that is invalid or not examined."""
    if policy is None:
        return usual, []
    try:
        rules = policy()
    except DdsError as problem:
        return usual, [failed(check, problem, "error", "correct the policy")]
    return rules, list(in_short(rules))


def _cluster(context: ExaminationContext, examined: Examined) -> Generator[Finding, None, bool]:
    """The checks of what is examined. False if the server does not answer or know the user: then it gets no further requests."""
    parts = {SCALER.name: examined.policy, PUBLISHER.name: examined.publisher, AUTOSCALER.name: examined.autoscaler}
    there = {CLUSTER, *(name for name, part in parts.items() if part is not None)}
    for topic, needs, look in CHECKS:
        if needs == ANSWER:
            first = list(alone(topic, partial(look, context), "error"))
            yield from first
            if not sound(first):
                yield unknown("cluster", "everything else in the cluster was not looked at")
                return False
        elif needs in there:
            yield from alone(topic, partial(look, context))
    return True


def _fabric(
    examined: ExaminedPublisher, context: ExaminationContext | None, now: Callable[[], int]
) -> Iterator[Finding]:
    try:
        manager = examined.manager()
    except DdsError as problem:
        yield failed("fabric", problem, "error")
        return
    yield from alone("fabric", partial(fabric.fabric, context, manager, now))


def _records(
    examined: Examined, context: ExaminationContext | None, rules: Policy, modes: Mapping[str, str | None]
) -> Iterator[Finding]:
    """The logs, in which modes their components run, and what the scaler has learned by its log. `modes`: by policy, None if it
    is not valid."""
    states: dict[str, Any] = {}
    logs = {
        "policy": examined.log if examined.policy is not None else None,
        "publish policy": examined.publisher.log if examined.publisher is not None else None,
        "autoscale policy": examined.autoscaler.log if examined.autoscaler is not None else None,
    }
    named = {check: name for check, name in logs.items() if name is not None}
    if examined.journal is None:
        yield unknown("log", "no log was named", "give --log URL")
    else:
        try:
            opened = examined.journal()
            for check, name in named.items():
                told = list(configuration.log(opened, name, _uid(context), examined.now()))
                yield from told
                if sound(told) and any(one.log == name for one in opened.heads()):
                    states[check] = opened.state(name)
        except DdsError as problem:
            yield failed("log", problem, "error")
    for check in named:
        mode = modes[check]
        if mode is not None:
            yield from configuration.in_force(check, mode, states.get(check))
    state: State | None = states.get("policy")
    if examined.policy is not None:
        yield from alone("binding timeout", partial(configuration.timeouts, rules, state))
        if context is not None:
            yield from alone("operator queue", partial(operating.queue, context, state))


def _uid(context: ExaminationContext | None) -> str | None:
    try:
        return context.cluster_uid() if context is not None else None
    except DdsError:
        return None


def alone(check: str, look: Callable[[], Iterable[Finding]], level: Level = "unknown") -> Iterator[Finding]:
    """The findings of a check. An error that stops it becomes a finding of this level."""
    try:
        yield from look()
    except Refused as refused:
        if refused.code == 403:
            yield unknown(check, f"{refused.where} may not be read by this user (403)", refused.fix)
        else:
            yield failed(check, refused, level)
    except DdsError as problem:
        yield failed(check, problem, level)
    except Exception as problem:  # an error of the program in one check must not hide the others' findings
        what = f"the check itself failed ({type(problem).__name__})"
        yield unknown(check, what, "report it with the release of the API server")
