"""Giving devices back: which idle device goes, the fence around it, and the size that lets it go. Never trusted, always
checked again: a victim that is wanted is unmarked, one that went wrong is told.

The operator picks resources that are still attaching first and marked ones only second, so a size is lowered only when
nothing is attaching, and by exactly the marked number.
"""

from __future__ import annotations

from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.lifecycle import IDLE, LEAVING, MARKED
from dds_core.matching.records import claim_of
from dds_core.model import AttachRequest, DeviceKey, FabricResource
from dds_core.scaler import idleness
from dds_core.scaler.events import ClaimsListWanted, TaintLifted, VictimMarked, VictimUnmarked
from dds_core.scaler.fold.objects import SLICES
from dds_core.scaler.model import NO_DEVICE, DeviceLife, Fence, Hold
from dds_core.scaler.rules import holds
from dds_core.scaler.rules.assignment import Cover, cover
from dds_core.scaler.rules.devices import BEING_ATTACHED, held_key, is_given_up, progress_due, staying_of
from dds_core.scaler.rules.exchange import MOST_RESULTS
from dds_core.scaler.rules.failures import definite_due
from dds_core.scaler.rules.orders import Cell, ask, cell_of, limits_of, lower_size, published_free
from dds_core.scaler.state import Picture, Work

_RESCHEDULED = 30 * MICROSECONDS
"""From the end of a cool-down, within which a pod that waited for it is scheduled again: the kube-scheduler backs off for at most
10 s (KubeSchedulerConfiguration.podMaxBackoffSeconds)."""
TAKEN_SOON = "a pod nominated to the node could take it"

# -- marks -------------------------------------------------------------------------------------------------------------

# Marks that stand without a reason: those that were to come off and are still there, and those that nobody here has
# set. A mark behind which a fence stands is never touched.


def unmark(work: Work, node: str) -> None:
    """Take marks off that stand without a reason."""
    if work.picture.unmarked:
        _unmark_again(work, node)
    _unmark_strange(work, node)


def _unmark_again(work: Work, node: str) -> None:
    """A mark that we asked to take off and that is still there, after a restart or because the write came to nothing."""
    picture = work.picture
    for uid in sorted(uid for uid in picture.resources_at[node] if uid in picture.unmarked):
        resource = picture.resources.rows[uid]
        restarted = ("VictimUnmarked", uid) in picture.reissue
        if resource.marked and (restarted or (picture.live and not picture.unmarked.rows[uid])):
            why = "the mark was to come off before the restart" if restarted else "the mark was to come off before"
            work.want(VictimUnmarked(resource=uid, mode=picture.mode, name=resource.name, reason=why), uid)


def _unmark_strange(work: Work, node: str) -> None:
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
        if own is None or own.name != resource.request or resource.leaving:
            continue
        kept = [one for one in staying_of(picture, own) if not _is_ordered(picture, one.uid)]
        if own.size >= len(kept):
            why = "nobody here knows why it is marked"
            work.want(VictimUnmarked(resource=uid, mode=picture.mode, name=resource.name, reason=why), uid)


def _is_ordered(picture: Picture, uid: str) -> bool:
    """Whether we have lowered the size for it."""
    fence = picture.fences.get(uid)
    return fence is not None and fence.ordered


# -- vain --------------------------------------------------------------------------------------------------------------

# Orders in vain: what was ordered, cannot be had, and is needed by nobody any more is taken back.


def models_in_vain(picture: Picture, node: str) -> set[str]:
    """The models for which the fabric reports an error on a node, or of which something has been on its way for long."""
    here, late = picture.resources_at[node], picture.passed
    return {picture.resources.rows[uid].model for uid in here if uid in picture.erring or ("progress", uid) in late}


