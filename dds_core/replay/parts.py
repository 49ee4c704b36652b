"""Verification of a log in parts, which may run at the same time: each begins at a checkpoint, where a verification forgets the
state so far and continues from the one that the checkpoint holds.

The part before a checkpoint compares it with the state that it folded; the part after it counts it. What a verification in one
piece remembers across checkpoints (which code wrote the span, the invariants that are known to be broken, how many differences
there were) is compared when the reports are joined. Where it would change a finding, there is no joined report, and the log has
to be verified in one piece. So the findings, and their order, are always those of `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from dds_core.component import Component
from dds_core.log.chain import ChainCheck, checked
from dds_core.log.envelope import Envelope, LeanEvent
from dds_core.replay.logged import groups
from dds_core.replay.verification import AT_MOST, Verification, VerifyReport
from dds_core.replay.versions import Wrote, wrote


class Part(NamedTuple):
    """The events from the checkpoint at position `first` (0: from the log's beginning) to the checkpoint at position `last`
    (0: to the log's end). `code`, `fingerprint`: of the span that it begins in."""

    first: int
    last: int
    code: str = ""
    fingerprint: str = ""


class PartReport(NamedTuple):
    """What was found in a part. `differed` and `broken` as in `Verification`."""

    report: VerifyReport
    check: ChainCheck
    differed: int
    broken: frozenset[Any]


def divided(
    first: int, last: int, checkpoints: Sequence[int], starts: Iterable[LeanEvent], number: int, fingerprint: str
) -> Iterator[Part]:
    """The positions `first` to `last` in up to `number` parts of about the same length, cut at some of these checkpoints.
    `starts`: the events that say which code wrote what follows: each start, and a checkpoint at `first`."""
    length = last - first + 1
    inside = [one for one in checkpoints if first < one < last]
    aims = [first + length * k // number for k in range(1, number)]
    cuts = sorted({min(inside, key=lambda one: abs(one - aim)) for aim in aims}) if inside else []
    wrote = list(_writers(starts))
    for begin, end in pairwise([0, *cuts, 0]):
        before = [by for position, by in wrote if position < begin]
        by = before[-1] if before else Wrote("", fingerprint)
        yield Part(begin, end, by.code, by.fingerprint)


def _writers(starts: Iterable[LeanEvent]) -> Iterator[tuple[int, Wrote]]:
    for row in starts:
        with suppress(msgspec.MsgspecError):  # the verification says where it is damaged
            yield row.position, wrote(row)


def verify_part(
    rows: Iterable[Envelope], component: Component[Any], part: Part, check: ChainCheck, *, fingerprint: str = ""
) -> PartReport | None:
    """Verify chain and decisions of a part; `rows` begin with it and end at least one event after it, if there is one. None if
    the part cannot be judged by itself. Raises as `verify` on the chain of `check` does."""
    verification = Verification(component, fingerprint, AT_MOST)
    ended = not part.last
    logged = groups(checked(rows, check), component)
    for group in logged:
        if part.first and not verification.report.groups:
            if group.checkpoint is None:
                return None
            verification.begin(group, part.code, part.fingerprint)
            if verification.differed:
                return None  # it cannot be loaded: the state before it goes on
        elif group.position == part.last and group.checkpoint is not None:
            verification.end_at(group, group.checkpoint)
            ended = True
            break
        else:
            verification.take(group)
        if verification.differed >= AT_MOST and len(verification.report.differences) >= AT_MOST:
            return None
    if not ended:
        return None  # no group begins at the last checkpoint
    report = verification.report if part.last else verification.end()
    if any(one.stops <= part.first for one in report.repaired):
        return None
    return PartReport(report, check, verification.differed, frozenset(verification.broken))


def joined(found: Sequence[PartReport | None]) -> tuple[VerifyReport, ChainCheck] | None:
    """The report on the whole log and the check of its chain, from the reports on its parts in their order. None if the log has
    to be verified in one piece."""
    told = [one for one in found if one is not None]
    if len(told) < len(found) or not told:
        return None
    whole, check = told[0].report, told[0].check
    broken = set(told[0].broken)
    for one in told[1:]:
        report = one.report
        last, begun = whole.spans[-1] if whole.spans else None, report.spans[0]
        if last is None or (last.code, last.fingerprint) != (begun.code, begun.fingerprint) or broken & one.broken:
            return None
        broken |= one.broken
        last.last, last.differences = begun.last, last.differences + begun.differences
        whole.spans += report.spans[1:]
        whole.last = report.last
        whole.events += report.events
        whole.groups += report.groups
        whole.differences += report.differences
        whole.told += report.told
        whole.unjudged += report.unjudged
        whole.repaired += report.repaired
        whole.evaluators += report.evaluators
        check.go_on(one.check)
    differed = sum(one.differed for one in told)
    if len(whole.differences) >= AT_MOST or (whole.repaired and differed >= AT_MOST):
        return None
    del whole.told[AT_MOST:]
    return whole, check
