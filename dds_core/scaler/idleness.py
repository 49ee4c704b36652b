"""How long an idle device is kept (`idle: adaptive`): learned for each model and fabric from when devices were wanted again.

Keeping an idle device costs by the hour, detaching it costs an attach later: the ski-rental problem. All costs are counted in
idle time: `worth` is the number of microseconds of idle time that cost as much as one attach. A gap is the time from a device's
last use to the next. A device that is kept for exactly `worth` costs at most twice the optimum in every single gap. No other time
has that bound, because a device that is detached earlier may be wanted right afterwards. So the bound is kept for all gaps of a
model and fabric together: where earlier gaps cost less than twice the optimum, the difference is a credit, and a device is
detached earlier only if the credit covers the worst case. The credit begins with one attach. Hence, at any time: cost <= 2 *
optimum + one attach. The optimum knows when each gap ends, with the devices used as they were. A device that is detached sooner
for another reason, such as `rebalance`, is not counted.

A gap longer than `worth` counts as `worth` + 1. This choice keeps no device longer; time that a device idles beyond because it
may not be detached yet is not counted.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from msgspec.structs import replace

from dds_core.kit.policy import MICROSECONDS
from dds_core.scaler.model import Reuse

LEARNED = 64
"""The number of gaps that are remembered."""
ENOUGH = 8
"""With fewer gaps nothing is concluded."""
CLEAR = 0.95
"""A time is chosen if it would have cost less than this part of the cost of `worth`; a smaller saving may be chance."""
STEPS = 32
"""Idle times are rounded up to multiples of `worth` / STEPS, because each change makes the rules look at every idle device."""
_MOST = 16
"""The largest credit, in attaches: old savings must not pay for a change of habits."""


def begun(worth: int) -> Reuse:
    return Reuse(credit=worth, keep=worth)


def staked(row: Reuse, worth: int, since: int, idled: int) -> Reuse:
    """A device that idled since `since` was chosen for a detach after `idled`. From here on its next use costs an attach."""
    row = _settled(row, worth, since + idled)
    return _concluded(replace(row, credit=row.credit - _risk(worth, idled), gone=(*row.gone, (since, idled))), worth)


def taken_back(row: Reuse, worth: int, since: int, idled: int) -> Reuse:
    """The device was not detached after all."""
    if (since, idled) not in row.gone:
        return row
    place = row.gone.index((since, idled))
    left = (*row.gone[:place], *row.gone[place + 1 :])
    return _concluded(replace(row, credit=row.credit + _risk(worth, idled), gone=left), worth)


def used_again(row: Reuse, worth: int, since: int, at: int) -> Reuse:
    """A device that idled since `since` was taken."""
    gap = at - since
    return _concluded(_counted(_settled(row, worth, at), worth, gap, min(gap, worth)), worth)


def wanted(row: Reuse, worth: int, at: int) -> Reuse:
    """A device was attached. If the last detached one had stayed, this would be its use."""
    row = _settled(row, worth, at)
    if row.gone:
        *rest, last = row.gone
        row = _closed(replace(row, gone=tuple(rest)), worth, *last, at)
    return _concluded(row, worth)


def why(row: Reuse, worth: int) -> str:
    """Why `keep` is as it is, in words; "" when nothing has been learned."""
    if len(row.gaps) < ENOUGH:
        return ""
    within, beyond = sum(gap <= row.keep for gap in row.gaps), sum(gap > worth for gap in row.gaps)
    return (
        f"of the last {len(row.gaps)} that idled {within} were wanted again within {row.keep // MICROSECONDS} s"
        f" and {beyond} not within {worth // MICROSECONDS} s, which is what an attach is worth"
    )


def _settled(row: Reuse, worth: int, at: int) -> Reuse:
    """Close the gaps of devices that were detached so long ago that keeping them would have been a loss."""
    late = [one for one in row.gone if at - one[0] > worth]
    row = replace(row, gone=tuple(one for one in row.gone if one not in late))
    for since, idled in late:
        row = _closed(row, worth, since, idled, at)
    return row


def _closed(row: Reuse, worth: int, since: int, idled: int, at: int) -> Reuse:
    """The stake was for the worst case; what was not needed of it returns to the credit."""
    gap = at - since
    return _counted(row, worth, gap, 2 * (min(gap, worth) - min(idled, worth)))


def _counted(row: Reuse, worth: int, gap: int, saved: int) -> Reuse:
    gaps = (*row.gaps, min(gap, worth + 1))[-LEARNED:]
    return replace(row, gaps=gaps, credit=min(row.credit + saved, _MOST * worth))


def _risk(worth: int, idled: int) -> int:
    """What a detach after `idled` costs beyond twice the optimum if the device is wanted at once."""
    return max(0, worth - idled)


def _concluded(row: Reuse, worth: int) -> Reuse:
    """How long the next device is kept: what would have cost least for the last gaps, among the times that the credit allows."""
    keep = worth
    if len(row.gaps) >= ENOUGH:
        step = max(MICROSECONDS, worth // STEPS)
        gaps = sorted(row.gaps)
        until = [0, *accumulate(gaps)]

        def cost(time: int) -> int:
            within = bisect_right(gaps, time)
            return until[within] + (len(gaps) - within) * (time + worth)

        def rounded(time: int) -> int:
            return min(worth, -(-time // step) * step)

        least = rounded(max(0, worth - row.credit))
        # An eighth more than a known gap: the next one like it may be a little longer.
        times = {rounded(gap + gap // 8) for gap in gaps}
        best = min({least, *(time for time in times if least <= time)}, key=lambda time: (cost(time), -time))
        keep = best if cost(best) < CLEAR * cost(worth) else worth
    return replace(row, keep=keep)
