"""The strategy of custom resources: one version of one CustomResourceDefinition."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from dds_lab.api import decoding, status
from dds_lab.api.kinds import CUSTOM_VERBS, Column, Object, Resource
from dds_lab.api.packed import definition
from dds_lab.api.rules import causes, definitions, meta, values
from dds_lab.api.schema import MISSING
from dds_lab.api.status import Cause
from dds_lab.api.strategies import SERVERS, Strategy, carried_metadata, differs, handled, raised_generation, with_status

AGE = Column("Age", ".metadata.creationTimestamp", "date")


def resources_of(definition_object: Object) -> list[tuple[Resource, Object]]:
    """The resources that a CustomResourceDefinition serves, each with the definition of its version."""
    spec = definition_object["spec"]
    names = spec["names"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = frozenset({"status"}) if "status" in (version.get("subresources") or {}) else frozenset()
        resource = Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names.get("singular") or names["kind"].lower(),
            names["kind"],
            spec["scope"] == "Namespaced",
            subresources,
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            CUSTOM_VERBS,
            storage_version=stored,
            custom=True,
        )
        found.append((resource, version))
    return found


class Custom(Strategy):
    def __init__(self, resource: Resource, version: Object) -> None:
        self.resource = resource
        root = definitions.node_of(version["schema"]["openAPIV3Schema"], root=True)
        fields = {**root.fields, "metadata": definition("meta.v1.ObjectMeta")}
        self.schema = replace(root, fields=MappingProxyType(fields))
        self.columns = (Column("Name", ".metadata.name"), *(_columns(version) or (AGE,)))
        paths = [field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()]
        self.selectable_names = tuple(paths)
        self.empty: Object = {"metadata": {}}
        self._has_status = "status" in resource.subresources

    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        """Unknown fields are removed and reported, defaults set. Only metadata has Go's types: wrong types elsewhere are found
        by `check_create` and `check_update` instead of raising ApiError 400."""
        before = live or {}
        metadata, strange = self._decoded_metadata(body.get("metadata"), before.get("metadata"))
        unknown = [f"metadata.{path}" for path in strange]
        made: Object = {}
        for key, value in body.items():
            child = self.schema.fields.get(key)
            if key == "metadata" or (child is None and not self.schema.preserve_unknown):
                if key != "metadata":
                    unknown.append(key)
            elif child is None or value is before.get(key):
                made[key] = value
            else:
                made[key] = values.defaulted(child, values.pruned(child, value, key, unknown))
        for key, child in self.schema.fields.items():
            if key not in made and child.default is not MISSING:
                made[key] = values.defaulted(child, child.default)
        return {**made, "metadata": metadata}, unknown

    def _decoded_metadata(self, metadata: Any, live: Any) -> tuple[Object, list[str]]:
        try:
            return decoding.decoded(self.schema.fields["metadata"], metadata or {}, live)
        except decoding.Mismatch as problem:
            raise status.bad_request(f"{handled(self.resource)} {problem}") from None

    def for_create(self, obj: Object) -> Object:
        made = with_status(self.to_storage(obj), None) if self._has_status else self.to_storage(obj)
        metadata = {key: value for key, value in made["metadata"].items() if key not in SERVERS}
        return {**made, "metadata": {**metadata, "generation": 1}}

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """A write of the status changes nothing else. Any other write leaves the status alone if it is a subresource."""
        made = self.to_storage(new)
        if subresource == "status":
            made = with_status(old, made.get("status"))
        elif self._has_status:
            made = with_status(made, old.get("status"))
        made = {**made, "metadata": carried_metadata(new["metadata"], old["metadata"], subresource == "status")}
        if subresource != "status" and differs(made, old, not self._has_status):
            return raised_generation(made, old)
        return made

    def check_create(self, obj: Object) -> list[Cause]:
        return [*meta.check(obj["metadata"], self.resource.namespaced), *self._check(obj, None)]

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        fresh, before = new["metadata"], old["metadata"]
        change = [] if fresh is before else list(meta.check_change(fresh, before))
        # A real server checks changes of metadata twice: once for all kinds and once for custom ones.
        found = [*(() if fresh is before else meta.check_changed(fresh, before)), *change, *change]
        if subresource == "status":
            child = self.schema.fields.get("status")
            if child is None or new.get("status") is old.get("status"):
                return found
            return [*found, *values.check(child, new.get("status", {}), "status", "")]
        return [*found, *self._check(new, old)]

    def _check(self, obj: Object, old: Object | None) -> list[Cause]:
        """Check the parts that are not the same Python object in `old`."""
        found = [causes.required(key) for key in self.schema.required if key not in obj]
        for key, value in obj.items():
            child = self.schema.fields.get(key)
            if child is not None and key != "metadata" and (old is None or value is not old.get(key)):
                found += values.check(child, value, key, key)
        return found

    def selectable(self, obj: Object) -> dict[str, str]:
        return {path: _text_at(obj, path) for path in self.selectable_names}


def _columns(version: Object) -> tuple[Column, ...]:
    fields = {"name": "", "jsonPath": "", "type": "", "format": "", "description": "", "priority": 0}
    columns = version.get("additionalPrinterColumns") or ()
    return tuple(Column(*(column.get(key, default) for key, default in fields.items())) for column in columns)


def _text_at(obj: Object, path: str) -> str:
    value: Any = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
