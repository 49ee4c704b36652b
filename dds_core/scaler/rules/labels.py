"""The pool labels of a node: whether the scheduler may choose a model from the pool there, and whether the publisher is asked to
close the pool for a while. Written on change only, and on nodes of a fabric only."""

from __future__ import annotations

from collections.abc import Mapping

from dds_core.events import NodeLabelled
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import Refusal
from dds_core.model import Model, Node
from dds_core.scaler.model import COOLING, LABEL_FIGHT
from dds_core.scaler.rules.assignment import Assignment
from dds_core.scaler.rules.failures import cools_with_fabric
from dds_core.scaler.rules.orders import cell_of, conflicting_model, limits_of
from dds_core.scaler.state import State, Work

MANY = 3
"""So often another client has undone a label before a person is called."""


def label(work: Work, name: str, assignments: list[Assignment]) -> None:
    if not _label(work, name, assignments) and name in work.state.notes.left_labels:
        work.take_off_left_labels(name)


def _label(work: Work, name: str, assignments: list[Assignment]) -> bool:
    """True if labels of the node have to change."""
    state = work.state
    node, config = state.fleet.node(name), state.settings.config
    if node is None or not config.models or f"{config.prefix}/fabric" not in node.labels:
        return False
    at_most = _at_most(state, name)
    changes: dict[str, str | None] = {}
    reasons: list[str] = []
    for model in config.models:
        pool_label, closing_label = state.settings.labels[model.device]
        why_not = reason_against(state, node, model, at_most, assignments)
        if _set(state, node, pool_label, "true" if not why_not else "", changes) and why_not:
            reasons.append(why_not)
        until = _closed_until(state, node, model) if state.failing.fabric_failed else ""
        if _set(state, node, closing_label, until, changes):
            why = "fails on several nodes" if until else "does not cool down any more"
            reasons.append(f"{model.model} {why} in its fabric")
    _remove_stale(state, node, changes, reasons)
    if changes:
        reason = "; ".join(dict.fromkeys(reasons)) or "the node can take it"
        row = state.notes.refusals.get((NodeLabelled.__name__, name))
        again = row is not None and row.undone
        work.emit_once(NodeLabelled(node=name, labels=changes, mode=state.mode, reason=reason, again=again), name)
        if row is not None and row.undone and row.count >= MANY:
            _tell_fight(work, name, changes, row)
    return bool(changes)


def _tell_fight(work: Work, name: str, changes: Mapping[str, str | None], row: Refusal) -> None:
    """Alert that another client undoes the labels again and again."""
    who = f" (last written by {row.text})" if row.text else ""
    what = f"another client{who} has changed {', '.join(sorted(changes))} of {name} {row.count} times"
    work.alert(name, LABEL_FIGHT, f"{what}; dds sets them again, later each time: let one of both write them")


def _set(state: State, node: Node, key: str, wanted: str, changes: dict[str, str | None]) -> bool:
    """Note the change if the label is not as it is wanted ("": not there)."""
    intended = state.notes.labelled.get((node.name, key))
    if wanted == (intended if intended is not None else node.labels.get(key, "")):
        return False
    changes[key] = wanted or None
    return True


def _closed_until(state: State, node: Node, model: Model) -> str:
    """Until when (in seconds) the publisher is asked to close the model's pool, because the fabric fails; "" if it is not."""
    if not cools_with_fabric(state, node.name, model.model):
        return ""
    return str(-(-state.failing.cooling.rows[node.name, model.model].until // MICROSECONDS))


def reason_against(state: State, node: Node, model: Model, at_most: int, assignments: list[Assignment]) -> str:
    """Why the scheduler should not choose the model from the pool here, "" when it may; no model has more than `at_most`."""
    cooling = state.failing.cooling.get((node.name, model.model))
    if cooling is not None:
        return f"{model.model} is cooling down after {cooling.reason}"
    rival = conflicting_model(state, node.name, model) if state.settings.rivals.get(model.model) else ""
    if rival:
        return f"{model.model} may not share the node with {rival}"
    top = limits_of(state, node.name, model.model)[1]
    if at_most < top:
        return ""
    cell = cell_of(state, node.name, model)
    here = (state.fleet.resources.rows[uid] for uid in state.lifecycle.idle_at[node.name])
    idle = sum(one.model == model.model and not state.is_kept_for_one_cleared(one) for one in here)
    waiting = sum(m is model for one in assignments for m in state.inventory.wanted_models(one.claim.allocation))
    if cell.filled >= top and idle <= waiting:
        return f"the node has its {top} of {model.model}"
    return ""


def _at_most(state: State, node: str) -> int:
    """An upper bound of the devices of any one model on the node, or ordered for it; cheaper than counting each model."""
    asked = sum([state.fleet.requests.rows[uid].size for uid in state.fleet.requests_at[node]])
    orders = state.fleet.orders
    meant = sum([row.size for name in state.settings.models if (row := orders.get((node, name)))]) if orders else 0
    return asked + meant + len(state.fleet.resources_at[node])


def _remove_stale(state: State, node: Node, changes: dict[str, str | None], reasons: list[str]) -> None:
    """Remove pool labels of models that are no longer configured, and the labels that older versions put beside them."""
    prefix, known = f"{state.settings.config.prefix}/", state.settings.known_labels
    strange = [key for key in node.labels if key.startswith(prefix) and key not in known]
    for key in sorted(strange):  # a mapping's order is not kept in the log
        name, value = key.removeprefix(prefix), node.labels[key]
        if "/" in name or not (value == "true" or (name.endswith(COOLING) and value.isdigit())):
            continue
        if state.notes.labelled.get((node.name, key)) != "":
            changes[key] = None
            reasons.append(f"{name} is not configured any more")
