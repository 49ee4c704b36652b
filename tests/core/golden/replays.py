"""The recordings, replayed the same way by every test here and by the script that writes the golden files.

Two policies are committed: `policy.json` for the recordings with the reference scaler (its removal and allocation
durations; the shorter of the bindingTimeouts they were made with) and `policy-scheduler-alone.json` for the nine of
the scheduler alone, which differs in the bindingTimeout only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording, replay_events
from dds_core.engine import Step
from dds_core.events import Started
from dds_core.log import Envelope, MemoryLog, fixed_salts
from dds_core.replay import of_steps
from dds_core.scaler.component import Engine
from dds_core.scaler.history import History
from dds_core.scaler.history.incident import overview
from dds_core.scaler.policy import Policy, read_policy
from dds_core.scaler.timeline import timeline
from dds_core.timeline import render_text

DATA = Path(__file__).parents[2] / "data"
GOLDEN = DATA / "golden"
RECORDINGS = DATA / "recordings"

WITH_REFERENCE = (
    "first_attach",
    "many_devices",
    "two_requests",
    "pool_exhausted",
    "attach_failure",
    "coexistence",
    "node_limit",
    "withdrawn",
    "node_lost",
    "burst",
)
SCHEDULER_ALONE = (
    "ready_mode",
    "two_claims",
    "shares",
    "first_available",
    "extended_resource",
    "preempted",
    "cordoned",
    "scheduler_restart",
    "binding_timeout",
)
RECORDED = WITH_REFERENCE + SCHEDULER_ALONE

SHARES_NAMED = "shares-named"
"""The recording `shares` with a ConfigMap that names the network card too, and the product name that such an entry needs on
its devices; as recorded none of its claims is ours."""

ALL = (*RECORDED, SHARES_NAMED)
REPORTED = ("attach_failure", "node_limit", "burst")
"""The incidents whose reports are committed."""
SMALL = tuple(name for name in ALL if name != "burst")

LOG_NAME = "golden/scaler"
CLUSTER = "00000000-0000-4000-8000-000000000000"
RECORDED_AT = 1_800_000_000_000_000
SALTS = fixed_salts(b"golden")
CODE = "golden"
"""Stands for code version and fingerprint, so that the logs change with what is decided and not with its sources."""

_NIC: dict[str, Any] = {
    "index": 2,
    "cdi-model-name": "NIC 10G",
    "dra-attributes": {"productName": "NIC 10G"},
    "label-key-model": "nic",
    "driver-name": "nic.example.com",
    "k8s-device-name": "nic",
    "cannot-coexist-with": [],
}


def policy_of(name: str) -> Policy:
    """The committed policy that the recording is replayed under."""
    file = "policy.json" if name in WITH_REFERENCE else "policy-scheduler-alone.json"
    return read_policy(json.loads((GOLDEN / file).read_text()))


def recorded(name: str) -> Iterator[RecordedEvent]:
    """The raw events of a recording."""
    if name == SHARES_NAMED:
        return map(_with_nic, read_recording(RECORDINGS / "shares.jsonl.gz"))
    return read_recording(RECORDINGS / f"{name}.jsonl.gz")


def _with_nic(event: RecordedEvent) -> RecordedEvent:
    if event.resource not in ("configmaps", "resourceslices") or event.type == "BOOKMARK":
        return event
    found = json.loads(event.raw)
    if event.resource == "configmaps":
        models = json.loads(found["data"]["device-info"])
        found["data"]["device-info"] = json.dumps([*models, _NIC])
    elif found["spec"]["driver"] == _NIC["driver-name"]:
        for device in found["spec"].get("devices", ()):
            device["attributes"]["productName"] = {"string": "NIC 10G"}
    return msgspec.structs.replace(event, raw=json.dumps(found).encode())


def replayed(name: str, *, engine: Engine | None = None, policy: Policy | None = None) -> Iterator[Step]:
    """The steps of a recording under its policy, or another one."""
    chosen = policy if policy is not None else policy_of(name)
    for step in replay_events(recorded(name), chosen, code=CODE, engine=engine):
        fact = step.fact
        yield step._replace(fact=msgspec.structs.replace(fact, fingerprint=CODE)) if isinstance(fact, Started) else step


def timeline_of(name: str) -> str:
    """The timeline of all lives in a recording."""
    return render_text(timeline(of_steps(replayed(name))), width=120, names=True)


def overview_of(name: str) -> str:
    """The sentences of a report."""
    return "".join(f"{line}\n" for line in overview(History().read(of_steps(replayed(name)))))


def log_of(steps: Iterable[Step], *, batch: int = 100) -> MemoryLog:
    """The steps as a log: the same bytes whenever and wherever it is written, and in whatever batches."""
    log = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
    epoch = log.take_epoch(RECORDED_AT)
    groups = [step.group(ordinal) for ordinal, step in enumerate(steps)]
    for start in range(0, len(groups), batch):
        log.append(groups[start : start + batch], epoch=epoch, recorded_at=RECORDED_AT)
    return log


def digests_of(rows: Iterable[Envelope]) -> str:
    """One line for each group of a log: epoch and ordinal, first position, the fact's type, how many events, and a digest
    over all that is decided in it."""
    lines: list[str] = []
    current: list[Envelope] = []
    for row in [*rows, None]:
        if current and (row is None or (row.epoch, row.group) != (current[0].epoch, current[0].group)):
            lines.append(_digest(current))
            current = []
        if row is not None:
            current.append(row)
    return "".join(f"{line}\n" for line in lines)


def _digest(group: list[Envelope]) -> str:
    told = [
        (e.type, e.stream, e.occurred_at, e.from_state, e.to_state, e.causation_id, (e.data or b"").decode())
        for e in group
    ]
    head = group[0]
    mark = sha256(msgspec.json.encode(told)).hexdigest()[:16]
    return f"{head.epoch}.{head.group} {head.position} {head.type} {len(group)} {mark}"
