"""Checks of schedulers: known faults of their release (taken from the API server, no API shows theirs), and names in use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from dds_adapters.kubernetes.cluster import Scope
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.doctor.api_server import taint_rule_version
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.findings import Finding, error, foreign, many, note, ok, unknown, warning
from dds_adapters.kubernetes.doctor.guarding import exchanges
from dds_core.scaler.model import KUBE_SCHEDULER, LOOKS_ANEW

_CHECK = "scheduler"
USUAL = KUBE_SCHEDULER[-1]
"""The default scheduler's name."""
EXCHANGES = LOOKS_ANEW[1]
"""The minor number from which a kube-scheduler looks at its claims again while a pod waits."""
_CRASH = (36, 3)
"""From 1.36.0 to before this: the slice tracker expects an older version of taint rules (kubernetes pull 139651)."""
_TWICE = {34: 4, 35: 1}
"""By minor number the first patch that allocates no device to two claims; 1.36.0 has it too (kubernetes pull 136269)."""
_VERSION = re.compile(r"v1\.(\d+)\.(\d+)")


def schedulers(context: ExaminationContext) -> Iterator[Finding]:
    """Warnings for the release, then the schedulers in use besides kube-scheduler."""
    release = context.release()
    told = _VERSION.match(release)
    if told is None:
        yield unknown(_CHECK, f"{release}: what a scheduler of it does is not known")
    else:
        minor, patch = int(told[1]), int(told[2])
        yield from _exchange(context, release, minor)
        if ends_at_a_rule(release):
            yield from _crash(context, release)
        if patch < _TWICE.get(minor, 0):
            mended = f"1.{minor}.{_TWICE[minor]}"
            what = f"{release}: a kube-scheduler before {mended} may give one device to two claims (kubernetes pull 136269)"
            yield warning(_CHECK, what, f"use {mended} or newer")
    yield from _others(context)


def ends_at_a_rule(release: str) -> bool:
    """Whether a kube-scheduler of this release with DRADeviceTaintRules exits when a slice changes while there is a rule."""
    told = _VERSION.match(release)
    return told is not None and int(told[1]) == _CRASH[0] and int(told[2]) < _CRASH[1]


def _exchange(context: ExaminationContext, release: str, minor: int) -> Iterator[Finding]:
    if minor >= EXCHANGES:
        yield ok(
            _CHECK, f"{release}: a kube-scheduler of it looks at its claims anew before it binds, as an exchange needs"
        )
    elif exchanges(context):
        what = (
            f"{release}: before 1.{EXCHANGES} no claim is exchanged, and one that several pods could use is not cleared"
        )
        yield note(
            _CHECK, what, f"use 1.{EXCHANGES} or newer; until then the scheduler is told, and schedules once more"
        )


def _crash(context: ExaminationContext, release: str) -> Iterator[Finding]:
    """A DeviceTaintRule of any client triggers it. No API shows whether the scheduler's feature gate is on."""
    if not taint_rule_version(context):
        return
    number = sum(1 for _ in context.everything("devicetaintrules"))
    what = (
        f"{release}: a kube-scheduler of 1.36.0 to 1.36.2 with DRADeviceTaintRules exits when a slice changes while there is a "
        f"DeviceTaintRule (kubernetes pull 139651); there {'is' if number == 1 else 'are'} {number or 'none'}"
    )
    mend = "use 1.36.3 or newer, or switch DRADeviceTaintRules off in the scheduler"
    yield error(_CHECK, what, f"delete them; {mend}") if number else warning(_CHECK, what, mend)


def _others(context: ExaminationContext) -> Iterator[Finding]:
    """Names of schedulers of pods with claims, and how dds hands over their claims."""
    number: Counter[str] = Counter()
    for raw in context.objects("pods", Scope(fields=f"spec.schedulerName!={USUAL}")):
        with suppress(Fault):
            pod = decoding.pod(raw)
            number[pod.scheduler] += bool(pod.claims or pod.extended_claim)
    for name, pods in sorted((+number).items()):
        used = f"scheduler {foreign(name)} is used by {many(pods, 'pod')} with claims"
        if context.policy.hand_over_of(name) == "exchange":
            what = f"{used}, which are exchanged: that is sound only if it looks at its claims anew before it binds"
            yield note(_CHECK, what)
        elif exchanges(context):
            what = f"{used}, which are handed over by clear, as the policy does not say exchange for it"
            mend = f"set hand_over: exchange below schedulers.{foreign(name)}, if it looks at its claims anew before it binds"
            yield note(_CHECK, what, mend)
