"""The examination: every check in turn, each by itself. One that fails says so, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from dds_adapters.kubernetes import config
from dds_adapters.kubernetes.cluster import Asking, Refused
from dds_adapters.kubernetes.doctor import (
    api,
    beside,
    configured,
    fleet,
    journal,
    operator,
    permissions,
    policy,
    server,
)
from dds_adapters.kubernetes.doctor.findings import Finding, Level, failed, sound, unknown
from dds_adapters.kubernetes.doctor.journal import Journal
from dds_adapters.kubernetes.doctor.patient import Patient
from dds_core.errors import DdsError
from dds_core.picture import Picture
from dds_core.policy import Policy

Check = Callable[[Patient], Iterable[Finding]]

FIRST_CHECKS: tuple[tuple[str, Check], ...] = (
    ("server", server.reachable),
    ("authentication", server.authentication),
)
"""Without these nothing else in the cluster is looked at."""

CLUSTER_CHECKS: tuple[tuple[str, Check], ...] = (
    ("release", server.release),
    ("kinds", server.kinds),
    ("clock", server.clock),
    ("binding conditions", api.binding_conditions),
    ("scheduler gates", api.scheduler_gates),
    ("taint rules", api.taint_rules),
    ("operator", operator.custom_kinds),
    ("permissions", permissions.permissions),
    ("config map", configured.config_map),
    ("models", configured.models),
    ("drivers", configured.drivers),
    ("nodes", fleet.nodes),
    ("pools", fleet.pools),
    ("publishers", fleet.publishers),
    ("beside", beside.beside),
)
"""What is looked at once the server answers and knows us, in the order in which it is told."""


class Server(Asking, Protocol):
    """An API server; `Cluster` is one. `where` is its address."""

    @property
    def where(self) -> str: ...


@dataclass(frozen=True)
class Examined:
    """What is examined. `connect`, `policy` and `journal` are called once each, and may raise DdsError: that is a finding.

    `journal` is None where no log was named. `now` gives microseconds of our clock.
    """

    connect: Callable[[], Server]
    policy: Callable[[], Policy]
    journal: Callable[[], Journal] | None
    now: Callable[[], int]
    log: str = "cluster/scaler"
    namespace: str = config.NAMESPACE


def examine(examined: Examined) -> Iterator[Finding]:
    """Every finding, as it is made: the server's first, then the policy's and the log's."""
    rules, of_policy = _policy(examined)
    patient: Patient | None = None
    try:
        found = examined.connect()
        patient = Patient(found, found.where, examined.now, policy=rules, namespace=examined.namespace)
    except DdsError as problem:
        yield failed("server", problem, "error")
    if patient is not None:
        yield from _cluster(patient)
    yield from of_policy
    yield from _records(examined, patient, rules)


def _policy(examined: Examined) -> tuple[Policy, list[Finding]]:
    """The policy, the usual one in place of one that is not valid."""
    try:
        rules = examined.policy()
    except DdsError as problem:
        return Policy(), [failed("policy", problem, "error", "correct the policy")]
    return rules, list(policy.in_short(rules))


def _cluster(patient: Patient) -> Iterator[Finding]:
    """Nothing else is asked of a server that does not answer, or not to us."""
    for check, look in FIRST_CHECKS:
        first = list(alone(check, partial(look, patient), "error"))
        yield from first
        if not sound(first):
            yield unknown("cluster", "everything else in the cluster was not looked at")
            return
    for check, look in CLUSTER_CHECKS:
        yield from alone(check, partial(look, patient))


def _records(examined: Examined, patient: Patient | None, rules: Policy) -> Iterator[Finding]:
    """The log, and what it has learned."""
    picture: Picture | None = None
    if examined.journal is None:
        yield unknown("log", "no log was named", "give --log URL")
    else:
        try:
            opened = examined.journal()
            told = list(journal.log(opened, examined.log, _uid(patient), examined.now()))
            yield from told
            if sound(told) and any(one.log == examined.log for one in opened.heads()):
                picture = opened.picture(examined.log)
        except DdsError as problem:
            yield failed("log", problem, "error")
    yield from alone("binding timeout", partial(policy.timeouts, rules, picture))


def _uid(patient: Patient | None) -> str | None:
    try:
        return patient.cluster_uid() if patient is not None else None
    except DdsError:
        return None


def alone(check: str, look: Callable[[], Iterable[Finding]], level: Level = "unknown") -> Iterator[Finding]:
    """The findings of a check up to its end or to what stopped it, which then is a finding itself, of this level."""
    try:
        yield from look()
    except Refused as refused:
        if refused.code == 403:
            yield unknown(check, f"{refused.where} may not be read by this user (403)", refused.fix)
        else:
            yield failed(check, refused, level)
    except DdsError as problem:
        yield failed(check, problem, level)
    except Exception as problem:  # a fault of ours in one check must not hide what the others find
        what = f"the check itself failed ({type(problem).__name__})"
        yield unknown(check, what, "report it with the release of the API server")
