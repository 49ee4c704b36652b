"""philly: training jobs of 15 tenants from the trace of msr-fiddle/philly-traces, in the form of siasosp23/artifacts
(sia-simulator/traces/philly.csv).

A job holds num_gpus for `duration` from its submission on. `duration` is the sum of its attempts without queueing, so the trace
has demand but no waits. Times are read as UTC. There is one model, and no nodes or CPU.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from dds_whatif.traces.demand import Held, Trace, Window
from dds_whatif.traces.reading import Row, rows

MODEL = "GPU"
CORE: Window = (1506902400.0, 1512950400.0)
"""2017-10-02 to 2017-12-11: before it the trace has few jobs, after it jobs are missing."""
_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly(path: Path) -> Trace:
    """All jobs. The window is `CORE` if the trace covers it, else the whole trace. Raises TraceError and FileError."""
    held = [
        _held(row, number)
        for number, row in enumerate(rows(path, _COLUMNS, "the table of jobs of philly.csv"), start=1)
    ]
    begins = min((one.start for one in held if one.start is not None), default=0.0)
    ends = max((one.end for one in held if one.end is not None), default=0.0)
    whole = (begins, ends)
    covered = begins <= CORE[0] and CORE[1] <= ends
    return Trace("philly", held, CORE if covered else whole, waits=False, calendar=True, gangs=True)


def _held(row: Row, number: int) -> Held:
    submitted, duration, devices = _submitted(row), row.number("duration"), row.whole("num_gpus")
    if devices < 1:
        raise row.fault("num_gpus: 0, a job has at least one", "correct or remove the row")
    return Held(
        name=f"job-{number:05}",
        owner=f"vc-{row.label('cluster')}",
        created=submitted,
        start=submitted,
        end=submitted + duration,
        devices=devices,
        model=MODEL,
        thousandths=devices * 1000,
    )


def _submitted(row: Row) -> float:
    written = row.text("timestamp")
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        what = f"{written!r} is no time" if written else "is empty"
        raise row.fault(f"timestamp: {what}", "write it as 2017-10-09 07:01:55") from None
    seconds = found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    if seconds < 0:
        raise row.fault(f"timestamp: {written} is before 1970", "correct or remove the row")
    return seconds
