"""A recording of a cluster through the engine: what the rules say to what really happened.

A recording starts synced, with an empty picture. A virtual timer delivers the deadlines from the instants of the
facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording
from dds_adapters.kubernetes.translate import Translator
from dds_core.engine import Engine, Step
from dds_core.events import PolicyChanged, Started, Synced
from dds_core.fingerprint import FINGERPRINT
from dds_core.policy import Policy
from dds_core.snapshot import PROJECTION


def replay_recording(
    path: Path, policy: Policy, *, code: str = "replay", engine: Engine | None = None
) -> Iterator[Step]:
    """Every step that the recording at `path` gives under `policy`, the engine's own first facts included.

    Raises the errors of `read_recording` where the file is not as it should be; the steps before it stand.
    """
    return replay_events(read_recording(path), policy, code=code, engine=engine)


def replay_events(
    recorded: Iterable[RecordedEvent], policy: Policy, *, code: str = "replay", engine: Engine | None = None
) -> Iterator[Step]:
    """As `replay_recording`, from recorded events in the order of their arrival. `engine`, a new one by default, is left at
    the end of the recording."""
    engine = engine if engine is not None else Engine()
    translator = Translator(engine.picture)
    started = False
    for event in recorded:
        if not started:
            started = True
            yield from begin(engine, policy, event.at, code)
        for fact in translator.translate(event.resource, event.type, event.raw):
            yield from engine.run([(event.at, fact)])


def begin(engine: Engine, policy: Policy, at: int, code: str) -> Iterator[Step]:
    """The facts that open a replay: who decides, under which policy, and that the picture is whole."""
    yield engine.feed(Started(code=code, fingerprint=FINGERPRINT, projection=PROJECTION, epoch=1, mode=policy.mode), at)
    yield engine.feed(PolicyChanged(policy=policy.model_dump(mode="json")), at)
    yield engine.feed(Synced(), at)
