"""Checks of what people configured: the ConfigMap, compared with the cluster's pools and drivers; the policies, compared with
what the log has learned of schedulers and fabric; and the log: usable, of this cluster, and short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from dds_adapters.kubernetes.cluster import Refused, Unreachable
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.doctor.api_server import pool_slices
from dds_adapters.kubernetes.doctor.context import ExaminationContext, Unreadable
from dds_adapters.kubernetes.doctor.findings import Finding, error, note, ok, several, unknown, warning
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.kit.policy import MICROSECONDS
from dds_core.log import Head
from dds_core.model import Config, Slice
from dds_core.publisher.policy import PublishPolicy
from dds_core.scaler.model import Timeout, model_of_pool
from dds_core.scaler.policy import HAND_OVER_MARGIN, Policy
from dds_core.scaler.state import State
from dds_core.timeline.instants import duration, rfc3339

_CONFIG_MAP = "config map"
_POOL = re.compile(r".+-fabric\d+")
"""Names of pools of the fabric's publisher: <k8s-device-name>-fabric<id>."""


def config_map(context: ExaminationContext) -> Iterator[Finding]:
    """Whether it exists, and each part of it."""
    name = f"{context.namespace}/{config.NAME}"
    try:
        found, faults = context.configuration()
    except Refused as refused:
        if refused.code != 404:
            raise
        mend = "create it with device-info, label-prefix and fabric-id-range, or give its namespace with --namespace"
        yield error(_CONFIG_MAP, f"there is no ConfigMap {name}: no model is known, nothing is ours", mend)
        return
    except Fault as whole:
        yield error(_CONFIG_MAP, f"{name}, {whole.field}: {whole.reason}", "correct the ConfigMap")
        return
    for fault in faults:
        yield _of_fault(name, fault)
    yield from _of_content(name, found)


def _of_fault(name: str, fault: Fault) -> Finding:
    """A bad entry leaves its model as before; a part that is bad as a whole stays as before; the rest takes effect."""
    what, mend = f"{name}, {fault.field}: {fault.reason}", f"correct {fault.field} there"
    if fault.field.startswith(f"{config.DEVICE_INFO}["):
        return warning(_CONFIG_MAP, f"{what} (the model stays as it was, if it was in force)", mend)
    if fault.field == "data.mode":
        return warning(_CONFIG_MAP, what, mend)
    return error(_CONFIG_MAP, what, mend)


def _of_content(name: str, found: Config) -> Iterator[Finding]:
    if not found.models:
        yield error(
            _CONFIG_MAP, f"{name} names no model that can be used: nothing is ours", f"correct {config.DEVICE_INFO}"
        )
    else:
        models = several(model.model for model in found.models)
        yield ok(_CONFIG_MAP, f"{name}: models {models}; label prefix {found.prefix}")
    if found.mode:
        what = f"{name} says mode {found.mode}: no higher mode is in force, whatever the policy says"
        yield note(_CONFIG_MAP, what, "remove mode there once the brake is not needed any more")


def models(context: ExaminationContext) -> Iterator[Finding]:
    """Models without a pool, and pools without a model."""
    check, found = "models", context.config_or_usual()
    pools = {one.pool: model for one in pool_slices(context) if (model := model_of_pool(found, one.driver, one.pool))}
    for model in found.models:
        if model.type == "cxlmemory":
            what = f"{model.model}: the composable resource operator waits for an NVIDIA driver and a UUID whatever the type is, "
            what += f"and without them leaves a device of {config.REQUEST_TYPE} {model.type} in Attaching"
            yield warning(
                check, what, "see status.error of its ComposableResources, and whether your operator serves the type"
            )
        mine = sorted(pool for pool, owner in pools.items() if owner is model)
        if mine:
            yield ok(check, f"{model.model}: published in {several(mine)}")
        else:
            what = f"{model.model}: no pool {model.device}-fabric<id> of driver {model.driver} is published"
            yield warning(check, what, "see whether the publisher runs and the fabric has free devices of the model")
    whole = _is_whole(context)
    for pool in sorted({one.pool for one in context.slices() if _orphan(one, found)}):
        if whole:
            what = f"pool {pool} belongs to no model of the ConfigMap: nobody attaches its devices"
            mend = f"add the model to {config.DEVICE_INFO}, with the pool's driver, or withdraw the pool"
        else:
            what = f"pool {pool} belongs to no model of the ConfigMap that can be read"
            mend = f"correct {config.DEVICE_INFO} first; its model may be in force still"
        yield warning(check, what, mend)


