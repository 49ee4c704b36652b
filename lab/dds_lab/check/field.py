"""Kinds of clusters beyond GPU claims of one pod each, drawn into fleets: what companies run beside dds.

A kind is a function that adds to a drawn fleet (`Ground`): to `written` or by `claim`, `pod`, `run` and `blow`. It draws from a
stream of its own. Pods that nobody can serve go to `unservable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dds_lab.actors.kubelet import RUN_FOR
from dds_lab.check.draw import Draw

Program = Literal["scaler", "publisher"]
BlowKind = Literal["kill", "stop", "pause", "cut", "log", "log-answer", "api", "policy", "clock"]
FIELD_FROM = 70_000
"""Seeds from here on draw these kinds, in small clusters with short troubles: lower seeds keep the fleets that they had."""
NET = "net.example.com"
FINALIZER = "example.com/keep"
WATCHED = "watched"
_API = {"apiVersion": "resource.k8s.io/v1"}


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault of a program's processes; times in seconds from the start. `kill` and `stop` end the leader (another process starts
    after `lasts`); `pause` suspends it; `cut` breaks its watch of a resource; `log` makes its log unavailable; `log-answer`
    stores what it appends and reports a failure; `api` makes the API server unavailable to all; `policy` changes its policy;
    `clock` steps its clock by `which` seconds, back if they are negative."""

    at: float
    kind: BlowKind
    program: Program
    lasts: float
    which: int = 0


class Ground:
    """A fleet that is being drawn. `written`: the scenario as a file would say it. `trouble`: seconds until the last fault is
    over. `left`: nodes that stay, by fabric. `partitioned`: the model that is cut into parts. Pods in `unservable` are not waited
    for."""

    trouble: float
    models: list[dict[str, Any]]
    partitioned: dict[str, Any] | None
    fabrics: list[int]
    groups: list[dict[str, Any]]
    nodes: list[str]
    left: dict[int, set[str]]

    def __init__(self) -> None:
        self.written: dict[str, Any] = {}
        self.steps: list[tuple[float, dict[str, Any]]] = []
        self.unservable: set[str] = set()
        self.blows: list[Blow] = []

    def blow(self, at: float, kind: BlowKind, program: Program, lasts: float = 0.0, which: int = 0) -> None:
        """One more blow, also in a calm fleet."""
        self.blows.append(Blow(at, kind, program, lasts, which))

    def claim(self, at: float, name: str, requests: list[Any], constraints: Sequence[Any] = ()) -> None:
        devices = {"requests": requests, **({"constraints": list(constraints)} if constraints else {})}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
        self.steps.append((at, {"apply": {**made, "spec": {"devices": devices}}}))

    def pod(
        self,
        at: float,
        name: str,
        scheduler: str,
        lasts: float,
        claims: Sequence[str],
        limits: dict[str, str] | None = None,
        fabric: int | None = None,
    ) -> None:
        refs = [{"name": f"d{place}"} for place in range(len(claims))]
        resources = {"claims": refs} if refs else {"limits": limits, "requests": limits}
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "image": "pause", "resources": resources}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "schedulerName": scheduler,
            "resourceClaims": [{"name": f"d{place}", "resourceClaimName": one} for place, one in enumerate(claims)],
            **({"nodeSelector": {"cohdi.io/fabric": str(fabric)}} if fabric is not None else {}),
        }
        meta = {"name": name, "annotations": {RUN_FOR: f"{lasts:g}"}}
        self.steps.append((at, {"apply": {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}}))

    def run(self, at: float, name: str, wanted: str | dict[str, Any], lasts: float, fabric: int | None = None) -> None:
        """A pod with a claim of its name for one device: of a class, or as `exactly` of its request says it."""
        exactly = {"deviceClassName": wanted} if isinstance(wanted, str) else wanted
        self.claim(at, name, [{"name": "r0", "exactly": exactly}])
        self.pod(at, name, "default-scheduler", lasts, [name], fabric=fabric)

    def placed(self, node: str) -> None:
        """The last pod runs on this node alone."""
        self.steps[-1][1]["apply"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}


def whole_model(maker: Ground, draw: Draw) -> dict[str, Any]:
    """A model; not the one that a cluster may have only in parts, unless there is no other."""
    return draw.one([one for one in maker.models if one is not maker.partitioned] or maker.models)


def _gpu(maker: Ground, draw: Draw, at: float, name: str) -> None:
    maker.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": whole_model(maker, draw)["device"]}}])


