"""Random small nodes: what is published of them, who holds and waits for what. Plain rows of the state's tables, made from a
seed, with things that go together in the real world only sometimes going together here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from dds_core.lifecycle import DEVICE_DETACHING
from dds_core.model import (
    Allocation,
    Alternative,
    CapacityPolicy,
    Claim,
    ClaimRequest,
    Config,
    Constraint,
    Device,
    DeviceClass,
    DeviceKey,
    FabricResource,
    Model,
    Node,
    Pod,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.model import DEPARTED, ClaimLife, DeviceLife, Fence, Reservation
from dds_core.scaler.policy import read_policy
from dds_core.scaler.state import State

T = TypeVar("T")

NODE = "node0"
ONE, TWO, FOREIGN = "one.example.com", "two.example.com", "nic.example.com"
MODELS = (
    Model(1, "A", "a", ONE, {"model": "a"}),
    Model(2, "B", "b", ONE, {"model": "b"}),
    Model(3, "C", "c", TWO, {"model": "c"}),
)
CONFIG = Config("config", models=MODELS)
POLICIES = {True: read_policy({"mode": "attach"}), False: read_policy({"mode": "observe"})}
BUS, ROOT = "resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot"
OTHER_ROOT = "other.io/root"
WAITS = ("Ready",)

_MODEL = f'device.attributes["{ONE}"].model == '
SELECTORS = (
    "true",
    f'device.driver == "{ONE}"',
    f'{_MODEL}"a"',
    f'{_MODEL}"b"',
    f'device.driver == "{TWO}" && device.attributes["{TWO}"].model == "c"',
    f'"size" in device.attributes["{ONE}"] && device.attributes["{ONE}"].size >= 2',
    f'"rev" in device.attributes["{ONE}"] && device.attributes["{ONE}"].rev.isGreaterThan(semver("1.0.0"))',
    f'"memory" in device.capacity["{ONE}"] && device.capacity["{ONE}"].memory.compareTo(quantity("4Gi")) >= 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    f'device.attributes["{ONE}"].size >= 1',  # fails where there is none
    f'device.attributes["{ONE}"].nothing == "x"',
    '"text"',
    "device.attributes[",
)
CLASSES = {
    "any": (),
    "one": (f'device.driver == "{ONE}"',),
    "two": (f'device.driver == "{TWO}"',),
    "a": (f'device.driver == "{ONE}"', f'{_MODEL}"a"'),
    "fails": (f'device.attributes["{ONE}"].size > 0',),
}
KINDS = ("one",) * 7 + ("shared",) * 4 + ("beside", "beside", "partitions", "modes", "halves", "static", "functions")
CAPACITIES = ("1", "1Gi", "2Gi", "3Gi", "3500Mi", "4Gi", "9Gi")


@dataclass
class Case:
    """Rows by the state's table and key. `live`: whether what is decided is carried out."""

    live: bool = True
    tables: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def put(self, table: str, key: Any, row: Any) -> None:
        self.tables.setdefault(table, {})[key] = row

    def rows(self, table: str) -> dict[Any, Any]:
        return self.tables.get(table, {})

    def copy(self) -> Case:
        return Case(self.live, {name: dict(rows) for name, rows in self.tables.items()})

    def state(self) -> State:
        state = State()
        state.policy = POLICIES[self.live]
        state.settings.configs.put("config", CONFIG)
        state.fleet.nodes.put("node", Node("node", NODE))
        for name, rows in self.tables.items():
            for key, row in rows.items():
                state.tables[name].put(key, row)
        return state

    def __str__(self) -> str:
        rows = (f"  {name}[{key!r}] = {row}" for name, rows in self.tables.items() for key, row in rows.items())
        return "\n".join([f"live = {self.live}", *rows])


