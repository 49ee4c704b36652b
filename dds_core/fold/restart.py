"""What a restart makes of intents: a decision whose outcome the cluster does not show is void, so that the level pass that
follows decides it again. Reservations stand: they are promises, not writes. Part of the fold; it never decides.
"""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.model import FAILED_CONDITION, RESCHEDULE, Claim
from dds_core.picture import Picture

Reissue = set[tuple[str, str]]
"""(type of decision, what it was about), as `dds_core.fold.shown_key` names them."""


def void_unseen(picture: Picture, at: int) -> Reissue:
    """Void every intent that the cluster does not show; gives what is re-issued if it is decided again."""
    unseen: Reissue = set()
    _orders(picture, unseen)
    _hand_overs(picture, unseen)
    _failures(picture, unseen)
    _labels(picture, unseen)
    _fences(picture, unseen, at)
    return unseen


def _orders(picture: Picture, unseen: Reissue) -> None:
    for cell in list(picture.orders):
        picture.orders.drop(cell)
        unseen |= {("AttachOrdered", "/".join(cell)), ("DetachOrdered", "/".join(cell))}


def _hand_overs(picture: Picture, unseen: Reissue) -> None:
    for uid, row in list(picture.hand_overs.rows.items()):
        if not _told(picture.claims.get(uid), RESCHEDULE):
            picture.hand_overs.drop(uid)
            unseen.add(("HandOver", uid))
        elif row.steered:
            picture.hand_overs.put(uid, replace(row, steered=False))
            unseen.add(("Steered", row.pod))


def _failures(picture: Picture, unseen: Reissue) -> None:
    for uid, row in list(picture.failures.rows.items()):
        if row.signalled and not _told(picture.claims.get(row.on), FAILED_CONDITION):
            picture.failures.put(uid, replace(row, signalled=False))
            unseen.add(("FailureSignalled", uid))


def _told(claim: Claim | None, condition: str) -> bool:
    return claim is not None and any(c.type == condition and c.status == "True" for c in claim.conditions)


def _labels(picture: Picture, unseen: Reissue) -> None:
    for key in list(picture.labelled):
        picture.labelled.drop(key)
        unseen |= {("NodeLabelled", key[0]), ("NodeLabelled", f"{key[0]}:ready")}


def _fences(picture: Picture, unseen: Reissue, at: int) -> None:
    """A fence that was watched by a process that is gone starts anew; a mark that is not there is to be written again."""
    for uid, fence in list(picture.fences.rows.items()):
        resource = picture.resources.get(uid)
        if resource is None:
            picture.fences.drop(uid)
            continue
        picture.fences.put(uid, replace(fence, since=at, wanted=False, confirmed=0, ordered=False))
        unseen.add(("ClaimsListWanted", uid))
        if not resource.marked:
            unseen.add(("VictimMarked", uid))
    for uid in list(picture.unmarked):
        unseen.add(("VictimUnmarked", uid))
    for uid in list(picture.lifted):
        picture.lifted.drop(uid)
        unseen.add(("TaintLifted", uid))
