"""The folds of facts about ourselves: start, policy, the whole cluster seen, deadlines."""

from __future__ import annotations

from dds_core.autoscaler import events as e
from dds_core.autoscaler.fold.decisions import void_unseen
from dds_core.autoscaler.policy import read_autoscale_policy
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.work import Fold


def _policy(picture: Fleet, event: e.PolicyChanged, at: int) -> None:
    picture.policy = read_autoscale_policy(event.policy)
    picture.dirty.everything = True


def _synced(picture: Fleet, event: e.Synced, at: int) -> None:
    kit.synced(picture, at, void_unseen)
    picture.dirty.everything = True


def _deadline(picture: Fleet, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.dirty.everything = True
        case "retry":
            picture.dirty.everything = True
        case "compose":
            picture.dirty.orders.add(event.of)


FOLDS: dict[type[Event], Fold] = {
    e.PolicyChanged: _policy,
    e.Capabilities: kit.nothing,
    e.Synced: _synced,
    e.DeadlinePassed: _deadline,
}
