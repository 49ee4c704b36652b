"""The publisher's view of what it reads and writes: one frozen struct per kind, with only the fields that a rule uses.

Claims (`Claim`) and attached devices (`FabricResource`) are those of `dds_core.model`. The structs here are either smaller than
there (a slice is names and a digest, however many devices it has), or not needed by the scaler (what a fabric has free).
"""

from __future__ import annotations

from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.model import Record, Requirement, Taint

MANAGED_BY = "dds-publisher"
"""Value of the label `app.kubernetes.io/managed-by` on the slices of this publisher; it changes and deletes no others."""
SLICE_DEVICES, TAINTED_SLICE_DEVICES = 128, 64
"""The most devices of a slice; the smaller number if any of them has a taint (resource.k8s.io, ResourceSliceSpec)."""
COOLING = "cooling"
"""Last part of the key of the taint, and of the node label with which the scaler asks for it."""
FOREVER = 2**63 - 1


# -- the ConfigMap -----------------------------------------------------------------------------------------------------


class Attribute(Record, frozen=True):
    """One typed value; exactly one field is set. `version` is a semantic version 2.0.0; texts have at most 64
    characters."""

    string: str | None = None
    integer: int | None = None
    boolean: bool | None = None
    version: str | None = None


class Range(Record, frozen=True):
    """requestPolicy.validRange in canonical form; empty: no bound."""

    min: str
    max: str = ""
    step: str = ""


class Capacity(Record, frozen=True):
    """A capacity and, for a shared device, how it may be requested (KEP-5075). Quantities in canonical form."""

    value: str
    default: str = ""
    valid_values: tuple[str, ...] = ()
    valid_range: Range | None = None


class PoolModel(Record, frozen=True):
    """An entry of device-info with all that its devices publish. `model`: cdi-model-name. `device`: k8s-device-name.
    `type`: res-type. `shared`: allowMultipleAllocations."""

    index: int
    model: str
    device: str
    driver: str
    type: str = "gpu"
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    shared: bool = False


class PoolConfig(Record, frozen=True):
    """The ConfigMap composable-dra-dds as the publisher reads it. `mode` "observe" stops its writes. `unread`: has
    entries that cannot be read, of models not known from before."""

    uid: str
    prefix: str = "cohdi.io"
    models: tuple[PoolModel, ...] = ()
    mode: str = ""
    unread: bool = False


# -- the cluster -------------------------------------------------------------------------------------------------------


def by_name(node: str) -> str:
    """Stands for a machine's UUID where an inventory names the machine by its node."""
    return f"node:{node}"


class Host(Record, frozen=True):
    """A node. `machine`: UUID of its machine in the fabric, empty if not known; an inventory may name the machine by
    node instead."""

    uid: str
    name: str = ""
    machine: str = ""
    labels: dict[str, str] = {}


class PoolSlice(Record, frozen=True):
    """A ResourceSlice. `devices`: names in order. `digest`: of its devices, empty unless several nodes reach the pool.
    `owner`: label app.kubernetes.io/managed-by. `ordinary`: devices without binding conditions, which the scheduler
    hands out at once. `uuids`: for slices of one node (`node`) only."""

    uid: str
    name: str = ""
    driver: str = ""
    pool: str = ""
    generation: int = 0
    slices: int = 1
    node: str = ""
    owner: str = ""
    selector: tuple[Requirement, ...] = ()
    devices: tuple[str, ...] = ()
    ordinary: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    digest: str = ""
    uuids: dict[str, str] = {}


# -- the fabric --------------------------------------------------------------------------------------------------------


class Limit(Record, frozen=True):
    """How many devices of a model a machine may have; null: the fabric does not say."""

    most: int | None = None
    least: int | None = None


class Machine(Record, frozen=True):
    """A server in the fabric. `fabric`: the one that reaches it, empty for none. `limits`: by cdi-model-name, null if
    the API knows none."""

    uuid: str
    name: str = ""
    fabric: str = ""
    limits: dict[str, Limit] | None = None


class FreeDevice(Record, frozen=True):
    """A free device that the fabric names; its `id` is stable. If not `healthy`, it is not published."""

    id: str
    healthy: bool = True


class Stock(Record, frozen=True):
    """What a fabric has free of a model: how many, and which, if its API says so (None: it only counts). `whole`: attached
    devices are counted too, because the source cannot know what is attached (an inventory in a file)."""

    fabric: str
    model: str
    free: int = 0
    devices: tuple[FreeDevice, ...] | None = None
    whole: bool = False


# -- what is wanted ----------------------------------------------------------------------------------------------------


class SliceLayout(Record, frozen=True):
    """A slice to write: object name, devices in order. `closed`: devices with a taint, so that no other claim gets
    them."""

    name: str
    devices: tuple[str, ...]
    closed: tuple[str, ...] = ()


# -- the publisher's own rows, folded from its decisions and their outcomes -----------------------------------------------

PoolKey = tuple[str, str]
"""(driver, pool)."""


class PoolRow(Record, frozen=True):
    """A pool as it was decided last. `digests` belong to `slices`. `since`: when it was decided; `done`: when that was written, 0
    before. `settled`: the cluster showed it so. `void`: the write failed or was lost. `misses`: how often the cluster ceased to
    show it and it had to be written again unchanged. `open`: how many of its devices are offered and not taken yet."""

    fabric: str
    prefix: str
    model: PoolModel
    generation: int
    slices: tuple[SliceLayout, ...]
    digests: tuple[str, ...]
    taint: str = ""
    since: int = 0
    done: int = 0
    settled: bool = False
    void: bool = False
    misses: int = 0
    open: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for one in self.slices for name in one.devices)

    @property
    def came_about(self) -> bool:
        """Whether it was written or seen: if the cluster does not show it then, that is a miss."""
        return self.settled or self.done > 0

    @property
    def pause(self) -> int:
        """Microseconds before a pool with these misses may be written again: none at first, then 30 s doubling to an hour."""
        return min(30 * MICROSECONDS << min(self.misses - 1, 10), HOUR) if self.misses else 0

    def place(self, name: str) -> int | None:
        """The place of the slice of this name; None if there is none."""
        return next((place for place, one in enumerate(self.slices) if one.name == name), None)


FABRIC_ = "fabric/"
"""Prefix of a fabric's id in the table `absent`; a machine's UUID has none."""


class Absent(Record, frozen=True):
    """A machine or fabric that complete answers no longer have, since an instant."""

    fabric: str
    since: int
