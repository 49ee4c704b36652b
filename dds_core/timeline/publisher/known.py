"""What a timeline of the publisher needs to know to speak in names: objects, machines and stocks as they were told last.

A fold of facts only, much lighter than the picture: it has no indexes and decides nothing.
"""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Event, Seen
from dds_core.publishing.model import Host, Machine, PoolConfig, PoolModel, Stock
from dds_core.publishing.picture import PoolPicture
from dds_core.publishing.snapshot import load
from dds_core.timeline.known import UNCHANGED, Known, Pair

FAILS = "fails"


def question(of: str) -> str:
    """What `PublisherKnown.states` has a question to the fabric under."""
    return f"answer/{of}"


class PublisherKnown(Known):
    """Objects by uid, machines by UUID, stocks by stream. `states` is what was told last of stocks, machines and questions, with
    the instant since when it is so, 0 where nobody knows."""

    fences = False

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[str, Machine] = {}
        self.stocks: dict[str, Stock] = {}
        self.pool_config = PoolConfig(uid="")
        self._hosts: dict[str, str] = {}

    def learn(self, fact: Event) -> Pair:
        """Take a fact in; gives what it is about, before and after."""
        match fact:
            case e.PolicyChanged():
                return UNCHANGED
            case e.Checkpoint():
                self.begin_with(load(fact.picture))
                return UNCHANGED
            case e.MachineObserved():
                before, self.machines[fact.subject] = self.machines.get(fact.subject), fact.machine
                return before, fact.machine
            case e.MachineGone():
                return self.machines.pop(fact.machine, None), None
            case e.StockObserved():
                stock = Stock(fact.fabric, fact.model, fact.free, fact.devices, fact.whole)
                old, self.stocks[fact.subject] = self.stocks.get(fact.subject), stock
                return old, stock
        return super().learn(fact)

    def _keep(self, after: Seen) -> None:
        super()._keep(after)
        if isinstance(after, PoolConfig):
            self.pool_config = after
        elif isinstance(after, Host):
            self._hosts[after.name] = after.uid

    def begin_with(self, picture: PoolPicture) -> None:
        """Begin in the middle: the picture holds everything so far."""
        for table in (picture.configs, picture.hosts, picture.slices, picture.claims, picture.resources):
            for row in table.rows.values():
                self._keep(row)
        self.machines = dict(picture.machines_by_uuid.rows)
        self.stocks = {e.stock_stream(*key): stock for key, stock in picture.stocks.rows.items()}
        self.states.update({question(of): (FAILS, 0) for of in picture.failures})

    def host(self, node: str) -> Host | None:
        """The node of that name, as it was last."""
        found = self.objects.get(self._hosts.get(node, ""))
        return found if isinstance(found, Host) else None

    def stock_of(self, pool: str) -> str:
        """The stream of what a pool is made from, by its stream; "" where the ConfigMap has no such model."""
        _, _, rest = pool.partition("/")
        driver, _, name = rest.partition("/")
        device, _, fabric = name.rpartition("-fabric")
        model: PoolModel | None = next(
            (one for one in self.pool_config.models if (one.driver, one.device) == (driver, device)), None
        )
        return e.stock_stream(fabric, model.model) if model is not None else ""
