"""Translates raw watch events to facts: at most one for each change of an object, none if nothing changed that matters to dds.

A `Translator` has no memory; it compares an object with `KnownObjects` (the engine's state), so it can be replaced by a new one
at any time. An object that cannot be decoded becomes a `Rejected` and stops nothing else. This module must never read a Secret
and never raise for the content of an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, structs

from dds_adapters.kubernetes.decode import config, decoding
from dds_adapters.kubernetes.decode.decoding import Fault, well_formed
from dds_core.errors import DdsError, InputError
from dds_core.events import OBSERVED, SCALER, ConfigMissing, Event, Rejected, Seen, difference
from dds_core.model import AttachRequest, Claim, Config, DeviceClass, FabricResource, Node, Pod, Slice, TaintRule
from dds_core.text import same_words, scrub


class KnownObjects(Protocol):
    """The part of the state that a translation reads."""

    def object(self, kind: Any, uid: str) -> Any:
        """The last state of an object of this kind of the core; None when there is none."""

    def is_rejected(self, uid: str, field: str, reason: str) -> bool:
        """Whether a `Rejected` with these fields is in the log."""

    def has_rejections(self, uid: str) -> bool:
        """Whether any `Rejected` of this object is."""


@runtime_checkable
class NamedObjects(KnownObjects, Protocol):
    """A view that also finds objects by name, to notice an object that was deleted and created again while the watch was down."""

    def uid_of(self, kind: Any, namespace: str, name: str) -> str | None:
        """The uid of the object of this name; None when there is none.

        `namespace` is "" for a cluster-scoped object. Both are "" for the ConfigMap, of which there is only one.
        """


class UnknownResource(InputError):
    """dds does not translate this resource."""


class UnknownWatchType(InputError):
    """The type of a watch event is none of the API."""


class WatchFailed(DdsError):
    """The watch sent an ERROR event. `code` is the HTTP status (410: the history is gone), `reason` the API's word."""

    def __init__(self, resource: str, code: int, reason: str, message: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"the watch ended: {code} {reason}: {message}", where=resource, fix="list and watch again")


Decode = Callable[[bytes], Seen]
"""Decodes an object's JSON. Raises Fault."""
Configured = Callable[[bytes, Any], tuple[Seen, tuple[Fault, ...]]]
"""Decodes the ConfigMap's JSON, given the configuration in force; gives the faults of its parts too. Raises Fault for the
whole."""


class Resource(NamedTuple):
    """For a plural name: the kind in the API, the kind in the core, and the decoder. The fabric's ConfigMap has `configured`
    instead of `decode`."""

    name: str
    kind: type[Any]
    decode: Decode | None = None
    configured: Configured | None = None


RESOURCES: dict[str, Resource] = {
    "resourceclaims": Resource("ResourceClaim", Claim, decoding.claim),
    "resourceslices": Resource("ResourceSlice", Slice, decoding.resource_slice),
    "deviceclasses": Resource("DeviceClass", DeviceClass, decoding.device_class),
    "devicetaintrules": Resource("DeviceTaintRule", TaintRule, decoding.taint_rule),
    "nodes": Resource("Node", Node, decoding.node),
    "pods": Resource("Pod", Pod, decoding.pod),
    "configmaps": Resource("ConfigMap", Config, configured=config.read_config),
    "composabilityrequests": Resource("ComposabilityRequest", AttachRequest, decoding.attach_request),
    "composableresources": Resource("ComposableResource", FabricResource, decoding.fabric_resource),
}
"""Every resource that is translated for the scaler, by its plural name."""


