"""A fleet under steady churn, as facts: what a scaler of a thousand nodes would see, made from counters.

Every node holds ten attached devices of one of two models, every device is held by a claim whose pod runs. One turn of
the churn ends one claim and starts another: the old pod and claim go and their device goes back to the pool; a new pod
gets a device from the pool, waits while somebody orders it and the fabric attaches it, and is handed over. That makes
26 facts, each the difference that a change of one object makes, as adapters report it. With partitions a node lists those of
each device too, all drawing on its counters, which are in a slice of their own: two facts more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from dds_core.events import OBSERVED, Capabilities, Event, PolicyChanged, Started, Synced, difference
from dds_core.fingerprint import FINGERPRINT
from dds_core.model import (
    Allocation,
    Alternative,
    AttachRequest,
    Claim,
    ClaimRequest,
    Condition,
    Config,
    Consumer,
    Device,
    DeviceClass,
    FabricResource,
    Model,
    Node,
    Observed,
    Pod,
    Requirement,
    Result,
    Slice,
)
from dds_core.scaler.state import PROJECTION

T = TypeVar("T")
Fact = tuple[int, Event]
"""An instant, microseconds since 1970-01-01 UTC, and what was learned then."""

START = 1_767_225_600_000_000  # 2026-01-01 UTC
STEP = 10_000  # microseconds between facts: a hundred a second
DEVICES_A_NODE = 10
FREE_IN_POOL = 32
DRIVER = "gpu.nvidia.com"
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"

MODELS = tuple(
    Model(index, name, word, DRIVER, {"productName": product})
    for index, name, word, product in (
        (1, "A100 40G", "nvidia-a100-40", "NVIDIA A100 40GB PCIe"),
        (2, "H100", "nvidia-h100", "NVIDIA H100 PCIe"),
    )
)


@dataclass
class Fleet:
    """The objects of the cluster as they stand, and the facts of their changes.

    `facts` of `begin()` and `turn()` have to be taken whole and in order; instants grow by `STEP`.
    """

    nodes: int
    partitions: int = 0
    """Listed beside each whole device; nobody has one."""
    objects: dict[str, Observed] = field(default_factory=dict)
    at: int = START
    serial: int = 0

    def begin(self, policy: dict[str, object]) -> Iterator[Fact]:
        """Yield the start of a process and the list of a fleet whose devices are all in use."""
        yield self._next(Started("benchmark", FINGERPRINT, PROJECTION, 1, str(policy["mode"])))
        yield self._next(PolicyChanged(policy))
        yield self._next(Capabilities())
        yield self._see(Config("config", "cohdi.io", MODELS, (1,)))
        for model in MODELS:
            yield self._see(DeviceClass(f"class-{model.device}", model.device, (_selector(model),)))
            pool = {f"{model.device}-{n}": _pool_device(model) for n in range(FREE_IN_POOL)}
            where = (Requirement(f"cohdi.io/{model.device}", "In", ("true",)),)
            yield self._see(
                Slice(_pool_slice(model), _pool_slice(model), DRIVER, _pool(model), 1, 1, selector=where, devices=pool)
            )
        for number in range(self.nodes):
            yield from self._full_node(number)
        yield self._next(Synced())

    def turn(self) -> Iterator[Fact]:
        """Yield one claim's end and another one's life up to its pod's start, on the next node in turn."""
        number = self.serial
        self.serial += 1
        node, place = number % self.nodes, number // self.nodes
        old = f"{node}-{place}"
        yield from self._end(node, old)
        yield from self._begin(node, old, f"{node}-{place + DEVICES_A_NODE}", number)

    def turns(self, facts: int) -> list[Fact]:
        """Take whole turns until there are at least so many facts."""
        taken: list[Fact] = []
        while len(taken) < facts:
            taken.extend(self.turn())
        return taken

    def node_names(self) -> list[str]:
        return [_node(number) for number in range(self.nodes)]

    # --- parts of the churn ------------------------------------------------------------------------------------------

    def _full_node(self, number: int) -> Iterator[Fact]:
        model, node = _model(number), _node(number)
        labels = {f"cohdi.io/{model.device}": "true", "cohdi.io/fabric": "1", "kubernetes.io/hostname": node}
        yield self._see(Node(f"uid-{node}", node, labels))
        names = [f"{number}-{place}" for place in range(DEVICES_A_NODE)]
        devices = {key: one for name in names for key, one in self._faces(model, name).items()}
        slices = 2 if self.partitions else 1
        yield self._see(Slice(f"slice-{node}", f"{node}-gpu", DRIVER, node, 1, slices, node, devices=devices))
        if self.partitions:
            counters = {_device(name): self._memory(self.partitions) for name in names}
            yield self._see(
                Slice(f"counters-{node}", f"{node}-counters", DRIVER, node, 1, slices, node, counters=counters)
            )
        yield self._see(_request(number, DEVICES_A_NODE))
        for name in names:
            yield self._see(_resource(number, name))
            held = Allocation((Result("r0", DRIVER, node, _device(name)),), node, "", self.at)
            claim, pod = self._claim(name, number), self._pod(name)
            yield self._see(replace(claim, allocation=held, consumers=(Consumer(pod.uid, pod.name),)))
            yield self._see(replace(pod, node=node, phase="Running"))

    def _end(self, node: int, name: str) -> Iterator[Fact]:
        claim, resource = self.objects[f"claim-{name}"], self.objects[f"resource-{name}"]
        assert isinstance(claim, Claim) and isinstance(resource, FabricResource)
        yield self._gone(f"pod-{name}")
        yield self._see(replace(claim, consumers=()))
        yield self._see(replace(claim, consumers=(), allocation=None))
        yield self._gone(claim.uid)
        yield self._see(replace(resource, marked=True))
        yield self._see(_request(node, DEVICES_A_NODE - 1))
        yield self._see(replace(resource, marked=True, deleting=True, state="Detaching"))
        yield from self._listed(node, name, False)
        yield self._gone(resource.uid)
        yield self._pool_changed(node, f"{name}-free", _pool_device(_model(node)))

    def _begin(self, node: int, old: str, name: str, number: int) -> Iterator[Fact]:
        model, where = _model(node), _node(node)
        claim, pod = self._claim(name, node), self._pod(name)
        yield self._see(pod)
        yield self._see(claim)
        result = Result(
            "r0", DRIVER, _pool(model), f"{model.device}-{number % FREE_IN_POOL}", (READY,), (RESCHEDULE, FAILED)
        )
        pending = replace(
            claim, allocation=Allocation((result,), where, "", self.at), consumers=(Consumer(pod.uid, pod.name),)
        )
        yield self._see(pending)
        yield self._see(replace(pod, nominated=where))
        yield self._see(_request(node, DEVICES_A_NODE))
        attaching = replace(_resource(node, name), state="", uuid="")
        yield self._see(attaching)
        yield self._see(replace(attaching, state="Attaching"))
        yield self._pool_changed(node, f"{old}-free", None)
        yield self._see(_resource(node, name))
        yield from self._listed(node, name, True)
        signal = Condition(DRIVER, result.pool, result.device, RESCHEDULE, "True")
        yield self._see(replace(pending, conditions=(signal,)))
        yield self._see(replace(pod, waiting="SchedulerError"))
        yield self._see(replace(pending, conditions=(signal,), consumers=()))
        yield self._see(claim)
        landed = Allocation((Result("r0", DRIVER, where, _device(name)),), where, "", self.at)
        yield self._see(replace(claim, allocation=landed, consumers=pending.consumers))
        yield self._see(replace(pod, node=where, phase="Running"))

    # --- objects and the facts of their changes ----------------------------------------------------------------------

    def _next(self, event: Event) -> Fact:
        self.at += STEP
        return self.at, event

    def _see(self, new: Observed) -> Fact:
        fact = difference(self.objects.get(new.uid), new)
        assert fact is not None, f"nothing changed in {new.uid}"
        self.objects[new.uid] = new
        return self._next(fact)

    def _gone(self, uid: str) -> Fact:
        kind = type(self.objects.pop(uid))
        return self._next(OBSERVED[kind][1](uid))

    def _pool_changed(self, node: int, name: str, device: Device | None) -> Fact:
        pool = self._slice(_pool_slice(_model(node)))
        return self._see(replace(pool, devices=_changed(pool.devices, {name: device})))

    def _listed(self, node: int, name: str, there: bool) -> Iterator[Fact]:
        """The vendor's driver lists a device from now on, or no more."""
        faces, old = self._faces(_model(node), name), self._slice(f"slice-{_node(node)}")
        devices = _changed(old.devices, {key: face if there else None for key, face in faces.items()})
        yield self._see(replace(old, devices=devices))
        if self.partitions:
            sets = self._slice(f"counters-{_node(node)}")
            own = self._memory(self.partitions) if there else None
            yield self._see(replace(sets, counters=_changed(sets.counters, {_device(name): own})))

    def _slice(self, uid: str) -> Slice:
        found = self.objects[uid]
        assert isinstance(found, Slice)
        return found

    def _faces(self, model: Model, name: str) -> dict[str, Device]:
        """What a vendor's driver lists of one device."""
        whole = _local_device(model, name)
        if not self.partitions:
            return {_device(name): whole}
        part = {"productName": model.attributes["productName"], "type": "mig", "parentUUID": f"GPU-{name}"}
        return {
            _device(name): replace(whole, consumes={_device(name): self._memory(self.partitions)}),
            **{
                f"{_device(name)}-mig-{number}": Device(
                    {**part, "uuid": f"MIG-{name}-{number}"}, consumes={_device(name): self._memory(1)}
                )
                for number in range(self.partitions)
            },
        }

    @staticmethod
    def _memory(parts: int) -> dict[str, str]:
        return {"memory": f"{10 * parts}Gi"}

    def _claim(self, name: str, node: int) -> Claim:
        request = ClaimRequest("r0", alternatives=(Alternative(_model(node).device),))
        return Claim(f"claim-{name}", "team-a", f"train-{name}", self.at, requests=(request,), owner=f"pod-{name}")

    def _pod(self, name: str) -> Pod:
        return Pod(
            f"pod-{name}", "team-a", f"train-{name}", phase="Pending", scheduler="default-scheduler",
            claims=(f"train-{name}",),
        )  # fmt: skip


