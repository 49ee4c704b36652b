"""`dds claims` and `dds devices`: claims and devices now or at an instant; with --all also those that ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from dds_commands.parameters import (
    at_option,
    end,
    order_options,
    output_options,
    period,
    period_of_time_options,
    source_arguments,
)
from dds_commands.rows import Row, Table, readable, show_table, since
from dds_commands.screen import arranged, show, show_data, show_left_out, table
from dds_commands.sources import Opened, Source, go_on, history_of, present, require
from dds_commands.timelines import find
from dds_core.errors import InputError
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES, FAILED, RELEASED, WAITING
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import OUTCOMES, ClaimHistory, DeviceHistory, History
from dds_core.scaler.history import data as histories
from dds_core.scaler.history.verdicts import never_used as in_vain
from dds_core.scaler.history.verdicts import verdict
from dds_core.scaler.history.words import waited
from dds_core.scaler.spending import STATES
from dds_core.scaler.state import State
from dds_core.scaler.unallocated import UNALLOCATED, Unallocated, resources_asked, unallocated
from dds_core.scaler.waiting import failed_because, waiting_rows
from dds_core.timeline import Subject
from dds_core.timeline.instants import duration, rfc3339

_R = TypeVar("_R")


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        output_options("table", "json", "jsonl"),
        click.option("--state", metavar="STATE", help="Only in this state."),
        click.option("--node", metavar="NODE", help="Only on this node."),
        click.option("--claim", metavar="CLAIM", help="Only this claim, or its devices."),
        click.option("--of", metavar="SUBJECT", help="Only what concerns this pod, device, model, fabric or request."),
        click.option("--all", "everything", is_flag=True, help="Also those that have ended, with their outcome."),
        at_option,
        period_of_time_options,
        source_arguments,
    ):
        command = option(command)
    return command


READ_STATES = (UNALLOCATED, *CLAIM_STATES)
"""The states of a claim as readers show them: also that of one that waits without an allocation, which is no state of a life."""

_NOW: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row["claim"],
    "state": lambda row: READ_STATES.index(row["state"]),
    "since": lambda row: row["since"],
    "node": lambda row: row["node"],
    "attempt": lambda row: (row["cycle"], row["attempt"]),
}
_EVER: Mapping[str, Callable[[ClaimHistory, int], Any]] = {
    "name": lambda one, now: one.name,
    "waited": lambda one, now: -one.waited(now),
    "since": lambda one, now: one.first,
    "node": lambda one, now: one.node,
    "attempt": lambda one, now: -len(one.attempts),
}
_DEVICES_NOW: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row["device"],
    "state": lambda row: DEVICE_STATES.index(row["state"]),
    "since": lambda row: row["since"],
    "node": lambda row: row["node"],
    "model": lambda row: row["model"],
    "claims": lambda row: row["claims"],
}
_DEVICES_EVER: Mapping[str, Callable[[DeviceHistory, int], Any]] = {
    "name": lambda one, now: one.name,
    "since": lambda one, now: one.first,
    "node": lambda one, now: one.node,
    "model": lambda one, now: one.model,
    "used": lambda one, now: -one.spent(now)["used"],
    "idle": lambda one, now: -one.spent(now)["idle"],
}


@click.command("claims", short_help="Show claims and their states.")
@_filters
@order_options(*{**_NOW, **_EVER})
def claims(form: str, everything: bool, sort: str | None, reverse: bool, limit: int, **of: Any) -> None:
    """Show claims: state, since when, node and devices.

    WHY says what a claim waits for, or why it failed. A claim that a pod waits with and that the scheduler has allocated nothing
    is Unallocated. So is a pod (pod/NAMESPACE/NAME) that waits for an extended resource: its claim comes with the allocation.

    --all adds ended claims: their pods, waits, attempts and outcomes; with --sort waited the longest wait comes first. There
    --state takes outcomes too, such as failed (given up after a failure) beside the state Failed.
    """
    if everything:
        key = _key(_EVER, sort, "--all")
        history, wanted, without = _history(form, **of)
        there = [one for one in history.claims.values() if not one.gone or one.gone >= history.first]
        states = {
            one.uid: UNALLOCATED if one.uid in without or (one.waits and not one.state) else one.state for one in there
        }
        had = _devices_of_claims(history) if wanted.subjects else {}
        past = [
            one
            for one in there
            if wanted.takes(_concerns_claim(history, one, had.get(one.uid, ())), states[one.uid], one.outcome)
        ]
        _show_past(
            past,
            key,
            limit,
            form,
            history,
            show_past_claims,
            lambda one: histories.claim_data(one, history.now) | {"state": states[one.uid]},
            reverse,
        )
        return
    by = _key(_NOW, sort, "claims that are there")
    found, now, ended = _there_now(form, "claim", **of)
    rows, left = arranged(found, by, limit, reverse=reverse)
    if form == "table":
        show_claims(rows, now, ended(rows))
    else:
        show_data(map(readable, rows), form)
    show_left_out(left, form)


@click.command("devices", short_help="Show attached devices and their states.")
@_filters
@order_options(*{**_DEVICES_NOW, **_DEVICES_EVER})
@click.option("--never-used", is_flag=True, help="Only devices ordered in vain, also those that have ended, and why.")
def devices(
    form: str, everything: bool, sort: str | None, reverse: bool, limit: int, never_used: bool, **of: Any
) -> None:
    """Show attached devices: state, since when, node and claims.

    --all adds detached devices: how long each was used, idle, attaching and detaching, for which claim it was ordered, and
    who used it or why nobody did.
    """
    if everything or never_used:
        key = _key(_DEVICES_EVER, sort, "--all")
        history, wanted, _ = _history(form, **of)
        there = (one for one in history.devices.values() if not one.gone or one.gone >= history.first)
        past = [one for one in there if wanted.takes(_concerns_device(history, one), one.life)]
        past = [one for one in past if not never_used or in_vain(one, history)]
        _show_past(
            past, key, limit, form, history, show_past_devices, lambda one: histories.device_data(one, history), reverse
        )
        return
    by = _key(_DEVICES_NOW, sort, "devices that are there")
    found, now, ended = _there_now(form, "device", **of)
    rows, left = arranged(found, by, limit, reverse=reverse)
    if form == "table":
        show_table(DEVICES, rows, now, ended(rows))
    else:
        show_data(map(readable, rows), form)
    show_left_out(left, form)


def _key(keys: Mapping[str, _R], sort: str | None, where: str) -> _R | None:
    if sort is not None and sort not in keys:
        raise InputError(f"--sort {sort} says nothing of {where}", fix=f"give one of {', '.join(keys)}")
    return keys[sort] if sort is not None else None


def _show_past(
    past: Sequence[_R],
    key: Callable[[_R, int], Any] | None,
    limit: int,
    form: str,
    history: History,
    shown: Callable[[list[_R], History], None],
    data: Callable[[_R], dict[str, Any]],
    reverse: bool,
) -> None:
    by = (lambda one: key(one, history.now)) if key is not None else None
    rows, left = arranged(past, by, limit, reverse=reverse)
    if form == "table":
        shown(rows, history)
    else:
        show_data(map(data, rows), form)
    show_left_out(left, form)


# -- filters -------------------------------------------------------------------------------------------------------------


class Concerns(NamedTuple):
    """The objects that a claim or device is related to, by uid or name; filters like --of test them."""

    claims: Iterable[str] = ()
    devices: Iterable[str] = ()
    nodes: Iterable[str] = ()
    models: Iterable[str] = ()
    fabrics: Iterable[str] = ()

    def include(self, subject: Subject) -> bool:
        match subject.kind:
            case "claim" | "pod":
                return not subject.uids.isdisjoint(self.claims)
            case "node":
                return subject.name in self.nodes
            case "model":
                return subject.name in self.models
            case "fabric":
                return subject.name in self.fabrics
            case _:
                return subject.name in self.devices or not subject.uids.isdisjoint(self.devices)


class Filter(NamedTuple):
    """Selects claims or devices that are related to all subjects and are in the state, if one is given."""

    subjects: tuple[Subject, ...] = ()
    state: str | None = None

    def takes(self, concerns: Concerns, *states: str) -> bool:
        """Whether a claim or device is selected; `states` are the names of its state."""
        return (self.state is None or self.state in states) and all(map(concerns.include, self.subjects))


EVERYTHING = Filter()


def filter_of(source: Source, claim: str | None, node: str | None, of: str | None, state: str | None = None) -> Filter:
    """The filter of the options. Raises NoSuchSubject, AmbiguousSubject, and InputError for another kind of subject."""
    subjects = [of_kind(source, text, kind) for text, kind in ((claim, "claim"), (node, "node")) if text]
    return Filter((*subjects, *([find(source, of)] if of else [])), state)


def of_kind(source: Source, text: str, kind: str) -> Subject:
    """The subject of this name. Raises InputError if it is of another kind."""
    subject = find(source, text)
    if subject.kind != kind:
        raise InputError(
            f"{text} is a {subject.kind}, no {kind}", fix=f"give {kind}/NAME, or use dds timeline or --of for it"
        )
    return subject


def _history(
    form: str,
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    at: str | None,
    until: str | None,
    state: str | None,
    **names: Any,
) -> tuple[History, Filter, set[str]]:
    """The source's history, the filter, and the claims (uids) that wait without an allocation at its end. The history's `first`
    is the start of the period that is shown."""
    with Opened() as opened:
        source = opened.source(sources, url, name)
        wanted = filter_of(
            source, **names, state=known_state(state, READ_STATES, DEVICE_STATES, OUTCOMES) if state else None
        )
        if at is not None:
            raise InputError("--at shows a state, --all what has been", fix="give --until, or leave --all out")
        first, last = period(source.span, since, until)
        if first.position is not None:
            raise InputError("--since wants an instant here, not a position", fix="give one, or a duration such as 2h")
        history = history_of(source, last)
        may_be = any(one.waits and one.state not in WAITING for one in history.claims.values())
        without = {one.uid for one in unallocated(source.state(*last))} if may_be else set()
        live = go_on(history, source, last)
    history.first = max(history.first, first.at or 0)
    if form == "table" and not live:
        show(f"as of {rfc3339(history.now)}")
    return history, wanted, without


Ended = Callable[[Sequence[Any]], str]
"""Gives the line to print if no row is left."""


def _there_now(
    form: str,
    kind: str,
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    at: str | None,
    until: str | None,
    state: str | None,
    **names: Any,
) -> tuple[list[Row], int, Ended]:
    """The rows that the filter takes, the instant from which their times count back (the current time for the whole of a live
    log, else the end of what was read, which a table states first), and the line for an empty table."""
    states = READ_STATES if kind == "claim" else DEVICE_STATES
    if since is not None or until is not None:
        what = f"--{'since' if since is not None else 'until'} says nothing of what is there"
        raise InputError(what, fix="give --at for the state at an instant, or --all as well")
    with Opened() as opened:
        source = opened.source(sources, url, name)
        require(source, SCALER, "use dds status, or dds replay --at, on it; give a scaler's with --name CLUSTER/scaler")
        wanted = filter_of(source, **names, state=known_state(state, states) if state else None)
        last = end(source.span, at)
        known: State = source.state(*last)
        now = present(source, last, known.policy, known.process.synced, known.process.stale)
        rows, concerns = (claim_rows, _claim_concerns) if kind == "claim" else (device_rows, _device_concerns)
        there = rows(known)
        seen = waiting = 0
        if not there:
            history = history_of(source, last)
            waiting = sum(one.waits for one in history.claims.values()) if kind == "claim" else 0
            seen = len(history.claims if kind == "claim" else history.devices) - waiting
    if not now:
        now = last.at if last.at is not None else known.process.now
        if form == "table":
            show(f"as of {rfc3339(now)}")

    def ended(shown: Sequence[Any]) -> str:
        if shown:
            return ""
        if there:
            return f"none of the {len(there)} that are there; --all has those that have ended"
        rest = [f"{waiting} wait for the scheduler"] * bool(waiting) + [f"{seen} ended"] * bool(seen)
        return f"none now; {', '.join(rest)}: --all" if rest else f"no {kind}s"

    return [row for row in there if wanted.takes(concerns(known, row), row["state"])], now, ended


def chosen_claims(state: State, wanted: Filter = EVERYTHING) -> list[Row]:
    return [row for row in claim_rows(state) if wanted.takes(_claim_concerns(state, row), row["state"])]


def chosen_devices(state: State, wanted: Filter = EVERYTHING) -> list[Row]:
    return [row for row in device_rows(state) if wanted.takes(_device_concerns(state, row), row["state"])]


def _claim_concerns(state: State, row: Row) -> Concerns:
    claim = state.demand.claims.get(row["uid"])
    results = claim.allocation.results if claim is not None and claim.allocation is not None else ()
    had = [resource for one in results if (resource := state.resource_of(one.key)) is not None]
    asked = (found for one in results if (found := state.inventory.model_of_result(one)) is not None)
    models = {*(one.model for one in had), *(one.model for one in asked), *row["models"]}
    devices, fabric = {*row["devices"], *(one.uid for one in had)}, state.failing.fabric_of.get(row["node"], "")
    return Concerns((row["uid"],), devices, (row["node"],), models, (fabric,))


def _device_concerns(state: State, row: Row) -> Concerns:
    parts = (one.partition("/") for one in row["claims"])
    claims = {uid for namespace, _, name in parts if (uid := state.demand.claim_uid(namespace, name)) is not None}
    devices, fabric = (row["uid"], row["device"], row["resource"]), state.failing.fabric_of.get(row["node"], "")
    return Concerns(claims, devices, (row["node"],), (row["model"],), (fabric,))


def _devices_of_claims(history: History) -> dict[str, set[str]]:
    """UIDs of all devices that a claim ever held, by claim."""
    found: dict[str, set[str]] = {}
    for device in history.devices.values():
        for span in device.spans:
            for claim in span.claims:
                found.setdefault(claim, set()).add(device.uid)
    return found


def _concerns_claim(history: History, one: ClaimHistory, devices: Iterable[str]) -> Concerns:
    had = [history.devices[uid] for uid in devices]
    names = {name for device in had for name in (device.uid, device.name)}
    nodes = {attempt.node for attempt in one.attempts}
    models = {model for attempt in one.attempts for model in attempt.models} | {device.model for device in had}
    return Concerns((one.uid,), names, nodes, models, {history.fabric_of(node) for node in nodes})


def _concerns_device(history: History, one: DeviceHistory) -> Concerns:
    claims = {uid for span in one.spans for uid in span.claims}
    return Concerns(claims, (one.uid, one.name), (one.node,), (one.model,), (one.fabric,))


def known_state(text: str, *tables: tuple[str, ...]) -> str:
    """The state in its exact spelling, whatever the case: of two that differ in it alone (the state Failed, the outcome failed)
    the one that is meant exactly, else that of the first table. Raises InputError."""
    states = dict.fromkeys(state for table in tables for state in table)
    found = text if text in states else next((state for state in states if state.lower() == text.lower()), None)
    if found is None:
        raise InputError(f"{text!r} is no state", fix=f"give one of {', '.join(states)}")
    return found


CLAIMS = Table(
    (
        "claim",
        "state",
        since(),
        "node",
        ("attempt", lambda row, ages: f"{row['cycle']}.{row['attempt']}" if row["cycle"] else "-"),
        "devices",
    )
)
_CLAIMS_AND_WHY = Table((*CLAIMS.columns, ("why", lambda row, ages: _why(row))))
DEVICES = Table(("device", "state", since(), "node", "model", "claims"))


def _why(row: Row) -> str:
    """What it waits for; of a pod first by which extended resource it asks, since no claim says so."""
    by = resources_asked((one["resource"], one["class"]) for one in row["resources"])
    return f"{by}: {row['why']}" if by else str(row["why"])


def show_claims(rows: Sequence[Row], now: int, empty: str) -> None:
    """Print the rows; with what they wait for if some wait."""
    show_table(_CLAIMS_AND_WHY if any(row["why"] for row in rows) else CLAIMS, rows, now, empty)


def show_past_claims(past: list[ClaimHistory], history: History) -> None:
    table(
        ("claim", "outcome", "waited", "attempts", "node", "pod", "cause"),
        [
            (
                one.name,
                one.outcome,
                waited(one, history.now),
                str(len(one.attempts)),
                one.node,
                ", ".join(one.pods) or "-",
                one.cause,
            )
            for one in past
        ],
        "no claims",
    )


def show_past_devices(past: list[DeviceHistory], history: History) -> None:
    rows = []
    for one in past:
        spent = one.spent(history.now)
        times = [duration(spent[state]) if spent[state] else "-" for state in STATES]
        rows.append((one.name, one.state or "gone", one.node, one.model, *times, verdict(one, history)))
    table(("device", "state", "node", "model", *STATES, "verdict"), rows, "no devices")


# -- rows ----------------------------------------------------------------------------------------------------------------


def claim_rows(state: State) -> list[Row]:
    """Every claim that has a life or waits without an allocation, by name; `devices` by UUID or name. `why` says what it waits
    for, or why it failed."""
    whys = {one.uid: one.why for one in waiting_rows(state)}
    waiting = {one.uid: one for one in unallocated(state)}
    rows = [_unallocated_row(state, one) for one in waiting.values()]
    for uid, life in state.lifecycle.lives.rows.items():
        if uid in waiting:
            continue
        claim = state.demand.claims.get(uid)
        results = claim.allocation.results if claim is not None and claim.allocation is not None else ()
        devices = [state.inventory.face(result.key).uuid or result.device for result in results]
        pods = state.demand.pods_of(claim) if claim is not None else []
        rows.append(
            {
                "claim": f"{life.namespace}/{life.name}",
                "uid": uid,
                "state": life.state,
                "since": life.since,
                "node": life.node if life.state != RELEASED else "",
                "cycle": life.cycle,
                "attempt": life.attempt,
                "devices": devices,
                "pods": [f"{pod.namespace}/{pod.name}" for pod in pods],
                "models": [],
                "resources": [],
                "why": whys.get(uid) or (failed_because(state, uid) if life.state == FAILED else ""),
            }
        )
    return sorted(rows, key=lambda row: (row["claim"], row["uid"]))


def _unallocated_row(state: State, one: Unallocated) -> Row:
    life = state.lifecycle.lives.get(one.uid)
    return {
        "claim": one.claim,
        "uid": one.uid,
        "state": UNALLOCATED,
        "since": one.since,
        "node": "",
        "cycle": life.cycle if life is not None else 0,
        "attempt": life.attempt if life is not None else 0,
        "devices": [],
        "pods": [one.pod],
        "models": list(one.models),
        "resources": [
            {"resource": ask.resource, "class": ask.device_class, "devices": ask.devices} for ask in one.resources
        ],
        "why": one.why,
    }


def device_rows(state: State) -> list[Row]:
    """Every composable device, by node and name; `claims` hold it, `idle_since` is 0 while it is in use."""
    rows = []
    for uid, life in state.lifecycle.devices.rows.items():
        resource = state.fleet.resources.get(uid)
        keys = set(state.inventory.keys_of[resource.uuid]) if resource is not None and resource.uuid else set()
        if life.key is not None:
            keys.add(life.key)
        holders = {holder for key in keys for holder in state.demand.having[key]}
        claims = {f"{c.namespace}/{c.name}" for holder in holders if (c := state.demand.claims.get(holder)) is not None}
        rows.append(
            {
                "device": resource.uuid if resource is not None and resource.uuid else "(not known yet)",
                "resource": resource.name if resource is not None else "",
                "uid": uid,
                "state": life.state,
                "since": life.since,
                "node": resource.node if resource is not None else "",
                "model": life.model,
                "claims": sorted(claims),
                "idle_since": life.idle_since,
            }
        )
    return sorted(rows, key=lambda row: (row["node"], row["device"], row["uid"]))
