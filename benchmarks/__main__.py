"""`python -m benchmarks [section ...]`: measure and print; without a section, or with --write, into docs/performance.md."""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import (
    appending,
    cel,
    deciding,
    felt,
    ingest,
    lab_day,
    lab_load,
    lifecycle,
    operator,
    publish,
    replaying,
    serve,
)
from benchmarks.measure import Row
from benchmarks.report import machine, markdown, write
from tests.support.postgres import running_postgres

PERFORMANCE = Path(__file__).parents[1] / "docs" / "performance.md"


POSTGRES_ROUNDS = 15
"""At least so many: psycopg's executemany has a fast and a slow mode (some 56k and 34k events/s) that lasts for several
rounds, and the median of five can fall into either."""


def _postgres(folder: Path, rounds: int) -> list[Row]:
    with running_postgres() as server:
        return appending.measure_postgres(server.new_database(), max(rounds, POSTGRES_ROUNDS))


POOLS = f"The publisher: {publish.FABRICS} fabrics × {publish.MODELS} models × {publish.DEVICES} devices"
LOAD = f"The lab under load: {lab_load.WATCHES} watches, {lab_load.CLAIMS} claims"
SECTIONS: dict[str, tuple[str, Callable[[Path, int], list[Row]]]] = {
    "lifecycle": ("A step of the lifecycle", lambda _, rounds: lifecycle.measure(rounds)),
    "sqlite": ("Appending to SQLite, 100 events a commit", appending.measure_sqlite),
    "postgres": ("Appending to PostgreSQL, 100 events a commit", _postgres),
    "replay": ("Replaying 200,000 events", replaying.measure),
    "decide": (f"Deciding on {deciding.LARGE} claims", lambda _, rounds: deciding.measure(rounds)),
    "ingest": ("Listening to the API server", lambda _, rounds: ingest.measure(rounds)),
    "serve": ("The live scaler", lambda _, rounds: serve.measure(rounds)),
    "publish": (POOLS, lambda folder, _: publish.measure(folder)),
    "cel": ("Selectors of devices in CEL", lambda _, rounds: cel.measure(rounds)),
    "operator": ("Behind the real operator, in the lab: after, and before", lambda *_: operator.measure()),
    "lab-load": (LOAD, lambda _, rounds: lab_load.measure(rounds)),
    "lab-day": ("A day in the lab", lambda _, rounds: lab_day.measure(rounds)),
    "felt": ("What people wait for", felt.measure),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("section", nargs="*", choices=[[], *SECTIONS], help="what to measure; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison (default 5)")
    parser.add_argument("--write", action="store_true", help="write the sections measured into docs/performance.md")
    parser.add_argument("--events", type=int, default=felt.READ, help="events of the log of `felt` (default 1,000,000)")
    chosen = parser.parse_args()
    sections = SECTIONS | {"felt": (SECTIONS["felt"][0], partial(felt.measure, events=chosen.events))}
    print(machine())
    measured: dict[str, list[Row]] = {}
    for name in chosen.section or sections:
        title, measure = sections[name]
        with tempfile.TemporaryDirectory(prefix="dds-bench-") as folder:
            measured[title] = measure(Path(folder), chosen.rounds)
        print(f"\n### {title}\n\n{markdown(measured[title])}", flush=True)
        if chosen.write or not chosen.section:
            write(PERFORMANCE, measured, chosen.rounds)
    if not chosen.section:
        write(PERFORMANCE, measured, chosen.rounds, anew=True)


if __name__ == "__main__":
    main()