def _changed(old: Mapping[str, T], changes: Mapping[str, T | None]) -> dict[str, T]:
    """Entries set, or left out where they are None."""
    merged = {**old, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _node(number: int) -> str:
    return f"node{number:04}"


def _model(node: int) -> Model:
    return MODELS[node % len(MODELS)]


def _selector(model: Model) -> str:
    name = model.attributes["productName"]
    return f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].productName == "{name}"'


def _pool(model: Model) -> str:
    return f"{model.device}-fabric1"


def _pool_slice(model: Model) -> str:
    return f"{model.device}-fabric1-gpu-nvidia-com-0"


def _device(name: str) -> str:
    return f"gpu-{name}"


def _pool_device(model: Model) -> Device:
    return Device({"productName": model.attributes["productName"]}, {}, (READY,), (RESCHEDULE, FAILED))


def _local_device(model: Model, name: str) -> Device:
    return Device({"productName": model.attributes["productName"], "uuid": f"GPU-{name}"})


def _request(node: int, size: int) -> AttachRequest:
    return AttachRequest(
        f"request-{node}", f"composability-{node}", "composability-", {}, START, type="gpu",
        model=_model(node).model, size=size, node=_node(node), state="Running", acted_size=size,
    )  # fmt: skip


def _resource(node: int, name: str) -> FabricResource:
    return FabricResource(
        f"resource-{name}", f"gpu-{name}", f"composability-{node}", START, type="gpu",
        model=_model(node).model, node=_node(node), state="Online", uuid=f"GPU-{name}",
    )  # fmt: skip