def shared_network(maker: Ground, draw: Draw) -> None:
    """Pods share a claim of another driver, on its node or attached by network, and each has a device of the fabric besides."""
    cluster = maker.written["cluster"]
    spread = draw.chance(0.5)
    local = f'{"!" if spread else ""}("local" in device.attributes["{NET}"])'
    device = {"name": "local-0", "attributes": {"local": {"bool": True}}}
    cluster["drivers"] = [*cluster.get("drivers", ()), {"name": NET, "suffix": "net", "devices": [device]}]
    cluster["classes"].append({"name": "channel", "selectors": [f'device.driver == "{NET}" && {local}']})
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": NET, "allNodes": True, "pool": pool, "devices": [{"name": "channel-0"}]}
    cluster["objects"] = [
        *cluster.get("objects", ()), {**_API, "kind": "ResourceSlice", "metadata": {"name": "net"}, "spec": spec},
    ]  # fmt: skip
    at = draw.between(5, maker.trouble / 2)
    maker.claim(at, "net", [{"name": "r0", "exactly": {"deviceClassName": "channel"}}])
    for number in range(draw.whole(2, 4)):
        came = at + (draw.between(5, 120) if number else 0.0)
        _gpu(maker, draw, came, f"net-{number}")
        maker.pod(came, f"net-{number}", "default-scheduler", draw.between(60, 300), ["net", f"net-{number}"])


def shared_later(maker: Ground, draw: Draw) -> None:
    """A pod comes to a claim of the fabric that another one has in use, with a claim of its own. Any node may have both."""
    whole = [one for one in maker.models if one is not maker.partitioned]
    two = [
        one["device"]
        for one in whole
        if all(group["limits"].get(one["model"], {"max": 2})["max"] > 1 for group in maker.groups)
    ]
    if not two:
        return
    request = {"name": "r0", "exactly": {"deviceClassName": draw.one(two)}}
    at = draw.between(5, maker.trouble / 2)
    came = at + draw.between(30, 120)
    maker.claim(at, "later", [request])
    maker.pod(at, "later-0", "default-scheduler", draw.between(200, 400), ["later"])
    maker.claim(came, "later-1", [request])
    maker.pod(came, "later-1", "default-scheduler", draw.between(30, 100), ["later", "later-1"])


def finalizers(maker: Ground, draw: Draw) -> None:
    """The first of two pods of a claim is deleted while it waits, and a finalizer keeps it to the end."""
    at = draw.between(5, maker.trouble / 2)
    _gpu(maker, draw, at, "kept")
    for number in range(2):
        maker.pod(at + number, f"kept-{number}", "default-scheduler", draw.between(30, 200), ["kept"])
    maker.steps[-2][1]["apply"]["metadata"]["finalizers"] = [FINALIZER]
    maker.steps.append((at + 1 + draw.between(0.5, 10), {"delete": "pods/kept-0"}))


def placed(maker: Ground, draw: Draw) -> None:
    """A pod has its node from its author, and shares the claim of one that waits for a device there."""
    at, node = draw.between(5, maker.trouble / 2), draw.one(sorted(set().union(*maker.left.values())))
    _gpu(maker, draw, at, "placed")
    maker.pod(at, "placed-0", "default-scheduler", draw.between(60, 300), ["placed"])
    maker.placed(node)
    maker.pod(at + draw.between(0.5, 20), "placed-1", "default-scheduler", draw.between(60, 300), ["placed"])
    maker.steps[-1][1]["apply"]["spec"]["nodeName"] = node