def _is_whole(context: ExaminationContext) -> bool:
    """Whether every entry of device-info is readable."""
    try:
        return not any(fault.field.startswith(config.DEVICE_INFO) for fault in context.configuration()[1])
    except Fault:
        return False
    except (Refused, Unreadable, Unreachable):
        return True


def _orphan(one: Slice, found: Config) -> bool:
    ours = bool(_POOL.fullmatch(one.pool)) or any(device.binding for device in one.devices.values())
    return not one.node and ours and model_of_pool(found, one.driver, one.pool) is None


def drivers(context: ExaminationContext) -> Iterator[Finding]:
    """Whether each driver publishes devices of nodes: only there dds sees an attached device."""
    for driver in sorted({model.driver for model in context.config_or_usual().models}):
        nodes = {one.node for one in context.slices() if one.driver == driver and one.node}
        if nodes:
            yield ok("drivers", f"{driver} publishes devices of {len(nodes)} nodes")
        else:
            what = f"{driver} publishes slices of no node: an attached device would never be seen"
            yield warning("drivers", what, "see whether the vendor's driver runs on the nodes of the fabric")


# -- policies ----------------------------------------------------------------------------------------------------------

_TIMEOUT = "binding timeout"
_MEASURED = 5
"""Attaches after which the engine itself uses the measured duration."""


def in_short(policy: Policy) -> Iterator[Finding]:
    """The scaler's policy in short."""
    wait = (
        f"idle devices go back after {policy.longest_idle // MICROSECONDS} s{' at most' if policy.learns_idle else ''}"
        if policy.mode == "detach"
        else "no device goes back"
    )
    yield ok("policy", f"valid: mode {policy.mode}, hand-over {policy.hand_over}, {wait}")


def of_publisher(policy: PublishPolicy) -> Iterator[Finding]:
    """The publisher's policy in short."""
    labels = "labels nodes" if policy.label_nodes else "leaves the labels of nodes alone"
    yield ok("publish policy", f"valid: mode {policy.mode}, adopts {policy.adopt}, {labels}")


def of_autoscaler(policy: AutoscalePolicy) -> Iterator[Finding]:
    """The autoscaler's policy in short."""
    groups = several(one.name for one in policy.groups) or "none"
    yield ok("autoscale policy", f"valid: mode {policy.mode}, groups {groups}")


_OBSERVES = {
    "policy": ("nothing is written to the cluster", "attach"),
    "publish policy": ("nothing is published", "publish"),
    "autoscale policy": ("no group is shown", "autoscale"),
}
"""What does not happen in mode observe, and the next mode."""


def in_force(check: str, given: str, state: Any) -> Iterator[Finding]:
    """The mode in which a component runs: that of its log's newest state, or the one that is `given` here if it never ran."""
    ran = state is not None and state.process.epoch > 0
    if ran and state.policy.mode != given:
        what = f"it runs in mode {state.policy.mode}, as its log says; what the doctor was given says {given}"
        yield note(check, what, "give dds doctor the policy and mode of the component, or restart that with these")
    if (state.mode if ran else given) == "observe":
        nothing, then = _OBSERVES[check]
        yield note(check, f"in mode observe {nothing}", f"set mode to {then} once you trust it")


def timeouts(policy: Policy, state: State | None) -> Iterator[Finding]:
    """For each scheduler the binding timeout (which no API shows), what it leaves for an attach, and what was observed."""
    seen = dict(state.lifecycle.timeouts.rows) if state is not None else {}
    for scheduler in sorted({"", *policy.schedulers, *seen}):
        yield from _of_scheduler(policy, scheduler, seen.get(scheduler))
    if state is not None:
        yield from _pace(policy, state)


