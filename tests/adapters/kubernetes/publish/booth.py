"""An API server of the lab with the gates that a test wants, and pools to be written at it.

booth = Booth(DRADeviceBindingConditions=False)
booth.carry_out(pool(3))                      # as the stage's writer, who may do everything
booth.slices()                                # as the API server has them
"""

from __future__ import annotations

from typing import Any

from dds_adapters.kubernetes.publish.pools import SLICES, PublishPool
from dds_core.publisher.describe import name_of, slice_name
from dds_core.publisher.model import Attribute, Capacity, PoolModel, SliceLayout
from tests.support.written_objects import GPU, POOL, Object, WrittenObjects

OWNER = "app.kubernetes.io/managed-by"
NAME = f"{POOL}-gpu-nvidia-com-000"
A100 = PoolModel(
    index=1,
    model="A100 40G",
    device="nvidia-a100-40",
    driver=GPU,
    attributes={
        "productName": Attribute(string="NVIDIA A100 40GB PCIe"),
        "type": Attribute(string="gpu"),
        "numa": Attribute(integer=0),
        "ecc": Attribute(boolean=True),
        "cudaComputeCapability": Attribute(version="8.0.0"),
    },
    capacity={"memory": Capacity("40Gi")},
)
SHARED = PoolModel(
    index=2,
    model="CXL",
    device="cxl",
    driver="cxl.example.com",
    capacity={"memory": Capacity("512Gi", "1Gi", ("1Gi", "2Gi"))},
    shared=True,
)


class Booth(WrittenObjects):
    """A stage with a few things for pools."""

    def slices(self) -> list[Object]:
        """All slices, by name."""
        return sorted(self.admin.list(SLICES), key=lambda one: str(one["metadata"]["name"]))

    def slice(self, name: str = NAME) -> Object:
        return self.get(SLICES, name)

    def foreign(self, name: str = NAME, owner: str = "", pool: str = POOL, **spec: Any) -> Object:
        """A slice that somebody else made: with this mark, "" for none."""
        labels = {"labels": {OWNER: owner, "team": "blue"}} if owner else {}
        whole = {
            "driver": GPU,
            "pool": {"name": pool, "generation": 3, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "nvidia-a100-40-0"}],
            **spec,
        }
        whole = {key: value for key, value in whole.items() if value is not ...}
        meta = {"name": name, **labels, "annotations": {"example.com/note": "kept"}}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": whole}
        return self.admin.create(SLICES, body)


def layouts(*sizes: int, model: PoolModel = A100, pool: str = POOL) -> tuple[SliceLayout, ...]:
    """Slices with so many devices each, numbered through."""
    found, first = [], 0
    for index, size in enumerate(sizes):
        names = tuple(name_of(model.device, number) for number in range(first, first + size))
        found.append(SliceLayout(slice_name(pool, model.driver, index), names))
        first += size
    return tuple(found)


def pool(*sizes: int, generation: int = 1, model: PoolModel = A100, **changes: Any) -> PublishPool:
    """A pool of the model in fabric 1."""
    name = f"{model.device}-fabric1"
    given: dict[str, Any] = {
        "driver": model.driver,
        "pool": name,
        "fabric": "1",
        "prefix": "cohdi.io",
        "model": model,
        "generation": generation,
        "slices": layouts(*sizes, model=model, pool=name),
    }
    return PublishPool(**(given | changes))
