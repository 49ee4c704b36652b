"""Records the logs of `tests/data/logs`, which later versions have to read: `python -m tests.core.replay.corpus`.

Fleets and a mix of the lab are played with the real components, each log goes into a SQLite database, and an index says what the
code that wrote it made of it. Since a released format is promised, files of a released version are never recorded again: new ones
get a folder of their own.
"""

from __future__ import annotations

import gzip
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from dds_adapters import jsonl
from dds_adapters.sql import Database, upgrade
from dds_core import __version__
from dds_core.component import COMPONENTS, Component
from dds_core.log import Envelope, EventLog
from dds_core.replay import fold_log
from dds_lab.check.fleets import fleet_of
from dds_lab.check.mixes import mix_of, mix_run
from dds_lab.check.playing import fleet_run
from dds_lab.check.subjects import LOG
from dds_lab.driver import OurProcess
from dds_lab.lab import Lab
from tests.support.ours import begins, running, told_to_us

LOGS = Path(__file__).parents[2] / "data" / "logs"
STORY = "first_attach"
FLEETS = (6, 8, 18)
"""Seeds. Together they write all types of events but the rarest."""
CHECKPOINTED = {6: 700.0}
"""Seeds with a checkpoint, and the seconds after which it is written."""
MIX = 3
ARCHIVE, REST = "archived.archive.jsonl.gz", "archived.log.jsonl.gz"
"""The story's log again: its beginning, moved to an archive up to the checkpoint, and what stays."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the index says of a log: `database` and `export` hold it, `state` the state that it folds to. `head` is the hash of
    its last event, `fold` the digest of that state, `loaded` that of what a process starts with: the newest checkpoint and what
    follows."""

    name: str
    database: str
    export: str
    state: str
    log: str
    component: str
    fingerprint: str
    events: int
    head: str
    epoch: int
    checkpoints: list[int]
    fold: str
    loaded: str
    types: dict[str, int]

    @property
    def of(self) -> Component[Any]:
        return COMPONENTS[self.component]

    @property
    def begin(self) -> int:
        """The position before what a process starts with."""
        return max(self.checkpoints, default=1) - 1


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`version` wrote all of it; `files` has the SHA-256 of each file's content, unpacked."""

    version: str
    files: dict[str, str]
    logs: list[Kept]


def digest(component: Component[Any], state: Any) -> str:
    return sha256(component.dump(state)).hexdigest()


def content(name: str) -> bytes:
    """A file of the corpus, unpacked."""
    return gzip.decompress((LOGS / name).read_bytes())


def _checkpoint(processes: Sequence[OurProcess[Any]], lab: Lab) -> None:
    (writer,) = [one for one in processes if one.alive]
    writer.controller.checkpoint(lab.time.now())


def _played() -> Iterator[tuple[str, Sequence[EventLog]]]:
    """Databases by name, with the logs that go into them."""
    with running(told_to_us(STORY)) as run:
        run.lab.time.after(begins(STORY) + 3.0, partial(_checkpoint, run.instances, run.lab))
        run.lab.run()
        yield STORY, [run.log]
    for seed in FLEETS:
        with fleet_run(fleet_of(seed)) as fleet:
            if seed in CHECKPOINTED:
                fleet.lab.time.after(CHECKPOINTED[seed], partial(_checkpoint, fleet.processes["scaler"], fleet.lab))
            assert fleet.play() == ()
            yield f"fleet-{seed}", list(fleet.logs.values())
    with mix_run(mix_of(MIX)) as mix:
        assert mix.play() == []
        yield f"mix-{MIX}", [mix.log]


def _stored(logs: Sequence[EventLog], path: Path) -> Database:
    """The logs in a new SQLite database."""
    upgrade(f"sqlite:///{path}")
    database = Database(f"sqlite:///{path}")
    for log in logs:
        database.import_log(log.read())
    return database


def _dumped(path: Path) -> bytes:
    """A SQLite database, schema and all, as text."""
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()).encode()


def _file(write: Callable[[str], object], folder: Path) -> bytes:
    """What is written to a file."""
    path = folder / "file.jsonl"
    write(str(path))
    data = path.read_bytes()
    path.unlink()
    return data


def _kept(name: str, database: str, export: str, state: str, log: EventLog) -> Kept:
    rows: list[Envelope] = list(log.read())
    head, component = log.head(), COMPONENTS[log.head().component]
    checkpoints = [row.position for row in rows if row.type == "Checkpoint"]
    loaded = fold_log(rows[max(checkpoints, default=1) - 1 :], component)
    return Kept(
        name=name,
        database=database,
        export=export,
        state=state,
        log=head.log,
        component=head.component,
        fingerprint=component.fingerprint,
        events=len(rows),
        head=head.hash.hex(),
        epoch=head.epoch,
        checkpoints=checkpoints,
        fold=digest(component, fold_log(rows, component)),
        loaded=digest(component, loaded),
        types=dict(sorted(Counter(row.type for row in rows).items())),
    )


def record() -> None:
    index = LOGS / "index.json"
    written = msgspec.json.decode(index.read_bytes(), type=Index).version if index.exists() else "dev"
    if "dev" not in written:
        sys.exit(f"version {written} is released: its logs are never recorded again")
    files: dict[str, str] = {}

    def write(name: str, data: bytes) -> str:
        packed = f"{name}.gz"
        files[packed] = sha256(data).hexdigest()
        (LOGS / packed).write_bytes(gzip.compress(data, mtime=0))
        return packed

    for old in LOGS.glob("*.gz"):
        old.unlink()
    kept: list[Kept] = []
    for run, logs in _played():
        with TemporaryDirectory() as folder, _stored(logs, Path(folder, "log.sqlite3")) as database:
            dump = write(f"{run}.sql", _dumped(Path(folder, "log.sqlite3")))
            for log in map(database.log, sorted(head.log for head in database.heads())):
                component, name = COMPONENTS[log.head().component], f"{run}-{log.head().component}"
                export = write(f"{name}.log.jsonl", _file(partial(jsonl.export, log), Path(folder)))
                state = write(f"{name}.state.json", bytes(component.dump(fold_log(log.read(), component))))
                kept.append(_kept(name, dump, export, state, log))
            if run == STORY:
                log = database.log(LOG)
                write(ARCHIVE.removesuffix(".gz"), _file(partial(jsonl.archive, log), Path(folder)))
                write(REST.removesuffix(".gz"), _file(partial(jsonl.export, log), Path(folder)))
    found = msgspec.json.encode(Index(__version__, dict(sorted(files.items())), kept))
    index.write_bytes(msgspec.json.format(found, indent=1) + b"\n")


if __name__ == "__main__":
    record()