def monitors(maker: Ground, draw: Draw) -> None:
    """On some nodes a pod looks at the devices of a driver (adminAccess): at all, or at one. Where its node has none it waits."""
    driver = whole_model(maker, draw).get("driver", "gpu.nvidia.com")
    maker.written["cluster"]["classes"].append({"name": WATCHED, "selectors": [f'device.driver == "{driver}"']})
    label = {"resource.kubernetes.io/admin-access": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": label}}
    maker.steps.append((0.5, {"apply": namespace}))
    many = {"allocationMode": "All"} if draw.chance(0.6) else {}
    for node in maker.nodes[: draw.whole(1, 4)]:
        name, at = f"watch-{node}", draw.between(1, maker.trouble / 2)
        maker.run(at, name, {"deviceClassName": WATCHED, "adminAccess": True, **many}, maker.trouble)
        maker.placed(node)


def forms(maker: Ground, draw: Draw) -> None:
    """A model's devices are listed a second time, for virtual machines. One comes to a node where a pod has just ended, so that a
    device idles there; while it runs, the device's own entry is hidden."""
    plain = [one for one in maker.models if one is not maker.partitioned]
    if not plain:
        return
    model = draw.one(plain)
    driver = model.get("driver", "gpu.nvidia.com")
    model["passthrough"], model["pool_attributes"] = True, {**model.get("pool_attributes", {}), "type": "gpu"}
    kind = f'device.attributes["{driver}"].type'
    for one in maker.written["cluster"]["classes"]:
        if one["name"] == model["device"]:
            one["selectors"] = [*one["selectors"], f'{kind} == "gpu"']
    product = f'device.attributes["{driver}"].productName == "{model["product"]}"'
    selectors = [f'device.driver == "{driver}" && {product} && {kind} == "vfio"']
    maker.written["cluster"]["classes"].append({"name": "vfio", "selectors": selectors})
    at = draw.between(5, maker.trouble / 3)
    for number in range(draw.whole(1, 3)):
        node, came = draw.one(maker.nodes), at + number * draw.between(60, 150)
        for name, device, lasts, later in (
            (f"first-{number}", model["device"], 20.0, 0.0),
            (f"vm-{number}", "vfio", maker.trouble, draw.between(25, 60)),
        ):
            maker.run(came + later, name, device, lasts)
            maker.placed(node)
            # Its node may be lost, full, or of another fabric; the device may have gone back.
            maker.unservable.add(name)


def replaced_class(maker: Ground, draw: Draw) -> None:
    """A class is deleted and made again, as tools do that cannot change it, while devices come for it."""
    classes = maker.written["cluster"]["classes"]
    plain = [each for each in classes if "extended_resource" not in each]
    if not plain:
        return
    one = draw.one(plain)
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": one["name"]},
        "spec": {"selectors": [{"cel": {"expression": each}} for each in one["selectors"]]},
    }
    for _ in range(draw.whole(1, 4)):
        at = draw.between(5, maker.trouble - 60)
        name = f"judged-{len(maker.steps)}"
        maker.run(at, name, one["name"], draw.between(20, 60))
        if one["name"] == "part":
            maker.unservable.add(name)
        gone = at + draw.between(0.2, 3)
        maker.steps.append((gone, {"delete": f"deviceclasses/{one['name']}"}))
        maker.steps.append((gone + draw.between(1, 30), {"apply": made}))


def taint_rule(maker: Ground, draw: Draw) -> None:
    """An administrator taints all devices of a driver on a node for a while."""
    model, node = draw.one(maker.models), draw.one(maker.nodes)
    at = draw.between(5, maker.trouble / 2)
    rule = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "repair"},
        "spec": {
            "deviceSelector": {"driver": model.get("driver", "gpu.nvidia.com"), "pool": node},
            "taint": {"key": "example.com/repair", "effect": "NoSchedule"},
        },
    }
    for number in range(draw.whole(1, 3)):
        name, came = f"tainted-{number}", at + draw.between(-3, 10)
        maker.claim(max(1.0, came), name, [{"name": "r0", "exactly": {"deviceClassName": model["device"]}}])
        maker.pod(max(1.0, came), name, "default-scheduler", draw.between(20, 60), [name])
    maker.written["cluster"]["taint_rules"] = rule["apiVersion"]
    maker.steps.append((at, {"apply": rule}))
    maker.steps.append((min(maker.trouble - 1, at + draw.between(30, 300)), {"delete": "devicetaintrules/repair"}))


def wrong_description(maker: Ground, draw: Draw) -> None:
    """Pools promise a brand as people write it, drivers list it otherwise, and some pods ask for the promised one."""
    model = whole_model(maker, draw)
    model["pool_attributes"] = {**model.get("pool_attributes", {}), "brand": "NVIDIA"}
    driver = model.get("driver", "gpu.nvidia.com")
    asked = {"cel": {"expression": f'device.attributes["{driver}"].brand == "NVIDIA"'}}
    for number in range(draw.whole(2, 4)):
        name, at = f"brand-{number}", draw.between(5, maker.trouble / 2)
        exactly = {"deviceClassName": model["device"], **({"selectors": [asked]} if number else {})}
        maker.run(at, name, exactly, draw.between(30, 120))
        if number:
            maker.unservable.add(name)


