"""Which machine a node is, where not the node but its BareMetalHost says so (metal3.io, OpenShift on bare metal).

There the provider ID of a node ends in the uid of its BareMetalHost, and an annotation of that names the machine in the fabric.
What was seen of both is kept here, so that whichever comes last makes the whole. It outlives the translator that uses it. Of a
BareMetalHost nothing but uid and that annotation is read: it also says how to reach the server's management controller.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dds_adapters.kubernetes import objects as raw_
from dds_adapters.kubernetes.publishing.decode import host, last_segment
from dds_adapters.kubernetes.reading import Fault, well_formed
from dds_core.publishing.model import Host

BARE_METAL_HOSTS = "baremetalhosts"
KIND = "BareMetalHost"


class _Annotations(msgspec.Struct):
    machine: str = msgspec.field(name="cluster-manager.cdi.io/machine", default="")


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: _Annotations | None = None


class _BareMetalHost(msgspec.Struct):
    metadata: _Metadata


class _NodeSpec(raw_.Part, frozen=True):
    provider_id: str = msgspec.field(name="providerID", default="")


class _Node(msgspec.Struct):
    spec: _NodeSpec | None = None


_bare_metal_host = msgspec.json.Decoder(_BareMetalHost)
_node = msgspec.json.Decoder(_Node)


class BareMetalHosts:
    """What was seen of nodes and BareMetalHosts."""

    def __init__(self) -> None:
        self._machines: dict[str, str] = {}  # by the BareMetalHost's uid; "" for one that is gone, or says none
        self._hosts: dict[str, str] = {}  # by the node's uid that of its BareMetalHost

    def is_there(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """A BareMetalHost is there and is so: nodes by uid, with their machines. Raises Fault."""
        meta = well_formed(_bare_metal_host, raw).metadata
        return self._says(meta.uid, meta.annotations.machine if meta.annotations is not None else "")

    def is_gone(self, uid: str) -> Iterator[tuple[str, str]]:
        """The BareMetalHost of this uid is gone: the same."""
        return self._says(uid, "")

    def host(self, raw: bytes) -> Host:
        """A Node, with the machine that its BareMetalHost says, "" while none does. Raises Fault."""
        found = host(raw)
        spec = well_formed(_node, raw).spec
        of = last_segment(spec.provider_id if spec is not None else "")
        self._hosts[found.uid] = of
        return msgspec.structs.replace(found, machine=self._machines.get(of, ""))

    def knows(self, node: str) -> bool:
        """Whether the BareMetalHost of a node (by uid) was ever seen."""
        return self._hosts.get(node, "") in self._machines

    def _says(self, uid: str, machine: str) -> Iterator[tuple[str, str]]:
        if not uid:
            raise Fault("metadata.uid", "is missing")
        machine = machine.lower()  # as a fabric's machines have it
        self._machines[uid] = machine
        return ((node, machine) for node, of in self._hosts.items() if of == uid)
