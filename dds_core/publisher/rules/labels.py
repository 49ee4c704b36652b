"""The labels of a node for its fabric and limits: written on change only, and only if the fabric knows or knew its machine."""

from __future__ import annotations

from dds_core.events import NodeLabelled
from dds_core.publisher.model import Host, Machine
from dds_core.publisher.rooms import machines_of
from dds_core.publisher.state import PoolState, Work


def step(work: Work, name: str) -> None:
    """Decide which labels the node lacks or has too many."""
    state = work.state
    host = state.host(name)
    if host is None or state.config is None or state.process.stale or not state.policy.label_nodes:
        return
    machine = state.machine_of(host)
    if machine is None and not _is_gone(work, host):
        work.take_off_left_labels(name)
        return
    wanted = _wanted(state, machine)
    changes = {key: value or None for key, value in wanted.items() if _current(state, host, key) != value}
    if changes:
        reason = f"its machine is in fabric {machine.fabric}" if machine and machine.fabric else "it is in no fabric"
        work.emit_once(NodeLabelled(node=name, labels=dict(sorted(changes.items())), mode=state.mode, reason=reason))
    else:
        work.take_off_left_labels(name)


def _is_gone(work: Work, host: Host) -> bool:
    """Whether the fabric knew the machine and has left it out of its answers for long enough."""
    absent = [uuid for uuid in machines_of(host) if uuid in work.state.fabric.absent]
    return bool(absent) and work.at >= max(map(work.state.gone_due, absent))


def _current(state: PoolState, host: Host, key: str) -> str:
    intended = state.notes.labelled.get((host.name, key))
    return intended if intended is not None else host.labels.get(key, "")


def _wanted(state: PoolState, machine: Machine | None) -> dict[str, str]:
    """The labels of dds with their values, "" for one to remove. Where the fabric knows no limits, limit labels are left alone:
    they may be an administrator's."""
    prefix = state.prefix
    labels = {f"{prefix}/fabric": machine.fabric if machine is not None else ""}
    if machine is None or machine.limits is None or not state.policy.label_limits:
        return labels
    for model in state.models:
        limit = machine.limits.get(model.model)
        most = limit.most if limit is not None else None
        least = limit.least if limit is not None else None
        labels[f"{prefix}/{model.device}-size-max"] = "" if most is None else str(most)
        labels[f"{prefix}/{model.device}-size-min"] = "" if least is None else str(least)
    return labels