_SELECTORS = (
    '{0}.productName.find("{1}") == "{1}"',
    '{0}.exists(name, value, name == "productName" && value == "{1}")',
    '[{0}.productName].indexOf("{1}") == 0',
    'sets.contains(["{1}", "another"], [{0}.productName])',
    '!format.labelValue().validate("label").hasValue() && {0}.productName == "{1}"',
    'cidr("10.0.0.0/8").containsIP("10.1.2.3") && {0}.productName == "{1}"',
)


def functions(maker: Ground, draw: Draw) -> None:
    """Claims have selectors with functions of Kubernetes' libraries, which the devices of their class satisfy."""
    for number in range(draw.whole(2, 5)):
        model, name, at = whole_model(maker, draw), f"selects-{number}", draw.between(5, maker.trouble / 2)
        attributes = f'device.attributes["{model.get("driver", "gpu.nvidia.com")}"]'
        asked = {"cel": {"expression": draw.one(_SELECTORS).format(attributes, model["product"])}}
        exactly = {"deviceClassName": model["device"], "selectors": [asked]}
        maker.run(at, name, exactly, draw.between(30, 120))


def empty_pools(maker: Ground, draw: Draw) -> None:
    """Devices of one fabric idle while pods of another wait, whose pool has one device: the second pod may be allocated what the
    publisher has not withdrawn yet."""
    if len(maker.fabrics) < 2:
        return
    model = whole_model(maker, draw)
    first, second = maker.fabrics[:2]
    for pool, count in zip(maker.written["cluster"]["fabrics"], (3, 1), strict=False):
        pool["devices"][model["model"]] = count
    begin = draw.between(5, maker.trouble / 3)
    idles = [(f"idles-{number}", begin + draw.between(0, 5), draw.between(20, 40), first) for number in range(3)]
    wants = [(f"wants-{number}", begin + 50 + number * draw.between(1, 10), 90.0, second) for number in range(3)]
    for name, at, lasts, fabric in (*idles, *wants):
        maker.run(at, name, model["device"], lasts, fabric)


def no_driver(maker: Ground, draw: Draw) -> None:
    """Two nodes have no driver pod for a while: the operator reports an error of each attach there. The others are well."""
    if len(maker.nodes) < 4:
        return
    since = draw.between(0, maker.trouble / 3)
    fault = {
        "kind": "refuse",
        "nodes": draw.some(maker.nodes, 2),
        "words": "no running nvidia driver pod was found on the node",
        "since": since,
        "until": min(since + draw.between(60, 400), maker.trouble),
    }
    maker.written["faults"]["fabric"].append(fault)


def warnings(maker: Ground, draw: Draw) -> None:
    """For a while the devices of a model, or some of them, come in a state of warning, in which they can be used."""
    model, since = whole_model(maker, draw), draw.between(0, maker.trouble / 3)
    until = min(since + draw.between(60, 400), maker.trouble)
    fault = {
        "kind": "warning",
        "models": [model["model"]],
        "since": since,
        "until": until,
        "share": draw.one((0.5, 1.0)),
    }
    maker.written["faults"]["fabric"].append(fault)
    for number in range(draw.whole(1, 4)):
        name, at = f"warned-{number}", draw.between(max(1.0, since), until)
        maker.run(at, name, model["device"], draw.between(30, 200))


def clock(maker: Ground, draw: Draw) -> None:
    """The clock of the scaler's process steps a few times, by seconds or minutes, mostly back."""
    for _ in range(draw.whole(2, 6)):
        seconds = draw.whole(1, 20) if draw.chance(0.3) else -draw.whole(1, draw.one((5, 60, 180)))
        maker.blow(draw.between(20, maker.trouble), "clock", "scaler", which=seconds)


KINDS: dict[str, tuple[float, Callable[[Ground, Draw], None]]] = {
    "shared network": (0.2, shared_network),
    "shared later": (0.15, shared_later),
    "finalizers": (0.15, finalizers),
    "placed": (0.15, placed),
    "monitors": (0.25, monitors),
    "forms": (0.2, forms),
    "replaced class": (0.2, replaced_class),
    "taint rule": (0.2, taint_rule),
    "no driver": (0.3, no_driver),
    "clock": (0.15, clock),
    "empty pools": (0.3, empty_pools),
    "wrong description": (0.15, wrong_description),
    "warnings": (0.2, warnings),
    "functions": (0.15, functions),
}
"""Each kind with the share of fleets that have it."""