def call_off(work: Work, cell: Cell, own: AttachRequest, covers: list[Cover]) -> None:
    """Take back what was ordered, cannot be had, and is needed by nobody any more: as long as it hangs, no device of the request
    can go. The operator takes off first what has no device yet, then what is marked. So it is marked first: should its device
    come in that very moment, it goes all the same or is asked back, and none that is in use goes in its place."""
    picture = work.picture
    if picture.stale or _somebody_waits(picture, covers, cell.model.model):
        return
    staying = staying_of(picture, own)
    hanging = sorted((r for r in staying if r.state in BEING_ATTACHED), key=lambda r: r.name)
    going = [r for r in staying if r not in hanging and (r.marked or r.uid in picture.fences or r.uid in picture.holds)]
    if not all(_hangs(work, r) for r in hanging) or not cell.size == own.size == own.acted_size == len(staying):
        return
    low = limits_of(picture, cell.node, cell.model.model)[0]
    victims = hanging[: max(0, cell.size + cell.others - len(going) - low)]
    for resource in victims:
        if resource.uid not in picture.fences:
            work.want(_marking(picture, resource, NO_DEVICE, "the fabric has nothing for it"), resource.uid)
    if victims and all(r.marked and r.uid in picture.fences for r in victims) and _may_go(picture, going):
        lower_size(work, cell, own, victims, own.size - len(victims), unattached=True)


def _models_unmade(picture: Picture, node: str) -> set[str]:
    """The models of which a request asks for more than the operator has made, although it says that it is done. Its resources may
    be seen later than that, so it is looked at in level passes alone, and the writer looks again."""
    if picture.now != picture.level_at:
        return set()
    requests = (picture.requests.rows[uid] for uid in picture.requests_at[node])
    return {one.model for one in requests if _is_done(one) and one.size > len(picture.resources_of_request[one.name])}


def _fit_size(work: Work, cell: Cell, own: AttachRequest, covers: list[Cover]) -> None:
    """Ask for what is there where nobody waits for more. A size that was asked back as the device was taken off already stays
    above that: the operator makes none for it, and it takes a place of the node's maximum."""
    picture = work.picture
    owned, low = staying_of(picture, own), limits_of(picture, cell.node, cell.model.model)[0]
    if picture.stale or _somebody_waits(picture, covers, cell.model.model) or not _is_done(own):
        return
    if len(owned) < own.size == cell.size and len(owned) + cell.others >= low:
        lower_size(work, cell, own, [], len(owned))


def _may_go(picture: Picture, going: list[FabricResource]) -> bool:
    """Whether each of these could go at any moment."""
    fences = [picture.fences.get(one.uid) for one in going]
    return all(fence is not None and fence.confirmed for fence in fences)


def _somebody_waits(picture: Picture, covers: list[Cover], model: str) -> bool:
    """Whether a claim on the node waits for a device of the model."""
    return any(m.model == model for one in covers for _, _, m in picture.pool_results(one.claim.allocation))


def _hangs(work: Work, resource: FabricResource) -> bool:
    """Whether the fabric has said for long enough that it has no device for it, or has not brought one for very long."""
    due = definite_due(work.picture, resource.uid)
    late = progress_due(work.picture, resource.uid) if due is None else due
    return not (resource.uuid or resource.fabric_id) and late is not None and work.has_come(late)


# -- detach ------------------------------------------------------------------------------------------------------------

UNLISTED = 600 * MICROSECONDS
"""Microseconds from the fence after which a device that no slice lists keeps no other back."""


def detach(work: Work, node: str, covers: list[Cover], wanted: set[str]) -> None:
    """Choose what has idled long enough, lower the size of what may go, and take back what was ordered in vain. `wanted` are the
    resources that claims wait for."""
    picture = work.picture
    if picture.mode == "attach":
        return
    vain = models_in_vain(picture, node)
    models = {picture.devices.rows[uid].model for uid in picture.idle_at[node]} | vain
    if picture.fences:
        models |= {picture.resources.rows[uid].model for uid in picture.resources_at[node] if uid in picture.fences}
    unmade = _models_unmade(picture, node)
    for name in sorted(models | unmade):
        model = picture.model(name)
        if model is not None:
            cell = cell_of(picture, node, model)
            if cell.own is not None:
                _mark_idle(work, cell, cell.own, wanted)
                _lower(work, cell, cell.own)
                if name in vain:
                    call_off(work, cell, cell.own, covers)
                if name in unmade:
                    _fit_size(work, cell, cell.own, covers)


