"""Servers that are Machines of cluster-api: each group is a MachineDeployment or MachineSet, whose replicas dds raises and
lowers.

Going up: `replicas` and the order are written in one update, which the API server refuses if the object has changed since.

Going down must remove exactly one given Machine, and each step must be repeatable: dds writes the Machine down as the next to go;
gives it the annotation by which cluster-api deletes it first; then lowers `replicas` and records the Machine as removed, in one
update. dds lowers nothing while a Machine that another client has marked exists, because that one could go instead; nor while a
MachineDeployment is rolled out, because cluster-api then chooses the MachineSet.

By the source of its controllers, cluster-api compares `replicas` with the number of Machines, and counts those that are being
deleted until they are gone. So a removed Machine stays if both are equal before the controller acts: `replicas` was raised for an
order, or another client deleted a Machine. dds deletes such a Machine itself; cluster-api makes another if one is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import structs
from pydantic import ValidationError

from dds_adapters.documents import Strict
from dds_adapters.fabric.answers import each, odd, read
from dds_adapters.fabric.provider import FabricDenied, FabricError, FabricOdd, FabricRefused, FabricUnreachable
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.live_object import Changed, Ended, Live, Ref, Server
from dds_adapters.kubernetes.write.tasks import Declined, Obsolete, Result
from dds_adapters.machines import provider
from dds_adapters.machines.capi import (
    CLUSTER,
    DELETE,
    GROUP,
    ORDER,
    VERSIONS,
    Group,
    Machine,
    MachineOwner,
    Meta,
    Owned,
)
from dds_adapters.machines.capi import out_of_resources as short_of
from dds_adapters.machines.machine_settings import Scalable
from dds_adapters.machines.provider import CONFLICT, KEPT, NOT_FOUND, checked_order, id_of, id_of_order, parts_of
from dds_core.autoscaler import records
from dds_core.autoscaler.records import ServerState

ATTEMPTS = 12
"""How often one call looks again at an object that others change, or takes another step of a removal."""
_AGAIN = "ask again later"
_PLURALS = {"MachineDeployment": "machinedeployments", "MachineSet": "machinesets"}

T = TypeVar("T")
M = TypeVar("M", bound=Owned)


@dataclass(frozen=True)
class _Owner:
    """The object that makes a group's Machines, as just read."""

    live: Live
    replicas: int
    cluster: str
    ledger: Ledger


@dataclass(frozen=True)
class _Found(_Owner):
    """The same with its MachineSets and Machines. `sets`: the replicas of each set by uid; `metas`: of all Machines by name;
    `machines`: the readable ones; `fault`: why the first other one is not."""

    sets: Mapping[str, int]
    metas: Mapping[str, Meta]
    machines: tuple[Machine, ...]
    fault: FabricError | None

    def machine(self, name: str) -> Machine | None:
        return next((one for one in self.machines if one.name == name), None)

    @property
    def matched(self) -> Ledger:
        """While a Machine cannot be read, no order gets a new one: the unreadable Machine may be the one."""
        staying = sorted(
            (one for one in self.machines if not one.deleting and self.fault is None),
            key=lambda one: (one.metadata.created, one.name),
            reverse=True,
        )
        return self.ledger.matched(self.metas, [one.name for one in staying], self.replicas)

    @property
    def is_rolled_out(self) -> bool:
        """Whether more than one MachineSet has Machines, or should have some."""
        used = {uid for uid, replicas in self.sets.items() if replicas}
        return len(used | {meta.controller for meta in self.metas.values()}) > 1

    @property
    def kept(self) -> list[Meta]:
        """Removed Machines that cluster-api will not delete, because their MachineSets do not have too many Machines."""
        if sum(self.sets.values()) > self.replicas:
            return []  # a MachineSet was not lowered yet
        staying = Counter(meta.controller for meta in self.metas.values() if not meta.deleted)
        removed = [meta for name, meta in self.metas.items() if name in self.ledger.removed and not meta.deleted]
        return [meta for meta in removed if staying[meta.controller] <= self.sets[meta.controller]]


