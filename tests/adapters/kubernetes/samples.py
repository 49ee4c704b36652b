"""What the tests of the translation share: recorded objects, whole objects with every field, and a view made of a dictionary."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from dds_adapters.kubernetes import RESOURCES, RecordedEvent, Translator, read_recording
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.translate import Resource
from dds_core.events import KIND_OF, ConfigMissing, Event, Rejected, Seen, after

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))
BY_NAME = {path.name.removesuffix(".jsonl.gz"): path for path in RECORDINGS}

DECODE: dict[str, Callable[[bytes], Any]] = {
    "resourceclaims": decoding.claim,
    "resourceslices": decoding.resource_slice,
    "deviceclasses": decoding.device_class,
    "devicetaintrules": decoding.taint_rule,
    "nodes": decoding.node,
    "pods": decoding.pod,
    "composabilityrequests": decoding.attach_request,
    "composableresources": decoding.fabric_resource,
}


class DictView:
    """The least that a translation needs: folds facts about objects into a dictionary."""

    def __init__(self) -> None:
        self.objects: dict[tuple[type[Seen], str], Seen] = {}
        self.rejections: list[tuple[str, str, str]] = []

    def object(self, kind: Any, uid: str) -> Any:
        return self.objects.get((kind, uid))

    def is_rejected(self, uid: str, field: str, reason: str) -> bool:
        return (uid, field, reason) in self.rejections

    def has_rejections(self, uid: str) -> bool:
        return any(of == uid for of, _, _ in self.rejections)

    def fold(self, event: Event) -> None:
        if isinstance(event, Rejected):
            self.rejections.append((event.uid, event.field, event.reason))
            return
        if isinstance(event, ConfigMissing):
            return
        kind, fact = KIND_OF[type(event)], cast(Any, event)
        key = (kind, fact.uid)
        if type(event).__name__.endswith("Gone"):
            self.objects.pop(key, None)
            self.rejections = [one for one in self.rejections if one[0] != fact.uid]
            return
        self.objects[key] = after(self.objects.get(key), fact)


class NamingView(DictView):
    """The same, and finds objects by name."""

    def uid_of(self, kind: Any, namespace: str, name: str) -> str | None:
        for (of, uid), one in self.objects.items():
            if of is kind and (getattr(one, "namespace", ""), getattr(one, "name", "")) == (namespace, name):
                return uid
        return None


class Watched:
    """A translator and its view; what it says is folded at once."""

    def __init__(self, view: DictView | None = None, resources: Mapping[str, Resource] = RESOURCES) -> None:
        self.view = view if view is not None else DictView()
        self.translator = Translator(self.view, resources=resources)
        self._resources = resources

    def sees(self, resource: str, obj: Any, type: str = "MODIFIED") -> tuple[Event, ...]:
        raw = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        events = self.translator.translate(resource, type, raw)
        for event in events:
            self.view.fold(event)
        return events

    def the(self, resource: str, uid: str = "u-1") -> Any:
        return self.view.object(self._resources[resource].kind, uid)


def recorded(name: str, resource: str) -> Iterator[RecordedEvent]:
    """The changes of one resource in a recording."""
    return (e for e in read_recording(BY_NAME[name]) if e.resource == resource and e.type != "BOOKMARK")


def raw_of(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def sample(resource: str) -> dict[str, Any]:
    """A whole object of the resource, a copy of its own, with every field that is read and many that are not."""
    return copy.deepcopy(_SAMPLES[resource])


def put(obj: Any, path: str, value: Any) -> Any:
    """`obj` with the value at a dotted path, whose numbers are list positions."""
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = obj
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return obj


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-11-21T02:11:04Z",
        "labels": {"team": "blue"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        **more,
    }


ONE_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
_OPAQUE = [{"requests": ["r0"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {"licence": "abc"}}}]
_TAINT = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule", "timeAdded": "2026-11-21T02:11:04Z"}
_DEVICE_INFO = json.dumps(
    [
        {
            "index": 1,
            "cdi-model-name": "A100 40G",
            "dra-attributes": {"productName": "NVIDIA A100 40GB PCIe"},
            "label-key-model": "nvidia-a100-40",
            "driver-name": "gpu.nvidia.com",
            "k8s-device-name": "nvidia-a100-40",
            "cannot-coexist-with": [2],
        }
    ]
)

_SAMPLES: dict[str, dict[str, Any]] = {
    "resourceclaims": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _meta(
            "c1",
            namespace="default",
            ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "p-1", "controller": True}],
        ),
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r0",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "allocationMode": "ExactCount",
                            "count": 2,
                            "selectors": [{"cel": {"expression": "true"}}],
                        },
                    }
                ],
                "config": _OPAQUE,
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "r0",
                            "driver": "gpu.nvidia.com",
                            "pool": "nvidia-a100-40-fabric1",
                            "device": "nvidia-a100-40-0",
                            "adminAccess": False,
                            "bindingConditions": ["FabricDeviceReady"],
                            "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
                            "shareID": "3f1b2c54-0000-4000-8000-000000000001",
                            "consumedCapacity": {"bandwidth": "3Gi"},
                            "tolerations": [{"key": "k", "operator": "Exists"}],
                        }
                    ],
                    "config": [{"source": "FromClaim", **_OPAQUE[0]}],
                },
                "nodeSelector": ONE_NODE,
                "allocationTimestamp": "2026-11-21T02:11:05Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p1", "uid": "p-1"}],
            "devices": [
                {
                    "driver": "gpu.nvidia.com",
                    "pool": "nvidia-a100-40-fabric1",
                    "device": "nvidia-a100-40-0",
                    "shareID": "3f1b2c54-0000-4000-8000-000000000001",
                    "conditions": [
                        {
                            "type": "FabricDeviceReady",
                            "status": "True",
                            "reason": "Attached",
                            "message": "free text",
                            "lastTransitionTime": "2026-11-21T02:11:06Z",
                        }
                    ],
                    "data": {"vendor": "data"},
                    "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24"]},
                }
            ],
        },
    },
    "resourceslices": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _meta("s1"),
        "spec": {
            "driver": "gpu.nvidia.com",
            "pool": {"name": "nvidia-a100-40-fabric1", "generation": 5, "resourceSliceCount": 1},
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "cohdi.io/fabric", "operator": "In", "values": ["1"]}]}
                ]
            },
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {
                        "uuid": {"string": "GPU-1"},
                        "driverVersion": {"version": "1.2.3"},
                        "numa": {"int": 1},
                        "ready": {"bool": True},
                        "links": {"strings": ["a", "b"]},
                    },
                    "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi"}}},
                    "bindsToNode": True,
                    "bindingConditions": ["FabricDeviceReady"],
                    "bindingFailureConditions": ["FabricDeviceFailed"],
                    "allowMultipleAllocations": True,
                    "taints": [_TAINT],
                    "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}],
                }
            ],
        },
    },
    "deviceclasses": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _meta("gpu"),
        "spec": {
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
            "config": _OPAQUE,
            "extendedResourceName": "example.com/gpu",
        },
    },
    "devicetaintrules": {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": _meta("t1"),
        "spec": {"deviceSelector": {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}, "taint": _TAINT},
        "status": {"conditions": [{"type": "EvictionInProgress", "status": "False", "message": "free text"}]},
    },
    "nodes": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("n1"),
        "spec": {"providerID": "fab://1", "taints": [_TAINT], "unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T02:11:04Z"}],
            "nodeInfo": {"machineID": "m", "kernelVersion": "6"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    },
    "pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta("p1", namespace="default"),
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "pause",
                    "env": [
                        {"name": "PASSWORD", "value": "hunter2"},
                        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "args": ["--token", "abc"],
                    "resources": {"claims": [{"name": "d0"}], "requests": {"example.com/gpu": "1", "cpu": "100m"}},
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            "nodeName": "n1",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "k", "operator": "Exists", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}
            ],
            "resourceClaims": [
                {"name": "d0", "resourceClaimName": "c1"},
                {"name": "d1", "resourceClaimTemplateName": "t"},
            ],
        },
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "n2",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "free text"},
                {"type": "Ready", "status": "False", "reason": "Other"},
            ],
            "resourceClaimStatuses": [{"name": "d1", "resourceClaimName": "c2"}],
            "extendedResourceClaimStatus": {
                "resourceClaimName": "c3",
                "requestMappings": [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}],
            },
        },
    },
    "configmaps": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta("composable-dra-dds", namespace="composable-dra"),
        "data": {
            "device-info": _DEVICE_INFO,
            "label-prefix": "cohdi.io",
            "fabric-id-range": "[1]",
            "mode": "attach",
            "other": "text",
        },
        "binaryData": {"blob": "AAAA"},
    },
    "composabilityrequests": {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": _meta("composability-bggr9", generateName="composability-"),
        "spec": {
            "resource": {
                "type": "gpu",
                "model": "A100 40G",
                "size": 2,
                "force_detach": True,
                "allocation_policy": "samenode",
                "target_node": "n1",
                "other_spec": {"milli_cpu": 1},
            }
        },
        "status": {
            "state": "Running",
            "error": "attach refused",
            "resources": {"gpu-1": {"state": "Online", "device_id": "GPU-1", "error": "free text"}},
            "scalarResource": {"type": "gpu", "model": "A100 40G", "size": 1, "target_node": "n1"},
        },
    },
    "composableresources": {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposableResource",
        "metadata": _meta(
            "gpu-60abf7f4",
            labels={
                "app.kubernetes.io/managed-by": "composability-bggr9",
                "cohdi.io/ready-to-detach-device-id": "GPU-1",
            },
            annotations={"cohdi.io/last-used-time": "2026-11-21T02:11:09Z", "cohdi.io/delete-device": "true"},
        ),
        "spec": {"type": "gpu", "model": "A100 40G", "target_node": "n1", "force_detach": False},
        "status": {"state": "Online", "error": "attach refused", "device_id": "GPU-1", "cdi_device_id": "1027c4d1"},
    },
}
