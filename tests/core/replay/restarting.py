"""A replay that is killed after any append and goes on in a new process: load the log, take a new epoch, list, go on.

`Listing` keeps what an API server would answer: the raw objects as they were last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dds_adapters.kubernetes.decode.translate import RESOURCES, Translator
from dds_adapters.kubernetes.recording import RecordedEvent
from dds_core.engine import Step
from dds_core.events import OBSERVED, Event, PolicyChanged, Started, Synced
from dds_core.log import MemoryLog
from dds_core.replay import fold_log
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.policy import Policy
from dds_core.scaler.rules.orders import request_name
from dds_core.scaler.state import PROJECTION
from tests.core.golden.replays import CLUSTER, CODE, LOG_NAME, RECORDED_AT, SALTS

Key = tuple[str, str]


class Killed(NamedTuple):
    """Where a run was killed: after how many appended groups, and how many raw events it had taken in."""

    groups: int
    events: int


class Listing:
    """The objects of the cluster, as they are when somebody lists them."""

    def __init__(self) -> None:
        self._objects: dict[Key, bytes] = {}

    def watch(self, event: RecordedEvent) -> None:
        """The cluster changes."""
        if event.type == "BOOKMARK":
            return
        key = (event.resource, msgspec.json.decode(event.raw)["metadata"]["uid"])
        if event.type == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = event.raw

    def differences(self, engine: Engine, translator: Translator) -> Iterator[Event]:
        """The facts by which what is listed differs from the picture; each is to be folded before the next is taken."""
        for resource, known in RESOURCES.items():
            listed = {uid: raw for (kind, uid), raw in self._objects.items() if kind == resource}
            gone: Any = OBSERVED[known.kind][1]
            for uid in sorted(set(engine.picture.table(known.kind)) - set(listed)):
                yield gone(uid=uid)
            for uid in sorted(listed):
                yield from translator.translate(resource, "ADDED", listed[uid])


class Run:
    """One process: an engine, its log and its epoch. `steps` are those of this process only."""

    def __init__(self, log: MemoryLog, policy: Policy, engine: Engine | None = None) -> None:
        self.log = log
        self.engine = engine if engine is not None else Engine()
        self.translator = Translator(self.engine.picture)
        self.steps: list[Step] = []
        self.policy = policy
        self._epoch = log.take_epoch(RECORDED_AT)

    @classmethod
    def fresh(cls, policy: Policy) -> Run:
        return cls(MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS), policy)

    @classmethod
    def loaded(cls, log: MemoryLog, policy: Policy) -> Run:
        """A new process on what the log holds."""
        return cls(log, policy, Engine(fold_log(log.read(), SCALER)))

    def start(self, at: int, listing: Listing) -> None:
        """Who decides, under which policy, what the cluster looks like, and that the picture is whole."""
        mode = self.policy.mode
        self._append(Started(code=CODE, fingerprint=CODE, projection=PROJECTION, epoch=self._epoch, mode=mode), at)
        if self.engine.picture.policy != self.policy or not self.engine.picture.synced_at:
            self._append(PolicyChanged(policy=self.policy.model_dump(mode="json")), at)
        for fact in listing.differences(self.engine, self.translator):
            self._append(fact, at)
        self._append(Synced(), at)

    def take(self, event: RecordedEvent) -> Iterator[None]:
        """One raw event and what is due before it; yields after each append."""
        for fact in self.translator.translate(event.resource, event.type, event.raw):
            for step in self.engine.run([(event.at, fact)]):
                self._keep(step)
                yield

    def _append(self, fact: Event, at: int) -> None:
        self._keep(self.engine.feed(fact, at))

    def _keep(self, step: Step) -> None:
        self.log.append([step.group(len(self.steps))], epoch=self._epoch, recorded_at=RECORDED_AT)
        self.steps.append(step)


def as_ours(events: Iterable[RecordedEvent]) -> Iterator[RecordedEvent]:
    """The recording as if what the reference ordered had been our orders: its requests bear our names."""
    names: dict[str, str] = {}
    for event in events:
        if event.type == "BOOKMARK":
            continue
        found = msgspec.json.decode(event.raw)
        if event.resource == "composabilityrequests":
            wanted = found["spec"]["resource"]
            name = found["metadata"]["name"]
            names[name] = request_name(wanted["target_node"], wanted["type"], wanted["model"])
            found["metadata"]["name"] = names[name]
            found["metadata"].pop("generateName", None)
        elif event.resource == "composableresources":
            labels = found["metadata"]["labels"]
            labels["app.kubernetes.io/managed-by"] = names[labels["app.kubernetes.io/managed-by"]]
        else:
            yield event
            continue
        yield msgspec.structs.replace(event, raw=msgspec.json.encode(found))


def whole(events: list[RecordedEvent], policy: Policy) -> tuple[Run, list[Killed]]:
    """The run that nobody disturbs, and every place at which another one can be killed."""
    run = Run.fresh(policy)
    run.start(events[0].at, Listing())
    places = [Killed(len(run.steps), 0)]
    for count, event in enumerate(events):
        for _ in run.take(event):
            places.append(Killed(len(run.steps), count))
        places[-1] = places[-1]._replace(events=count + 1) if places[-1].groups == len(run.steps) else places[-1]
    return run, places


def cut(run: Run, groups: int) -> MemoryLog:
    """The log as it is after so many appended groups."""
    log = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
    epoch = log.take_epoch(RECORDED_AT)
    kept = [step.group(ordinal) for ordinal, step in enumerate(run.steps[:groups])]
    log.append(kept, epoch=epoch, recorded_at=RECORDED_AT)
    return log