class ClusterApi:
    """The Machines of these groups, through one API server. `close` closes its connections."""

    def __init__(self, groups: Mapping[str, Scalable], api: Asking, close: Callable[[], None] = lambda: None) -> None:
        self._groups = dict(groups)
        self._api = api
        self._close = close

    def servers(self) -> tuple[records.Server, ...]:
        """Also records which Machine an order got, and deletes removed ones that cluster-api keeps."""
        found: list[records.Server] = []
        faults: list[tuple[str, FabricError]] = []
        for group, scalable in self._groups.items():
            try:
                one = self._settled(scalable, _matched)
            except FabricUnreachable:  # the next group could not be read either
                raise
            except FabricError as fault:
                faults.append((group, fault))
            else:
                found += _shown(group, one)
                faults += [(group, one.fault)] if one.fault is not None else []
        return tuple(provider.partly(found, faults))

    def compose(self, order: str, group: str) -> None:
        self._settled(self._group(group), partial(_order, order=checked_order(order)))

    def decompose(self, server: str) -> None:
        group, machine, order = parts_of(server)
        self._settled(self._group(group), partial(_remove, name=machine, order=order))

    def close(self) -> None:
        self._close()

    def _group(self, group: str) -> Scalable:
        if group not in self._groups:
            raise provider.unknown_group(group, "cluster-api", self._groups)
        return self._groups[group]

    def _settled(self, scalable: Scalable, step: Callable[[Server, Scalable], T | None]) -> T:
        """The result of the step. It is repeated if it gives None, or if an object was changed by others."""
        try:
            version = self._version()
            server = Server(self._api, lambda _: version)
            for _ in range(ATTEMPTS):
                try:
                    if (result := step(server, scalable)) is not None:
                        return result
                    why = "the removal takes too many steps"
                except Changed:
                    why = "it was changed each time that it was to be written"
                except Ended as end:
                    if not isinstance(end.result, Obsolete):
                        raise
                    why = end.result.why
        except Ended as end:
            raise _fault(end.result, str(scalable)) from None
        raise FabricRefused(why, code=CONFLICT, where=str(scalable), fix=_AGAIN)

    def _version(self) -> str:
        path = f"/apis/{GROUP}"
        answer = Server(self._api, lambda _: "").question(path)
        if answer.code in (401, 403):
            raise FabricDenied(
                f"answers with {answer.code}", where=path, fix="renew the credentials, or let it be read"
            )
        served = [one.version for one in read(Group, answer.body, path).versions] if answer.code == 200 else []
        for version in VERSIONS:
            if version in served:
                return f"{GROUP}/{version}"
        fix = f"install cluster-api that serves {' or '.join(VERSIONS)}, or give its management cluster's kubeconfig"
        raise FabricRefused("cluster-api is not served", code=NOT_FOUND, where=path, fix=fix)


# -- reading -----------------------------------------------------------------------------------------------------------


def _owner(server: Server, scalable: Scalable) -> _Owner:
    live = server.find(Ref(_PLURALS[scalable.kind], scalable.name, scalable.namespace))
    if live is None:
        fix = "make it, or correct the settings"
        raise FabricRefused("there is no such object", code=NOT_FOUND, where=str(scalable), fix=fix)
    spec = read(MachineOwner, live.raw, str(scalable)).spec
    ledger = read_ledger(live.annotations.get(ANNOTATION, ""), str(scalable))
    return _Owner(live, spec.replicas, spec.cluster, ledger)


def _look(server: Server, scalable: Scalable) -> _Found:
    """The owner is read first, so that no Machine that it is known to have made can be missing."""
    owner = _owner(server, scalable)
    sets = {owner.live.uid: owner.replicas}
    if scalable.kind == "MachineDeployment":
        found = _owned(MachineOwner, _list(server, "machinesets", owner, scalable), sets, "machinesets")
        sets = {one.metadata.uid: one.spec.replicas for _, one in found}
    owned = _owned(Owned, _list(server, "machines", owner, scalable), sets, "machines")
    machines, faults = each(Machine, (raw for raw, _ in owned), "machines", str(scalable))
    return _Found(
        **vars(owner),
        sets=sets,
        metas={one.metadata.name: one.metadata for _, one in owned},
        machines=tuple(one for _, one in machines),
        fault=next(iter(faults), None),
    )


def _list(server: Server, resource: str, owner: _Owner, scalable: Scalable) -> list[Any]:
    selected = {"labelSelector": f"{CLUSTER}={owner.cluster}"}
    try:
        return [msgspec.json.decode(raw) for raw in server.list(resource, selected, scalable.namespace)]
    except ValueError:  # not Unicode
        raise odd(f"{scalable}, its {resource}", "", "is not JSON") from None


