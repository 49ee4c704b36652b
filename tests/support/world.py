"""A small cluster, told to a real engine fact by fact.

    world = World(mode="attach")
    world.node("node0")
    world.pool(A100, 4)            # these three: one_node("attach", 4)
    world.claim("train")
    world.allocate("train", "node0")    # and these two: world.waits("train", "node0")
    world.settle()
    assert world.state("train") == "Attached"

Each sentence is one change of one object, a tenth of a second after the last, with the deadlines that are due before it.
`carry_out` plays the writer (it does what was decided), `operate` the operator, the fabric and the vendor's driver (a
request gets its devices), `make` the operator up to its orders. Nothing here decides anything, and nothing looks into the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    Pod,
    Requirement,
    Result,
    Slice,
)
from dds_core.scaler import events as e
from dds_core.scaler.settling import GUARD_SETTLE
from tests.support.fed_engine import SECOND as SECOND
from tests.support.fed_engine import START as START
from tests.support.fed_engine import FedEngine

GPU = "gpu.nvidia.com"
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
A100 = Model(1, "A100 40G", "nvidia-a100-40", GPU, {"productName": "NVIDIA A100 40GB"})
H100 = Model(2, "H100 80G", "nvidia-h100-80", GPU, {"productName": "NVIDIA H100 80GB"})


EVERY = DeviceClass("class-gpu", "gpu")
"""The class of all devices, for claims of which it does not matter what they ask for."""


def class_of(model: Model) -> DeviceClass:
    """The class of the devices of a model, by its name in the cluster."""
    wanted = (
        f'"{value}" == device.attributes["{model.driver}"].{name}' for name, value in model.attributes.items() if value
    )
    driver = f'device.driver == "{model.driver}"'
    return DeviceClass(f"class-{model.device}", model.device, (" && ".join([driver, *wanted]),))


def asks(name: str, *classes: str, count: int = 1, **fields: Any) -> ClaimRequest:
    """A request for devices of a class, or (several) of the first of these classes that can be had."""
    names = classes if len(classes) > 1 else ("",)
    rows = zip(names, classes, strict=True)
    return ClaimRequest(name, alternatives=tuple(Alternative(one, sub, count=count, **fields) for sub, one in rows))


class World(FedEngine):
    """A ConfigMap, a policy and the cluster that is built here, sentence by sentence."""

    def __init__(
        self,
        mode: str = "observe",
        *,
        models: Sequence[Model] = (A100, H100),
        prefix: str = "cohdi.io",
        kill_switch: str = "",
        synced: bool = True,
        exchange: bool = False,
        **policy: Any,
    ) -> None:
        """`exchange`: the server and its scheduler are such that devices can be guarded, so exchanged and held."""
        super().__init__()
        self.prefix = prefix
        self._carried_out = 0
        self._made = 0
        self.policy = {"mode": mode, **policy}
        self.feed(e.PolicyChanged(policy=self.policy))
        version, guards = ("1.36", "dds") if exchange else ("", "")
        self.feed(e.Capabilities(version=version, guards=guards))
        self.observe(Config("config", prefix, tuple(models), mode=kill_switch))
        for one in (EVERY, *map(class_of, models)):
            self.observe(one)
        if synced:
            self.sync()

    def sync(self) -> None:
        """The whole cluster is listed. With `synced=False`, what is told before is decided together."""
        self.feed(e.Synced())

    def change_policy(self, **fields: Any) -> None:
        self.policy = {**self.policy, **fields}
        self.feed(e.PolicyChanged(policy=self.policy))

    # --- nodes and devices -------------------------------------------------------------------------------------------

    def node(self, name: str, *, fabric: int = 1, labels: Mapping[str, str] = {}, **fields: Any) -> None:
        """A node of a fabric whose pools are open to it."""
        known = {f"{self.prefix}/{model.device}": "true" for model in self.state.settings.config.models}
        found = {f"{self.prefix}/fabric": str(fabric), **known, **labels}
        self.observe(Node(f"node-{name}", name, labels=found, **fields))

    def relabel(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels, or remove those that are None or empty."""
        node = self.get(Node, name)
        merged = {**node.labels, **labels}
        self.update(node, labels={key: value for key, value in merged.items() if value})

    def pool(self, model: Model, count: int, *, fabric: int = 1, generation: int = 1, slices: int = 1) -> str:
        """The slice that publishes `count` free devices of a fabric; the name of the pool."""
        name = f"{model.device}-fabric{fabric}"
        attributes: dict[str, str | int | bool] = {**model.attributes, "uuid": ""}
        device = Device(attributes, binding=(READY,), failure=(RESCHEDULE, FAILED))
        reach = (
            Requirement(f"{self.prefix}/{model.device}", "In", ("true",)),
            Requirement(f"{self.prefix}/fabric", "In", (str(fabric),)),
        )
        devices = {f"{model.device}-{i}": device for i in range(count)}
        self.observe(
            Slice(f"pool-{name}", name, model.driver, name, generation, slices, selector=reach, devices=devices)
        )
        return name

    def plug(
        self, node: str, name: str, uuid: str, model: Model = A100, *, more: Mapping[str, str] = {}, **fields: Any
    ) -> None:
        """The vendor's driver lists a device in the node's own slice; `more` are attributes beside those of its model."""
        uid = f"local-{node}-{model.driver}"
        known = self.state.inventory.slices.get(uid)
        one = known or Slice(uid, f"{node}-{model.driver}", model.driver, node, 0, 1, node=node)
        attribute = self.state.policy.driver_of(model.driver).uuid_attribute
        attributes: dict[str, str | int | bool] = {**model.attributes, attribute: uuid, **more}
        devices = {**one.devices, name: Device(attributes, **fields)}
        self.update(one, devices=devices, generation=one.generation + 1)

    def unplug(self, node: str, name: str, driver: str = GPU) -> None:
        one = self.state.inventory.slices.rows[f"local-{node}-{driver}"]
        rest = {key: device for key, device in one.devices.items() if key != name}
        self.update(one, devices=rest, generation=one.generation + 1)

    # --- claims and pods ---------------------------------------------------------------------------------------------

    def claim(self, name: str, devices: int = 1, *, pod: str | None = None, **fields: Any) -> None:
        """A claim for so many devices, younger than all before, and a pending pod of the same name that refers to it.

        pod: another pod's name, or "" for none yet.
        """
        namespace, _, plain = name.rpartition("/")
        namespace = namespace or "default"
        self._made += 1
        given = {"created": START + self._made * SECOND, "requests": (asks("r0", "gpu", count=devices),), **fields}
        uid = given.pop("uid", f"uid-{namespace}-{plain}")
        self.observe(Claim(uid, namespace, plain, **given))
        if pod != "":
            self.pod(f"{namespace}/{pod or plain}", [plain])

    def pod(self, name: str, claims: Iterable[str] = (), **fields: Any) -> None:
        """A pending pod that refers to these claims (also to those it referred to before)."""
        namespace, _, plain = name.rpartition("/")
        namespace = namespace or "default"
        known = self.state.demand.pods.get(f"pod-{namespace}-{plain}")
        one = known or Pod(f"pod-{namespace}-{plain}", namespace, plain, phase="Pending", scheduler="default-scheduler")
        self.update(one, claims=(*one.claims, *claims), **fields)

    def allocate(self, claim: str, node: str, *wants: tuple[Model, int] | Result, reserved: bool = True) -> None:
        """The scheduler takes pool devices for the claim, the first free names, and waits for them on the node.

        wants: models with numbers, or results as they are; by default as many A100 as the claim asks for.
        """
        one = self.get(Claim, claim)
        count = sum(r.alternatives[0].count for r in one.requests)
        results = self._results(one, node, wants or ((A100, count),))
        allocation = Allocation(tuple(results), node, timestamp=self.now // SECOND * SECOND)
        consumers = self._consumers(one) if reserved else ()
        requests = one.requests if _chosen(one) else self._asked_for(results)
        now = {"requests": requests, "allocation": allocation, "consumers": consumers, "conditions": ()}
        self.update(one, protected=True, **now)

    def _asked_for(self, results: Sequence[Result]) -> tuple[ClaimRequest, ...]:
        """Requests that these results satisfy: of the class of the model that a pool device is of, else of any device."""
        found: dict[str, ClaimRequest] = {}
        for result in results:
            model = self.state.inventory.model_of_result(result)
            before = found.get(result.request)
            count = before.alternatives[0].count + 1 if before is not None else 1
            name = model.device if model is not None and result.binding else "gpu"
            capacity = result.consumed if result.share else {}
            found[result.request] = asks(result.request, name, count=count, capacity=capacity)
        return tuple(found.values())

    def waits(self, claim: str, node: str, *wants: tuple[Model, int] | Result, reserved: bool = True) -> None:
        """A claim of one device that is allocated from the pool at once."""
        self.claim(claim)
        self.allocate(claim, node, *wants, reserved=reserved)

    def allocate_local(self, claim: str, node: str, *devices: str, driver: str = GPU) -> None:
        """The scheduler takes devices that are on the node already."""
        self.allocate(claim, node, *(Result("r0", driver, node, device) for device in devices))

    def holds(self, claim: str, node: str, *devices: str, driver: str = GPU) -> None:
        """A claim of one device that is allocated devices of the node at once."""
        self.claim(claim)
        self.allocate_local(claim, node, *devices, driver=driver)

    def unreserve(self, claim: str) -> None:
        """The binding failed or was cancelled: no pod is reserved, the allocation stays."""
        self.update(self.get(Claim, claim), consumers=())

    def reserve(self, claim: str) -> None:
        one = self.get(Claim, claim)
        self.update(one, consumers=self._consumers(one))

    def clear(self, claim: str) -> None:
        """The scheduler, or the claim controller, takes the allocation back."""
        self.update(self.get(Claim, claim), allocation=None, consumers=(), conditions=())

    def condition(self, claim: str, type: str, place: int = 0, status: str = "True") -> None:
        """Somebody sets a condition on one result of the claim."""
        one = self.get(Claim, claim)
        assert one.allocation is not None
        result = one.allocation.results[place]
        told = Condition(result.driver, result.pool, result.device, type, status, result.share)
        self.update(one, conditions=(*one.conditions, told))

    def bind(self, pod: str, node: str = "") -> None:
        """The pod has a node (that of its claims) and runs."""
        one = self.get(Pod, pod)
        places = [claim.allocation.node for claim in self.state.demand.claims_of(one) if claim.allocation is not None]
        self.update(one, node=node or places[0], phase="Running", nominated="", waiting="")

    def finish(self, *names: str) -> None:
        """The pod is gone and the claim of the same name with it, allocation first."""
        for name in names:
            self.gone(self.get(Pod, name))
            self.clear(name)
            self.gone(self.get(Claim, name))

    def _consumers(self, claim: Claim) -> tuple[Consumer, ...]:
        return tuple(Consumer(pod.uid, pod.name) for pod in self.state.demand.pods_of(claim)[:1])

    def _results(self, claim: Claim, node: str, wants: Iterable[tuple[Model, int] | Result]) -> list[Result]:
        labels = self.get(Node, node).labels
        results: list[Result] = []
        for want in wants:
            if isinstance(want, Result):
                results.append(want)
                continue
            model, count = want
            pool = f"{model.device}-fabric{labels[f'{self.prefix}/fabric']}"
            taken = {r.key for r in results}
            for name, device in self.state.inventory.pools[model.driver, pool].devices.items():
                result = Result(f"r{len(results)}", model.driver, pool, name, device.binding, device.failure)
                held = self.state.demand.holders[result.key] - {claim.uid}
                if count and result.key not in taken and not held:
                    results.append(result)
                    count -= 1
            assert not count, f"pool {pool} has {count} devices too few"
        return results

    # --- requests and resources --------------------------------------------------------------------------------------

    def request(self, name: str, node: str, model: Model = A100, size: int = 1, **fields: Any) -> None:
        """A ComposabilityRequest of somebody else's; ours are made by `carry_out`."""
        self.observe(
            AttachRequest(f"request-{name}", name, type="gpu", model=model.model, size=size, node=node, **fields)
        )

    def resource(self, name: str, node: str, model: Model = A100, **fields: Any) -> None:
        """A ComposableResource as the operator makes it, or with these fields changed. Its uid is its name."""
        known = self.state.fleet.resources.get(name)
        if known is not None:
            self.update(known, **fields)
        else:
            self.observe(
                FabricResource(name, name, type="gpu", model=model.model, node=node, created=self.now, **fields)
            )

    def online(self, name: str, node: str, model: Model = A100, *, uuid: str = "", **fields: Any) -> str:
        """The device of the resource is on the node: listed under the name `gpu-<UUID>`, then called Online; its UUID."""
        uuid = uuid or f"GPU-{name}"
        self.resource(name, node, model, state="Attaching", uuid=uuid, **fields)
        self.plug(node, f"gpu-{uuid}", uuid, model)
        self.resource(name, node, model, state="Online", error="")
        return uuid

    # --- the others in the cluster -----------------------------------------------------------------------------------

    def carry_out(self, *kinds: type[e.Decision]) -> int:
        """Play the writer: do what was decided since the last call (only these kinds), nothing in mode observe; how many
        decisions there were."""
        decided = [d for step in self.steps[self._carried_out :] for d in step.decisions]
        todo = [d for d in decided if getattr(d, "mode", "") != "observe" and (not kinds or isinstance(d, kinds))]
        self._carried_out = len(self.steps)
        for decision in todo:
            self._write(decision)
        return len(todo)

    def _write(self, decision: e.Decision) -> None:
        match decision:
            case e.AttachOrdered(request=name, node=node, size=size, uid=uid):
                labels = {"app.kubernetes.io/managed-by": "dds"}
                one = AttachRequest(
                    f"request-{name}", name, "", labels, type=decision.type, model=decision.model, node=node
                )
                known = self.state.fleet.requests.rows[uid] if uid else one
                if size:
                    self.update(known, size=max(known.size, size))
            case e.DetachOrdered(uid=uid, size=size):
                self.update(self.state.fleet.requests.rows[uid], size=size)
            case e.NodeLabelled(node=name, labels=changed):
                self.relabel(name, changed)
            case e.HandOver(signals=signals):
                for signal in signals:
                    self._apply(signal)
            case e.FailureSignalled(signal=signal):
                self._apply(signal)
            case e.Steered(pod=pod, node=name, claims=claims):
                self.update(self.state.demand.pods.rows[pod], nominated=name)
                for uid in claims:
                    self.update(self.state.demand.claims.rows[uid], allocation=None, consumers=(), conditions=())
            case e.VictimMarked(resource=uid) | e.VictimUnmarked(resource=uid):
                self.update(self.state.fleet.resources.rows[uid], marked=isinstance(decision, e.VictimMarked))
            case e.ExchangeBegun() | e.GuardLifted() | e.HoldBegun():
                self.done(decision)
            case e.DeviceHeld(resource=uid, node=name, devices=keys):
                allocation = Allocation(tuple(Result("device", *key) for key in keys), name)
                self.observe(Claim(f"hold-{uid}", "dds", decision.hold, allocation=allocation, hold=uid))
                self.done(decision)
            case e.HoldEnded(resource=uid):
                for claim in [
                    self.state.demand.claims.rows[one] for one in sorted(self.state.demand.claims_holding[uid])
                ]:
                    self.update(claim, allocation=None)
                    self.gone(claim)
                self.done(decision)
            case e.AllocationCleared(claim=uid):
                cleared = {"allocation": None, "consumers": (), "conditions": (), "told": (), "config": ""}
                self.update(self.state.demand.claims.rows[uid], **cleared)
                self.done(decision, version=f"{self.now}")
            case e.DevicesGiven(claim=uid, node=name, swap=swap):
                allocation = Allocation(swap.results, name, timestamp=swap.timestamp)
                claim = self.state.demand.claims.rows[uid]
                self.update(claim, allocation=allocation, consumers=swap.consumers, config=swap.config)
                self.done(decision)
            case e.ClaimsListWanted(resource=uid):
                self.feed(e.ClaimsListed(resource=uid, started=self.now))
            case _:
                pass

    def done(self, decision: e.Decision, version: str = "") -> None:
        """The writer tells that it has carried the decision out; the time passes in which a guard settles."""
        self.feed(e.WriteDone(decision="", action=type(decision).__name__, target=decision.subject, version=version))
        if isinstance(decision, e.ExchangeBegun | e.HoldBegun):
            self.tick(GUARD_SETTLE / SECOND)

    def refused(self, decision: e.Decision, *, obsolete: bool = False, code: int = 403) -> None:
        """The writer tells that nothing came of the decision."""
        about = {"decision": "", "action": type(decision).__name__, "target": decision.subject}
        self.feed(e.WriteObsolete(**about) if obsolete else e.WriteRefused(**about, code=code, reason="Forbidden"))

    def _apply(self, signal: e.Signal) -> None:
        told = tuple(
            Condition(one.driver, one.pool, one.device, one.condition, "True", one.share, one.reason)
            for one in signal.entries
        )
        self.update(self.state.demand.claims.rows[signal.claim], conditions=told)

    def make(self) -> None:
        """Play the operator up to its orders: every request has as many resources as its size, the new ones attaching."""
        for request in list(self.state.fleet.requests.rows.values()):
            model = self.state.settings.model(request.model)
            assert model is not None
            for place in range(len(self.state.fleet.resources_of_request[request.name]), request.size):
                name = f"{request.name}-{place}-{self._number()}"
                self.resource(name, request.node, model, request=request.name, state="Attaching")

    def operate(self) -> int:
        """Play the operator and the fabric: every request gets its devices, marked ones go; how many requests changed."""
        unlike = [r for r in self.state.fleet.requests.rows.values() if r.acted_size != r.size or r.state != "Running"]
        for request in unlike:
            made = sorted(self.state.fleet.resources_of_request[request.name])
            for place in range(len(made), request.size):
                model = self.state.settings.model(request.model)
                assert model is not None
                self.online(f"{request.name}-{place}-{self._number()}", request.node, model, request=request.name)
            leaving = sorted(made, key=lambda uid: not self.state.fleet.resources.rows[uid].marked)
            for uid in leaving[: max(0, len(made) - request.size)]:
                self.take_away(uid)
            self.update(request, state="Running", acted_size=request.size)
        return len(unlike)

    def take_away(self, name: str) -> None:
        """The device leaves its node, then its slice, then its resource is gone."""
        one = self.state.fleet.resources.rows[name]
        self.update(one, state="Detaching", deleting=True)
        for driver, pool, device in sorted(self.state.inventory.keys_of[one.uuid]):
            self.unplug(pool, device, driver)
        self.gone(one)

    def settle(self) -> None:
        """Writer and operator in turn until nothing is left to do."""
        for _ in range(20):
            if not self.carry_out() + self.operate():
                return
        raise AssertionError(f"it does not settle: {self.steps[-1].caused}")

    def _number(self) -> int:
        self._made += 1
        return self._made


def _chosen(claim: Claim) -> bool:
    """Whether somebody has said what the claim asks for."""
    return any(one.device_class != "gpu" or one.selectors for each in claim.requests for one in each.alternatives)


def one_node(mode: str = "observe", free: int = 8, **more: Any) -> World:
    """A world with a node, `node0`, and so many A100 free in the pool of its fabric."""
    world = World(mode, **more)
    world.node("node0")
    world.pool(A100, free)
    return world
