"""What follows from a fact that was just folded: what Cluster Autoscaler is answered and shown, which servers are ordered or
given back.

Whatever a rule emits is folded at once so that the next one sees it.
"""

from __future__ import annotations

from dds_core.autoscaler.fold import apply
from dds_core.autoscaler.rules import asks, servers
from dds_core.autoscaler.state import Fleet, Work


def decide(state: Fleet, at: int, *, keep: bool = False) -> Work:
    """What follows from the fact that was folded last, at the instant `at`: `emitted` of what is given. The state is left as
    it was, or with `keep` what follows is folded. Before `Synced` nothing follows: the state is not whole yet."""
    return Work(state, at, apply, chained=False).decide(_run, keep)


def _run(work: Work) -> None:
    state = work.state
    if state.dirty.everything and state.synced:
        state.touch_everything()
        work.touched.everything = True
    dirty = state.dirty.take()
    work.touched.add(dirty)
    if state.synced:
        work.check_config(state.config.uid)
        for asked in dirty.asked:
            work.guarded("asks.answer", asks.answer, asked, subject=asked.subject)
        for order in sorted(dirty.orders):
            work.guarded("servers.follow", servers.follow, order)
        for server in sorted(dirty.servers):
            work.guarded("servers.give_back", servers.give_back, server)
        for node in sorted(dirty.nodes):
            work.guarded("servers.open", servers.open, node)
        work.touched.add(state.dirty.take())
