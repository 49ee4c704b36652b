"""Run the core over facts in a process where every clock, source of chance and environment variable raises, and every
audit event is noted: `python -m tests.core.purity.isolated COMPONENT < facts`. Prints what it decided, as a digest, and what
it did that it must not do.

Everything is imported and read before the watch begins; from there on only `dds_core` runs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import sys
import time
from typing import Any, NoReturn

from dds_core.component import COMPONENTS, Component
from dds_core.engine import EngineOf
from dds_core.events import Event
from dds_core.log import MemoryLog
from dds_core.matching import cel
from dds_core.replay import fold_log, verify
from dds_core.scaler.component import SCALER
from tests.core.purity.facts import read

HARMLESS = ("object.", "code.", "sys._getframe", "builtins.id", "marshal.", "gc.")
"""What the interpreter itself tells about."""

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "gmtime")


def replayed(facts: list[tuple[int, Event]], component: Component[Any] = SCALER) -> str:
    """The digest of all that the core makes of the facts: decided, logged, folded, verified, dumped and loaded."""
    dump, load = component.dump, component.load
    engine = EngineOf(component)
    log = MemoryLog(f"test/{component.name}", cluster="test", recorded_at=0)
    epoch = log.take_epoch(0)
    digest = hashlib.sha256()
    for ordinal, step in enumerate(engine.run(facts)):
        group = step.group(ordinal)
        log.append([group], epoch=epoch, recorded_at=step.at)
        for row in group.events:
            digest.update(f"{row.type} {row.stream} {row.occurred_at} {row.cause} ".encode() + row.data + b"\n")
    report = verify(log.read(), component=component)
    assert report.ok and not report.told
    assert dump(fold_log(log.read(), component=component)) == dump(load(dump(engine.state))) == dump(engine.state)
    return digest.hexdigest()


def forbid(did: set[str]) -> None:
    """From here on clocks, chance and environment raise, and every audit event is noted."""

    def forbidden(*args: Any, **given: Any) -> NoReturn:
        raise AssertionError("the core read a clock, chance or the environment")

    for name in CLOCKS:
        setattr(time, name, forbidden)
    for name in ("random", "randrange", "getrandbits", "shuffle", "choice"):
        setattr(random, name, forbidden)
    os.urandom = os.getenv = forbidden
    type(os.environ).__getitem__ = type(os.environ).get = forbidden  # type: ignore[method-assign]
    sys.addaudithook(lambda event, args: None if event.startswith(HARMLESS) else did.add(event))


def main() -> None:
    facts = read(sys.stdin.buffer.read())
    out = io.StringIO()
    did: set[str] = set()
    component = COMPONENTS[sys.argv[1]]
    component.load(
        component.dump(component.state())
    )  # msgspec evaluates the annotations of a type when it is first used
    cel.compile("device.attributes['d'].n == 1").matches(
        cel.DeviceView("d", {"n": 1})
    )  # the CEL library is loaded then too
    forbid(did)
    digest = replayed(facts, component)
    json.dump({"digest": digest, "did": sorted(did)}, out)
    sys.stdout.write(out.getvalue())


if __name__ == "__main__":
    main()
