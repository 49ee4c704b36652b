"""Checks of the guard: whether it is installed as shipped and exempts dds, and which devices it guards; and of holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dds_adapters.kubernetes import guard, rbac
from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.doctor.context import ExaminationContext, instant_of
from dds_adapters.kubernetes.doctor.findings import Finding, foreign, many, note, ok, several, warning
from dds_adapters.kubernetes.watch.watch_spec import DRA
from dds_core.kit.policy import MICROSECONDS, lower
from dds_core.timeline.instants import rfc3339

_CHECK, _HOLDS = "guard", "holds"
_INSTALL = "install it with the chart (guard.enabled) or the kustomize base of this version"
_POLICIES = "validatingadmissionpolicies"
_STRAY = 60 * MICROSECONDS
"""A hold that is this old belongs to a device that is marked for its detach."""

Say = Callable[[str, str, str], Finding]


def exchanges(context: ExaminationContext) -> bool:
    """Whether dds uses exchanges under this policy."""
    return context.policy.mode != "observe" and rbac.exchanges(context.policy)


def guarded(context: ExaminationContext) -> Iterator[Finding]:
    """Each part of the guard. Without it, claims are handed over by `clear`, and devices detached without a hold or not at
    all."""
    say: Say = warning if exchanges(context) or detaches(context) else note
    policy = _found(context, path_of(_POLICIES, guard.ADMISSION, name=guard.NAME))
    if policy is None:
        without = "no device goes back" if context.policy.detach_without_fence == "never" else "devices go back unheld"
        what = f"there is no policy {guard.NAME}: claims are handed over by clear, none by exchange, and {without}"
        yield say(_CHECK, what, _INSTALL)
        return
    yield from _policy(context, policy, say)
    bound = _found(context, path_of("validatingadmissionpolicybindings", guard.ADMISSION, name=guard.NAME))
    if bound is None:
        yield say(_CHECK, f"there is no binding {guard.NAME}: the policy keeps nobody away", _INSTALL)
        return
    namespace = _namespace(context, policy)
    yield _same("binding", guard.NAME, guard.binding(namespace), bound, say)
    yield from _config_map(context, namespace, say)
    yield from _probe(context, namespace, say)


def holds(context: ExaminationContext) -> Iterator[Finding]:
    """Claims of dds that hold devices before a detach, and those that hold a device that is not about to be detached."""
    held = [claim for claim in context.claims() if claim.hold]
    going = {one.uid for one in context.resources() if one.marked or one.leaving}
    strays = [one for one in held if one.hold not in going and one.created < context.now() - _STRAY]
    if len(held) > len(strays):
        number = len(held) - len(strays)
        yield ok(_HOLDS, f"{many(number, 'device')} about to go {'is' if number == 1 else 'are'} held")
    for claim in strays:
        name = f"{claim.namespace}/{claim.name}"
        mend = f"where dds runs, it ends it; else: kubectl -n {claim.namespace} delete resourceclaim {claim.name}"
        yield warning(_HOLDS, f"claim {name} holds a device that is not about to go: no pod gets it", mend)


def detaches(context: ExaminationContext) -> bool:
    """Whether dds detaches devices at all."""
    return lower(context.policy.mode, context.config_or_usual().mode) == "detach"


def _found(context: ExaminationContext, path: str) -> Any:
    """An object, None if there is none. Raises as `get`."""
    try:
        return context.decoded(path, context.get(path))
    except Refused as refused:
        if refused.code != 404:
            raise
        return None


def _policy(context: ExaminationContext, found: Any, say: Say) -> Iterator[Finding]:
    exempt, me = _exempt(found), context.user()
    yield _same("policy", guard.NAME, guard.policy(exempt), found, say)
    if exempt and exempt != me:
        what = (
            f"policy {guard.NAME} lets {foreign(exempt)} pass, and we are {foreign(me)}: no device would be exchanged"
        )
        yield say(
            _CHECK, what, "ask as dds's own account; if you did, install the guard of its own release and namespace"
        )


def _namespace(context: ExaminationContext, policy: Any) -> str:
    """The namespace of the account that the policy exempts; the guard's ConfigMap is there."""
    return guard.namespace_of(_exempt(policy)) or context.namespace


def _exempt(policy: Any) -> str:
    return guard.exempt(str(one.get("expression")) for one in (policy.get("spec") or {}).get("matchConditions") or ())


def _same(kind: str, name: str, shipped: Any, found: Any, say: Say) -> Finding:
    places = list(differences(shipped["spec"], found.get("spec") or {}))
    if not places:
        return ok(_CHECK, f"{kind} {name} is as it is shipped")
    what = f"{kind} {name} is of another version, or was edited: it differs in {several(places)}"
    return say(_CHECK, what, _INSTALL)


def differences(shipped: Any, found: Any, place: str = "spec") -> Iterator[str]:
    """The places where the two differ. Empty values count as absent."""
    if isinstance(shipped, dict) and isinstance(found, dict):
        for key in sorted(shipped.keys() | found.keys()):
            yield from differences(shipped.get(key), found.get(key), f"{place}.{key}")
    elif isinstance(shipped, list) and isinstance(found, list) and len(shipped) == len(found):
        for number, pair in enumerate(zip(shipped, found, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif (shipped or None) != (found or None):
        yield place


def _config_map(context: ExaminationContext, namespace: str, say: Say) -> Iterator[Finding]:
    name = f"{namespace}/{guard.CONFIG_MAP}"
    found = _found(context, path_of("configmaps", "v1", namespace, guard.CONFIG_MAP))
    if found is None:
        yield say(_CHECK, f"there is no ConfigMap {name}: nothing can be guarded", _INSTALL)
        return
    if found.get("immutable"):
        yield say(_CHECK, f"ConfigMap {name} is immutable: nothing can be guarded", "delete it and " + _INSTALL)
    until = {str(key): instant_of(value) for key, value in (found.get("data") or {}).items()}
    wrong = [foreign(key) for key, at in until.items() if at is None]
    past = [foreign(key) for key, at in until.items() if at is not None and at < context.now()]
    if wrong:
        what = f"{name} has what is no instant for {several(wrong)}: it keeps nobody away"
        yield say(_CHECK, what, "remove these keys; dds alone writes there")
    if past:
        first = min(at for at in until.values() if at is not None)
        what = f"{name} still has {many(len(past), 'guard')} that ended, the first {rfc3339(first)}: {several(past)}"
        yield note(_CHECK, what, "dds takes them off where it runs; where it does not, remove these keys")
    yield ok(_CHECK, f"{name}: {many(len(until) - len(wrong) - len(past), 'guard')} in force")


def _probe(context: ExaminationContext, namespace: str, say: Say) -> Iterator[Finding]:
    name = f"{namespace}/{guard.PROBE}"
    found = _found(context, path_of("resourceclaims", f"{DRA}/v1", namespace, guard.PROBE))
    if found is None:
        yield say(_CHECK, f"there is no claim {name}: nobody can see whether a guard is in force", _INSTALL)
        return
    yield _same("claim", name, guard.probe(namespace), found, say)
    if (found.get("status") or {}).get("allocation") is not None:
        what = f"claim {name} is allocated, so that no guard can be tried on it"
        yield say(_CHECK, what, "see which pod refers to it; delete the claim and " + _INSTALL)