# --- hold --------------------------------------------------------------------------------------------------------------


def check_hold(work: Work, uid: str, wanted: set[str]) -> None:
    """Go on until the device is held, then mark it; from there on its fence decides what becomes of it."""
    picture = work.picture
    row = picture.holds.rows[uid]
    fence, resource = picture.fences.get(uid), picture.resources.get(uid)
    leaving = resource is not None and resource.leaving and row.stage == "held"
    if leaving and resource is not None and any(_is_of_another(picture, resource, key) for key in row.devices):
        holds.go_on(work, uid, row, "another device has its name by now")
    if leaving or (fence is not None and (picture.live or fence.ordered)):
        return
    why = "its resource is gone" if resource is None else _against_hold(work, resource, row, wanted)
    if resource is not None and row.stage == "held" and not why:
        work.want(_marking(picture, resource, row.devices[0], row.reason), uid)
    else:
        holds.go_on(work, uid, row, why)


def _is_of_another(picture: Picture, leaving: FabricResource, key: DeviceKey) -> bool:
    """Whether the name of a device that leaves is that of another device by now: its resource may hang long after its driver has
    given its name away."""
    now = picture.resource_of(key)
    return now is not None and now.uuid != leaving.uuid


def _against_hold(work: Work, resource: FabricResource, row: Hold, wanted: set[str]) -> str:
    picture, life = work.picture, work.picture.devices.get(resource.uid)
    why = _against_detach(work, resource, list(row.devices), wanted)
    if why:
        return why
    if set(_faces_of(picture, resource)) != set(row.devices):
        return "its names on the node have changed"
    if row.stage != "held" and _held_for_another(picture, resource.uid, list(row.devices)):
        return "another device is held by its name"
    if life is None or life.state != IDLE:
        return "it is idle no more"
    if _could_be_taken(picture, resource, list(row.devices)):
        return TAKEN_SOON
    return "the node's minimum keeps it" if _is_kept(picture, resource) else ""


def _against_detach(work: Work, resource: FabricResource, faces: list[DeviceKey], wanted: set[str]) -> str:
    """Why a device may not go whatever stands around it, "" when nothing is against it."""
    picture = work.picture
    if picture.mode != "detach":
        return f"mode is {picture.mode}"
    if any(picture.holders[key] for key in faces) or held_key(picture, resource.uid, resource) is not None:
        return "a claim holds it"
    if resource.uid in wanted or (resource.uuid and picture.promised(resource.uuid)):
        return "a claim waits for it"
    return ""


def _held_for_another(picture: Picture, uid: str, faces: list[DeviceKey]) -> bool:
    """Whether the hold of a device that leaves still has a name that this one has got since: of two that have a name the first to
    go frees it for everybody."""
    ours = picture.claims_holding[uid]
    return any(picture.held_as[key] - {uid} or picture.held_by[key] - ours for key in faces)


# --- fence -------------------------------------------------------------------------------------------------------------


def check_fence(work: Work, uid: str, wanted: set[str]) -> None:
    """Ask a victim back that may not go after all, else go on with what its fence waits for."""
    picture = work.picture
    resource, fence, life = picture.resources.rows[uid], picture.fences.rows[uid], picture.devices.get(uid)
    if life is None or (life.state != LEAVING and not is_given_up(picture, resource)):
        broken = (_broken if fence.named else _not_called_off)(work, resource, fence, wanted)
        if broken:
            _unmark(work, resource, fence, broken)
        elif fence.named and not fence.wanted and work.has_come(fence_due(picture, fence)):
            work.want(ClaimsListWanted(resource=uid, mode=picture.mode, fenced=fence.since), uid)
    if picture.reissue:
        _mark_again(work, uid)


def fence_due(picture: Picture, fence: Fence) -> int:
    return fence.since + picture.policy.fence_settle_seconds * MICROSECONDS


