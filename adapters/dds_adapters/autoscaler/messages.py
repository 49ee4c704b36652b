"""Converts between the core's model and the protocol's messages."""

from __future__ import annotations

from collections.abc import Iterable

from dds_adapters.autoscaler import externalgrpc_pb2 as wire
from dds_adapters.autoscaler import node_pb2 as kube
from dds_core.autoscaler.model import Group, Instance, InstanceState, NodeRef, Template

_STATES: dict[InstanceState, wire.InstanceStatus.InstanceState] = {
    "creating": wire.InstanceStatus.instanceCreating,
    "running": wire.InstanceStatus.instanceRunning,
    "deleting": wire.InstanceStatus.instanceDeleting,
}
_OUT_OF_RESOURCES, _OTHER = 1, 99
_OS, _ARCH, _HOSTNAME = "kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname"


def group_message(group: Group) -> wire.NodeGroup:
    return wire.NodeGroup(id=group.id, minSize=group.minimum, maxSize=group.maximum, debug=group.debug)


def instance_message(instance: Instance) -> wire.Instance:
    status = wire.InstanceStatus(instanceState=_STATES[instance.state])
    if instance.code:
        status.errorInfo.errorCode = instance.code
        status.errorInfo.errorMessage = instance.message
        status.errorInfo.instanceErrorClass = _OUT_OF_RESOURCES if instance.out_of_resources else _OTHER
    return wire.Instance(id=instance.id, status=status)


def node_ref(node: wire.ExternalGrpcNode) -> NodeRef:
    return NodeRef(node.name, node.providerID)


def template_bytes(group: str, template: Template) -> bytes:
    """A new server of the group as a Node that has long been ready: the present time would change the bytes each time."""
    name = f"template-{group}"
    labels = {_OS: template.os, _ARCH: template.arch, _HOSTNAME: name, **template.labels}
    capacity = {resource: kube.Quantity(string=value) for resource, value in template.capacity.items()}
    ready = kube.NodeCondition(
        type="Ready", status="True", lastTransitionTime=kube.Time(seconds=1), reason="KubeletReady"
    )
    node = kube.Node(
        metadata=kube.ObjectMeta(name=name, labels=labels, annotations=template.annotations),
        spec=kube.NodeSpec(taints=_taints(template)),
        status=kube.NodeStatus(
            capacity=capacity,
            allocatable=capacity,
            conditions=[ready],
            nodeInfo=kube.NodeSystemInfo(operatingSystem=template.os, architecture=template.arch),
        ),
    )
    return node.SerializeToString(deterministic=True)


def _taints(template: Template) -> Iterable[kube.Taint]:
    return (kube.Taint(key=one.key, value=one.value, effect=one.effect) for one in template.taints)
