"""What can go wrong when a fabric moves a device: which orders it befalls, and how often.

A fault is told in advance (by a scenario or a test) and taken when an order begins. It never touches hardware itself.
"""

from dataclasses import dataclass
from typing import Literal

from dds_adapters.lab.told_faults import Told

Kind = Literal["refuse", "hang", "lose_answer", "wrong_device", "second_device"]
REFUSED = "CDI manager: machine update failed, E02XXXX"


@dataclass(frozen=True)
class Fault:
    """What befalls orders of one operation.

    `refuse`: the fabric says no, with `words`. `hang`: nothing is done and the caller's time runs out. `lose_answer`:
    it is done, the caller hears `words`. `wrong_device`: one of another model comes. `second_device`: two come and one
    is named. Empty `nodes` or `models` mean any; `times` 0 means until lifted; `chance` is how likely each order is to
    be hit.
    """

    kind: Kind
    operation: Literal["attach", "detach"] = "attach"
    nodes: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    times: int = 0
    chance: float = 1.0
    words: str = REFUSED


class Faults(Told[Fault]):
    """The faults that wait for an order."""

    def take(self, operation: str, node: str, model: str) -> Fault | None:
        """The fault that befalls this order, the earliest told first."""
        return next(iter(self.struck(lambda fault: _befalls(fault, operation, node, model), most=1)), None)


def _befalls(fault: Fault, operation: str, node: str, model: str) -> bool:
    return (
        fault.operation == operation
        and (not fault.nodes or node in fault.nodes)
        and (not fault.models or model in fault.models)
    )
