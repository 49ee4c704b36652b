"""The final state of a run: compared between runs, and searched for objects that should have been removed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from dds_adapters.kubernetes import guard
from dds_core.scaler.model import COOLING, hold_name
from dds_lab.actors.objects import reservations, results
from dds_lab.actors.operator.names import DELETE_DEVICE, MANAGED_BY
from dds_lab.client import Object
from dds_lab.judge.cluster_view import ClusterView
from dds_lab.lab import Lab
from dds_lab.time import MICROSECONDS

GUARD = "a guard"
WAITING = "without a node"
SPARE = "a device that nobody needs"
COOLED = "a label of a cool-down"


@dataclass(frozen=True)
class EndState:
    """`pods` and `claims`: state by name. `attached`: number of attached devices by model. `left`: a word for each leftover that
    should have been removed."""

    pods: dict[str, str] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    attached: Counter[str] = field(default_factory=Counter)
    left: tuple[str, ...] = ()


class Waits:
    """Measures from its creation on how long each pod waits for a node. A later pod of the same name counts by itself."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._names: dict[str, str] = {}  # by uid
        self._since: dict[str, int] = {}  # waiting pods, by uid
        self._waited: dict[str, float] = {}
        lab.client("oracle").mirror("pods").follow(self._changed)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds that each pod waited or still waits, by name."""
        return {**self._waited, **{self._names[uid]: self._passed(uid) for uid in self._since}}

    def _passed(self, uid: str) -> float:
        return (self._lab.time.now() - self._since[uid]) / MICROSECONDS

    def _changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or {}
        uid = pod["metadata"]["uid"]
        if old is None:
            before = sum(name.split()[0] == _name(pod) for name in self._names.values())
            self._names[uid] = f"{_name(pod)} ({before + 1})" if before else _name(pod)
            self._since[uid] = self._lab.time.now()
        if uid in self._since and (new is None or new["spec"].get("nodeName")):
            self._waited[self._names[uid]] = self._passed(uid)
            del self._since[uid]


def state_of(view: ClusterView) -> EndState:
    lab = view.lab
    client = lab.client("oracle")
    models = {
        one.device.serial: one.device.model
        for machine in lab.fabric.machines()
        for one in lab.fabric.plugged(machine.node)
    }
    claims = [one for one in client.list("resourceclaims") if not one["metadata"]["name"].startswith("dds-")]
    return EndState(
        {_name(one): _pod(one) for one in client.list("pods")},
        {_name(one): _claim(one) for one in claims},
        Counter(models.get(serial, "") for serial in lab.ledger.attached()),
        (*_left(lab), *_spare(view)),
    )


def something_leaves(lab: Lab) -> bool:
    """Whether a device is still to be detached."""
    resources = lab.client("oracle").list("composableresources")
    return any(one["metadata"].get("deletionTimestamp") for one in resources)


def differences(wanted: EndState, found: EndState) -> Iterator[str]:
    """The differences of a state from the wanted one. Which devices on which nodes does not matter."""
    for what, before, after in (("pod", wanted.pods, found.pods), ("claim", wanted.claims, found.claims)):
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name, "gone"), after.get(name, "gone")
            if was != now:
                yield f"{what} {name} is {now} in the end, not {was}"
    for model in sorted(wanted.attached.keys() | found.attached.keys()):
        if wanted.attached[model] != found.attached[model]:
            yield f"{found.attached[model]} of {model} are attached in the end, not {wanted.attached[model]}"
    yield from (f"left over: {one}" for one in (Counter(found.left) - Counter(wanted.left)).elements())


def _name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _pod(pod: Object) -> str:
    phase = (pod.get("status") or {}).get("phase", "")
    return f"{phase}" if pod["spec"].get("nodeName") else WAITING


def _claim(claim: Object) -> str:
    found = results(claim)
    if not found:
        return "not allocated"
    waits = sum(bool(one.get("bindingConditions")) for one in found)
    return f"allocated {len(found)} devices, {waits} of them a pool's, for {len(reservations(claim))}"


def _left(lab: Lab) -> Iterator[str]:
    """Leftovers: holds, guards, marks, and labels of cool-downs."""
    client = lab.client("oracle")
    resources = client.list("composableresources")
    nodes: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        nodes[_serial(resource)].add(resource["spec"]["target_node"])
    stuck = {one["metadata"]["name"] for one in resources if _goes_for_ever(lab, one, nodes[_serial(one)])}
    names = {hold_name(one) for one in stuck}
    for claim in client.list("resourceclaims"):
        if claim["metadata"]["name"].startswith(hold_name("")) and claim["metadata"]["name"] not in names:
            yield "a hold"
    for config in client.list("configmaps"):
        if config["metadata"]["name"] == guard.CONFIG_MAP and config.get("data") and not stuck:
            yield GUARD
    for resource in resources:
        meta = resource["metadata"]
        if DELETE_DEVICE in (meta.get("annotations") or {}) and meta["name"] not in stuck:
            yield "a mark"
    for node in client.list("nodes"):
        if any(key.endswith(COOLING) for key in node["metadata"].get("labels") or {}):
            yield COOLED


def _goes_for_ever(lab: Lab, resource: Object, nodes: set[str]) -> bool:
    """Whether the operator waits for ever until no slice lists the device: another node has it by now."""
    serial = _serial(resource)
    elsewhere = {*nodes, lab.fabric.where(serial)} - {resource["spec"]["target_node"], ""}
    return bool(resource["metadata"].get("deletionTimestamp") and serial and elsewhere)


def _spare(view: ClusterView) -> Iterator[str]:
    """One `SPARE` for each attached device that nobody needs. Excused are requests whose operator waits for ever until a driver
    lists a device: the operator would detach that device first, so no other one can go."""
    resources = view.lab.client("oracle").list("composableresources")
    waited_for = {_request(one) for one in resources if _is_waited_for(view, one)}
    kept = Counter(
        (one["spec"]["target_node"], one["spec"]["model"]) for one in resources if _request(one) in waited_for
    )
    for one in resources:
        # A device that another node has by now is named by the resource that it left: nobody takes it off.
        place = view.lab.fabric.where(_serial(one))
        if one["metadata"].get("deletionTimestamp") and place not in ("", one["spec"]["target_node"]):
            kept[place, one["spec"]["model"]] += 1
    for model in view.lab.scenario.cluster.models:
        cells = ((node, model.model) for node in view.nodes)
        yield from [SPARE] * sum(max(0, view.spare(cell) - kept[cell]) for cell in cells)


def _is_waited_for(view: ClusterView, resource: Object) -> bool:
    """Whether the operator waits for a device that the driver does not list."""
    state = (resource.get("status") or {}).get("state")
    return (
        state == "Attaching" and not resource["metadata"].get("deletionTimestamp") and view.is_hidden(_serial(resource))
    )


def _serial(resource: Object) -> str:
    return (resource.get("status") or {}).get("device_id") or ""


def _request(resource: Object) -> str:
    """The name of the resource's request, from the operator's label."""
    return (resource["metadata"].get("labels") or {}).get(MANAGED_BY) or ""