def _owned(form: type[M], items: list[Any], makers: Collection[str], resource: str) -> list[tuple[Any, M]]:
    """The objects made by one of `makers`. Raises FabricOdd if that cannot be read."""
    good, faults = each(form, items, resource, resource)
    if faults:
        raise faults[0]
    return [(items[place], one) for place, one in good if one.metadata.controller in makers]


def _matched(server: Server, scalable: Scalable) -> _Found:
    """The present state, with the Machine of each order, which is recorded."""
    found = _look(server, scalable)
    _delete_kept(server, scalable, found)
    ledger = found.matched
    if ledger != found.ledger:
        _write(server, found, ledger, found.replicas)
    return replace(found, ledger=ledger)


def _shown(group: str, found: _Found) -> list[records.Server]:
    ledger = found.ledger
    shown = []
    for one in found.machines:
        code, message = one.failure or ("", "")
        order = ledger.order_of(one.name) or one.order
        leaving = one.name == ledger.removing or one.name in ledger.removed
        state: ServerState = "deleting" if leaving else one.state
        if state == "deleting":
            code = message = ""
        id = id_of(group, one.name)
        shown.append(records.Server(id, group, order, one.provider_id, state, code, message, short_of(code)))
    void = ledger.void(found.replicas)
    for order in ledger.open:
        waiting = records.Server(id_of_order(group, order), group, order, "", "creating")
        what = "replicas was lowered by another client"
        shown.append(
            structs.replace(waiting, state="failed", code="ScaledDown", message=what) if order in void else waiting
        )
    return shown


def _order(server: Server, scalable: Scalable, order: str) -> bool:
    """Raise `replicas` by one, unless the order was recorded before."""
    owner = _owner(server, scalable)
    if not owner.ledger.knows(order):
        _write(server, owner, owner.ledger.ordered(order), owner.replicas + 1)
    if owner.ledger.removed:
        _delete_kept(server, scalable, _look(server, scalable))
    return True


# -- removing ----------------------------------------------------------------------------------------------------------


def _remove(server: Server, scalable: Scalable, name: str, order: str) -> bool | None:
    """The next step in the removal of a Machine or an order; None if another step follows."""
    found = _look(server, scalable)
    ledger = found.matched
    if order:
        if order in ledger.open:
            return _call_off(server, scalable, found, ledger, order)
        name = ledger.orders.get(order, "")
    if name not in found.metas or name in ledger.removed:
        return True
    if not ledger.removing:
        _check(server, found, name, scalable)
        _write(server, found, ledger.begun(name), found.replicas)
        return None
    name = ledger.removing  # finish another removal that was begun before
    machine = found.machine(name)
    order = ledger.order_of(name)
    if machine is not None and not (machine.marked and machine.order == order):
        _mark(server, scalable, machine, order)
        return None
    _check(server, found, name, scalable)
    _write(server, found, ledger.lowered(name), found.replicas - 1)
    return None


def _call_off(server: Server, scalable: Scalable, found: _Found, ledger: Ledger, order: str) -> bool:
    if order in ledger.void(found.replicas):
        _write(server, found, ledger.ended(order), found.replicas)
        return True
    what = f"the Machine of order {order} is not made yet, and with fewer replicas another one could go"
    raise FabricRefused(what, code=CONFLICT, where=str(scalable), fix=_AGAIN)


def _mark(server: Server, scalable: Scalable, machine: Machine, order: str) -> None:
    ref = Ref("machines", machine.name, scalable.namespace, machine.metadata.uid)
    marks = {DELETE: "dds", ORDER: order or None}
    server.merge(server.get(ref), {"metadata": {"annotations": marks}}, unchanged=False)


def _delete_kept(server: Server, scalable: Scalable, found: _Found) -> None:
    for meta in found.kept:
        server.delete(server.get(Ref("machines", meta.name, scalable.namespace, meta.uid)))


def _check(server: Server, found: _Found, name: str, scalable: Scalable) -> None:
    """Raise FabricRefused while lowering `replicas` could remove another Machine than this one."""
    where = str(scalable)
    if found.fault is not None:
        raise found.fault
    if found.is_rolled_out:
        what = "it is being rolled out (several MachineSets have Machines, or are to have some)"
        raise FabricRefused(what, code=CONFLICT, where=where, fix=_AGAIN)
    for one in found.machines:
        if one.marked and not one.deleting and one.name not in (name, *found.ledger.removed):
            if _owner(server, scalable).live.version != found.live.version:
                raise Changed(where)  # the mark may be of another call of dds, recorded after this one had read
            what = f"Machine {one.name} is marked by another client, and could go in place of {name}"
            raise FabricRefused(what, code=CONFLICT, where=where, fix=f"take the mark {DELETE} back, or {_AGAIN}")


