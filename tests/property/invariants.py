"""What must hold after every step, whatever the stream. Written against the rows of the picture, not against its indexes
or the functions of the rules, so that a fault there does not hide itself."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dds_core.engine import Step
from dds_core.kit.state import Index
from dds_core.kit.work import RULE_ERROR
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE
from dds_core.model import Device
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.deadlines import Agenda, deadlines
from dds_core.scaler.model import model_of_pool
from dds_core.scaler.state import Picture, dump, load

INTENTS = (
    *("reservations", "orders", "hand_overs", "failures", "cooling", "fences", "labelled", "marks", "unmarked"),
    *("exchanges", "guarded", "holds"),
)
"""The tables that hold what we decided. In mode observe nothing is added to them."""

_CLAIM_ROWS = {(row.trigger, row.source, row.target) for row in CLAIM_TABLE}
_DEVICE_ROWS = {(row.trigger, row.source, row.target) for row in DEVICE_TABLE}

MEMOS = ("limits", "reach", "spoken_for")
"""What was found out once: other rules may ask for more of it, or for less."""

_INDEXES = (
    *(
        n
        for n, v in vars(Picture()).items()
        if isinstance(v, (Index, dict)) and n not in MEMOS and not n.startswith("_")
    ),
    *("drivers", "config", "mode", "live", "under_way", "units_coming", "our_rules"),
)


def intents(picture: Picture) -> dict[str, dict[Any, Any]]:
    return {name: dict(getattr(picture, name).rows) for name in INTENTS}


def indexes(picture: Picture) -> dict[str, Any]:
    """Every index, as plain data."""
    found = {name: getattr(picture, name) for name in _INDEXES}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Index):
        return {key: set(members) for key, members in value.items()}
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else value


def trace(picture: Picture) -> tuple[Any, ...]:
    """All that `decide` could leave a trace in."""
    dirty = picture.dirty
    marks = (set(dirty.claims), set(dirty.devices), set(dirty.nodes), dirty.everything, set(dirty.freed))
    return dump(picture), indexes(picture), marks


def check(engine: Engine, step: Step, before: dict[str, dict[Any, Any]], streams: set[str]) -> None:
    picture = engine.picture
    _legal_edges(step)
    _known_streams(step, streams)
    _promised_once(picture)
    _nothing_folded_in_observe(picture, step, before)
    for decision in step.decisions:
        if isinstance(decision, e.DetachOrdered):
            _victims_are_free(picture, decision)
            _not_below_min(picture, decision)
        elif isinstance(decision, e.AttachOrdered):
            _not_above_max(picture, decision, before["orders"])
        elif isinstance(decision, e.DeviceHeld):
            _named_by_nobody(picture, set(decision.devices), "")
        elif isinstance(decision, e.DevicesGiven):
            _named_by_nobody(picture, {one.key for one in decision.swap.results if one.whole}, decision.claim)
        elif isinstance(decision, e.HandOver) and decision.mode != "observe":
            _reserved_before_signal(picture, step, decision)
    assert not picture.dirty, "something is left to look at"
    assert not [d for d in step.decisions if isinstance(d, e.Alerted) and d.reason == RULE_ERROR], step.decisions


def check_rebuilt(engine: Engine) -> None:
    """The picture survives a checkpoint, with all that is derived from it, and the agenda is that of the picture."""
    picture = engine.picture
    plain = dump(picture)
    again = load(plain)
    assert dump(again) == plain
    kept, built = indexes(picture), indexes(again)
    different = {name: (kept[name], built[name]) for name in kept if kept[name] != built[name]}
    assert not different, f"kept and rebuilt indexes differ: {different}"
    for cell, limits in picture.limits.items():
        assert limits == _limits(picture, *cell), f"the limits kept of {cell} are old"
    for key, model in picture._pool_models.items():
        assert model == model_of_pool(picture.config, *key), f"the model kept of pool {key} is old"
    due = {(one.kind, one.of): one.due for one in deadlines(picture)}
    assert isinstance(engine.agenda, Agenda)
    kept_due = engine.agenda._due
    assert kept_due == due, (
        f"the agenda has {kept_due.items() - due.items()} and should {due.items() - kept_due.items()}"
    )


def _legal_edges(step: Step) -> None:
    for move in step.transitions:
        if isinstance(move, e.ClaimMoved):
            assert (move.trigger, move.source, move.target) in _CLAIM_ROWS
        elif isinstance(move, e.DeviceMoved):
            assert (move.trigger, move.source, move.target) in _DEVICE_ROWS


def _known_streams(step: Step, streams: set[str]) -> None:
    unknown = [event for event, _ in step.caused if event.subject not in streams]
    assert not unknown, f"no fact was ever about the stream of {unknown}"
    causes = [cause for _, cause in step.caused]
    assert all(0 <= cause <= place for place, cause in enumerate(causes)), "something is caused by what comes after it"


def _shared(picture: Picture, key: tuple[str, str, str]) -> bool:
    return any(one.shared for one in _listed(picture, key))


def _listed(picture: Picture, key: tuple[str, str, str]) -> list[Device]:
    slices = picture.slices.rows.values()
    return [s.devices[key[2]] for s in slices if (s.driver, s.pool) == key[:2] and key[2] in s.devices]


def _promised_once(picture: Picture) -> None:
    """No device is promised to two, in live modes by reservations and in observe by what stands ready. A device without a
    UUID is known by its name."""
    holders: dict[Any, set[str]] = defaultdict(set)
    if picture.live:
        for key, row in picture.reservations.rows.items():
            for promise in row.promises:
                name = (promise.driver, promise.pool, promise.device)
                if not _shared(picture, name):
                    holders[promise.uuid or name].add(key)
    else:
        for uid, life in picture.lives.rows.items():
            for promise in life.promises:
                name = (promise.driver, promise.pool, promise.device)
                if not _shared(picture, name):
                    holders[promise.uuid or name].add(uid)
    twice = {name: who for name, who in holders.items() if len(who) > 1}
    assert not twice, f"promised twice: {twice}"


def _named_by_nobody(picture: Picture, keys: set[tuple[str, str, str]], but: str) -> None:
    """Before a claim is allocated devices by us, no other claim is known to have one of them."""
    for uid, claim in picture.claims.rows.items():
        had = {one.key for one in claim.allocation.results} if claim.allocation is not None else set()
        assert uid == but or not had & keys, f"{claim.name} has {had & keys}"


def _nothing_folded_in_observe(picture: Picture, step: Step, before: dict[str, dict[Any, Any]]) -> None:
    """What a decision of mode observe would put is not there; facts and transitions may only take away."""
    if picture.mode == "observe":
        for name in INTENTS:
            added = getattr(picture, name).rows.keys() - before[name].keys()
            assert not added, f"{name} of {added} in mode observe, after {step.fact}"
    for decision in step.decisions:
        undoes = isinstance(decision, e.HoldEnded | e.GuardLifted | e.ExchangeEnded)
        assert getattr(decision, "mode", picture.mode) == (picture.undoing_mode if undoes else picture.mode)


def _held_uuids(picture: Picture) -> set[str]:
    """The UUIDs of the node-local devices that claims hold, by the newest generation of each pool."""
    newest: dict[tuple[str, str], int] = defaultdict(int)
    for one in picture.slices.rows.values():
        newest[one.driver, one.pool] = max(newest[one.driver, one.pool], one.generation)
    names: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for one in picture.slices.rows.values():
        if one.node and one.generation == newest[one.driver, one.pool]:
            for name, device in one.devices.items():
                names[one.driver, one.pool, name].add(str(device.attributes.get("uuid", "")))
    held: set[str] = set()
    for claim in picture.claims.rows.values():
        for result in claim.allocation.results if claim.allocation is not None else ():
            held |= names[result.key]
    return held - {""}


def _victims_are_free(picture: Picture, decision: e.DetachOrdered) -> None:
    held = _held_uuids(picture)
    for uid in decision.victims:
        victim = picture.resources.rows[uid]
        assert victim.uuid not in held, f"{uid} is to be detached and a claim holds {victim.uuid}"
        promised = [
            k for k, row in picture.reservations.rows.items() if any(p.uuid == victim.uuid for p in row.promises)
        ]
        assert not promised, f"{uid} is to be detached and is promised to {promised}"
        assert victim.node == decision.node and victim.model == decision.model
    assert decision.size == decision.previous - len(decision.victims) >= 0


def _limits(picture: Picture, node: str, model: str) -> tuple[int, int]:
    policy = picture.policy
    limit = policy.limits.get(f"{node}/{model}") or policy.limits.get(model) or policy.limit
    labels = next((one.labels for one in picture.nodes.rows.values() if one.name == node), {})
    device = next((one.device for one in picture.config.models if one.model == model), "")
    low, high = (labels.get(f"{picture.config.prefix}/{device}-size-{end}", "") for end in ("min", "max"))
    top = int(high) if high.isdigit() else limit.max
    return min(int(low) if low.isdigit() else limit.min, top), top


def _not_above_max(picture: Picture, decision: e.AttachOrdered, orders: dict[Any, Any]) -> None:
    """Except for a size that is asked back: the device is in use, and a lower maximum is no reason to take it away. An order that
    takes back a lower size which was not written yet may leave the request as it is."""
    if decision.reason == e.WITHDRAWN:
        taken_back = orders[decision.node, decision.model]
        assert (decision.previous or 0) <= decision.size < taken_back.size
        return
    if not decision.reason.startswith("victim"):
        assert decision.size <= _limits(picture, decision.node, decision.model)[1], decision
    standing = orders.get((decision.node, decision.model))
    least = min(decision.previous or 0, standing.size) if standing is not None else decision.previous
    assert decision.previous is None or least is None or decision.size > least or decision.reason.startswith("victim")


def _not_below_min(picture: Picture, decision: e.DetachOrdered) -> None:
    """Counted with what other requests brought to the node."""
    others = [
        one
        for one in picture.resources.rows.values()
        if (one.node, one.model) == (decision.node, decision.model) and one.request != decision.request
    ]
    low = _limits(picture, decision.node, decision.model)[0]
    asked = sum(r.size for r in picture.requests.rows.values() if r.node == decision.node and r.model == decision.model)
    assert decision.size + max(len(others), asked - decision.previous) >= low, f"{decision} leaves less than {low}"


def _reserved_before_signal(picture: Picture, step: Step, decision: e.HandOver) -> None:
    """In live modes a reservation stands for every claim that is told (unless the policy keeps none and it was dropped at
    once), and every claim of the batch is ready."""
    dropped = {one.claim for one in step.decisions if isinstance(one, e.ReservationDropped)}
    for signal in decision.signals:
        life = picture.lives.rows[signal.claim]
        assert life.state == "Attached", f"{signal.claim} is told to give way while {life.state}"
        rows = [row for row in picture.reservations.rows.values() if row.claim == signal.claim]
        assert rows or signal.claim in dropped, f"{signal.claim} is told to give way and nothing is reserved for it"
