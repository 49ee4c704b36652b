"""Raw watch events to facts: at most one for each change of an object, none when nothing changed that matters.

What was seen before is asked of `KnownObjects` (the engine's state); a `Translator` itself remembers nothing, so that it
can be thrown away and made anew at any time. One object that is not as expected becomes one `Rejected` and stops
nothing else. This module must never look into a Secret and never raise for an object's content.
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
    """What the translation asks of the state."""

    def object(self, kind: Any, uid: str) -> Any:
        """The object of this kind of the core as last seen; None when it is not there."""

    def is_rejected(self, uid: str, field: str, reason: str) -> bool:
        """Whether a `Rejected` with these three was a fact already."""

    def has_rejections(self, uid: str) -> bool:
        """Whether any `Rejected` of this object was."""


@runtime_checkable
class NamedObjects(KnownObjects, Protocol):
    """A view that also finds objects by name, and so notices one that was made anew while nobody watched."""

    def uid_of(self, kind: Any, namespace: str, name: str) -> str | None:
        """The uid of the object of this name; None when there is none.

        `namespace` is "" for what has none; both are "" for the ConfigMap, of which there is only one.
        """


class UnknownResource(InputError):
    """The resource is not one that is translated."""


class UnknownWatchType(InputError):
    """The type of a watch event is not one that the API has."""


class WatchFailed(DdsError):
    """The watch itself said ERROR. `code` is the HTTP status (410: the history is gone), `reason` the API's word."""

    def __init__(self, resource: str, code: int, reason: str, message: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"the watch ended: {code} {reason}: {message}", where=resource, fix="list and watch again")


Decode = Callable[[bytes], Seen]
"""One object of the core from its JSON. Raises Fault."""
Configured = Callable[[bytes, Any], tuple[Seen, tuple[Fault, ...]]]
"""The ConfigMap from its JSON and what was in force; with what is wrong with parts of it. Raises Fault for the whole."""


class Resource(NamedTuple):
    """What a plural name stands for: the kind in the API, the kind in the core, and how it is read. `configured` in the place of
    `decode` is for the one ConfigMap that is ours."""

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
    """Translates for one view. `config_namespace` is where the ConfigMap composable-dra-dds lives; `resources` says what each
    resource becomes; `namespace` is where dds is installed: elsewhere a claim is no hold of ours, whatever its labels say; "" is
    for anywhere."""

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
        """The facts in one watch event; `raw` is the JSON of its object. They must be folded before the next call.

        A pod that leaves a watch with a field selector arrives as DELETED though it lives: who watches so has to ask
        for it and pass on the answer. Raises UnknownResource, UnknownWatchType, and WatchFailed for type ERROR.
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
        if old is not None or not isinstance(new, Pod) or decoding.refers_to_claims(new):
            facts.extend(_changed(old, _same_error(old, new)))
        return tuple(facts)

    def _seen_config(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        """The one ConfigMap that is ours; of any other only the name is looked at. Raises Fault for the whole of it."""
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
        """The end of an object whose name a new one has taken, when its deletion was missed."""
        if self._named is not None:
            uid = self._named.uid_of(resource.kind, getattr(new, "namespace", ""), getattr(new, "name", ""))
            if uid is not None and uid != new.uid:
                yield _gone(resource.kind, uid)

    def _gone(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        """The end of an object. Its uid is all that is read, so that a broken object can still go."""
        who = who_is(raw)
        if not who.uid:
            return self._rejected(resource, who, (Fault("metadata.uid", "is missing"),))
        known = self._view.object(resource.kind, who.uid) is not None or self._view.has_rejections(who.uid)
        if not known:
            return ()
        return (ConfigMissing(who.uid) if resource.decode is None else _gone(resource.kind, who.uid),)

    def _rejected(self, resource: Resource, who: Who, faults: tuple[Fault, ...]) -> tuple[Event, ...]:
        """One fact for each fault not told before; what cannot be identified is told in the scaler's own stream."""
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
    """The new object with the old error text where both say the same: a retry is not news."""
    if not isinstance(new, AttachRequest | FabricResource) or not isinstance(old, AttachRequest | FabricResource):
        return new
    if new.error == old.error or not same_words(new.error, old.error):
        return new
    return structs.replace(new, error=old.error)


# -- what is read of any object, however broken ----------------------------------------------------


class _AnyMetadata(Struct):
    uid: Any = ""
    name: Any = ""
    namespace: Any = ""


class _AnyObject(Struct):
    metadata: _AnyMetadata


class Who(NamedTuple):
    """Which object it is; "" for what cannot be read."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


_any_object = msgspec.json.Decoder(_AnyObject)


def who_is(raw: bytes) -> Who:
    """Who an object is, as far as that can be read."""
    try:
        meta = well_formed(_any_object, raw).metadata
    except Fault:
        return Who()
    parts = (meta.uid, meta.namespace, meta.name)
    return Who(*(v if isinstance(v, str) and len(v) <= 253 and v.isprintable() else "" for v in parts))


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
