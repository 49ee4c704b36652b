"""The labels of a node that tell its fabric and its limits: written on change only, and only on nodes whose machine the fabric
knows or knew."""

from __future__ import annotations

from dds_core.events import NodeLabelled
from dds_core.publisher.indexes import machines_of
from dds_core.publisher.model import Host, Machine
from dds_core.publisher.state import PoolPicture, Work


def step(work: Work, name: str) -> None:
    """Decide which labels the node lacks or has too many."""
    picture = work.picture
    host = picture.host(name)
    if host is None or picture.config is None or picture.stale or not picture.policy.label_nodes:
        return
    machine = picture.machine_of(host)
    if machine is None and not _is_gone(work, host):
        work.take_off_left_labels(name)
        return
    wanted = _wanted(picture, machine)
    changes = {key: value or None for key, value in wanted.items() if _current(picture, host, key) != value}
    if changes:
        reason = f"its machine is in fabric {machine.fabric}" if machine and machine.fabric else "it is in no fabric"
        work.want(NodeLabelled(node=name, labels=dict(sorted(changes.items())), mode=picture.mode, reason=reason))
    else:
        work.take_off_left_labels(name)


def _is_gone(work: Work, host: Host) -> bool:
    """Whether the fabric knew the machine and has left it out of its answers for long enough."""
    absent = [uuid for uuid in machines_of(host) if uuid in work.picture.absent]
    return bool(absent) and work.at >= max(map(work.picture.gone_due, absent))


def _current(picture: PoolPicture, host: Host, key: str) -> str:
    intended = picture.labelled.get((host.name, key))
    return intended if intended is not None else host.labels.get(key, "")


def _wanted(picture: PoolPicture, machine: Machine | None) -> dict[str, str]:
    """Our labels with their values, "" for one that has to go. Where the fabric knows of no limits, theirs are left alone: they
    may be an administrator's."""
    prefix = picture.prefix
    labels = {f"{prefix}/fabric": machine.fabric if machine is not None else ""}
    if machine is None or machine.limits is None or not picture.policy.label_limits:
        return labels
    for model in picture.models:
        limit = machine.limits.get(model.model)
        most = limit.most if limit is not None else None
        least = limit.least if limit is not None else None
        labels[f"{prefix}/{model.device}-size-max"] = "" if most is None else str(most)
        labels[f"{prefix}/{model.device}-size-min"] = "" if least is None else str(least)
    return labels
