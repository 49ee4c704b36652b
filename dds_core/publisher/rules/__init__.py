"""What follows from a fact that was just folded: which pools and which node labels are wanted now.

Whatever a rule emits is folded at once so that the next one sees it.
"""

from __future__ import annotations

from dds_core.publisher.fold import apply
from dds_core.publisher.rules import labels, pools
from dds_core.publisher.state import PoolState, Work, stream_of


def decide(state: PoolState, at: int, *, keep: bool = False) -> Work:
    """What follows from the fact that was folded last, at the instant `at`: `emitted` of what is given. The state is left as
    it was, or with `keep` what follows is folded. Before `Synced` nothing follows: the state is not whole yet.

    Each pool and each node is looked at once: no rule touches what another has settled.
    """
    return Work(state, at, apply, chained=False).decide(_run, keep)


def _run(work: Work) -> None:
    state = work.state
    if state.dirty.everything and state.synced:
        state.touch_everything()
        work.touched.everything = True
    dirty = state.dirty.take()
    work.touched.add(dirty)
    if state.synced:
        work.check_config(state.config.uid if state.config is not None else "")
        for key in sorted(dirty.pools):
            work.guarded("pools.step", pools.step, key, subject=stream_of(key))
        for name in sorted(dirty.hosts):
            work.guarded("labels.step", labels.step, name)
        work.touched.add(state.dirty.take())
