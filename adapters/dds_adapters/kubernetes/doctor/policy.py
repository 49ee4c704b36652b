"""The policy, and its times against what the log has learned of schedulers and fabric."""

from __future__ import annotations

from collections.abc import Iterator

from dds_adapters.kubernetes.doctor.findings import Finding, note, ok, warning
from dds_core.picture import Picture
from dds_core.policy import MICROSECONDS, Policy
from dds_core.publishing.policy import PublishPolicy
from dds_core.rows import Timeout

_CHECK = "binding timeout"
_MEASURED = 5
"""Attaches after which the engine itself relies on the measured pace."""


def in_short(policy: Policy) -> Iterator[Finding]:
    """What kind of policy it is."""
    wait = (
        f"idle devices go back after {policy.no_removal_seconds} s"
        if policy.mode == "detach"
        else "no device goes back"
    )
    yield ok("policy", f"valid: mode {policy.mode}, hand-over {policy.hand_over}, {wait}")
    if policy.mode == "observe":
        yield note(
            "policy", "in mode observe nothing is written to the cluster", "set mode to attach once you trust it"
        )


def of_publisher(policy: PublishPolicy) -> Iterator[Finding]:
    """What kind of policy the publisher has."""
    check = "publish policy"
    labels = "labels nodes" if policy.label_nodes else "leaves the labels of nodes alone"
    yield ok(check, f"valid: mode {policy.mode}, adopts {policy.adopt}, {labels}")
    if policy.mode == "observe":
        yield note(check, "in mode observe nothing is published", "set mode to publish once you trust it")


def timeouts(policy: Policy, picture: Picture | None) -> Iterator[Finding]:
    """For each scheduler the binding timeout, which no API tells, what is left of it for an attach, and what was observed."""
    seen = dict(picture.timeouts.rows) if picture is not None else {}
    for scheduler in sorted({"", *policy.schedulers, *seen}):
        yield from _of_scheduler(policy, scheduler, seen.get(scheduler))
    if picture is not None:
        yield from _pace(policy, picture)


def _of_scheduler(policy: Policy, scheduler: str, seen: Timeout | None) -> Iterator[Finding]:
    said = policy.scheduler_of(scheduler).binding_timeout_seconds
    learned = seen.learned if seen is not None and seen.learned else None
    budget = policy.attach_budget(scheduler, learned) // MICROSECONDS
    name = f"scheduler {scheduler}" if scheduler else "any scheduler not named in the policy"
    if learned is not None and learned < said * MICROSECONDS:
        found = learned // MICROSECONDS
        what = f"{name} gave up after {found} s twice, the policy says {said} s: {budget} s are left for an attach"
        yield warning(
            _CHECK, what, f"set binding_timeout_seconds of it to {found}, or raise bindingTimeout in the scheduler"
        )
        return
    if seen is not None and not seen.learned and 0 < seen.last < said * MICROSECONDS * 95 // 100:
        what = f"{name} gave up once after {seen.last // MICROSECONDS} s, the policy says {said} s"
        yield note(_CHECK, what, "compare with bindingTimeout in the scheduler's configuration")
        return
    margin = policy.hand_over_margin_seconds
    if margin > said // 4:
        what = f"{name}: a margin of {margin} s for the hand-over is cut to {said // 4} s, a quarter of {said} s"
        yield note(_CHECK, what, "raise bindingTimeout in the scheduler and in the policy")
    yield ok(_CHECK, f"{name}: {budget} s for an attach of {said} s as the policy says (no API tells the scheduler's)")


def _pace(policy: Policy, picture: Picture) -> Iterator[Finding]:
    rate = picture.rates.get("")
    if rate is None or rate.count < _MEASURED:
        return
    learned = [one.learned for one in picture.timeouts.rows.values() if one.learned]
    budget = policy.attach_budget("", min(learned, default=None)) / MICROSECONDS
    what = f"an attach takes {rate.service:.1f} s of the fabric, {budget:.0f} s are left for one"
    if rate.service > budget:
        yield warning(_CHECK, f"{what}: claims will fail", "raise bindingTimeout in the scheduler and in the policy")
    else:
        yield ok(_CHECK, what)
