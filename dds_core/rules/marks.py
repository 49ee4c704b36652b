"""Marks that stand without a reason: those that were to come off and are still there, and those that nobody here has set. A mark
behind which a fence stands is never touched.
"""

from __future__ import annotations

from dds_core.events import VictimUnmarked
from dds_core.picture import Picture
from dds_core.rules.devices import BEING_DETACHED
from dds_core.rules.orders import cell_of, staying_of
from dds_core.rules.work import Work


def unmark_again(work: Work, node: str) -> None:
    """A mark that we asked to take off and that is still there, after a restart or because the write came to nothing."""
    picture = work.picture
    for uid in sorted(uid for uid in picture.resources_at[node] if uid in picture.unmarked):
        resource = picture.resources.rows[uid]
        restarted = ("VictimUnmarked", uid) in picture.reissue
        if resource.marked and (restarted or (picture.live and not picture.unmarked.rows[uid])):
            why = "the mark was to come off before the restart" if restarted else "the mark was to come off before"
            work.want(VictimUnmarked(resource=uid, mode=picture.mode, name=resource.name, reason=why), uid)


def unmark_strange(work: Work, node: str) -> None:
    """A mark that no fence of ours stands behind, such as that of a scaler whose log is gone: the operator would take that device
    first, in use or not, and as long as it is there no device of the request can go. What idles is marked again in its turn.

    Not while the request is smaller than what stays of it, and not for victims of ours alone: the mark says which device the
    operator is about to take, and without it that would be another."""
    picture = work.picture
    strange = sorted(
        uid
        for uid in picture.resources_at[node]
        if picture.resources.rows[uid].marked and uid not in picture.fences and uid not in picture.unmarked
    )
    for uid in strange if picture.live else ():
        resource = picture.resources.rows[uid]
        model = picture.model(resource.model)
        own = cell_of(picture, node, model).own if model is not None else None
        leaving = resource.deleting or resource.state in BEING_DETACHED
        if own is None or own.name != resource.request or leaving:
            continue
        kept = [one for one in staying_of(picture, own) if not _is_ordered(picture, one.uid)]
        if own.size >= len(kept):
            why = "nobody here knows why it is marked"
            work.want(VictimUnmarked(resource=uid, mode=picture.mode, name=resource.name, reason=why), uid)


def _is_ordered(picture: Picture, uid: str) -> bool:
    """Whether we have lowered the size for it."""
    fence = picture.fences.get(uid)
    return fence is not None and fence.ordered