def _broken(work: Work, resource: FabricResource, fence: Fence, wanted: set[str]) -> str:
    """Why the victim may not go after all, "" while the fence holds. The garbage collector deletes a hold as soon as its resource
    is gone, and that may be seen first: a detach that was ordered is not called off for it, unless somebody has the device."""
    picture, faces = work.picture, _faces_of(work.picture, resource)
    why = _against_detach(work, resource, list({fence.key: None} | dict.fromkeys(faces)), wanted)
    if why:
        return why
    # Once the detach of a held device is ordered no pod can take it, and the operator, which may have begun, would order another.
    if not (fence.held and fence.ordered) and _could_be_taken(picture, resource, faces):
        return TAKEN_SOON
    if faces and fence.key not in faces:
        return "its name on the node has changed"
    if not faces and not fence.ordered and work.has_come(fence.since + UNLISTED):
        return "the node has not listed it for long, and others of its request wait for it"
    hold = picture.holds.get(resource.uid)
    lost = fence.held and (hold is None or hold.stage != "held")
    if lost and not (fence.ordered and not picture.claims_holding[resource.uid]):
        return "its hold was taken away"
    if fence.held and hold is not None and not set(faces) <= set(hold.devices):
        return "it has got another name on the node"
    if fence.held and not fence.ordered and fence.confirmed and work.has_come(fence.confirmed + UNLISTED):
        return "its size could not be lowered for long"
    if not fence.held and not fence.ordered and picture.policy.detach_without_fence == "never":
        return "nothing holds it"
    if not fence.ordered and _is_kept(picture, resource):
        return "the node's minimum keeps it"
    if fence.ordered and picture.live and _called_off(picture, resource):
        return "its detach was called off"
    return ""


def _not_called_off(work: Work, resource: FabricResource, fence: Fence, wanted: set[str]) -> str:
    """Why one that hangs, or that its node does not list, is not called off after all, "" while nothing is against it."""
    picture = work.picture
    if picture.mode != "detach":
        return f"mode is {picture.mode}"
    if resource.uid in wanted:
        return "a claim waits for it"
    if (resource.uuid or resource.fabric_id) and not _is_nowhere(picture, resource):
        return "its device has come"
    return "it was asked for again" if fence.ordered and picture.live and _called_off(picture, resource) else ""


def _is_kept(picture: Picture, resource: FabricResource, more: int = 0) -> bool:
    """Whether the node would have less than its minimum without those that are marked, and so many more: it, or what is
    there, may have changed since."""
    model = picture.model(resource.model)
    if model is None:
        return False
    cell = cell_of(picture, resource.node, model)
    here = (picture.resources.rows[uid] for uid in picture.resources_at[resource.node] if _is_going(picture, uid))
    going = sum(one.model == resource.model for one in here)
    return cell.size + cell.others - going - more < limits_of(picture, resource.node, model.model)[0]


def _is_going(picture: Picture, uid: str) -> bool:
    """Whether it was chosen to go, and its size is not lowered yet."""
    fence = picture.fences.get(uid)
    return not fence.ordered if fence is not None else uid in picture.holds


def _faces_of(picture: Picture, resource: FabricResource) -> list[DeviceKey]:
    """The names under which claims can hold the device, the whole of it first; none while its node does not list it."""
    return sorted(picture.names_of(resource), key=lambda key: (picture.face(key).part, key))


def _is_nowhere(picture: Picture, resource: FabricResource) -> bool:
    """Whether no node lists it, its own for long, and no other resource is the same device."""
    alone = not picture.keys_of[resource.uuid] and len(picture.resources_of_uuid[resource.uuid]) == 1
    return alone and picture.is_missed(resource.uid)


def _could_be_taken(picture: Picture, resource: FabricResource, faces: list[DeviceKey]) -> bool:
    """Whether a pending pod nominated to the node has a claim without allocation that the device, or a part of it, could
    satisfy."""
    for uid in picture.pods_nominated[resource.node]:
        pod = picture.pods.rows[uid]
        if pod.node or pod.deleting:
            continue
        known = picture.claims_of(pod)
        if len(known) < len(pod.claims):
            return True
        allocator, waiting = picture.allocator(resource.node), [one for one in known if one.allocation is None]
        if any(
            not one.known or allocator.selects(claim_of(one, one.requests), key) for one in waiting for key in faces
        ):
            return True
    return False