class Maker:
    """Makes one case."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.case = Case(self.random.random() < 0.7)
        self.devices: dict[DeviceKey, Device] = {}
        self.uuids: dict[DeviceKey, str] = {}
        self.constrained = False
        """Whether the claim that is being made has constraints; then it asks for more, of anything."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, among: Sequence[T]) -> T:
        return among[int(self.random.random() * len(among))]

    def make(self) -> Case:
        for name, selectors in CLASSES.items():
            self.case.put("classes", name, DeviceClass(name, name, selectors))
        self._hardware()
        self._holders()
        self._rules()
        for pod in range(self.pick((1, 1, 1, 2, 2, 3))):
            self._pod(pod)
        self._promised_to_others()
        return self.case

    # -- devices --------------------------------------------------------------------------------------------------------

    def _hardware(self) -> None:
        wanted, number = self.pick((0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6)), 0
        counters: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        found: dict[tuple[str, str], dict[str, Device]] = {}
        while sum(map(len, found.values())) < wanted:
            driver = self.pick((ONE, ONE, ONE, TWO, FOREIGN))
            pool = (driver, NODE if self.chance(0.85) else "second")
            uuid = f"GPU-{number}" if self.chance(0.8) else ""
            faces, set_ = self._faces(number, driver, uuid)
            room = wanted - sum(map(len, found.values()))
            faces = dict(list(faces.items())[: max(1, room)])
            found.setdefault(pool, {}).update(faces)
            known = any(uuid in device.attributes.values() for device in faces.values())
            self.uuids |= {(*pool, name): uuid if known else "" for name in faces}
            if set_:
                counters.setdefault(pool, {}).update(set_)
            if uuid and driver != FOREIGN and self.chance(0.6):
                self._resource(number, driver, uuid, (*pool, next(iter(faces))))
            number += 1
        for pool, devices in found.items():
            self._publish(pool, devices, counters.get(pool, {}))
        if self.chance(0.08):
            model = self.pick(MODELS)
            coming = FabricResource("coming", "coming", model=model.model, node=NODE, state="Attaching")
            self.case.put("resources", "coming", coming)

    def _faces(self, number: int, driver: str, uuid: str) -> tuple[dict[str, Device], dict[str, dict[str, str]]]:
        """The devices of one piece of hardware, with its counters."""
        name, plain = f"d{number}", self._device(driver)
        mine: dict[str, str | int | bool] = {"uuid": uuid} if uuid else {}
        if self.chance(0.3):
            mine[ROOT] = self.pick(("r0", "r1"))
        whole = replace(plain, attributes={**plain.attributes, **mine})
        kind = self.pick(KINDS)
        if kind == "shared":
            return {name: self._shared(whole)}, {}
        if kind == "beside":  # two drivers' views of one device, told by its address
            here: dict[str, str | int | bool] = {BUS: f"0000:{number}"}
            one = replace(whole, attributes={**whole.attributes, **here})
            two = replace(plain, attributes={**plain.attributes, **here, "type": "vfio"})
            return {name: self._shared(one) if self.chance(0.2) else one, f"{name}-vfio": two}, {}
        if kind == "static":
            part = {"parentUUID": uuid, "type": "mig"} if uuid else {"type": "mig"}
            parts = replace(plain, attributes={**plain.attributes, **part})
            return {f"{name}-p{i}": parts for i in range(2)}, {}
        if kind == "functions":  # which do not say whose they are
            part = {ROOT: self.pick(("r0", "r1")), "type": "vf"}
            return {f"{name}-vf": replace(plain, attributes={**plain.attributes, **part})}, {}
        set_ = f"set{number}"
        if kind == "one":
            return {name: whole}, {}
        if kind == "partitions":
            part = {"type": "mig"} if self.chance(0.5) else {}
            units = self.pick((1, 2))
            small = replace(plain, attributes={**plain.attributes, **part}, consumes=_draws(set_, units))
            wholes = {name: replace(whole, consumes=_draws(set_, 4))} if self.chance(0.8) else {}
            return {**wholes, f"{name}-p0": small, f"{name}-p1": small}, {set_: {"units": "4"}}
        draw = self.pick((1, 2))
        face = replace(whole, consumes=_draws(set_, draw))
        if kind == "modes":
            face = self._shared(face)
        other = self._shared(face) if self.chance(0.15) else face
        return {f"{name}-x": face, f"{name}-y": other}, {set_: {"units": self.pick(("1", "2", "4"))}}

    def _device(self, driver: str) -> Device:
        words = {ONE: ("a", "a", "b"), TWO: ("c",), FOREIGN: ("n",)}[driver]
        attributes: dict[str, str | int | bool] = {"model": self.pick(words)}
        versions = []
        if self.chance(0.5):
            attributes["size"] = self.pick((1, 2, 3))
        if self.chance(0.8):
            name = self.pick(("root", f"{driver}/root", OTHER_ROOT, OTHER_ROOT, OTHER_ROOT, OTHER_ROOT))
            values: tuple[str | int | bool, ...] = ("x", 1, 1, True, True, "1.0.0")
            attributes[name] = self.pick(values)
            if attributes[name] == "1.0.0" and self.chance(0.5):
                versions.append(name)
        if self.chance(0.3):
            attributes["rev"] = self.pick(("1.0.0", "2.1.0"))
            versions.append("rev")
        capacity = {"memory": self.pick(("2Gi", "4Gi", "8Gi"))} if self.chance(0.4) else {}
        taints = (Taint("hot", "", self.pick(("NoSchedule", "NoExecute", "None"))),) if self.chance(0.12) else ()
        binding = WAITS if self.chance(0.03) else ()
        return Device(attributes, capacity, binding, taints=taints, versions=tuple(versions))

    def _shared(self, device: Device) -> Device:
        policies = {}
        kind = self.pick(("", "range", "values", "no step"))
        if kind == "range":
            policies["memory"] = CapacityPolicy("2Gi", ranged=True, min="1Gi", max=self.pick(("", "3Gi")), step="1Gi")
        elif kind == "no step":
            policies["memory"] = CapacityPolicy("1Gi", ranged=True, min="1Gi")
        elif kind == "values":
            policies["memory"] = CapacityPolicy("1Gi", ("1Gi", "4Gi"))
        capacity = {"memory": self.pick(("4Gi", "4Gi", "6Gi"))} if policies or self.chance(0.7) else {}
        if self.chance(0.15):
            capacity["lanes"] = "2"
            if self.chance(0.5):
                policies["lanes"] = CapacityPolicy("1", ("1", "2"))
        return replace(device, shared=True, capacity=capacity, policies=policies)

    def _resource(self, number: int, driver: str, uuid: str, key: DeviceKey) -> None:
        uid = f"res{number}"
        model = self.pick([one for one in MODELS if one.driver == driver])
        one = FabricResource(uid, uid, model=model.model, node=NODE, state="Online", uuid=uuid)
        if self.chance(0.25):
            changed: dict[str, Any] = self.pick(
                (
                    {"error": "sick"},
                    {"deleting": True},
                    {"state": "Attaching"},
                    {"state": "Detaching"},
                    {"node": "node1"},
                    {"marked": True},
                )
            )
            one = replace(one, **changed)
        self.case.put("resources", uid, one)
        if self.chance(0.3):
            state = DEVICE_DETACHING if self.chance(0.25) else self.pick(("Idle", "Used"))
            taken = (*key[:2], "old-name") if self.chance(0.4) else key
            known = taken if state == "Used" else None
            self.case.put("devices", uid, DeviceLife(state, 1, NODE, model.model, key=known))
        if self.chance(0.15):
            self.case.put("fences", uid, Fence(1, key, "request", ordered=self.chance(0.5)))
        if self.chance(0.03):
            del self.case.tables["resources"][uid]
            self.case.put("fired_deadlines", (DEPARTED, uuid), 1)

    def _publish(self, pool: tuple[str, str], devices: dict[str, Device], counters: dict[str, dict[str, str]]) -> None:
        """In one slice or in two, with those of an older generation around, or without one of them."""
        driver, name = pool
        base = Slice(f"{driver}-{name}", f"{driver}-{name}", driver, name, 2, 1, NODE)
        parts = [devices]
        if len(devices) > 1 and self.chance(0.2):
            half = len(devices) // 2
            parts = [dict(list(devices.items())[:half]), dict(list(devices.items())[half:])]
        count = len(parts) + bool(counters)
        for index, part in enumerate(parts):
            uid = f"{base.uid}-{index}"
            self.case.put("slices", uid, replace(base, uid=uid, name=uid, slices=count, devices=part))
        if counters:
            uid = f"{base.uid}-counters"
            self.case.put("slices", uid, replace(base, uid=uid, name=uid, slices=count, counters=counters))
        if self.chance(0.04):
            lost = self.pick([uid for uid, one in self.case.rows("slices").items() if one.uid.startswith(base.uid)])
            del self.case.tables["slices"][lost]
        elif self.chance(0.02):
            twice = replace(base, uid=f"{base.uid}-twice", name=f"{base.uid}-twice", slices=count, devices=devices)
            self.case.put("slices", twice.uid, twice)
        if self.chance(0.1):
            uid = f"{base.uid}-z-old"
            old = {one: self._device(driver) for one in devices}
            self.case.put("slices", uid, replace(base, uid=uid, name=uid, generation=1, devices=old))
        self.devices |= {(driver, name, one): device for one, device in devices.items()}

    # -- who has them ---------------------------------------------------------------------------------------------------

    def _result(self, key: DeviceKey, request: str = "r0", *, share: str = "") -> Result:
        device = self.devices.get(key)
        if device is None or not device.shared or self.chance(0.05):
            return Result(request, *key)
        consumed = {name: self.pick(("1Gi", "2Gi")) if name == "memory" else "1" for name in device.capacity}
        return Result(request, *key, share=share or f"share-{key[2]}-{self.random.random()}", consumed=consumed)

    def _holders(self) -> None:
        """Claims that hold devices, shares, partitions, or only look on; also under names that nobody lists."""
        keys = list(self.devices)
        for number in range(self.pick((0, 0, 1, 1, 2)) if keys else 0):
            uid = f"h{number}"
            result = self._result(self.pick(keys))
            if self.chance(0.08):
                result = replace(result, device="old-name")
            if self.chance(0.12):
                result = replace(result, admin=True)
            self.case.put("claims", uid, Claim(uid, "default", uid, allocation=Allocation((result,), NODE)))

    def _rules(self) -> None:
        if self.chance(0.12) and self.devices:
            driver, pool, device = self.pick(list(self.devices))
            taint = Taint("rule", "v", self.pick(("NoSchedule", "None")))
            where = (driver, self.pick(("", pool)), self.pick(("", device)))
            self.case.put("taint_rules", "rule", TaintRule("rule", "rule", *where, taint=taint))

    def _promised_to_others(self) -> None:
        """Under the UUIDs that are known of the hardware."""
        count, keys = self.pick((0, 0, 0, 1, 1, 2)), list(self.devices)
        state = self.case.state() if count and keys else None
        for number in range(count if state is not None else 0):
            key = self.pick(keys)
            assert state is not None
            resource, result = state.resource_of(key), self._result(key)
            if state.inventory.face(key).part or (self.devices[key].shared and not result.share):
                continue  # what we never promise
            uuid = resource.uuid if resource is not None else state.inventory.face(key).uuid
            promise = ReservedDevice(0, uuid, *key, "r0", result.share, result.consumed)
            uid = f"o{number}"
            if self.case.live:
                self.case.put("reservations", uid, Reservation(uid, NODE, 1, (promise,), 1))
            else:
                self.case.put("lives", uid, ClaimLife("Attached", 1, 1, 1, 1, node=NODE, promises=(promise,)))

    # -- who waits ------------------------------------------------------------------------------------------------------

    def _pod(self, number: int) -> None:
        names = [f"c{number}-{index}" for index in range(self.pick((1, 1, 1, 1, 2, 2, 3)))]
        self.case.put("pods", f"p{number}", Pod(f"p{number}", "default", f"p{number}", claims=tuple(names)))
        for index, name in enumerate(names):
            claim = self._claim(name, number, index, len(names))
            self.case.put("claims", name, claim)
            state = self.pick(("Pending", "Pending", "Attached"))
            excluded: tuple[str, ...] = ()
            if self.devices and self.chance(0.1):
                key = self.pick(list(self.devices))
                excluded = (self.uuids[key] or "/".join(key),)
            life = ClaimLife(state, 1, 1, 1, 1, node=NODE, allocation=claim.allocation, excluded=excluded)
            self.case.put("lives", name, life)

    def _claim(self, uid: str, pod: int, index: int, claims: int) -> Claim:
        most = (1, 1, 1, 2, 2, 3) if claims == 1 else (1, 1, 1, 2)
        self.constrained = self.chance(0.35)
        requests = [self._request(f"r{place}") for place in range(self.pick(most))]
        results: list[Result] = []
        for request in requests:
            chosen = self.pick(request.alternatives)
            name = f"{request.name}/{chosen.name}" if chosen.name else request.name
            count = self.pick((1, 2)) if chosen.all else chosen.count
            for _ in range(count):
                if self.devices and self.chance(0.1):
                    results.append(self._result(self.pick(list(self.devices)), name))
                elif self.chance(0.02):
                    results.append(Result(name, FOREIGN, "elsewhere", "n0"))
                else:
                    model = self.pick(MODELS)
                    place = f"{model.device}-{pod}{index}{len(results)}"
                    results.append(Result(name, model.driver, f"{model.device}-fabric1", place, WAITS))
                results[-1] = replace(results[-1], admin=chosen.admin)
        if self.chance(0.02):
            requests[0] = ClaimRequest(requests[0].name, ("any",))
        elif self.chance(0.02):
            results[0] = replace(results[0], request=self.pick(("r0/unknown", "unknown")))
        names = [request.name for request in requests]
        extended = self.chance(0.1)
        return Claim(
            uid,
            "default",
            uid,
            created=self.pick((1, 2, 3)),
            extended=extended,
            owner=f"p{pod}" if extended else "",
            requests=tuple(requests),
            allocation=Allocation(tuple(results), NODE),
            constraints=tuple(self._constraints(names)) if self.constrained else (),
        )

    def _request(self, name: str) -> ClaimRequest:
        if self.chance(0.25):
            several = self.pick((2, 2, 3))
            return ClaimRequest(name, alternatives=tuple(self._alternative(f"s{i}") for i in range(several)))
        return ClaimRequest(name, alternatives=(self._alternative("", admin=self.chance(0.05)),))

    def _alternative(self, name: str, *, admin: bool = False) -> Alternative:
        named = self.pick(("any",) * 5 + ("one", "one", "one", "two", "a", "a", "fails"))
        if self.constrained and self.chance(0.5):
            named = "any"
        if self.chance(0.01):
            named = "missing"
        selectors: list[str] = []
        while self.chance(0.25) and len(selectors) < 2:
            selectors.append(SELECTORS[min(self.random.randrange(len(SELECTORS)), self.random.randrange(24))])
        tolerations: tuple[Toleration, ...] = ()
        if self.chance(0.2):
            tolerations = (
                self.pick(
                    (
                        Toleration("", "Exists"),
                        Toleration("hot", "Exists", effect="NoSchedule"),
                        Toleration("rule", "Equal", "v"),
                        Toleration("hot", "Equal", "w"),
                    )
                ),
            )
        return Alternative(
            named,
            name,
            tuple(selectors),
            count=self.pick((1, 2, 2, 2, 3) if self.constrained else (1, 1, 1, 1, 1, 2, 2, 3)),
            all=self.chance(0.06),
            admin=admin,
            tolerations=tolerations,
            capacity={"memory": self.pick(CAPACITIES)} if self.chance(0.2) else {},
        )

    def _constraints(self, names: list[str]) -> Iterator[Constraint]:
        for _ in range(self.pick((1, 1, 2))):
            attribute = self.pick(
                (f"{ONE}/model", f"{ONE}/size", f"{ONE}/root", OTHER_ROOT, OTHER_ROOT, f"{TWO}/model")
            )
            named = self.pick(((), (), (names[0],), tuple(names), (f"{names[0]}/s0",), (f"{names[-1]}/s1",)))
            match = self.chance(0.5)
            yield Constraint(named, attribute if match else "", "" if match else attribute)


