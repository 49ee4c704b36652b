"""Reading a log with the library: its state, the story of each claim, and whether it was changed.

    python examples/read_a_log.py LOG.sqlite3 [LOG NAME]

A log is read as a stream of events; what is below keeps no more than one state in memory, however long the log is.
"""

from __future__ import annotations

import sys

from dds_adapters.sql import Database
from dds_core import SCALER, EventLog, component_of, errors, fold_log, verify, verify_chain
from dds_core.replay import moments
from dds_core.scaler.timeline import Directory, timeline
from dds_core.timeline import render_text


def tell_state(log: EventLog) -> list[str]:
    """The claims as they stand, from a fold of the log; gives their names."""
    state = fold_log(log.read_lean(), SCALER)
    for life in state.lifecycle.lives.rows.values():
        print(f"{life.namespace}/{life.name} is {life.state}, cycle {life.cycle}, attempt {life.attempt}")
    return sorted(f"{life.namespace}/{life.name}" for life in state.lifecycle.lives.rows.values())


def tell_names(log: EventLog) -> list[str]:
    """Every claim that was ever seen, also those that are long gone."""
    directory = Directory().read(moments(log.read_lean(), SCALER))
    return [subject.name for subject in directory.subjects() if subject.kind == "claim"]


def tell_story(log: EventLog, name: str) -> None:
    """Why a claim went through what it did."""
    subject = Directory().read(moments(log.read_lean(), SCALER)).find(name)
    print(f"\n{subject.kind} {subject.name}")
    print(render_text(timeline(moments(log.read_lean(), SCALER), subject)), end="")


def is_true(log: EventLog) -> bool:
    """Whether nothing was changed, and every decision is the one that the rules make."""
    chain = verify_chain(log.read())
    report = verify(log.read(), SCALER)
    print(f"\n{chain.events} events, hash {chain.hash.hex()[:16]}…; {len(report.differences)} differences")
    return report.ok


def scalers_log(names: list[str]) -> str:
    """The log of a scaler; a publisher may keep its own in the same database."""
    found = [name for name in names if component_of(name) is SCALER]
    if not found:
        raise errors.InputError("no scaler keeps a log there", fix="name another database")
    return found[0]


def main(path: str, name: str | None = None) -> int:
    """Tell everything about the log; 0 when it holds."""
    with Database(f"sqlite:///{path}") as database:
        log = database.log(name or scalers_log([head.log for head in database.heads()]))
        tell_state(log)
        for claim in tell_names(log):
            tell_story(log, claim)
        return 0 if is_true(log) else 2


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: read_a_log.py LOG.sqlite3 [LOG NAME]")
    try:
        sys.exit(main(*sys.argv[1:]))
    except errors.DdsError as error:
        sys.exit(str(error))