def _unmark(work: Work, resource: FabricResource, fence: Fence, why: str) -> None:
    """Take the mark off. When the size was lowered for it, the size comes back first: an operator that has one to take off and
    finds none marked takes another, and that may be in use."""
    picture = work.picture
    model = picture.model(resource.model)
    if fence.ordered and model is not None:
        cell = cell_of(picture, resource.node, model)
        if cell.own is not None:
            staying = len(staying_of(picture, cell.own))
            if cell.size < staying:
                cell.size += 1
                ask(work, cell, "victim wanted after its detach was ordered")
            if cell.own.size < staying:
                return
    work.want(
        VictimUnmarked(resource=resource.uid, mode=picture.mode, name=resource.name, reason=why),
        resource.uid,
    )


def _called_off(picture: Picture, resource: FabricResource) -> bool:
    """Whether the size that was lowered for a victim was asked back."""
    model = picture.model(resource.model)
    cell = cell_of(picture, resource.node, model) if model is not None else None
    return cell is not None and cell.own is not None and cell.size >= len(staying_of(picture, cell.own))


_QUIET = 2 * MICROSECONDS


def lift(work: Work, uid: str) -> None:
    """Delete a DeviceTaintRule of an older dds, while no slice changes: the scheduler of Kubernetes 1.36.0 to 1.36.2 exits when
    one does while there is a rule (Kubernetes pull request 139651)."""
    picture = work.picture
    rule = picture.rules.get(uid)
    if rule is None or rule.deleting or uid not in picture.our_rules or uid in picture.lifted:
        return
    if work.has_come(quiet_due(picture)):
        work.want(TaintLifted(rule=uid, name=rule.name, mode=picture.mode), uid)


def quiet_due(picture: Picture) -> int:
    """The instant from which on no slice has changed lately; what changed before a start is not known."""
    return max(picture.passed.get(SLICES) or 0, picture.level_at) + _QUIET


def _mark_again(work: Work, uid: str) -> None:
    """After a restart: a victim whose fence still holds and whose mark never arrived."""
    picture = work.picture
    resource, fence = picture.resources.rows[uid], picture.fences.get(uid)
    if ("VictimMarked", uid) in picture.reissue and fence is not None and not resource.marked:
        work.want(_marking(picture, resource, fence.key, "it was marked before the restart"), uid)


# --- victims -----------------------------------------------------------------------------------------------------------


def idle_due(picture: Picture, uid: str) -> int:
    """The instant at which an idle device has idled long enough to go, and may be held again."""
    life = picture.devices.rows[uid]
    idled = life.idle_since + picture.idle_time(life.node, life.model)
    return max(idled, holds.pause_due(picture, uid), _next_attempt_due(picture, life))


def _next_attempt_due(picture: Picture, life: DeviceLife) -> int:
    """The instant by which a claim for which such devices came too late has had another attempt, 0 without one. A claim of
    several would begin from nothing each time, on a fabric that brings one after the other."""
    failures = (picture.failures.rows[claim] for claim in picture.failed_at[life.node])
    late = (one.since for one in failures if one.model == life.model and one.late)
    pause = picture.policy.cool_down_seconds * MICROSECONDS + _RESCHEDULED
    return max((since + pause for since in late), default=0)


def _mark_idle(work: Work, cell: Cell, own: AttachRequest, wanted: set[str]) -> None:
    picture = work.picture
    here = [picture.resources.rows[uid] for uid in picture.idle_at[cell.node] - wanted]
    idle = [
        r for r in here if r.request == own.name and _is_idle(picture, r) and work.has_come(idle_due(picture, r.uid))
    ]
    if not idle:
        return
    idle.sort(key=lambda r: (picture.devices.rows[r.uid].idle_since, r.name))
    low = limits_of(picture, cell.node, cell.model.model)[0]
    owned = [picture.resources.rows[uid] for uid in picture.resources_of_request[own.name]]
    marked = sum(_is_marked(picture, r.uid) or r.uid in picture.holds for r in owned)
    useless = [r for r in idle if _is_nowhere(picture, r)]  # the node's minimum is of devices that can be used
    spare = cell.size + cell.others - marked - low - len(useless)
    for resource in [*useless, *[r for r in idle if r not in useless][: max(0, spare)]]:
        # Marking the one before may have changed how long this one is worth keeping.
        if work.has_come(idle_due(picture, resource.uid)):
            mark(work, resource, _idle_reason(picture, cell))