class Translator:
    """Translates for one view. `config_namespace` is the namespace of the fabric's ConfigMap; `resources` says what each resource
    becomes. `namespace` is where dds is installed: a claim in another namespace is no hold of dds, whatever its labels are; ""
    allows all namespaces."""

    def __init__(
        self,
        view: KnownObjects,
        config_namespace: str = config.NAMESPACE,
        resources: Mapping[str, Resource] = RESOURCES,
        namespace: str = config.NAMESPACE,
    ) -> None:
        self._view = view
        self._named = view if isinstance(view, NamedObjects) else None
        self._config_namespace = config_namespace
        self._resources = resources
        self._namespace = namespace

    def translate(self, resource: str, type: str, raw: bytes) -> tuple[Event, ...]:
        """The facts in one watch event; `raw` is the JSON of its object. Fold them before the next call.

        A pod that leaves the scope of a watch arrives as DELETED although it exists: the caller must get it and pass on its new
        state. Raises UnknownResource, UnknownWatchType, and WatchFailed for type ERROR.
        """
        known = self._resources.get(resource)
        if known is None:
            raise UnknownResource(
                f"{resource!r} is not a resource that is translated", fix=f"known: {', '.join(self._resources)}"
            )
        if type in ("ADDED", "MODIFIED"):
            return self._seen(known, raw)
        if type == "DELETED":
            return self._gone(known, raw)
        if type == "BOOKMARK":
            return ()
        if type == "ERROR":
            raise _watch_failed(resource, raw)
        raise UnknownWatchType(f"{type!r} is not a type of watch event", where=resource)

    def _seen(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        try:
            if resource.decode is None:
                return self._seen_config(resource, raw)
            new = resource.decode(raw)
        except Fault as fault:
            return self._rejected(resource, who_is(raw), (fault,))
        if isinstance(new, Claim) and new.hold and self._namespace not in ("", new.namespace):
            new = structs.replace(new, hold="")
        old = self._view.object(resource.kind, new.uid)
        facts = list(self._replaced(resource, new)) if old is None else []
        if isinstance(new, Pod) and not decoding.refers_to_claims(new):
            if old is None and not new.extended_resources:
                return tuple(facts)
            if old is not None and new.node and not decoding.refers_to_claims(old):
                return (_gone(Pod, new.uid),)  # it waited for an extended resource that its node has without a claim
        return (*facts, *_changed(old, _same_error(old, new)))

    def _seen_config(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        """The fabric's ConfigMap; of any other ConfigMap only the name is read. Raises Fault if the whole is unusable."""
        who = who_is(raw)
        if who.name and (who.namespace, who.name) != (self._config_namespace, config.NAME):
            return ()
        assert resource.configured is not None  # a resource has the one or the other
        old = self._view.object(resource.kind, who.uid)
        last = self._named.uid_of(resource.kind, "", "") if self._named is not None else None
        in_force = old or (self._view.object(resource.kind, last) if last is not None else None)
        new, faults = resource.configured(raw, in_force)
        return (*_changed(old, new), *self._rejected(resource, who, faults))

    def _replaced(self, resource: Resource, new: Seen) -> Iterator[Event]:
        """The end of an object with the same name and another uid, whose deletion was missed."""
        if self._named is not None:
            uid = self._named.uid_of(resource.kind, getattr(new, "namespace", ""), getattr(new, "name", ""))
            if uid is not None and uid != new.uid:
                yield _gone(resource.kind, uid)

    def _gone(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        """The end of an object. Only its uid is read, so that a broken object can be deleted too."""
        who = who_is(raw)
        if not who.uid:
            return self._rejected(resource, who, (Fault("metadata.uid", "is missing"),))
        known = self._view.object(resource.kind, who.uid) is not None or self._view.has_rejections(who.uid)
        if not known:
            return ()
        return (ConfigMissing(who.uid) if resource.decode is None else _gone(resource.kind, who.uid),)

    def _rejected(self, resource: Resource, who: Who, faults: tuple[Fault, ...]) -> tuple[Event, ...]:
        """One fact for each new fault. A fault of an object without uid goes to the scaler's own stream."""
        uid = who.uid or SCALER
        new = {(f.field, f.reason): None for f in faults if not self._view.is_rejected(uid, f.field, f.reason)}
        return tuple(Rejected(resource.name, uid, who.name, field, reason, who.namespace) for field, reason in new)


def _changed(old: Seen | None, new: Seen) -> tuple[Event, ...]:
    fact = difference(old, new)
    return () if fact is None else (fact,)


def _gone(kind: type[Seen], uid: str) -> Event:
    fact: Any = OBSERVED[kind][1]
    return fact(uid)  # type: ignore[no-any-return]


def _same_error(old: Seen | None, new: Seen) -> Seen:
    """The new object, with the old error text if both say the same: a retry of the operator is no change."""
    if not isinstance(new, AttachRequest | FabricResource) or not isinstance(old, AttachRequest | FabricResource):
        return new
    if new.error == old.error or not same_words(new.error, old.error):
        return new
    return structs.replace(new, error=old.error)


# -- identity of an object, however broken ---------------------------------------------------------


class _AnyMetadata(Struct):
    uid: Any = ""
    name: Any = ""
    namespace: Any = ""


class _AnyObject(Struct):
    metadata: _AnyMetadata


class Who(NamedTuple):
    """The identity of an object; "" for what cannot be read."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


_any_object = msgspec.json.Decoder(_AnyObject)


def who_is(raw: bytes) -> Who:
    try:
        meta = well_formed(_any_object, raw).metadata
    except Fault:
        return Who()
    parts = (meta.uid, meta.namespace, meta.name)
    return Who(*(v if isinstance(v, str) and decoding.names(v) else "" for v in parts))


class _Status(Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


_status = msgspec.json.Decoder(_Status)


def _watch_failed(resource: str, raw: bytes) -> WatchFailed:
    try:
        status = well_formed(_status, raw)
    except Fault:
        status = _Status(reason="unreadable")
    return WatchFailed(resource, status.code, scrub(status.reason), scrub(status.message))
