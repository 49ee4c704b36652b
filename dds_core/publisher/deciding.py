"""`decide`: which pools and node labels follow from the last fact. What a rule emits is folded at once, for the next rule."""

from __future__ import annotations

from dds_core.kit.work import Keep
from dds_core.publisher.folds import apply
from dds_core.publisher.rules import labels, pools
from dds_core.publisher.state import PoolState, Work, stream_of


def decide(state: PoolState, at: int, *, keep: Keep[PoolState] = False) -> Work:
    """Run the rules at the instant `at`; `emitted` of the result is what follows from the last fact. The state is afterwards as
    it was, unless `keep`. Before `Synced` nothing follows, because the state is incomplete. Each pool and each node is looked at
    once: no rule touches what another has settled."""
    return Work(state, at, apply, chained=False).decide(_run, keep)


def _run(work: Work) -> None:
    state = work.state
    if state.dirty.everything and state.process.synced:
        state.touch_everything()
        work.touched.everything = True
    dirty = state.dirty.take()
    work.touched.add(dirty)
    if state.process.synced:
        work.check_config(state.config.uid if state.config is not None else "")
        for key in sorted(dirty.pools):
            work.isolated("pools.step", pools.step, key, subject=stream_of(key))
        for name in sorted(dirty.hosts):
            work.isolated("labels.step", labels.step, name)
        work.touched.add(state.dirty.take())
