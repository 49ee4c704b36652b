"""Devices that several pods have: claims that are shared, another driver's or our own, with pods that end slowly or got their
node past the scheduler; and monitors that look at what others use."""

from __future__ import annotations

from typing import Any

from dds_lab.check.draw import Draw
from dds_lab.check.field.ground import Ground, whole_model

NET = "net.example.com"
FINALIZER = "example.com/keep"
WATCHED = "watched"
_API = {"apiVersion": "resource.k8s.io/v1"}


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
    pod: dict[str, Any] = maker.steps[-2][1]["apply"]
    pod["metadata"]["finalizers"] = [FINALIZER]
    maker.steps.append((at + 1 + draw.between(0.5, 10), {"delete": "pods/kept-0"}))


def placed(maker: Ground, draw: Draw) -> None:
    """A pod has its node from its author, and shares the claim of one that waits for a device there."""
    at, node = draw.between(5, maker.trouble / 2), draw.one(sorted(set().union(*maker.left.values())))
    _gpu(maker, draw, at, "placed")
    maker.pod(at, "placed-0", "default-scheduler", draw.between(60, 300), ["placed"])
    first: dict[str, Any] = maker.steps[-1][1]["apply"]
    first["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    maker.pod(at + draw.between(0.5, 20), "placed-1", "default-scheduler", draw.between(60, 300), ["placed"])
    second: dict[str, Any] = maker.steps[-1][1]["apply"]
    second["spec"]["nodeName"] = node


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
        maker.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": WATCHED, "adminAccess": True, **many}}])
        maker.pod(at, name, "default-scheduler", maker.trouble, [name])
        pod: dict[str, Any] = maker.steps[-1][1]["apply"]
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}


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
            maker.claim(came + later, name, [{"name": "r0", "exactly": {"deviceClassName": device}}])
            maker.pod(came + later, name, "default-scheduler", lasts, [name])
            pod: dict[str, Any] = maker.steps[-1][1]["apply"]
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
            maker.unservable.add(
                name
            )  # its node may be lost, full, or of another fabric; the device may have gone back
