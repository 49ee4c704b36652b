"""Answers Cluster Autoscaler's calls from a `Provider`'s view, or passes them to it.

Optional parts of the protocol are answered with UNIMPLEMENTED. An answer about options would even do harm: it would replace all
of Cluster Autoscaler's own, and set to zero those without a field in the protocol, such as the time that a node may take to
start.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from dds_adapters.autoscaler import externalgrpc_pb2 as wire
from dds_adapters.autoscaler import node_pb2 as kube
from dds_adapters.autoscaler.provider import Away, BadRequest, Provider, ProviderError, Refused, Unknown
from dds_core.autoscaler.model import Group, Instance, InstanceState, NodeRef, Template

LOG = logging.getLogger("dds.autoscaler")

REFRESH_SECONDS = 4.0
"""The longest wait for a refresh. Cluster Autoscaler's time limit for every call is five seconds by default."""
MOST_NODES = 1000
"""Most nodes deleted by one call; Cluster Autoscaler deletes ten at a time."""
MOST_WORDS = 1000
"""Bytes of an error text, which travels in a header, up to three times as long there, and clients limit headers."""
SERVICE = wire.DESCRIPTOR.services_by_name["CloudProvider"]
Observe = Callable[[str, str], None]
"""Called with the name of each call, and the name of its status code."""
INTERNAL = "an error inside dds, which its log tells of"


class NotOffered(ProviderError):
    """An optional part of the protocol that dds does not support."""


_CODES: dict[type[ProviderError], grpc.StatusCode] = {
    NotOffered: grpc.StatusCode.UNIMPLEMENTED,
    Unknown: grpc.StatusCode.NOT_FOUND,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    BadRequest: grpc.StatusCode.INVALID_ARGUMENT,
    Away: grpc.StatusCode.UNAVAILABLE,
}


