"""The ledger: which order made which Machine, kept in an annotation of the object that makes the Machines.

It is written together with `replicas`, at the version that was read, so there is never a replica more than there are orders for
it. Pure: nothing here sends a request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import ValidationError

from dds_adapters.fabric.documents import Strict
from dds_adapters.fabric.provider import FabricOdd
from dds_adapters.machines.provider import KEPT

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
