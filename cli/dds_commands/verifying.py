"""Verification as commands show it: the chain and the decisions in one walk over the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dds_commands.screen import counted, note, progress, show, show_json, style
from dds_core.component import Component
from dds_core.errors import VerificationFailed
from dds_core.log import Anchor, ChainCheck, Envelope, checked
from dds_core.replay import VerifyReport, verify
from dds_core.scaler.component import SCALER


def verify_rows(
    rows: Iterable[Envelope],
    length: int | None,
    label: str,
    form: str,
    anchors: Iterable[Anchor] = (),
    component: Component[Any] = SCALER,
) -> None:
    """Check and show. Raises BrokenChain where the chain does not hold, VerificationFailed when what was decided is not
    what the rules say."""
    check = ChainCheck(anchors)
    report = verify(progress(checked(rows, check), length, "verifying"), component=component)
    if report.ok:
        check.report()
    try:
        _show(report, label, form)
    finally:
        if not report.ok:
            first = report.differences[0].position
            raise VerificationFailed(
                f"{len(report.differences)} decisions differ from the rules, the first at position {first}"
                if len(report.differences) > 1
                else f"position {first}: what was decided differs from the rules",
                where=label,
                fix="compare with an export or anchor made before, and with the version of dds that wrote it",
            )


def _show(report: VerifyReport, label: str, form: str) -> None:
    if form == "json":
        show_json(_data(report, label))
        return
    dress = style()
    span = f"positions {report.first} to {report.last}" if report.events else "no events"
    show(f"{label}: {counted(report.events, 'event')} in {counted(report.groups, 'group')}, {span}")
    if report.other_code:
        note(f"the log was written by other code (fingerprint {', '.join(sorted(set(report.fingerprints)))})")
    for first, last in report.unjudged:
        show(f"positions {first} to {last} cannot be judged: data were erased")
    for difference in report.differences:
        show(dress(str(difference), "bad"))
    if report.ok:
        show(dress("the chain holds, and every decision is the one that the rules make", "good"))


def _data(report: VerifyReport, label: str) -> dict[str, Any]:
    return {
        "source": label,
        "ok": report.ok,
        "events": report.events,
        "groups": report.groups,
        "first": report.first,
        "last": report.last,
        "other_code": report.other_code,
        "unjudged": [list(span) for span in report.unjudged],
        "differences": [{"position": d.position, "expected": d.expected, "found": d.found} for d in report.differences],
    }
