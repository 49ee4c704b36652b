"""The simulated hardware: machines, the fabrics that connect them, each fabric's free devices, and the orders that attach and
detach them.

It knows no API object, nor why a device is wanted. The operator places orders, the vendor's driver reads what a machine has, the
publisher reads what is free, and the kubelet reports which devices are in use.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from dds_lab.actors.faults import HardwareFaults
from dds_lab.actors.ledger import Entry, Ledger, Operation, Outcome
from dds_lab.latency import Latency
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.trouble import FabricFault
from dds_lab.time import Time

LOST = "CDI manager: no answer within the time limit (context deadline exceeded)"
BROKEN = "the device is in a critical state"


@dataclass(frozen=True, slots=True)
class Device:
    """A physical device. `serial`: the vendor's name (a GPU UUID). `resource`: the fabric's name."""

    serial: str
    resource: str
    model: str
    fabric: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A server, its node, and the fabric that it is cabled to ("" for none: it has only built-in devices)."""

    uuid: str
    node: str
    fabric: str


@dataclass(frozen=True, slots=True)
class Attached:
    """A device in a machine. `minor`: the lowest number that was free at its attach. `since`: when that was. `fixed`: built
    in."""

    device: Device
    minor: int
    since: int
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The fabric's answer to an order: the device, or the error. `lost`: no answer came, and the order may be carried out."""

    device: Device | None = None
    error: str = ""
    lost: bool = field(default=False, compare=False)


@dataclass(slots=True)
class _Order:
    number: int
    operation: Operation
    node: str
    model: str
    resource: str
    done: Callable[[Answer], None]
    fabric: str = ""
    taken: list[Device] = field(default_factory=list)
    fault: FabricFault | None = None