def _idle_reason(picture: Picture, cell: Cell) -> str:
    name = cell.model.model
    row = picture.reuse.get(picture.place(cell.node, name)) if picture.policy.learns_idle else None
    learned = idleness.why(row, picture.policy.longest_idle) if row is not None else ""
    seconds = picture.idle_time(cell.node, name) // MICROSECONDS
    return f"idle for {seconds} s{'; ' + learned if learned else ''}"


def mark(work: Work, resource: FabricResource, reason: str) -> bool:
    """Choose the device as the next to go, unless its hold or fence would be broken at once; a hold comes first where devices can
    be held. One that its node has not listed for long has no name by which it could be held or taken."""
    picture = work.picture
    faces = _faces_of(picture, resource)
    life = picture.devices.get(resource.uid)
    if life is None or not may_mark(picture, work.at):
        return False
    if _is_nowhere(picture, resource):
        why = f"{reason}, and its node does not list it"
        return work.want(_marking(picture, resource, NO_DEVICE, why), resource.uid)
    if _is_kept(picture, resource, more=1):
        return False
    if not faces or _could_be_taken(picture, resource, faces) or _held_for_another(picture, resource.uid, faces):
        return False
    if holds.are_possible(picture, work.at) and len(faces) <= MOST_RESULTS:
        return holds.begin(work, resource, faces, reason)
    return _may_go_unheld(picture) and work.want(_marking(picture, resource, faces[0], reason), resource.uid)


def _marking(picture: Picture, resource: FabricResource, key: DeviceKey, reason: str) -> VictimMarked:
    return VictimMarked(
        resource=resource.uid,
        mode=picture.mode,
        name=resource.name,
        node=resource.node,
        model=resource.model,
        uuid=resource.uuid,
        driver=key[0],
        pool=key[1],
        device=key[2],
        reason=reason,
        idle_since=picture.devices.rows[resource.uid].idle_since,
    )


def may_mark(picture: Picture, at: int) -> bool:
    """Nothing goes while a view is stale; detaches per hour are capped, and where no device can be held the policy may forbid
    them."""
    if picture.stale or not (holds.are_possible(picture, at) or _may_go_unheld(picture)):
        return False
    recent = sum(marked > at - HOUR for marked in picture.marks.rows.values())
    return recent < picture.policy.detaches_per_hour


def _may_go_unheld(picture: Picture) -> bool:
    """Not before it is known whether it can be held: after a start the answer takes longer than a scheduler needs to take it."""
    return picture.policy.detach_without_fence == "best_effort" and not picture.unanswered


def _is_idle(picture: Picture, resource: FabricResource) -> bool:
    """Online, in no claim's hands, and meant for none."""
    life = picture.devices.get(resource.uid)
    chosen = resource.uid in picture.fences or resource.uid in picture.holds
    free = life is not None and life.state == IDLE and not chosen
    return free and not picture.promised(resource.uuid)


def _is_marked(picture: Picture, uid: str) -> bool:
    life = picture.devices.get(uid)
    return life is not None and life.state == MARKED


def _lower(work: Work, cell: Cell, own: AttachRequest) -> None:
    """Lower the size by exactly the marked victims, when nothing else could go in their place. One that somebody takes off
    already is none: its place is filled again, and a lower size would cost another."""
    picture = work.picture
    owned = [picture.resources.rows[uid] for uid in picture.resources_of_request[own.name]]
    victims = [r for r in owned if r.uid in picture.fences and _is_marked(picture, r.uid)]
    if picture.stale or not victims or not all(_may_leave(picture, r) for r in victims):
        return
    if any(picture.fences.rows[r.uid].ordered for r in victims) or not all(r.marked for r in victims):
        return
    if cell.size != own.size or not _at_rest(picture, own, owned):
        return
    if any(r.marked and r.uid not in picture.fences for r in owned):
        return
    lower_size(work, cell, own, victims, own.size - len(victims))