def _write(server: Server, owner: _Owner, ledger: Ledger, replicas: int) -> None:
    """Both in one update, at the version that was read. Raises Changed."""
    text = ledger.model_dump_json(exclude_defaults=True)
    changes = {"metadata": {"annotations": {ANNOTATION: text}}, "spec": {"replicas": replicas}}
    server.merge(owner.live, changes)


def _fault(result: Result, where: str) -> FabricError:
    if isinstance(result, Declined):
        if result.code in (401, 403):
            fix = "let this user get, list and patch MachineDeployments, MachineSets and Machines, and delete Machines"
            return FabricDenied(f"{result.reason}: {result.text}", where=where, fix=fix)
        return FabricRefused(f"{result.reason}: {result.text}", code=result.code, where=where, fix=_AGAIN)
    return FabricUnreachable(getattr(result, "why", "cannot be asked"), where=where, fix=_AGAIN)


# -- the ledger -------------------------------------------------------------------------------------------------------

ANNOTATION = "dds.cohdi.io/servers"


class Ledger(Strict):
    """`orders`: the Machine of each order, "" while it has none. `removing`: the Machine that goes next, for which `replicas` was
    not lowered yet. `removed`: those for which it was. `past`: the newest ended orders."""

    orders: dict[str, str] = {}
    removing: str = ""
    removed: tuple[str, ...] = ()
    past: tuple[str, ...] = ()

    @property
    def open(self) -> list[str]:
        """Orders without a Machine, the oldest first."""
        return [order for order, machine in self.orders.items() if not machine]

    def order_of(self, machine: str) -> str:
        return next((order for order, its in self.orders.items() if its == machine), "")

    def knows(self, order: str) -> bool:
        return order in self.orders or order in self.past

    def void(self, replicas: int) -> list[str]:
        """Open orders whose replica another client has taken away."""
        too_many = min(len(self.orders) - replicas, len(self.open))
        return self.open[-too_many:] if too_many > 0 else []

    def ordered(self, order: str) -> Ledger:
        return self._with(orders={**self.orders, order: ""})

    def ended(self, order: str) -> Ledger:
        """Without the order, which moves to `past`."""
        if order not in self.orders:
            return self
        rest = {one: machine for one, machine in self.orders.items() if one != order}
        return self._with(orders=rest, past=(*self.past, order)[-KEPT:])

    def begun(self, machine: str) -> Ledger:
        return self._with(removing=machine)

    def lowered(self, machine: str) -> Ledger:
        """`replicas` was lowered for this Machine."""
        return self.ended(self.order_of(machine))._with(removing="", removed=(*self.removed, machine))

    def matched(self, there: Collection[str], staying: Sequence[str], replicas: int) -> Ledger:
        """Assigns Machines to open orders. `there` are all Machines, `staying` those that are not being deleted (newest first).
        An open order gets the newest Machine without one, once more Machines have no order than would exist without any order:
        Machines of a group are alike, so only the number counts."""
        orders = {order: machine if machine in there else "" for order, machine in self.orders.items()}
        removed = tuple(machine for machine in self.removed if machine in there)
        taken = {*orders.values(), *removed}
        more = sum(machine not in taken for machine in there) - (replicas - len(orders))
        fresh = [machine for machine in staying if machine not in taken][: max(more, 0)]
        without = [order for order, machine in orders.items() if not machine]
        orders |= dict(zip(without, reversed(fresh), strict=False))
        return self._with(orders=orders, removed=removed, removing=self.removing if self.removing in there else "")

    def _with(self, **changes: object) -> Ledger:
        return self.model_copy(update=changes)


def read_ledger(text: str, where: str) -> Ledger:
    """From the annotation. Raises FabricOdd, so that nothing is ordered twice."""
    try:
        return Ledger.model_validate_json(text or "{}")
    except (ValidationError, ValueError):
        fix = "take back what was changed by hand; nothing is ordered or removed until then"
        raise FabricOdd(f"the annotation {ANNOTATION} is not one of ours", where=where, fix=fix) from None