class Fabric:
    """All fabrics of the lab. `pools`: how many devices there are at the start, by fabric and model. `ledger` records every order
    and its outcome, `takes` says how long one takes, by model and for the others."""

    def __init__(
        self,
        time: Time,
        pools: Mapping[tuple[str, str], int] | None = None,
        settings: Fabrics | None = None,
        faults: Sequence[FabricFault] = (),
    ) -> None:
        self.ledger = Ledger()
        self.faults = HardwareFaults(time, "fabric/faults", faults)
        self._time = time
        self._settings = settings = settings or Fabrics()
        self._refusal_takes = settings.refusal.latency()
        self.takes: dict[Operation, tuple[dict[str, Latency], Latency]] = {
            "attach": ({model: one.latency() for model, one in settings.attach_of.items()}, settings.attach.latency()),
            "detach": ({model: one.latency() for model, one in settings.detach_of.items()}, settings.detach.latency()),
        }
        self._random: Random = time.random("fabric")
        self._serials: Random = time.random("fabric/serials")
        self._free: dict[tuple[str, str], deque[Device]] = {}
        self._running: dict[tuple[str, str], int] = {}
        self._machines: dict[str, Machine] = {}
        self._by_uuid: dict[str, Machine] = {}
        self._attached: dict[str, dict[str, Attached]] = {}  # node → resource → device
        self._where: dict[str, str] = {}  # serial → node
        self._coming: dict[str, tuple[Device, str]] = {}  # serial → a device that is being attached, and the node
        self._broken: dict[str, str] = {}  # serial → error
        self._warned: set[str] = set()  # serials of devices that work and are in a warning state
        self._out: dict[str, Device] = {}  # serial → detached while broken, in no pool until repaired
        self._users: dict[str, dict[str, None]] = {}  # serial → users: pods, as namespace/name
        self._uses: dict[str, dict[str, None]] = {}  # user → serials
        self._waiting: deque[_Order] = deque()
        self._busy: dict[str, int] = {}  # node → running orders
        self._orders = 0
        self._open: dict[int, tuple[str, str]] = {}  # attach order without an answer → node and model
        self._pool_listeners: list[Callable[[str, str], None]] = []
        self._machine_listeners: list[Callable[[str], None]] = []
        self._vacant_listeners: list[Callable[[str], None]] = []
        # Serials of devices that a virtual machine uses: no process shows on the node.
        self.passed_through: set[str] = set()
        for (fabric, model), count in (pools or {}).items():
            self.resize(fabric, model, count)

    def connect(self, node: str, fabric: str = "", fixed: Iterable[str] = ()) -> Machine:
        """Cable a node's machine to a fabric. `fixed`: models of its built-in devices. Its UUID ends the node's providerID in a
        lab."""
        machine = Machine(str(uuid.uuid5(uuid.NAMESPACE_DNS, node)), node, fabric)
        self._machines[node] = self._by_uuid[machine.uuid] = machine
        self._attached.setdefault(node, {})
        for model in fixed:
            self._plug(node, self._made(fabric, model), fixed=True)
        return machine

    def disconnect(self, node: str) -> None:
        """The fabric's manager forgets the node's machine. The devices stay in it."""
        machine = self._machines.pop(node, None)
        if machine is not None:
            del self._by_uuid[machine.uuid]

    def machine(self, node: str) -> Machine | None:
        return self._machines.get(node)

    def machines(self) -> tuple[Machine, ...]:
        return tuple(self._machines.values())

    def machine_of(self, uuid: str) -> Machine | None:
        return self._by_uuid.get(uuid)

    def free(self, fabric: str, model: str) -> int:
        """How many devices can be attached now. Those that are being attached or detached do not count."""
        return len(self._free.get((fabric, model), ()))

    def pool(self, fabric: str, model: str) -> tuple[Device, ...]:
        """The free devices, the next one to be attached first."""
        return tuple(self._free.get((fabric, model), ()))

    def coming(self) -> tuple[tuple[Device, str], ...]:
        """The devices that are being attached, each with its node."""
        return tuple(self._coming.values())

    def out(self) -> tuple[Device, ...]:
        """Devices that were detached while broken. They are in no pool until they are repaired."""
        return tuple(self._out.values())

    def running(self, fabric: str, model: str) -> int:
        """How many attaches of the model are running."""
        return self._running.get((fabric, model), 0)

    def pools(self) -> tuple[tuple[str, str], ...]:
        """All (fabric, model) pairs that ever existed, in order of appearance."""
        return tuple(self._free)

    def attached(self, node: str) -> tuple[Attached, ...]:
        """The working devices in the node's machine, by minor number."""
        return tuple(one for one in self.plugged(node) if one.device.serial not in self._broken)

    def plugged(self, node: str) -> tuple[Attached, ...]:
        """All devices in the node's machine, broken ones included, by minor number."""
        return tuple(sorted(self._attached.get(node, {}).values(), key=lambda one: one.minor))

    def plugged_as(self, node: str, serial: str) -> Attached | None:
        """The device in the node's machine, broken or not; None if it is not there."""
        if self._where.get(serial) == node:
            for one in self._attached[node].values():
                if one.device.serial == serial:
                    return one
        return None

    def broken(self, serial: str) -> str:
        """The error of a broken device, "" for a working one."""
        return self._broken.get(serial, "")

    def warned(self, serial: str) -> bool:
        """Whether the manager shows the device in a warning state. It works all the same."""
        return serial in self._warned

    def ordered(self, node: str, model: str) -> int:
        """How many attach orders have no answer yet."""
        return sum(key == (node, model) for key in self._open.values())

    def where(self, serial: str) -> str:
        """The node of the machine that the device is in, "" if it is in none."""
        return self._where.get(serial, "")

    def on_pool(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        """Call `call(fabric, model)` whenever the free devices change. Returns a function that ends this."""
        self._pool_listeners.append(call)
        return lambda: self._pool_listeners.remove(call)

    def on_machine(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Call `call(node)` whenever a machine's devices or their health change. Returns a function that ends this."""
        self._machine_listeners.append(call)
        return lambda: self._machine_listeners.remove(call)

    def on_vacant(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Call `call(serial)` whenever nobody uses a device any more. Returns a function that ends this."""
        self._vacant_listeners.append(call)
        return lambda: self._vacant_listeners.remove(call)

    def occupy(self, serial: str, user: str) -> None:
        self._users.setdefault(serial, {})[user] = None
        self._uses.setdefault(user, {})[serial] = None

    def vacate(self, user: str) -> None:
        """The user stops using all its devices."""
        for serial in self._uses.pop(user, ()):
            del self._users[serial][user]
            if not self._users[serial]:
                del self._users[serial]
                for call in tuple(self._vacant_listeners):
                    call(serial)

    def users(self, serial: str) -> tuple[str, ...]:
        return tuple(self._users.get(serial, ()))

    def busy(self) -> tuple[str, ...]:
        """All users of any device."""
        return tuple(self._uses)

    def resize(self, fabric: str, model: str, by: int) -> int:
        """Add devices to a pool, or remove free ones. Returns the actual difference."""
        free = self._free.setdefault((fabric, model), deque())
        moved = max(by, -len(free))
        for _ in range(moved):
            free.append(self._made(fabric, model))
        for _ in range(-moved):
            free.pop()
        if moved:
            self._pool_changed(fabric, model)
        return moved

    def drop(self, serial: str, words: str = BROKEN) -> None:
        """Break a device: drivers no longer see it, and health checks report `words`."""
        self._broken[serial] = words
        self._machine_changed(self.where(serial))

    def restore(self, serial: str) -> None:
        """Repair a device. If it was detached meanwhile, it returns to its pool."""
        if self._broken.pop(serial, None) is None:
            return
        device = self._out.pop(serial, None)
        if device is None:
            self._machine_changed(self.where(serial))
        else:
            self._return(device)
            self._pool_changed(device.fabric, device.model)

    # -- orders

    def attach(self, node: str, model: str, done: Callable[[Answer], None], resource: str = "") -> int:
        """Order a device for a node's machine: the next one of the pool, or the one that the fabric calls `resource`. Returns
        the order's number. `done` is called later, once."""
        return self._order("attach", node, model, resource, done)

    def detach(self, node: str, resource: str, done: Callable[[Answer], None]) -> int:
        """Order the device that the fabric calls `resource` back into its pool. Returns the order's number."""
        found = self._attached.get(node, {}).get(resource)
        return self._order("detach", node, found.device.model if found else "", resource, done)

    def _order(self, operation: Operation, node: str, model: str, resource: str, done: Callable[[Answer], None]) -> int:
        self._orders += 1
        order = _Order(self._orders, operation, node, model, resource, done)
        self._write(order, "ordered", self._attached.get(node, {}).get(resource))
        if operation == "attach":
            self._open[order.number] = node, model
        self._waiting.append(order)
        self._start()
        return order.number

    def _start(self) -> None:
        """Start the waiting orders that may run, oldest first."""
        kept: deque[_Order] = deque()
        while self._waiting:
            order = self._waiting.popleft()
            if self._may_run(order.node):
                self._run(order)
            else:
                kept.append(order)
        self._waiting = kept

    def _may_run(self, node: str) -> bool:
        all_of_them, per_machine = self._settings.in_flight, self._settings.in_flight_per_machine
        if all_of_them and sum(self._busy.values()) >= all_of_them:
            return False
        return not per_machine or self._busy.get(node, 0) < per_machine

    def _run(self, order: _Order) -> None:
        self._busy[order.node] = self._busy.get(order.node, 0) + 1
        order.fault = self.faults.take(order.operation, order.node, order.model)
        refused = self._refusal(order)
        if refused:
            self._time.after(self._refusal_takes.draw(self._random), lambda: self._fail(order, refused))
        elif order.fault is not None and order.fault.kind == "hang":
            self._time.after(self._settings.timeout, lambda: self._fail(order, LOST, lost=True))
        else:
            attaches, (of, others) = order.operation == "attach", self.takes[order.operation]
            if attaches:
                self._reserve(order)
            done = self._attach if attaches else self._detach
            self._time.after(of.get(order.model, others).draw(self._random), lambda: done(order))

    def _refusal(self, order: _Order) -> str:
        """Why the fabric refuses the order at once, "" if it does not."""
        machine = self._machines.get(order.node)
        if machine is None or not machine.fabric:
            return f"CDI manager: no machine of a fabric is known for {order.node}"
        if order.fault is not None and order.fault.kind == "refuse":
            return order.fault.words.replace("{order}", str(order.number))
        if order.operation == "attach" and not self.free(machine.fabric, order.model):
            return f"CDI manager: no free resource of model {order.model} in fabric {machine.fabric}"
        if order.operation == "attach" and order.resource and self._named(order, machine.fabric) is None:
            return f"CDI manager: the resource {order.resource} is not free in fabric {machine.fabric}"
        if order.operation == "attach" and self._is_full(order.node, order.model):
            return f"CDI manager: the machine of {order.node} has no slot for another {order.model}"
        found = self._attached.get(order.node, {}).get(order.resource)
        if order.operation == "detach" and (found is None or found.fixed):
            return f"CDI manager: the resource {order.resource} cannot be removed from {order.node}"
        return ""

    def _is_full(self, node: str, model: str) -> bool:
        there = sum(not one.fixed and one.device.model == model for one in self._attached.get(node, {}).values())
        coming = sum(place == node and device.model == model for device, place in self._coming.values())
        return 0 < self._settings.slots <= there + coming

    def _reserve(self, order: _Order) -> None:
        """Take the device from the pool. With a fault it is one of another model, or two."""
        fabric = order.fabric = self._machines[order.node].fabric
        kind = order.fault.kind if order.fault is not None else ""
        model = self._other_model(fabric, order.model) if kind == "wrong_device" else order.model
        named = self._named(order, fabric) if model == order.model and order.resource else None
        for _ in range(2 if kind == "second_device" else 1):
            free = self._free[(fabric, model)]
            if free:
                wanted = named if named is not None and named in free else free[0]
                free.remove(wanted)
                order.taken.append(wanted)
                self._coming[wanted.serial] = wanted, order.node
        self._count(order, 1)
        self._pool_changed(fabric, model)

    def _named(self, order: _Order, fabric: str) -> Device | None:
        free = self._free.get((fabric, order.model), ())
        return next((one for one in free if one.resource == order.resource), None)

    def _other_model(self, fabric: str, model: str) -> str:
        others = [name for place, name in self._free if place == fabric and name != model and self.free(place, name)]
        return others[0] if others else model

    def _count(self, order: _Order, by: int) -> None:
        key = (order.fabric, order.model)
        self._running[key] = self._running.get(key, 0) + by

    def _attach(self, order: _Order) -> None:
        self._count(order, -1)
        words = self._unheard(order)
        for device in order.taken:
            del self._coming[device.serial]
            if order.fault is not None and order.fault.kind == "warning":
                self._warned.add(device.serial)
            elif order.fault is not None and order.fault.kind == "critical":
                self._broken[device.serial] = BROKEN
            self._write(order, "done", self._plug(order.node, device), words)
        self._answer(order, Answer(error=words, lost=True) if words else Answer(order.taken[0]))

    def _detach(self, order: _Order) -> None:
        found = self._attached[order.node].pop(order.resource, None)
        if found is None:
            self._fail(order, f"CDI manager: the resource {order.resource} is not attached to {order.node} any more")
            return
        device = found.device
        del self._where[device.serial]
        self._warned.discard(device.serial)
        broken = device.serial in self._broken
        if broken:
            self._out[device.serial] = device
        else:
            self._return(device)
        words = self._unheard(order)
        self._write(order, "done", found, words)
        self._machine_changed(order.node)
        if not broken:
            self._pool_changed(device.fabric, device.model)
        self._answer(order, Answer(error=words, lost=True) if words else Answer(device))

    def _unheard(self, order: _Order) -> str:
        """The error that the caller gets although the order was carried out (fault `lose_answer`), "" without that fault."""
        return order.fault.words if order.fault is not None and order.fault.kind == "lose_answer" else ""

    def _fail(self, order: _Order, words: str, lost: bool = False) -> None:
        self._write(order, "failed", self._attached.get(order.node, {}).get(order.resource), words)
        self._answer(order, Answer(error=words, lost=lost))

    def _answer(self, order: _Order, answer: Answer) -> None:
        self._open.pop(order.number, None)
        self._busy[order.node] -= 1
        if not self._busy[order.node]:
            del self._busy[order.node]
        order.done(answer)
        self._start()

    def _made(self, fabric: str, model: str) -> Device:
        resource = str(uuid.UUID(int=self._serials.getrandbits(128), version=4))
        return Device(f"GPU-{resource}", resource, model, fabric)

    def _return(self, device: Device) -> None:
        self._free.setdefault((device.fabric, device.model), deque()).append(device)

    def _plug(self, node: str, device: Device, fixed: bool = False) -> Attached:
        there = self._attached[node]
        taken = {one.minor for one in there.values()}
        minor = next(number for number in range(len(taken) + 1) if number not in taken)
        plugged = Attached(device, minor, self._time.now(), fixed)
        there[device.resource] = plugged
        self._where[device.serial] = node
        self._machine_changed(node)
        return plugged

    def _write(self, order: _Order, outcome: Outcome, what: Attached | None, words: str = "") -> None:
        serial = what.device.serial if what else ""
        resource = what.device.resource if what else order.resource
        model = what.device.model if what else order.model
        entry = Entry(
            self._time.now(), order.number, order.operation, outcome, order.node, model, serial, resource, words
        )
        self.ledger.write(entry)

    def _pool_changed(self, fabric: str, model: str) -> None:
        for call in tuple(self._pool_listeners):
            call(fabric, model)

    def _machine_changed(self, node: str) -> None:
        for call in tuple(self._machine_listeners):
            call(node)
