"""Writes the slices of one driver's pools, as the ResourceSlice controller of Kubernetes' DRA helper library does.

A pool keeps its generation while one update is enough; otherwise all its slices get the next one. Obsolete slices are deleted
first, then slices are updated, then created. Slices for which `mine` is false are never touched. Source:
k8s.io/dynamic-resource-allocation/resourceslice, resourceslicecontroller.go.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from dds_lab.actors.objects import version_of
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.time import Time, Timers

RETRY = 1.0
SETS = 8  # the most counter sets of a slice (resource.k8s.io, ResourceSliceSpec)


@dataclass(frozen=True)
class SlicePool:
    """A wanted pool. `place`: the fields for nodes in its slices' specs. `names`, `devices`: one entry per slice. `counters`:
    counter sets, which are in the first slices, `SETS` in each; these slices have no devices."""

    name: str
    place: Object
    names: tuple[str, ...]
    devices: tuple[list[Object], ...]
    owners: list[Object] = field(default_factory=list)
    counters: list[Object] = field(default_factory=list)

    def contents(self) -> dict[str, Object]:
        """Slice name → the fields of its spec besides pool and place."""
        each = dict(zip(self.names, ({"devices": one} if one else {} for one in self.devices), strict=True))
        starts = range(0, len(self.counters), SETS)
        sets = (self.counters[start : start + SETS] for start in starts)
        return {**each, **{name: {"sharedCounters": some} for name, some in zip(self.names, sets, strict=False)}}


class SliceWriter:
    """Writes the wanted pools of one driver, slice by slice. A write that fails is tried again. `always_next`: every change
    takes the next generation, as simpler publishers do."""

    def __init__(
        self, client: Client, time: Time, driver: str, mine: Callable[[Object], bool], *, always_next: bool = False
    ) -> None:
        self._client = client
        self._driver = driver
        self._mine = mine
        self._always_next = always_next
        self._live: dict[str, dict[str, Object]] = {}  # pool → slice name → slice
        self._wanted: dict[str, SlicePool] = {}
        self._asked: dict[str, tuple[int, Object]] = {}  # slice name → version after the last own write, its content
        self._retries = Timers(time)

    def start(self) -> None:
        """Read the slices that exist already, and react when another client changes one."""
        self._mirror = self._client.mirror("resourceslices", fields=f"spec.driver={self._driver}")
        self._mirror.follow(self._changed)

    def stop(self) -> None:
        self._mirror.close()
        self._retries.clear()

    def pools(self) -> tuple[str, ...]:
        """The pools that have slices now, or are wanted."""
        return tuple(dict.fromkeys((*self._live, *self._wanted)))

    def publish(self, pool: SlicePool) -> None:
        """Create or update the pool's slices."""
        self._wanted[pool.name] = pool
        self._settle(pool.name)

    def withdraw(self, name: str) -> None:
        """Delete the pool's slices."""
        self._wanted.pop(name, None)
        self._settle(name)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """A watch event. Events of own writes arrive here, too; they are not newer than the known version and are ignored."""
        obj = new or old
        if obj is None or not self._mine(obj):
            return
        pool, name = obj["spec"]["pool"]["name"], obj["metadata"]["name"]
        live = self._live.setdefault(pool, {})
        known = live.get(name)
        if new is None:
            if known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]:
                del live[name]
                self._settle(pool)
        elif known is None or version_of(new) > version_of(known):
            live[name] = new
            if pool in self._wanted:
                self._settle(pool)

    def _settle(self, name: str) -> None:
        self._retries.cancel(name)
        try:
            self._write(name)
        except ApiError:
            self._retries.after(name, RETRY, lambda: self._again(name))

    def _again(self, name: str) -> None:
        """Read the live slices before the next try."""
        for slice_name in tuple(self._live.get(name, {})):
            try:
                found = self._client.find("resourceslices", slice_name)
            except ApiError:
                continue
            if found is None:
                self._live[name].pop(slice_name, None)
            else:
                self._live[name][slice_name] = found
        self._settle(name)

    def _write(self, name: str) -> None:
        wanted = self._wanted.get(name)
        live = self._live.setdefault(name, {})
        names = wanted.names if wanted else ()
        obsolete = [one for one in live if one not in names]
        newest = max((one["spec"]["pool"]["generation"] for one in live.values()), default=0)
        for one in obsolete:
            self._delete(live, one)
        if wanted is None:
            self._live.pop(name, None)
            return
        contents = wanted.contents()
        changed = [one for one in names if one in live and not self._same(live[one], wanted, contents[one])]
        missing = [one for one in names if one not in live]
        if not changed and not missing and not obsolete:
            return
        one_update = len(changed) == 1 and not missing and not obsolete
        generation = newest if one_update and not self._always_next else newest + 1
        for one in names:
            spec = self._spec(wanted, generation, _shared(live.get(one), contents[one]))
            if one not in live:
                live[one] = self._client.create("resourceslices", _new(one, wanted.owners, spec))
            elif one in changed or live[one]["spec"]["pool"] != spec["pool"]:
                live[one] = self._client.update("resourceslices", {**live[one], "spec": spec})
            self._asked[one] = (version_of(live[one]), contents[one])

    def _same(self, live: Object, wanted: SlicePool, content: Object) -> bool:
        """Whether a slice is as wanted. If the server dropped or changed a part of the last write, that part counts as
        written."""
        version, asked = self._asked.get(live["metadata"]["name"], (0, {}))
        spec = live["spec"]
        found = asked if version == version_of(live) else {key: spec[key] for key in _CONTENT if spec.get(key)}
        return (
            bool(found == content)
            and spec["pool"]["resourceSliceCount"] == len(wanted.names)
            and all(spec.get(key) == value for key, value in wanted.place.items())
        )

    def _delete(self, live: dict[str, Object], name: str) -> None:
        with tolerating(404):
            self._client.delete("resourceslices", name, uid=live[name]["metadata"]["uid"])
        live.pop(name, None)
        self._asked.pop(name, None)

    def _spec(self, pool: SlicePool, generation: int, content: Object) -> Object:
        return {
            "driver": self._driver,
            "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": len(pool.names)},
            **pool.place,
            **content,
        }


_CONTENT = ("devices", "sharedCounters")


def _shared(live: Object | None, content: Object) -> Object:
    """The content. Unchanged devices are the same objects as in the live slice, so that the server recognizes them by
    identity."""
    if "devices" not in content:
        return content
    known = {one["name"]: one for one in live["spec"].get("devices") or ()} if live is not None else {}
    return {"devices": [known[one["name"]] if known.get(one["name"]) == one else one for one in content["devices"]]}


def _new(name: str, owners: list[Object], spec: Object) -> Object:
    metadata: Object = {"name": name}
    if owners:
        metadata["ownerReferences"] = owners
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
