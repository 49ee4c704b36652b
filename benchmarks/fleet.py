"""A fleet under steady churn, as facts: what a scaler of a thousand nodes would see, made from counters.

Every node holds ten attached devices of one of two models, every device is held by a claim whose pod runs. One turn of
the churn ends one claim and starts another: the old pod and claim go and their device goes back to the pool; a new pod
gets a device from the pool, waits while somebody orders it and the fabric attaches it, and is handed over. That makes
26 facts, each the difference that a change of one object makes, as adapters report it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

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
    objects: dict[str, Observed] = field(default_factory=dict)
    at: int = START
    serial: int = 0

    def begin(self, policy: dict[str, object]) -> Iterator[Fact]:
        """Yield the start of a process and the list of a fleet whose devices are all in use."""
        yield self._next(Started("benchmark", FINGERPRINT, PROJECTION, 1, str(policy["mode"])))
        yield self._next(PolicyChanged(policy))
        yield self._next(Capabilities("v1beta2"))
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
        devices = {_device(name): _local_device(model, name) for name in names}
        yield self._see(Slice(f"slice-{node}", f"{node}-gpu", DRIVER, node, 1, 1, node, devices=devices))
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
        yield self._changed_slice(f"slice-{_node(node)}", _device(name), None)
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
        yield self._changed_slice(f"slice-{where}", _device(name), _local_device(model, name))
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
        return self._changed_slice(_pool_slice(_model(node)), name, device)

    def _changed_slice(self, uid: str, name: str, device: Device | None) -> Fact:
        old = self.objects[uid]
        assert isinstance(old, Slice)
        devices = {key: value for key, value in old.devices.items() if key != name}
        return self._see(replace(old, devices=devices if device is None else {**devices, name: device}))

    def _claim(self, name: str, node: int) -> Claim:
        request = ClaimRequest("r0", alternatives=(Alternative(_model(node).device),))
        return Claim(f"claim-{name}", "team-a", f"train-{name}", self.at, requests=(request,), owner=f"pod-{name}")

    def _pod(self, name: str) -> Pod:
        return Pod(
            f"pod-{name}", "team-a", f"train-{name}", phase="Pending", scheduler="default-scheduler",
            claims=(f"train-{name}",),
        )  # fmt: skip


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
