"""What decides whether a device is for a claim: classes that are replaced, rules that taint what comes, descriptions that
promise what drivers do not list."""

from __future__ import annotations

from dds_lab.check.draw import Draw
from dds_lab.check.field.ground import Ground, whole_model


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
        maker.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": one["name"]}}])
        maker.pod(at, name, "default-scheduler", draw.between(20, 60), [name])
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
        maker.claim(at, name, [{"name": "r0", "exactly": exactly}])
        maker.pod(at, name, "default-scheduler", draw.between(30, 120), [name])
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
        maker.claim(at, name, [{"name": "r0", "exactly": exactly}])
        maker.pod(at, name, "default-scheduler", draw.between(30, 120), [name])
