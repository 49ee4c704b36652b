"""`decide`: what Cluster Autoscaler is answered and shown, and which servers are ordered or given back. What a rule emits is
folded at once, so that the next rule sees it."""

from __future__ import annotations

from dds_core.autoscaler.folds import apply
from dds_core.autoscaler.rules import asks, servers
from dds_core.autoscaler.state import Fleet, Work
from dds_core.kit.work import Keep


def decide(state: Fleet, at: int, *, keep: Keep[Fleet] = False) -> Work:
    """Run the rules at the instant `at`; `emitted` of the result is what follows from the last fact. The state is afterwards as
    it was, unless `keep`. Before `Synced` nothing follows, because the state is incomplete."""
    return Work(state, at, apply, chained=False).decide(_run, keep)


def _run(work: Work) -> None:
    state = work.state
    if state.dirty.everything and state.process.synced:
        state.touch_everything()
        work.touched.everything = True
    dirty = state.dirty.take()
    work.touched.add(dirty)
    if state.process.synced:
        work.check_config(state.config.uid)
        for asked in dirty.asked:
            work.isolated("asks.answer", asks.answer, asked, subject=asked.subject)
        for order in sorted(dirty.orders):
            work.isolated("servers.follow", servers.follow, order)
        for server in sorted(dirty.servers):
            work.isolated("servers.give_back", servers.give_back, server)
        for node in sorted(dirty.nodes):
            work.isolated("servers.remove_startup_taint", servers.remove_startup_taint, node)
        work.touched.add(state.dirty.take())