def _draws(set_: str, units: int) -> dict[str, dict[str, str]]:
    return {set_: {"units": str(units)}}


def case_of(seed: int) -> Case:
    return Maker(seed).make()


def smaller(case: Case) -> Iterator[Case]:
    """The case with one thing less, each in turn."""
    for table, rows in case.tables.items():
        for key in rows:
            less = case.copy()
            del less.tables[table][key]
            yield less
    for uid, one in case.rows("slices").items():
        for name in one.devices:
            yield _with(case, "slices", uid, devices={each: d for each, d in one.devices.items() if each != name})
    for uid, one in case.rows("claims").items():
        yield from _smaller_claim(case, uid, one)


def _smaller_claim(case: Case, uid: str, claim: Claim) -> Iterator[Case]:
    for place in range(len(claim.constraints)):
        yield _with(case, "claims", uid, constraints=_without(claim.constraints, place))
    for place, request in enumerate(claim.requests):
        for number, one in enumerate(request.alternatives):
            plainer: tuple[dict[str, Any], ...] = ({"selectors": ()}, {"capacity": {}}, {"tolerations": ()})
            for plain in plainer:
                changed = (*request.alternatives[:number], replace(one, **plain), *request.alternatives[number + 1 :])
                if changed != request.alternatives:
                    row = replace(request, alternatives=changed)
                    yield _with(case, "claims", uid, requests=_replaced(claim.requests, place, row))


def _with(case: Case, table: str, key: str, **fields: Any) -> Case:
    less = case.copy()
    less.tables[table][key] = replace(less.tables[table][key], **fields)
    return less


def _without(rows: tuple[T, ...], place: int) -> tuple[T, ...]:
    return (*rows[:place], *rows[place + 1 :])


def _replaced(rows: tuple[T, ...], place: int, row: T) -> tuple[T, ...]:
    return (*rows[:place], row, *rows[place + 1 :])