def _of_scheduler(policy: Policy, scheduler: str, seen: Timeout | None) -> Iterator[Finding]:
    said = policy.scheduler_of(scheduler).binding_timeout_seconds
    learned = seen.learned if seen is not None and seen.learned else None
    budget = policy.attach_budget(scheduler, learned) // MICROSECONDS
    name = f"scheduler {scheduler}" if scheduler else "any scheduler not named in the policy"
    if learned is not None and learned < said * MICROSECONDS:
        found = learned // MICROSECONDS
        what = f"{name} gave up after {found} s twice, the policy says {said} s: {budget} s are left for an attach"
        yield warning(
            _TIMEOUT, what, f"set binding_timeout_seconds of it to {found}, or raise bindingTimeout in the scheduler"
        )
        return
    if seen is not None and not seen.learned and 0 < seen.last < said * MICROSECONDS * 95 // 100:
        what = f"{name} gave up once after {seen.last // MICROSECONDS} s, the policy says {said} s"
        yield note(_TIMEOUT, what, "compare with bindingTimeout in the scheduler's configuration")
        return
    margin = HAND_OVER_MARGIN // MICROSECONDS
    if margin > said // 4:
        what = f"{name}: a margin of {margin} s for the hand-over is cut to {said // 4} s, a quarter of {said} s"
        yield note(_TIMEOUT, what, "raise bindingTimeout in the scheduler and in the policy")
    yield ok(
        _TIMEOUT, f"{name}: {budget} s for an attach of {said} s as the policy says (no API tells the scheduler's)"
    )


def _pace(policy: Policy, state: State) -> Iterator[Finding]:
    rate = state.fleet.rates.get("")
    if rate is None or rate.count < _MEASURED:
        return
    learned = [one.learned for one in state.lifecycle.timeouts.rows.values() if one.learned]
    budget = policy.attach_budget("", min(learned, default=None)) / MICROSECONDS
    what = f"an attach takes {rate.service:.1f} s of the fabric, {budget:.0f} s are left for one"
    if rate.service > budget:
        yield warning(_TIMEOUT, f"{what}: claims will fail", "raise bindingTimeout in the scheduler and in the policy")
    else:
        yield ok(_TIMEOUT, what)


# -- the log -----------------------------------------------------------------------------------------------------------

_LOG = "log"
MANY_EVENTS = 250_000
"""Events after the newest checkpoint that make a start slow: some ten seconds of folding."""
AHEAD = 60_000_000
"""Microseconds by which the newest event may be later than this machine's clock."""


class Journal(Protocol):
    """An open database of logs, with the right schema. `where` is its name without a password."""

    @property
    def where(self) -> str: ...

    def heads(self) -> list[Head]:
        """The heads of all its logs."""

    def state(self, name: str) -> Any:
        """The state of a log, of the class of its component. Raises DdsError."""


def log(journal: Journal, name: str, cluster: str | None, now: int) -> Iterator[Finding]:
    """The log of this name; `cluster` is the uid of kube-system, None if it could not be read."""
    heads = {one.log: one for one in journal.heads()}
    head = heads.get(name)
    if head is None:
        yield _not_there(journal, name, cluster, list(heads.values()))
        return
    yield _identity(journal, head, cluster)
    yield from _size(head, now)


def _not_there(journal: Journal, name: str, cluster: str | None, heads: list[Head]) -> Finding:
    mine = [one.log for one in heads if cluster and one.cluster == cluster and one.component == name.rpartition("/")[2]]
    if mine:
        what = f"{journal.where} has no log {name}, but {mine[0]}, which belongs to this cluster"
        return warning(_LOG, what, f"give --cluster-name {mine[0].rpartition('/')[0]}, or idle clocks start anew")
    return note(_LOG, f"{journal.where} has no log {name} yet", "the first start of dds serve makes it")


def _identity(journal: Journal, head: Head, cluster: str | None) -> Finding:
    if cluster is None:
        return unknown(_LOG, f"whether {head.log} belongs to this cluster could not be seen")
    if head.cluster != cluster:
        what = f"{head.log} in {journal.where} belongs to another cluster, kube-system with uid {head.cluster}, not {cluster}"
        return error(
            _LOG, what, "name another log with --log or --cluster-name, or take the kubeconfig of that cluster"
        )
    return ok(_LOG, f"{head.log} in {journal.where} belongs to this cluster")


def _size(head: Head, now: int) -> Iterator[Finding]:
    since = head.position - head.checkpoint
    newest = (
        f"{head.log} stands at position {head.position}, epoch {head.epoch}, newest event {rfc3339(head.recorded_at)}"
    )
    if head.recorded_at > now + AHEAD:
        what = f"{newest}, which is {duration(head.recorded_at - now)} ahead of our clock"
        yield warning(_LOG, what, "keep the clocks of all machines that run dds right with NTP or chrony")
    else:
        yield ok(_LOG, newest)
    after = f"{since} events since the newest checkpoint" if head.checkpoint else f"{since} events and no checkpoint"
    if since > MANY_EVENTS:
        yield warning(_LOG, f"{after}: a start has to fold them all", "run dds serve with --checkpoint-events above 0")
    else:
        yield ok(_LOG, after)