class GrpcFrontend:
    """The service. Each method is the rpc of that name in the protocol."""

    def __init__(
        self,
        provider: Provider,
        *,
        patience: float = REFRESH_SECONDS,
        observe: Observe = lambda method, code: None,
    ) -> None:
        """`patience`: the longest wait for a refresh, in seconds; `observe` is called after each call."""
        self._provider = provider
        self._observe = observe
        self._refresh = _OneRefresh(provider.refresh, patience)

    def handler(self) -> grpc.GenericRpcHandler:
        """All rpcs. Messages are decoded and encoded here and not by grpc, which would log a traceback for a malformed one."""
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            method.name: grpc.unary_unary_rpc_method_handler(
                _answering(method.name, getattr(self, method.name), GetMessageClass(method.input_type), self._observe)
            )
            for method in SERVICE.methods
        }
        return grpc.method_handlers_generic_handler(SERVICE.full_name, methods)

    # -- once a loop ---------------------------------------------------------------------------------------------------

    def Refresh(self, request: wire.RefreshRequest) -> wire.RefreshResponse:
        self._refresh()
        return wire.RefreshResponse()

    def NodeGroups(self, request: wire.NodeGroupsRequest) -> wire.NodeGroupsResponse:
        return wire.NodeGroupsResponse(nodeGroups=map(group_message, self._provider.view().groups))

    def NodeGroupForNode(self, request: wire.NodeGroupForNodeRequest) -> wire.NodeGroupForNodeResponse:
        group = self._provider.view().group_of(node_ref(request.node))
        return wire.NodeGroupForNodeResponse(nodeGroup=group_message(group) if group else wire.NodeGroup())

    def GPULabel(self, request: wire.GPULabelRequest) -> wire.GPULabelResponse:
        """None: Cluster Autoscaler would treat a node with the label and without an extended GPU resource as unready for ever."""
        return wire.GPULabelResponse()

    def GetAvailableGPUTypes(self, request: wire.GetAvailableGPUTypesRequest) -> wire.GetAvailableGPUTypesResponse:
        return wire.GetAvailableGPUTypesResponse()

    def Cleanup(self, request: wire.CleanupRequest) -> wire.CleanupResponse:
        """Nothing ends with the caller: it may just be restarting, and running work goes on."""
        return wire.CleanupResponse()

    # -- a group -------------------------------------------------------------------------------------------------------

    def NodeGroupTargetSize(self, request: wire.NodeGroupTargetSizeRequest) -> wire.NodeGroupTargetSizeResponse:
        return wire.NodeGroupTargetSizeResponse(targetSize=self._group(request.id).target)

    def NodeGroupNodes(self, request: wire.NodeGroupNodesRequest) -> wire.NodeGroupNodesResponse:
        return wire.NodeGroupNodesResponse(instances=map(instance_message, self._group(request.id).instances))

    def NodeGroupTemplateNodeInfo(
        self, request: wire.NodeGroupTemplateNodeInfoRequest
    ) -> wire.NodeGroupTemplateNodeInfoResponse:
        """Never answers without a Node, since callers use it unchecked."""
        group = self._group(request.id)
        if group.template is None:
            raise NotOffered("nothing is known of a fresh server", where=_shown(group.id))
        node = template_bytes(group.id, group.template)
        return wire.NodeGroupTemplateNodeInfoResponse(nodeInfo=node, nodeBytes=node)

    def NodeGroupIncreaseSize(self, request: wire.NodeGroupIncreaseSizeRequest) -> wire.NodeGroupIncreaseSizeResponse:
        if request.delta < 1:
            raise BadRequest(
                f"cannot be increased by {request.delta}", where=_shown(request.id), fix="ask for 1 or more"
            )
        self._provider.increase(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    def NodeGroupDecreaseTargetSize(
        self, request: wire.NodeGroupDecreaseTargetSizeRequest
    ) -> wire.NodeGroupDecreaseTargetSizeResponse:
        if request.delta > -1:
            raise BadRequest(
                f"cannot be decreased by {request.delta}", where=_shown(request.id), fix="ask for -1 or less"
            )
        self._provider.decrease(request.id, -request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    def NodeGroupDeleteNodes(self, request: wire.NodeGroupDeleteNodesRequest) -> wire.NodeGroupDeleteNodesResponse:
        where = _shown(request.id)
        if not 1 <= len(request.nodes) <= MOST_NODES:
            raise BadRequest(
                f"{len(request.nodes)} nodes to delete", where=where, fix=f"name 1 to {MOST_NODES} of them"
            )
        nodes = tuple(dict.fromkeys(map(node_ref, request.nodes)))
        if NodeRef("", "") in nodes:
            raise BadRequest("a node to delete has neither name nor providerID", where=where, fix="name it")
        self._provider.delete(request.id, nodes)
        return wire.NodeGroupDeleteNodesResponse()

    # -- what is not offered ---------------------------------------------------------------------------------------------

    def NodeGroupGetOptions(
        self, request: wire.NodeGroupAutoscalingOptionsRequest
    ) -> wire.NodeGroupAutoscalingOptionsResponse:
        raise NotOffered("groups have no options of their own", fix="set them by Cluster Autoscaler's flags")

    def PricingNodePrice(self, request: wire.PricingNodePriceRequest) -> wire.PricingNodePriceResponse:
        raise NotOffered("servers have no price", fix="use another expander than price")

    def PricingPodPrice(self, request: wire.PricingPodPriceRequest) -> wire.PricingPodPriceResponse:
        raise NotOffered("pods have no price", fix="use another expander than price")

    def _group(self, id: str) -> Group:
        group = self._provider.view().group(id)
        if group is None:
            raise Unknown("there is no such group", where=_shown(id), fix="ask NodeGroups for those that there are")
        return group


class _OneRefresh:
    """Runs one refresh at a time, in a thread of its own; further callers wait for the running one.

    Otherwise each try of a hanging refresh would occupy a thread of the server, until none is left for other calls.
    """

    def __init__(self, refresh: Callable[[], None], patience: float) -> None:
        self._begin = refresh
        self._patience = patience
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None

    def __call__(self) -> None:
        """Raises what the refresh raised, and Away if it takes too long."""
        with self._lock:
            future = self._under_way
            if future is None or future.done():
                future = self._under_way = Future()
                threading.Thread(target=self._run, args=(future,), name="autoscaler-refresh", daemon=True).start()
        if wait_for([future], self._patience).not_done:
            raise Away(f"the refresh takes longer than {self._patience:g} seconds", fix="it goes on, ask again")
        future.result()

    def _run(self, future: Future[None]) -> None:
        try:
            self._begin()
        except BaseException as error:  # raised again in the callers that wait for it
            future.set_exception(error)
        else:
            future.set_result(None)


def _shown(id: str) -> str:
    """A group by its id, which may be any text."""
    return f"group {id!r}" if len(id) <= 100 else f"group {id[:100]!r}…"


def _place(error: BaseException) -> str:
    """Where it was raised; its message may contain foreign text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _answering(
    name: str, method: Callable[..., Message], form: type[Message], observe: Observe
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    """An rpc from bytes to bytes. An error becomes a code and a text; an error of the program is logged, without foreign text."""

    def answer(payload: bytes, context: grpc.ServicerContext) -> bytes:
        begun = time.monotonic()
        code, words = grpc.StatusCode.OK, ""
        try:
            return method(form.FromString(payload)).SerializeToString()
        except DecodeError:
            code, words = grpc.StatusCode.INVALID_ARGUMENT, f"the message is no {form.DESCRIPTOR.name}"
        except ProviderError as error:
            code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)
            words = str(error)
        except BaseException as error:  # a SystemExit would leave its caller without an answer
            code, words = grpc.StatusCode.INTERNAL, INTERNAL
            LOG.error("%s failed with %s at %s", name, type(error).__name__, _place(error))
        finally:
            LOG.debug("%s: %s after %.3f s", name, code.name, time.monotonic() - begun)
            observe(name, code.name)
        context.abort(code, words.encode()[:MOST_WORDS].decode(errors="ignore"))

    return answer


# -- records as protobuf messages -------------------------------------------------------------------------------------

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
    taints = [kube.Taint(key=one.key, value=one.value, effect=one.effect) for one in template.taints]
    node = kube.Node(
        metadata=kube.ObjectMeta(name=name, labels=labels, annotations=template.annotations),
        spec=kube.NodeSpec(taints=taints),
        status=kube.NodeStatus(
            capacity=capacity,
            allocatable=capacity,
            conditions=[ready],
            nodeInfo=kube.NodeSystemInfo(operatingSystem=template.os, architecture=template.arch),
        ),
    )
    return node.SerializeToString(deterministic=True)