def _may_leave(picture: Picture, resource: FabricResource) -> bool:
    """Whether the fence is confirmed, and the device not in a gap of the slices, which tells nothing."""
    fence = picture.fences.rows[resource.uid]
    if not fence.named:
        return _is_nowhere(picture, resource)
    return bool(fence.confirmed) and fence.key in _faces_of(picture, resource)


def _at_rest(picture: Picture, own: AttachRequest, owned: list[FabricResource]) -> bool:
    """Whether the operator is done with the request: its size is there, no more and no less, and nothing is attaching."""
    done = _is_done(own) and own.size == len(staying_of(picture, own))
    return done and not any(r.state in BEING_ATTACHED for r in owned)


def _is_done(own: AttachRequest) -> bool:
    return own.state == "Running" and own.acted_size == own.size


def check_departures(work: Work, uid: str) -> None:
    """A device that leaves while another was marked, or under a claim, is told to a person."""
    picture = work.picture
    resource, life = picture.resources.get(uid), picture.devices.get(uid)
    if resource is None or life is None or life.state != LEAVING:
        return
    fence = picture.fences.get(uid)
    others = [o for o in picture.resources_of_request[resource.request] if (f := picture.fences.get(o)) and f.ordered]
    if fence is None and others:
        work.alert(
            uid, "WrongVictim", f"{resource.name} leaves {resource.node} although another device was marked to go"
        )
    known = [life.key] if life.key is not None else []
    if fence is not None:
        known = [] if _is_of_another(picture, resource, fence.key) else [fence.key]
    key = next((key for key in (*known, *_faces_of(picture, resource)) if picture.holders[key]), None)
    if key is not None:
        work.alert(
            uid,
            "DetachedInUse",
            f"{resource.name} ({resource.uuid}) leaves {resource.node} while a claim holds {key[2]}",
        )


# --- a pool that is empty ----------------------------------------------------------------------------------------------


def rebalance(work: Work, node: str, covers: list[Cover]) -> None:
    """When a claim waits and the pool shows nothing, mark the device of its model that has idled longest elsewhere. A fabric
    that fails could not bring it."""
    picture = work.picture
    if not picture.policy.rebalance or picture.mode == "attach":
        return
    for covered in covers:
        for name in dict.fromkeys(covered.missing):
            model = picture.model(name)
            if model is None or picture.fails(picture.fabric_of.get(node, ""), name):
                continue
            if published_free(picture, node, model) == 0:  # None: the pool is not known whole
                _free_elsewhere(work, node, name, covered.missing.count(name))


def _free_elsewhere(work: Work, node: str, model: str, count: int) -> None:
    picture = work.picture
    on_the_way = [
        uid
        for uid in picture.fences.rows.keys() | picture.holds.rows.keys()
        if (r := picture.resources.get(uid)) and r.model == model and r.node != node
    ]
    candidates = []
    for uid in picture.idle_of_model[model]:
        resource = picture.resources.get(uid)
        if resource is None or resource.node == node or not _is_idle(picture, resource):
            continue
        named = picture.model(model)
        cell = cell_of(picture, resource.node, named) if named is not None else None
        if cell is not None and cell.own is not None and cell.own.name == resource.request:
            candidates.append((picture.devices.rows[uid].idle_since, resource.name, resource))
    candidates.sort(key=lambda row: row[:2])
    left = count - len(on_the_way)
    for _, _, resource in candidates:
        if left > 0 and not _wanted_there(picture, resource):
            left -= mark(work, resource, f"wanted for {model} on {node}, and the pool is empty")


def _wanted_there(picture: Picture, resource: FabricResource) -> bool:
    """Whether a claim on the device's own node waits for it: two nodes would take each other's devices in turn."""
    return any(resource.uid in one.resources for one in cover(picture, resource.node))
