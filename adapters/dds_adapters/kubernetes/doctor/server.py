"""The API server itself: whether it answers, to whom, which release it is, and how far its clock is from ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dds_adapters.kubernetes.cluster import Refused, path_of
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, note, ok, unknown, warning
from dds_adapters.kubernetes.doctor.patient import Patient, instant_of
from dds_adapters.kubernetes.watched import DRA, VERSIONS
from dds_core.timeline.clock import duration, rfc3339

OLDEST, NEWEST = 34, 36
"""Minor numbers of the releases that the scaler was tried with. 1.34 is the first that serves resource.k8s.io/v1 by default."""
GATED = 36
"""The minor number from which binding conditions are on by default and status writes of claims need more than patch (KEP-5007;
feature gate DRAResourceClaimGranularStatusAuthorization)."""

SKEW_WARNING, SKEW_ERROR = 2_000_000, 60_000_000
"""Microseconds. A scheduler writes allocation times in whole seconds; certificates and tokens fail when a minute is wrong."""
SECOND = 1_000_000


def reachable(patient: Patient) -> Iterator[Finding]:
    """Whether anything answers; every status is an answer. Raises Unreachable."""
    code = patient.ask("GET", "/version").code
    if code >= 500:
        yield error("server", f"{patient.where} answers {code}", "look at the API server's own health")
    else:
        yield ok("server", f"{patient.where} answers")


def authentication(patient: Patient) -> Iterator[Finding]:
    """Who we are to the server; 401 in one line."""
    check = "authentication"
    try:
        found = patient.review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", {})
    except Refused as refused:
        if refused.code == 401:
            mend = "renew the credentials of the kubeconfig, or of the pod's service account"
            yield error(check, "the server does not know these credentials (401)", mend)
        else:
            yield unknown(check, f"the server does not say who we are ({refused.code})")
        return
    name = foreign(str((found.get("userInfo") or {}).get("username", "")))
    if name in ("", "system:anonymous"):
        yield error(check, "we are anonymous", "give a kubeconfig with credentials")
    else:
        yield ok(check, f"as {name}")


def release(patient: Patient) -> Iterator[Finding]:
    """The release, and what it means."""
    check, minor, name = "release", patient.minor(), patient.release()
    if not minor:
        yield unknown(check, name)
    elif minor < OLDEST:
        what = f"{name} does not serve {DRA}/v1 by default"
        yield warning(check, what, f"use 1.{OLDEST} or newer; 1.{GATED} has binding conditions switched on")
    elif minor < GATED:
        what = f"{name}: binding conditions (DRADeviceBindingConditions) are alpha and off by default"
        yield note(check, what, f"switch the gate on in API server and scheduler, or use 1.{GATED}")
    elif minor > NEWEST:
        yield note(check, f"{name} is newer than 1.{NEWEST}, the newest that was tried")
    else:
        yield ok(
            check, f"{name}: binding conditions are beta and on by default; status writes of claims need more rights"
        )


def kinds(patient: Patient) -> Iterator[Finding]:
    """The built-in kinds that are followed, in a version that is understood."""
    wanted = [one for one in VERSIONS if VERSIONS[one][0].startswith(f"{DRA}/") and one != "devicetaintrules"]
    for resource in wanted:
        try:
            version = patient.version_of(resource)
        except Refused as refused:
            if refused.code != 404:
                raise
            mend = f"switch DynamicResourceAllocation on and serve {DRA}/v1"
            yield error("kinds", f"{resource} are not served in a version that is understood", mend)
        else:
            yield ok("kinds", f"{resource} are served as {version}")


def clock(patient: Patient) -> Iterator[Finding]:
    """Our clock against the server's, by a review: it is forgotten at once, but carries the second in which it was made."""
    check = "clock"
    before = patient.now()
    stamp = _stamp(patient)
    after = patient.now()
    if stamp is None:
        yield unknown(check, "the server did not show its clock", "compare both machines' clocks by hand")
        return
    skew = between(stamp, before, after)
    side = "behind" if skew > 0 else "ahead of"
    what = f"our clock is at least {duration(abs(skew))} {side} the server's ({rfc3339(stamp)})"
    mend = "keep both machines' clocks right with NTP or chrony"
    if abs(skew) > SKEW_ERROR:
        yield error(check, what, mend)
    elif abs(skew) > SKEW_WARNING:
        yield warning(check, what, mend)
    else:
        yield ok(check, "our clock and the server's agree, as far as its whole seconds tell")


def between(stamp: int, before: int, after: int) -> int:
    """The least that the server's clock is ahead of ours, in microseconds (negative: behind), given the whole second that it
    wrote between two readings of ours. 0 where they may agree."""
    if stamp > after:
        return stamp - after
    if stamp + SECOND <= before:
        return stamp + SECOND - before
    return 0


def _stamp(patient: Patient) -> int | None:
    """When the server was asked, by its own clock, as it says in managedFields; None where it does not."""
    path = path_of("selfsubjectaccessreviews", "authorization.k8s.io/v1")
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}},
    }
    found = patient.decoded(path, patient.accepted(path, patient.ask("POST", path, body=body)))
    fields: list[Any] = (found.get("metadata") or {}).get("managedFields") or []
    return next(
        (at for one in fields if isinstance(one, dict) and (at := instant_of(one.get("time"))) is not None), None
    )
